// SPDX-License-Identifier: MIT
#include <feedline/remote/detail/http_answer.hpp>

#include <chrono>
#include <string>
#include <vector>

#include "support/catch.hpp"

using feedline::detail::content_range;
using feedline::detail::http_answer;
using feedline::detail::parse_number;
using namespace std::chrono_literals;

TEST_CASE("numbers have digits only and fit") {
  CHECK(parse_number("0") == 0);
  CHECK(parse_number("18446744073709551615") == 18'446'744'073'709'551'615u);
  for (const char* text : {"", " 1", "1 ", "-1", "+1", "0x1", "1.5", "18446744073709551616"})
    CHECK_FALSE(parse_number(text));
}

TEST_CASE("a Content-Range that contradicts itself has no meaning") {
  const auto range = content_range::parse("Bytes  5-9/10 ");
  REQUIRE(range);
  CHECK(range->is_satisfied);
  CHECK(range->first == 5);
  CHECK(range->last == 9);
  CHECK(range->total == 10);
  const auto past_end = content_range::parse("bytes */10");
  REQUIRE(past_end);
  CHECK_FALSE(past_end->is_satisfied);
  CHECK(past_end->total == 10);
  const auto sizeless = content_range::parse("bytes 5-9/*");
  REQUIRE(sizeless);
  CHECK(sizeless->is_satisfied);
  CHECK(sizeless->last == 9);
  CHECK_FALSE(sizeless->total);
  for (const char* text :
       {"", "bytes", "bytes ", "bytes /", "bytes -/", "bytes 5-9", "bytes 5-9/", "bytes 5-9/**", "bytes */*",
        "bytes 9-5/*", "bytes 9-5/10", "bytes 5-10/10", "bytes 5/10", "bytes -5/10", "bytes 5-/10", "5-9/10"})
    CHECK_FALSE(content_range::parse(text));
}

TEST_CASE("Retry-After is a number of seconds or a date, and at most an hour") {
  const auto pause = [](const std::string& text) {
    http_answer answer;
    answer.take_line("HTTP/1.1 503 Service Unavailable\r\n");
    answer.take_line("Retry-After: " + text + "\r\n");
    return answer.pause(784'111'777); // Sun, 06 Nov 1994 08:49:37 GMT
  };
  CHECK(pause("0") == 0s);
  CHECK(pause("120") == 120s);
  CHECK(pause("3601") == 1h);
  CHECK(pause("18446744073709551615") == 1h);
  CHECK(pause("Sun, 06 Nov 1994 08:50:37 GMT") == 60s);
  CHECK(pause("Sun, 06 Nov 1994 08:49:37 GMT") == 0s);
  CHECK(pause("Sun, 06 Nov 1994 08:00:00 GMT") == 0s);
  CHECK(pause("Fri, 01 Jan 2100 00:00:00 GMT") == 1h);
  for (const char* text : {"", "-5", "soon", "18446744073709551616"}) CHECK(pause(text) == 0s);
  CHECK(http_answer().pause(0) == 0s);
}

TEST_CASE("an error of S3 is its code and its message, on one line and not too long") {
  using feedline::detail::error_in_body;
  CHECK(error_in_body("<Error><Code>A</Code><Message>b &lt;c&gt; &amp;lt; d</Message></Error>") ==
        " (A: b <c> &lt; d)");
  CHECK(error_in_body("<Error><Message>b</Message></Error>") == " (b)");
  CHECK(error_in_body("<Error>\n  <Code> A </Code>\n<Message></Message></Error>") == " (A)");
  CHECK(error_in_body("<Error><Code>A\x1b[31m\r\n\xc2\x9b\x7fz</Code></Error>") ==
        " (A [31m  \\u009b\\x7fz)");
  CHECK(error_in_body("<Error><Code>A\u202eB</Code></Error>") == " (A\\u202eB)");
  for (const char* body :
       {"", "<Error>", "<Error><Code", "<Error><Code>", "<html><code>1</code></html>", "<Code>A</Code>"})
    CHECK(error_in_body(body).empty());
  for (std::size_t shift = 0; shift < 4; ++shift) { // a character isn't cut
    const std::string text = error_in_body("<Error><Code>A</Code><Message>" + std::string(shift, 'x') + [] {
      std::string all;
      while (all.size() < 1000) all += "€";
      return all;
    }() + "</Message></Error>");
    CHECK(text.size() <= 310);
    CHECK(text.ends_with("€…)"));
  }
}

TEST_CASE("an answer that says HTTP/2 but isn't what libcurl makes of one came over HTTP/1") {
  const auto is_false = [](const std::vector<std::string>& head) {
    bool is_newer = false, found = false;
    for (const std::string& line : head) found |= feedline::detail::is_false_version(line + "\r\n", is_newer);
    return found;
  };
  for (const char* line : {"HTTP/2 206", "HTTP/2 206 OK", "HTTP/2.0 206 ", "HTTP/2  206", "HTTP/3 206",
                           "HTTP/2", "HTTP/206 206 "})
    CHECK(is_false({line}));
  for (const char* line :
       {"HTTP/2 206 ", "HTTP/3 200 ", "HTTP/1.1 206 ", "HTTP/1.0 200 OK", "", "X: HTTP/2 206"})
    CHECK_FALSE(is_false({line}));
  CHECK(is_false({"HTTP/2 206 ", "etag: 1", "Content-Length: 1"}));
  CHECK_FALSE(is_false({"HTTP/2 206 ", "content-length: 1", "etag: \"A\"", "no colon", ""}));
  CHECK_FALSE(is_false({"HTTP/2 103 ", "HTTP/1.1 206 OK", "Content-Length: 1"}));
}

TEST_CASE("a head is complete after its empty line; an interim one never is") {
  http_answer answer;
  CHECK(answer.take_line("HTTP/1.1 100 Continue\r\n"));
  CHECK(answer.take_line("\r\n"));
  CHECK_FALSE(answer.is_complete);
  CHECK(answer.take_line("HTTP/2 206\r\n"));
  CHECK(answer.take_line("ETAG:\"a\"\r\n"));
  CHECK(answer.take_line("content-length: 12x\r\n"));
  CHECK(answer.take_line("no colon\r\n"));
  CHECK_FALSE(answer.is_complete);
  CHECK(answer.take_line("\r\n"));
  CHECK(answer.is_complete);
  CHECK(answer.status == 206);
  CHECK(answer.version() == "\"a\"");
  CHECK_FALSE(answer.length);
  for (const char* line : {"HTTP/", "HTTP/1.1", "HTTP/1.1 ", "HTTP/1.1 2x6", "HTTP/1.1  "}) {
    answer.take_line(line);
    CHECK(answer.status == 0);
  }
}
