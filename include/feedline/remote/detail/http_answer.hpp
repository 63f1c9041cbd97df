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

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_REMOTE)
#include <algorithm>
#include <charconv>
#include <iterator>
#include <system_error>

#include <feedline/detail/readable_text.hpp>
#include <feedline/remote/detail/url.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE std::string_view trimmed(std::string_view text) {
  constexpr std::string_view blank = " \t\r\n";
  text.remove_prefix(std::min(text.find_first_not_of(blank), text.size()));
  return text.substr(0, text.find_last_not_of(blank) + 1);
}

FEEDLINE_INLINE std::optional<std::uint64_t> parse_number(std::string_view text) {
  std::uint64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, number);
  if (text.empty() || error != std::errc() || stopped != end) return std::nullopt;
  return number;
}

FEEDLINE_INLINE std::optional<content_range> content_range::parse(std::string_view text) {
  if (lower_case(text.substr(0, 6)) != "bytes ") return std::nullopt;
  text = trimmed(text.substr(6));
  const std::size_t slash = std::min(text.find('/'), text.size());
  const std::string_view range = text.substr(0, slash);
  const std::string_view size = text.substr(std::min(slash + 1, text.size()));
  const auto total = parse_number(size);
  if (!total && (size != "*" || range == "*")) return std::nullopt;
  if (range == "*") return content_range{false, 0, 0, total};
  const std::size_t dash = std::min(range.find('-'), range.size());
  const auto first = parse_number(range.substr(0, dash));
  const auto last = parse_number(range.substr(std::min(dash + 1, range.size())));
  if (!first || !last || *first > *last || (total && *last >= *total)) return std::nullopt;
  return content_range{true, *first, *last, total};
}

FEEDLINE_INLINE bool is_false_version(std::string_view line, bool& is_newer) {
  constexpr std::string_view form = "HTTP/2 206 \r\n"; // it has no words after the status
  if (!line.starts_with("HTTP/"))                      // names of headers have small letters
    return is_newer && line.substr(0, line.find(':')).find_first_of(upper_letters) != line.npos;
  is_newer = line.starts_with("HTTP/2") || line.starts_with("HTTP/3");
  return is_newer && (line.size() != form.size() || line[6] != ' ' || !line.ends_with(form.substr(10)));
}

FEEDLINE_INLINE bool http_answer::take_line(std::string_view line) {
  bytes += line.size();
  if (bytes > most_bytes) return false;
  if (line.starts_with("HTTP/")) {
    *this = http_answer{.bytes = bytes};
    const std::size_t space = std::min(line.find(' '), line.size());
    status = static_cast<int>(parse_number(trimmed(line.substr(space)).substr(0, 3)).value_or(0));
    return true;
  }
  if (trimmed(line).empty()) {
    is_complete = status >= 200; // an interim answer precedes the real one
    return true;
  }
  const std::size_t colon = line.find(':');
  if (colon == line.npos) return true;
  const std::string name = lower_case(line.substr(0, colon));
  const std::string_view value = trimmed(line.substr(colon + 1));
  if (name == "content-length") length = parse_number(value);
  else if (name == "content-range") range = content_range::parse(value);
  else if (name == "etag") etag = value;
  else if (name == "last-modified") last_modified = value;
  else if (name == "content-encoding") encoding = value;
  else if (name == "retry-after") retry_after = value;
  else if (name == "location") location = value;
  else if (name == "x-amz-bucket-region") bucket_region = value;
  return true;
}

FEEDLINE_INLINE const std::string& http_answer::version() const {
  return etag.empty() ? last_modified : etag;
}

FEEDLINE_INLINE std::chrono::nanoseconds http_answer::pause(std::time_t now) const {
  constexpr std::uint64_t longest = 3600;
  std::uint64_t seconds = 0;
  if (const auto given = parse_number(retry_after)) seconds = *given;
  else if (const std::time_t date = retry_after.empty() ? -1 : curl_getdate(retry_after.c_str(), nullptr);
           date > now)
    seconds = static_cast<std::uint64_t>(date - now);
  return std::chrono::seconds(std::min(seconds, longest));
}

FEEDLINE_INLINE std::string without_entities(std::string_view text) {
  struct entity {
    std::string_view name;
    char meaning;
  };

  static constexpr entity entities[] = {
      {"&lt;", '<'}, {"&gt;", '>'}, {"&amp;", '&'}, {"&quot;", '"'}, {"&apos;", '\''}};
  std::string plain;
  while (!text.empty()) {
    const auto* const e =
        std::ranges::find_if(entities, [&](const entity& x) { return text.starts_with(x.name); });
    const bool is_entity = e != std::end(entities);
    plain += is_entity ? e->meaning : text[0];
    text.remove_prefix(is_entity ? e->name.size() : 1);
  }
  return plain;
}

FEEDLINE_INLINE std::string error_in_body(std::string_view body, const std::vector<std::string>& secrets) {
  const auto element = [&](std::string_view name, std::size_t most) {
    const std::string tag = "<" + std::string(name) + ">";
    const std::size_t found = body.find(tag);
    std::string_view text = found == body.npos ? std::string_view() : body.substr(found + tag.size());
    text = trimmed(text.substr(0, text.find('<')));
    std::string plain = without(without_entities(text), secrets); // before they can be cut
    std::ranges::replace_if(
        plain, [](char c) { return c >= 0 && c < ' '; }, ' ');
    const std::string_view shown = beginning_of(plain, most);
    return readable(shown) + (shown.size() < plain.size() ? "…" : "");
  };
  if (body.find("<Error>") == body.npos) return {};
  const std::string code = element("Code", 80), message = element("Message", 300);
  if (code.empty() && message.empty()) return {};
  return without(" (" + code + (code.empty() || message.empty() ? "" : ": ") + message + ")", secrets);
}

FEEDLINE_INLINE std::string status_text(int status) {
  const std::string number = std::to_string(status);
  switch (status) {
  case 301:
    return number + " Moved Permanently";
  case 302:
    return number + " Found";
  case 307:
    return number + " Temporary Redirect";
  case 400:
    return number + " Bad Request";
  case 401:
    return number + " Unauthorized";
  case 403:
    return number + " Forbidden";
  case 404:
    return number + " Not Found";
  case 405:
    return number + " Method Not Allowed";
  case 408:
    return number + " Request Timeout";
  case 410:
    return number + " Gone";
  case 416:
    return number + " Range Not Satisfiable";
  case 429:
    return number + " Too Many Requests";
  case 500:
    return number + " Internal Server Error";
  case 502:
    return number + " Bad Gateway";
  case 503:
    return number + " Service Unavailable";
  case 504:
    return number + " Gateway Timeout";
  default:
    return number;
  }
}

} // namespace feedline::inline FEEDLINE_ABI::detail
#endif
