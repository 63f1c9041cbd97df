// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/remote/detail/request_keys.hpp>

#include <algorithm>
#include <system_error>
#include <utility>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE bool is_visible(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c > ' ' && c < 0x7f; });
}

FEEDLINE_INLINE key_ring::key_ring(request_keys fixed)
    : keys_(std::make_shared<const request_keys>(std::move(fixed))) {}

FEEDLINE_INLINE key_ring::key_ring(finder find) : find_(std::move(find)) {}

FEEDLINE_INLINE std::shared_ptr<const request_keys>
key_ring::get(std::uint64_t& awaited, const std::function<void()>& wake, clock::time_point now) {
  const std::lock_guard lock(mutex_);
  if (!find_) return keys_;
  const bool is_valid = keys_ && now < keys_->expires;
  if (is_valid) awaited = 0;
  if (is_valid && now < renewed_from_) return keys_;
  if (!is_searching_) {
    if (awaited != 0 && searches_ >= awaited && failure_) {
      awaited = 0;
      std::rethrow_exception(failure_);
    }
    try {
      thread_ = std::jthread([this, wake](const std::stop_token& stop) {
        search(stop);
        wake();
      });
    } catch (const std::system_error& error) {
      if (!is_valid) throw keys_error(std::string("no thread can be started: ") + error.what(), true);
      renewed_from_ = now + pause;
      return keys_;
    }
    is_searching_ = true;
  }
  if (is_valid) return keys_;
  awaited = searches_ + 1;
  return nullptr;
}

FEEDLINE_INLINE bool key_ring::discard(const std::shared_ptr<const request_keys>& refused) {
  const std::lock_guard lock(mutex_);
  if (keys_ == refused && find_) keys_.reset();
  return static_cast<bool>(find_);
}

FEEDLINE_INLINE void key_ring::search(const std::stop_token& stop) {
  constexpr std::chrono::seconds early{300};
  std::shared_ptr<const request_keys> found;
  std::exception_ptr failure;
  const clock::time_point began = clock::now();
  try {
    found = std::make_shared<const request_keys>(find_(stop));
    if (found->expires <= clock::now())
      throw keys_error(
          "the keys or the token that were found have expired already (is this machine's clock right?)",
          true);
  } catch (const keys_error&) {
    failure = std::current_exception();
  } catch (const std::exception& error) {
    failure = std::make_exception_ptr(keys_error(error.what(), true));
  } catch (...) {
    failure = std::make_exception_ptr(keys_error("an exception of an unknown type", true));
  }
  const std::lock_guard lock(mutex_);
  is_searching_ = false;
  ++searches_;
  failure_ = failure;
  if (failure) {
    renewed_from_ = clock::now() + pause; // of no effect unless the old keys are valid
    return;
  }
  const auto lifetime = found->expires - began;
  renewed_from_ = found->expires - std::min<clock::duration>(early, lifetime / 4);
  keys_ = std::move(found);
}

} // namespace feedline::inline FEEDLINE_ABI::detail
