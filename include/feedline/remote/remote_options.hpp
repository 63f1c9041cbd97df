// SPDX-License-Identifier: MIT
#pragma once
// Options of remote().
#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <feedline/core/callback.hpp>
#include <feedline/core/retry.hpp>

namespace feedline::inline FEEDLINE_ABI {

/// Proves to a server who asks, as `Authorization: Bearer …`.
struct bearer_token {
  std::string text; ///< the token
  /// When the server stops to accept it; max(): never, as far as is known.
  std::chrono::system_clock::time_point expires = std::chrono::system_clock::time_point::max();

  /// Also for a function that returns the text alone.
  bearer_token(std::string text_,
               std::chrono::system_clock::time_point expires_ = std::chrono::system_clock::time_point::max())
      : text(std::move(text_)), expires(expires_) {}
};

/// How remote() reads.
struct remote_options {
  std::size_t in_flight = 32;         ///< the most requests at once, to all servers: 1 to 65,536
  std::size_t part_bytes = 8 << 20;   ///< the size of the parts in which an object is read
  std::size_t bytes_ahead = 64 << 20; ///< the most that one source requests ahead, at least one part
  feedline::retry retry{};            ///< of a request that fails or breaks off
  std::chrono::nanoseconds connect_timeout = std::chrono::seconds(10); ///< to find and reach a server
  std::chrono::nanoseconds stall_timeout =
      std::chrono::seconds(30); ///< without a byte from a connected server
  /// Of an answer, over stall_timeout: a slower one is ended as one that stalls. 0: none is too slow.
  std::size_t min_bytes_per_second = 100;
  bool anonymous = false; ///< uses no keys of S3 and no HF_TOKEN, even if there are some
  /// S3 with AWS_ENDPOINT_URL: requests `bucket.host/key`, not `host/bucket/key`. Amazon's servers always get the bucket in
  /// the host's name, unless it has dots or capital letters.
  bool virtual_hosted = false;
  /// Distinguishes versions of an object by size and date (Last-Modified) only: for servers whose ETag for the same object
  /// differs from one request to the next.
  bool ignore_etag = false;
  /// More headers of each request to a web server, such as "X-Api-Key: …". They are secrets: where a server redirects to
  /// another host, another port or from https to http, they aren't sent, nor is any token or password. S3 doesn't get them.
  std::vector<std::string> headers{};
  /// Returns the bearer token for web servers, which gets the same care: called before the first request, again before the
  /// token expires, and after a server has refused it (status 401). On a thread of its own, once at a time; the store's
  /// destructor waits for it. What it throws is an outage, which is tried again.
  std::function<bearer_token()> token{};
  /// Called when a server has failed `retry.attempts` times, or won't be tried again, with a sentence that says why: at
  /// most once for each request, and once for all that fail until a server answers. On the thread that reads, which must
  /// not wait.
  callback<std::string> on_notice{};
};

} // namespace feedline::inline FEEDLINE_ABI
