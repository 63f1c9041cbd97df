// SPDX-License-Identifier: MIT
#pragma once
// The head of an answer of a web server: its status, and the headers that reading a range needs.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <curl/curl.h>

#include <feedline/version.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

std::string_view trimmed(std::string_view text);

/// Digits only, without overflow.
std::optional<std::uint64_t> parse_number(std::string_view text);

/// The value of Content-Range: `bytes 0-99/1000`, `bytes 0-99/*`, or with status 416 `bytes */1000`.
struct content_range {
  bool is_satisfied = false; ///< false: first and last have no meaning
  std::uint64_t first = 0;
  std::uint64_t last = 0;
  std::optional<std::uint64_t> total{}; ///< none: the server doesn't say it

  static std::optional<content_range> parse(std::string_view text);
};

/// Whether a line of an answer's head shows that it came over a connection of HTTP/1, although it says that it is of HTTP/2 or
/// newer: it isn't what libcurl makes of such an answer. `is_newer`: what the first line said.
bool is_false_version(std::string_view line, bool& is_newer);

/// Filled line by line. After a redirect, the next answer replaces it.
struct http_answer {
  static constexpr std::size_t most_bytes = std::size_t{128} << 10; ///< of all heads of one attempt

  int status = 0;
  bool is_complete = false; ///< whether the whole head has arrived
  std::size_t bytes = 0;
  std::optional<std::uint64_t> length{};
  std::optional<content_range> range{};
  std::string etag{};
  std::string last_modified{};
  std::string encoding{};
  std::string retry_after{};
  std::string location{};      ///< where it redirects to
  std::string bucket_region{}; ///< where an S3 bucket lies

  /// Returns false if the head is too long.
  bool take_line(std::string_view line);

  /// Differs from one version of the object to the next, as far as the server says.
  const std::string& version() const;

  /// How long the server asks to wait before the next request: Retry-After, at most an hour.
  std::chrono::nanoseconds pause(std::time_t now) const;
};

/// The text with XML's five named entities replaced by their characters.
std::string without_entities(std::string_view text);

/// " (SlowDown: Please reduce your request rate.)": the code and the message of an error of S3, from the body of an answer;
/// empty if it is something else. Long ones are shortened, and secrets are left out.
std::string error_in_body(std::string_view body, const std::vector<std::string>& secrets = {});

/// "503 Service Unavailable", in our own words: the server's may be missing or anything.
std::string status_text(int status);

} // namespace feedline::inline FEEDLINE_ABI::detail

#ifndef FEEDLINE_COMPILED
#include <feedline/remote/detail/http_answer.ipp>
#endif
