// SPDX-License-Identifier: MIT
#pragma once
// What proves to a server who asks: keys of S3 or a bearer token, which are renewed before they expire.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <feedline/version.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

struct request_keys {
  std::string user{};                 ///< S3: the access key; empty: requests aren't signed
  std::string password{};             ///< S3: the secret key
  std::vector<std::string> headers{}; ///< "Name: value"
  std::chrono::system_clock::time_point expires = std::chrono::system_clock::time_point::max();
  std::string why_none{}; ///< for messages, if there are no keys
};

/// Why there are no keys, without secrets.
struct keys_error : std::runtime_error {
  explicit keys_error(const std::string& why, bool may_heal_ = false)
      : std::runtime_error(why), may_heal(may_heal_) {}

  bool may_heal; ///< another attempt may succeed
};

/// Whether a text may be sent in a header: visible characters of ASCII, at least one.
inline bool is_visible(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c > ' ' && c < 0x7f; });
}

/// Keys that a function finds. It is called on a thread of its own, once at a time; until it returns, requests go on with
/// the old keys while these are valid.
class key_ring {
  using clock = std::chrono::system_clock;
  static constexpr std::chrono::seconds pause{10}; // after a failure to renew keys that are still valid

 public:
  using finder = std::function<request_keys(const std::stop_token&)>;

  /// These keys, always.
  explicit key_ring(request_keys fixed) : keys_(std::make_shared<const request_keys>(std::move(fixed))) {}

  /// `find` throws keys_error, or anything else that may heal.
  explicit key_ring(finder find) : find_(std::move(find)) {}

  /// Valid keys. Null if they are being found: calls `wake` later, on another thread. `awaited`: of the caller, 0 at first.
  /// Throws keys_error if the search that it awaits has failed.
  std::shared_ptr<const request_keys> get(std::uint64_t& awaited, const std::function<void()>& wake,
                                          clock::time_point now = clock::now()) {
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

  /// A server has refused these keys. Returns whether others may be found.
  bool discard(const std::shared_ptr<const request_keys>& refused) {
    const std::lock_guard lock(mutex_);
    if (keys_ == refused && find_) keys_.reset();
    return static_cast<bool>(find_);
  }

 private:
  void search(const std::stop_token& stop) {
    constexpr std::chrono::seconds early{300};
    std::shared_ptr<const request_keys> found;
    std::exception_ptr failure;
    const clock::time_point began = clock::now();
    try {
      try {
        found = std::make_shared<const request_keys>(find_(stop));
        if (found->expires <= clock::now())
          throw keys_error("the keys or the token that were found have expired already (is this machine's "
                           "clock right?)",
                           true);
      } catch (const keys_error&) {
        throw;
      } catch (const std::exception& error) {
        throw keys_error(error.what(), true);
      } catch (...) {
        throw keys_error("an exception of an unknown type", true);
      }
    } catch (...) { // also if there is no memory for the message
      failure = std::current_exception();
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

  const finder find_;
  std::mutex mutex_; // protects what follows
  std::shared_ptr<const request_keys> keys_;
  clock::time_point renewed_from_{}; // when keys that are still valid are renewed
  bool is_searching_ = false;
  std::uint64_t searches_ = 0; // that have ended
  std::exception_ptr failure_; // of the last one
  std::jthread thread_;        // last, so that it ends first
};

} // namespace feedline::inline FEEDLINE_ABI::detail
