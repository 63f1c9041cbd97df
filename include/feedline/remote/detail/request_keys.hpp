// SPDX-License-Identifier: MIT
#pragma once
// What proves to a server who asks: keys of S3 or a bearer token, which are renewed before they expire.
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
#include <thread>
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
bool is_visible(std::string_view text);

/// Keys that a function finds. It is called on a thread of its own, once at a time; until it returns, requests go on with
/// the old keys while these are valid.
class key_ring {
  using clock = std::chrono::system_clock;
  static constexpr std::chrono::seconds pause{10}; // after a failure to renew keys that are still valid

 public:
  using finder = std::function<request_keys(const std::stop_token&)>;

  /// These keys, always.
  explicit key_ring(request_keys fixed);

  /// `find` throws keys_error, or anything else that may heal.
  explicit key_ring(finder find);

  /// Valid keys. Null if they are being found: calls `wake` later, on another thread. `awaited`: of the caller, 0 at first.
  /// Throws keys_error if the search that it awaits has failed.
  std::shared_ptr<const request_keys> get(std::uint64_t& awaited, const std::function<void()>& wake,
                                          clock::time_point now = clock::now());

  /// A server has refused these keys. Returns whether others may be found.
  bool discard(const std::shared_ptr<const request_keys>& refused);

 private:
  void search(const std::stop_token& stop);

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

#ifndef FEEDLINE_COMPILED
#include <feedline/remote/detail/request_keys.ipp>
#endif
