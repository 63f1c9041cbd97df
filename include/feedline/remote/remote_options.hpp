// SPDX-License-Identifier: MIT
#pragma once
// Options of remote().
#include <chrono>
#include <cstddef>
#include <string>

#include <feedline/core/callback.hpp>
#include <feedline/core/retry.hpp>

namespace feedline::inline FEEDLINE_ABI {

/// How remote() reads.
struct remote_options {
  std::size_t in_flight = 32;         ///< the most requests at once, to all servers: 1 to 65,536
  std::size_t part_bytes = 8 << 20;   ///< the size of the parts in which an object is read
  std::size_t bytes_ahead = 64 << 20; ///< the most that one source requests ahead, at least one part
  feedline::retry retry{};            ///< of a request that fails or breaks off
  std::chrono::nanoseconds connect_timeout = std::chrono::seconds(10); ///< to find and reach a server
  std::chrono::nanoseconds stall_timeout =
      std::chrono::seconds(30); ///< without a byte from a connected server
  bool anonymous = false;       ///< S3: doesn't sign the requests, even if the environment has keys
  /// S3 with AWS_ENDPOINT_URL: requests `bucket.host/key`, not `host/bucket/key`.
  bool virtual_hosted = false;
  /// Distinguishes versions of an object by size and date (Last-Modified) only: for servers whose ETag for the same object
  /// differs from one request to the next.
  bool ignore_etag = false;
  /// Called when a server has failed `retry.attempts` times, or won't be tried again, with a sentence that says why: at
  /// most once for each request, and once for all that fail until a server answers. On the thread that reads, which must
  /// not wait.
  callback<std::string> on_notice{};
};

} // namespace feedline::inline FEEDLINE_ABI
