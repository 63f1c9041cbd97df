// SPDX-License-Identifier: MIT
#include <feedline/remote/remote_store.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <sys/resource.h>
#include <unistd.h>

#include "support/catch.hpp"
#include "support/misbehaving_server.hpp"
#include "support/remote_reads.hpp"
#include "support/sanitizers.hpp"
#include "support/throws_saying.hpp"
#include "support/watchdog.hpp"

namespace fl = feedline;
using fl::test::http_request;
using fl::test::metric;
using fl::test::misbehaving_server;
using fl::test::part_of;
using fl::test::problem_of;
using fl::test::quick;
using fl::test::text_of;
using connection = misbehaving_server::connection;
using namespace std::chrono_literals;

namespace {

/// The message about a server that always answers with these bytes and then closes the connection.
std::string problem_with(const std::string& answer, std::uint64_t offset = 0, std::size_t count = 100,
                         const std::optional<fl::object_info>& expected = {}) {
  misbehaving_server server([&](connection& c, const http_request&) {
    c.send(answer);
    c.close();
  });
  const auto store = fl::remote(quick());
  const std::string problem = problem_of(*store, server.url(), offset, count, expected);
  const std::string name = server.url() + ": ";
  CHECK(problem.starts_with(name));
  return problem.substr(std::min(name.size(), problem.size()));
}

/// Numbered lines, so that each place differs.
std::string some_object(std::size_t bytes) {
  std::string object;
  for (int i = 0; object.size() < bytes; ++i) object += std::to_string(i) + "\n";
  object.resize(bytes);
  return object;
}

} // namespace

TEST_CASE("a part has the requested bytes, the object's size and its version") {
  const std::string object = some_object(1000);
  misbehaving_server server([&](connection& c, const http_request& r) { c.send_range(r, object, "\"v7\""); });
  const auto store = fl::remote();

  const auto part = part_of(*store, server.url(), 200, 300);
  CHECK(text_of(part) == object.substr(200, 300));
  CHECK(part.object == fl::object_info{1000, "\"v7\""});
  CHECK_FALSE(part.is_mapped);
  CHECK(server.requests().at(0).line == "GET /a.tar HTTP/1.1");
  CHECK(server.requests().at(0).header("range") == "bytes=200-499");
  CHECK(server.requests().at(0).header("accept-encoding").empty());

  CHECK(text_of(part_of(*store, server.url(), 900, 300, part.object)) ==
        object.substr(900)); // reaches past the end
  CHECK(text_of(part_of(*store, server.url(), 0, std::size_t{8} << 20)) == object);
  CHECK(part_of(*store, server.url(), 1000, 10, part.object).bytes.empty());
  CHECK(part_of(*store, server.url(), 5000, 10).object.bytes == 1000);
  CHECK(part_of(*store, server.url(), ~std::uint64_t{0} - 5, 1 << 20).bytes.empty());

  const auto size_only = part_of(*store, server.url(), 0, 0);
  CHECK(size_only.bytes.empty());
  CHECK(size_only.object == part.object);
}

TEST_CASE("the bytes stay valid after the read and the store are gone") {
  const std::string object = some_object(100'000);
  misbehaving_server server([&](connection& c, const http_request& r) { c.send_range(r, object); });
  auto store = fl::remote();
  const auto part = part_of(*store, server.url(), 0, 100'000);
  store.reset();
  CHECK(text_of(part) == object);
}

TEST_CASE("an empty object has no bytes, however the server says so") {
  const auto reads_nothing = [](const std::string& answer) {
    misbehaving_server server([&](connection& c, const http_request&) { c.send(answer); });
    const auto store = fl::remote(quick());
    const auto part = part_of(*store, server.url());
    return part.bytes.empty() && part.object.bytes == 0 &&
           part_of(*store, server.url(), 0, 0).object.bytes == 0;
  };
  CHECK(reads_nothing("HTTP/1.1 416 no\r\nContent-Range: bytes */0\r\nContent-Length: 0\r\n\r\n"));
  CHECK(reads_nothing("HTTP/1.1 416 no\r\nContent-Length: 4\r\n\r\nsize")); // as S3 does
  CHECK(reads_nothing("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"));
}

TEST_CASE("a server that ignores ranges is accepted only if the whole object was requested") {
  const std::string whole = "HTTP/1.1 200 OK\r\nETag: \"1\"\r\nContent-Length: 5\r\n\r\nhello";
  misbehaving_server server([&](connection& c, const http_request&) { c.send(whole); });
  const auto store = fl::remote(quick());
  CHECK(text_of(part_of(*store, server.url(), 0, 5)) == "hello");
  CHECK(part_of(*store, server.url(), 0, 100).object == fl::object_info{5, "\"1\""});

  CHECK(text_of(part_of(*store, server.url(), 1, 4)) == "ello");
  CHECK(text_of(part_of(*store, server.url(), 4, 100)) == "o");
  CHECK(part_of(*store, server.url(), 5, 100).bytes.empty());
  CHECK(part_of(*store, server.url(), 9, 100).bytes.empty());
  CHECK(part_of(*store, server.url(), 0, 0).object == fl::object_info{5, "\"1\""});

  auto small = quick();
  small.part_bytes = 4;
  CHECK(problem_of(*fl::remote(small), server.url(), 3, 4).find("part_bytes is at least 5, at offset 3") !=
        std::string::npos);

  const std::string sentence = "the server ignores ranges: it answered with the whole object (status 200)";
  const std::string advice =
      "; a source that reads in order can use it if remote_options::part_bytes is at least 5, at offset ";
  CHECK(problem_with(whole, 0, 4) == sentence + advice + "0");
  CHECK(problem_with(whole, 1, 3) == sentence + advice + "1");
  CHECK(problem_with("HTTP/1.1 200 OK\r\n\r\nhello") ==
        sentence + ", and without its size (Content-Length), at offset 0");
  CHECK(problem_with("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nETag: \"2\"\r\n\r\nhello", 1, 100,
                     fl::object_info{5, "\"1\""})
            .starts_with("has changed: ETag "));
}

TEST_CASE("the size of an object is known without its bytes") {
  misbehaving_server server([&](connection& c, const http_request&) {
    c.send("HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n" + std::string(200'000, 'x'));
    c.stall();
  });
  CHECK(part_of(*fl::remote(quick()), server.url(), 0, 0).object.bytes == 1'000'000);
}

TEST_CASE("a whole object that breaks off is read again from its beginning") {
  misbehaving_server server([&](connection& c, const http_request& r) {
    c.send("HTTP/1.1 200 OK\r\nETag: \"1\"\r\nContent-Length: 5\r\n\r\n");
    c.send(r.number == 0 ? "hel" : "hello");
    c.close();
  });
  const auto store = fl::remote(quick());
  CHECK(text_of(part_of(*store, server.url())) == "hello");
}

TEST_CASE("the end of an object that breaks off is read again from the object's beginning") {
  const std::string object = std::string(300'000, 'a') + std::string(300'000, 'b');
  misbehaving_server server([&](connection& c, const http_request& r) {
    c.send("HTTP/1.1 200 OK\r\nETag: \"1\"\r\nContent-Length: 600000\r\n\r\n");
    c.send(object.substr(0, r.number == 0 ? 250'000 : r.number == 1 ? 450'000 : 600'000));
    c.close();
  });
  const auto store = fl::remote(quick());
  CHECK(text_of(part_of(*store, server.url(), 299'999, 1'000'000)) == object.substr(299'999));
  CHECK(server.requests().size() == 3);
}

TEST_CASE("the version is the ETag, else the date, else nothing") {
  const auto version_with = [](const std::string& headers) {
    misbehaving_server server([&](connection& c, const http_request&) {
      c.send("HTTP/1.1 206 OK\r\nContent-Range: bytes 0-0/1\r\nContent-Length: 1\r\n" + headers + "\r\nx");
    });
    return part_of(*fl::remote(), server.url()).object.version;
  };
  CHECK(version_with("eTaG:   \"a b\" \r\nLast-Modified: now\r\n") == "\"a b\"");
  CHECK(version_with("ETag: W/\"weak\"\r\n") == "W/\"weak\"");
  CHECK(version_with("Last-Modified: Tue, 24 Nov 2026 08:00:00 GMT\r\n") == "Tue, 24 Nov 2026 08:00:00 GMT");
  CHECK(version_with("") == "");
}

TEST_CASE("an object that has changed isn't read") {
  const std::string head = "HTTP/1.1 206 OK\r\nContent-Length: 1\r\nContent-Range: bytes 0-0/";
  const fl::object_info expected{1, "\"a\""};
  CHECK(problem_with(head + "1\r\nETag: \"b\"\r\n\r\nx", 0, 1, expected) ==
        "has changed: ETag \"a\" before, \"b\" now (if the server sends another ETag for each request, set "
        "remote_options::ignore_etag), at offset 0");
  CHECK(problem_with(head + "1\r\n\r\nx", 0, 1, expected) ==
        "has changed: ETag \"a\" before, none now, at offset 0");
  CHECK(problem_with(head + "2\r\nETag: \"a\"\r\n\r\nx", 0, 1, expected) ==
        "has changed: 1 bytes before, 2 now, at offset 0");
  CHECK(problem_with(head + "1\r\nLast-Modified: today\r\n\r\nx", 0, 1, fl::object_info{1, "yesterday"}) ==
        "has changed: Last-Modified yesterday before, today now, at offset 0");
  CHECK(problem_with("HTTP/1.1 416 no\r\nContent-Range: bytes */5\r\n\r\n", 7, 1, expected) ==
        "has changed: 1 bytes before, 5 now, at offset 7");
}

TEST_CASE("an object that changes between two attempts of one read isn't mixed") {
  const std::string object = some_object(1000);
  misbehaving_server server([&](connection& c, const http_request& r) {
    c.send_range(r, object, "\"" + std::to_string(r.number) + "\"", 600);
    c.close();
  });
  const auto store = fl::remote(quick());
  CHECK(problem_of(*store, server.url(), 0, 1000) ==
        server.url() +
            ": has changed: ETag \"0\" before, \"1\" now (if the server sends another ETag for each "
            "request, set remote_options::ignore_etag), at offset 600");
  CHECK(server.requests().size() == 2);
}

TEST_CASE("a server whose ETag differs for each request is read if its date is the version") {
  const std::string object = some_object(1000);
  bool is_newer = false;
  misbehaving_server server([&](connection& c, const http_request& r) {
    const std::string number = std::to_string(r.number);
    if (r.range().first >= 1000)
      return void(c.send_status("416 no", "ETag: \"" + number + "\"\r\nContent-Range: bytes */1000\r\n"));
    c.send_range(r, object, "\"" + number + "\"\r\nLast-Modified: " + (is_newer ? "today" : "yesterday"),
                 600);
    if (r.range().second - r.range().first >= 600) c.close();
  });
  auto options = quick();
  options.ignore_etag = true;
  const auto store = fl::remote(options);
  const fl::object_part whole = part_of(*store, server.url(), 0, 1000); // in two attempts
  CHECK(text_of(whole) == object);
  CHECK(whole.object.version == "yesterday");
  CHECK(text_of(part_of(*store, server.url(), 10, 20, whole.object)) == object.substr(10, 20));
  CHECK(part_of(*store, server.url(), 1000, 20, whole.object).bytes.empty());
  is_newer = true;
  CHECK(problem_of(*store, server.url(), 10, 20, whole.object) ==
        server.url() + ": has changed: Last-Modified yesterday before, today now, at offset 10");
}

TEST_CASE("too few file descriptors are named") {
  if (fl::test::is_sanitized)
    return; // the sanitizer of undefined behaviour needs some itself to see an object's type
  misbehaving_server server([](connection& c, const http_request& r) { c.send_range(r, "hello"); });
  const auto store = fl::remote(quick(2));
  ::rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  const int next = ::dup(0);
  REQUIRE(next > 0);
  ::close(next);
  const ::rlimit none{static_cast<::rlim_t>(next), before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  const std::string problem = problem_of(*store, server.url());
  const bool refuses = fl::test::throws_saying<std::system_error>("feedline::remote: Too many open files",
                                                                  [] { fl::remote(quick(2)); });
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
  CHECK(problem == server.url() +
                       ": the process has too few file descriptors (EMFILE): raise their limit (ulimit -n), "
                       "or lower remote_options::in_flight, at offset 0; tried 2 times");
  CHECK(refuses);
  CHECK(text_of(part_of(*store, server.url())) == "hello");
}

TEST_CASE("an answer with an error says what S3 says, whatever else the body has") {
  const std::string head = "HTTP/1.1 400 Bad Request\r\n";
  const std::string body = "<?xml version=\"1.0\"?>\n<Error><Code>ExpiredToken</Code><Message>The token has "
                           "expired.</Message></Error>";
  const std::string said = "status 400 Bad Request (ExpiredToken: The token has expired.) at offset 0";
  CHECK(problem_with(head + "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body) == said);
  CHECK(problem_with(head + "\r\n" + body) == said);                            // ends with the connection
  CHECK(problem_with(head + "Content-Length: 1000000\r\n\r\n" + body) == said); // breaks off
  CHECK(problem_with(head + "\r\n" + body + std::string(1'000'000, ' ')) == said);
  CHECK(problem_with(head + "\r\n<html>" + std::string(1'000'000, ' ') + body) ==
        "status 400 Bad Request at offset 0");
  CHECK(problem_with(head + "\r\n" + body.substr(0, body.find("edToken"))) ==
        "status 400 Bad Request (Expir) at offset 0");
  CHECK(problem_with("HTTP/1.1 503 x\r\nRetry-After: 0\r\n\r\n<Error><Code>SlowDown</Code></Error>") ==
        "status 503 Service Unavailable (SlowDown) at offset 0; tried 5 times");
  misbehaving_server silent([&](connection& c, const http_request&) {
    c.send(head + "Content-Length: 1000\r\n\r\n<Error><Code>A</Code>");
    c.stall();
  });
  auto options = quick(1);
  options.stall_timeout = 5s; // of a busy machine too, the answer arrives before
  CHECK(
      problem_of(*fl::remote(options), silent.url()).starts_with(silent.url() + ": status 400 Bad Request"));
}

TEST_CASE("status codes that won't heal fail at once") {
  for (const std::string status : {"400 Bad Request", "401 Unauthorized", "403 Forbidden", "404 Not Found",
                                   "410 Gone", "405 Method Not Allowed", "416 Range Not Satisfiable"}) {
    misbehaving_server server([&](connection& c, const http_request&) { c.send_status(status); });
    const auto store = fl::remote(quick());
    CHECK(problem_of(*store, server.url(), 7) == server.url() + ": status " + status + " at offset 7");
    CHECK(server.requests().size() == 1);
    CHECK(metric(*store, "retries") == 0);
  }
  CHECK(problem_with("HTTP/1.1 418 I'm a\x1b teapot\r\n\r\n") == "status 418 at offset 0");
  CHECK(problem_with("HTTP/1.1 304 Not Modified\r\n\r\n") == "status 304 at offset 0");
  CHECK(problem_with("HTTP/1.1 416 no\r\nContent-Range: bytes */50\r\n\r\n", 7) ==
        "status 416 Range Not Satisfiable at offset 7"); // though the object has that byte
}

TEST_CASE("status codes that may heal are tried again") {
  const std::string object = some_object(100);
  for (const std::string status :
       {"408 Request Timeout", "429 Too Many Requests", "500 Internal Server Error", "502 Bad Gateway",
        "503 Service Unavailable", "504 Gateway Timeout"}) {
    misbehaving_server server([&](connection& c, const http_request& r) {
      r.number < 2 ? c.send_status(status, "Retry-After: 0\r\n") : c.send_range(r, object);
    });
    const auto healed = fl::remote(quick(3));
    CHECK(text_of(part_of(*healed, server.url())) == object);
    CHECK(server.requests().size() == 3);
    CHECK(server.connections() == 1);
    CHECK(metric(*healed, "requests") == 3);
    CHECK(metric(*healed, "retries") == 2);

    misbehaving_server broken([&](connection& c, const http_request&) { c.send_status(status); });
    CHECK(problem_of(*healed, broken.url()) ==
          broken.url() + ": status " + status + " at offset 0; tried 3 times");
    CHECK(broken.requests().size() == 3);
    CHECK(problem_of(*fl::remote(quick(1)), broken.url()) ==
          broken.url() + ": status " + status + " at offset 0");
  }
}

TEST_CASE("a server that asks for a pause gets it") {
  misbehaving_server server([&](connection& c, const http_request& r) {
    r.number == 0 ? c.send_status("503 x", "Retry-After: 1\r\n") : c.send_range(r, "hello");
  });
  const auto before = std::chrono::steady_clock::now();
  CHECK(text_of(part_of(*fl::remote(quick()), server.url())) == "hello");
  CHECK(std::chrono::steady_clock::now() - before >= 1s);
}

TEST_CASE("a server that asks for a longer pause than an outage may last isn't tried again") {
  const fl::test::watchdog dog("a pause that is too long");
  for (const std::size_t attempts : {1u, 5u}) {
    misbehaving_server server(
        [](connection& c, const http_request&) { c.send_status("503 x", "Retry-After: 3600\r\n"); });
    auto options = quick(attempts);
    options.retry.for_at_most = 1min;
    std::string notice;
    options.on_notice = [&](const std::string& sentence) { notice = sentence; };
    const auto store = fl::remote(options);
    CHECK_THROWS_AS(part_of(*store, server.url()), fl::outage_error);
    CHECK(server.requests().size() == 1);
    CHECK(notice.starts_with("feedline::remote: a server can't be used, and the run ends: "));
  }
}

TEST_CASE("a pause ends with its read") {
  const fl::test::watchdog dog("a pause ends with its read");
  misbehaving_server server([&](connection& c, const http_request& r) {
    r.path() == "/busy" ? c.send_status("503 x", "Retry-After: 9999999999\r\n") : c.send_range(r, "hello");
  });
  auto options = quick();
  options.in_flight = 1;
  const auto store = fl::remote(options);
  auto busy = store->read(server.url("/busy"), 0, 5, {});
  auto waiting = store->read(server.url("/next"), 0, 5, {});
  server.wait_for_requests(1);
  busy.reset();
  CHECK(text_of(waiting->get({})) == "hello");
}

TEST_CASE("a part that breaks off continues where it was") {
  const std::string object = some_object(10'000);
  const auto reads_all = [&](const std::function<void(connection&)>& end) {
    misbehaving_server server([&](connection& c, const http_request& r) {
      c.send_range(r, object, "\"1\"", r.number < 3 ? 1000 : std::string::npos);
      if (r.number < 3) end(c);
    });
    const auto store = fl::remote(quick());
    CHECK(text_of(part_of(*store, server.url(), 100, 9000)) == object.substr(100, 9000));
    return server.requests().back().header("range");
  };
  CHECK(reads_all([](connection& c) { c.close(); }) == "bytes=3100-9099");
  reads_all([](connection& c) { c.reset(); }); // may overtake the bytes
}

TEST_CASE("a part that always breaks off says where") {
  const std::string object = some_object(10'000);
  misbehaving_server server([&](connection& c, const http_request& r) {
    c.send_range(r, object, "\"1\"", 100);
    c.close();
  });
  CHECK(
      problem_of(*fl::remote(quick()), server.url(), 1000, 2000) ==
      server.url() +
          ": the connection was closed 1500 bytes before the end of the part, at offset 1500; tried 5 times");
}

TEST_CASE("a long part over a line that breaks again and again is read as long as it makes progress") {
  const std::string object = some_object(1'000'000);
  misbehaving_server server([&](connection& c, const http_request& r) {
    c.send_range(r, object, "\"1\"", 70'000);
    c.close();
  });
  const auto part = part_of(*fl::remote(quick(2)), server.url(), 0, 1'000'000);
  CHECK(text_of(part) == object);
  CHECK(server.requests().size() == 15);
}

TEST_CASE("a connection that breaks before an answer is tried again") {
  const std::string object = some_object(100);
  const auto heals = [&](const std::string& start, bool resets) {
    misbehaving_server server([&](connection& c, const http_request& r) {
      if (r.number >= 2) return static_cast<void>(c.send_range(r, object));
      c.send(start);
      resets ? c.reset() : c.close();
    });
    return text_of(part_of(*fl::remote(quick(3)), server.url())) == object;
  };
  for (const std::string start :
       {"", "HTTP/1.1 206 Partial", "HTTP/1.1 206 OK\r\nETag: \"x\"\r\n", "HTTP/1.1 100 Continue\r\n\r\n",
        "HTTP/1.1 404 Not Found\r\nContent-Type: te"}) {
    CAPTURE(start);
    CHECK(heals(start, false));
    CHECK(heals(start, true));
  }
  CHECK(problem_with("") == "the connection was closed before an answer, at offset 0; tried 5 times");
}

TEST_CASE("a server that can't be reached is tried again") {
  std::string nobody;
  {
    misbehaving_server server([](connection&, const http_request&) {});
    nobody = server.url();
  }
  const std::string problem = problem_of(*fl::remote(quick(3)), nobody);
  CHECK(problem.starts_with(nobody + ": can't connect (Failed to connect to 127.0.0.1 port "));
  CHECK(problem.ends_with("), at offset 0; tried 3 times"));

  const std::string unknown = std::string(64, 'x') + ".invalid"; // too long for a name, so nobody is asked
  CHECK(problem_of(*fl::remote(quick(2)), "http://" + unknown + "/a.tar") ==
        "http://" + unknown + "/a.tar: can't connect (Could not resolve host: " + unknown +
            "), at offset 0; tried 2 times");
}

TEST_CASE("a server that doesn't finish connecting is given up") {
  const fl::test::listening_socket silent; // which takes the connection, but says nothing
  auto options = quick(2);
  options.connect_timeout = 50ms;
  const std::string name = "https://" + silent.host() + "/a.tar";
  CHECK(problem_of(*fl::remote(options), name) ==
        name + ": connecting took too long (connect_timeout), at offset 0; tried 2 times");
}

TEST_CASE("an attempt in which no byte arrives ends") {
  const std::string object = some_object(1000);
  misbehaving_server server([&](connection& c, const http_request& r) {
    if (r.path() == "/never" || r.number == 0) c.stall();
    else if (r.number < 3) c.send_range(r, object, "\"1\"", 10), c.stall();
    else c.send_range(r, object);
  });
  auto options = quick(100); // on a busy machine others may end, too
  options.stall_timeout = 250ms;
  CHECK(text_of(part_of(*fl::remote(options), server.url(), 0, 1000)) == object);
  options.retry.attempts = 4;
  CHECK(problem_of(*fl::remote(options), server.url("/never")) ==
        server.url("/never") + ": no byte arrived for 250 ms (stall_timeout), at offset 0; tried 4 times");
}

TEST_CASE("an answer that comes too slowly ends") {
  const fl::test::watchdog dog("an answer that comes too slowly ends");
  const std::string object = some_object(100'000);
  misbehaving_server server([&](connection& c, const http_request& r) {
    if (r.path() == "/soon") return void((c.send_range(r, object, "\"1\"", 0), c.drip(object.substr(0, 10))));
    if (r.number == 0) c.send_range(r, object, "\"1\"", 70'000); // so that it makes progress
    else c.send_range(r, object, "\"1\"", 0);
    c.drip(object);
  });
  auto options = quick(2);
  options.stall_timeout = 300ms;
  const auto is_slow = [](const std::string& problem) { // a busy machine may drip nothing for that long
    return (problem.find(" arrived in 300 ms (min_bytes_per_second), at offset ") != std::string::npos ||
            problem.find("no byte arrived for 300 ms (stall_timeout), at offset ") != std::string::npos) &&
           problem.ends_with("; tried 2 times");
  };
  options.min_bytes_per_second = 1'000'000;
  const std::string problem = problem_of(*fl::remote(options), server.url(), 0, object.size());
  INFO(problem);
  CHECK(is_slow(problem));
  options.min_bytes_per_second = 0;
  options.stall_timeout = 20s;
  CHECK(text_of(part_of(*fl::remote(options), server.url("/soon"), 0, 10)) == object.substr(0, 10));
}

TEST_CASE("a server of HTTP/1.1 that says HTTP/2 gets one request at a time on a connection") {
  const std::string object = some_object(200'000);
  misbehaving_server server([&](connection& c, const http_request& r) {
    const std::size_t first = r.range().first;
    const std::string body = object.substr(first, r.range().second + 1 - first);
    c.send("HTTP/2 206\r\nETag: \"1\"\r\nContent-Length: " + std::to_string(body.size()) +
           "\r\nContent-Range: bytes " + std::to_string(first) + "-" +
           std::to_string(first + body.size() - 1) + "/200000\r\n\r\n");
    c.send(body);
  });
  auto options = quick(1);
  options.part_bytes = 1000;
  const auto store = fl::remote(options);
  part_of(*store, server.url()); // so that what it says is known
  std::vector<std::unique_ptr<fl::object_read>> reads;
  for (std::size_t i = 0; i < 200; ++i)
    reads.push_back(store->read(server.url(), i * 1000, 1000, std::nullopt));
  for (std::size_t i = 0; i < reads.size(); ++i)
    CHECK(text_of(reads[i]->get({})) == object.substr(i * 1000, 1000));
}

TEST_CASE("answers that don't fit the request fail at once") {
  const auto range = [](const std::string& value, const std::string& length = "100") {
    return "HTTP/1.1 206 OK\r\nContent-Length: " + length + "\r\nContent-Range: " + value + "\r\n\r\n" +
           std::string(100, 'x');
  };
  CHECK(problem_with(range("bytes 0-99/1000"), 100) ==
        "the server answered with bytes 0-99 instead of 100-199 (Content-Range), at offset 100");
  CHECK(problem_with(range("bytes 100-200/*"), 100) ==
        "the server answered with bytes 100-200 instead of 100-199 (Content-Range), at offset 100");
  CHECK(problem_with(range("bytes 101-199/1000", "99"), 100) ==
        "the server answered with bytes 101-199 instead of 100-199 (Content-Range), at offset 100");
  CHECK(problem_with(range("bytes 0-99/1000"), 0, 200) ==
        "the server answered with bytes 0-99 instead of 100-199 (Content-Range), at offset 100");
  CHECK(problem_with(range("bytes 100-200/1000"), 100) ==
        "the server answered with bytes 100-200 instead of 100-199 (Content-Range), at offset 100");
  CHECK(problem_with(range("bytes 0-99/1000", "50")) ==
        "the server announced 50 bytes (Content-Length) for bytes 0-99, at offset 0");
  for (const std::string value :
       {"", "bytes 0-99/**", "bytes */*", "bytes */1000", "bytes 0-99", "bytes 99-0/1000", "bytes 0-99/99",
        "pages 0-99/1000", "bytes -1-99/1000", "bytes 0-18446744073709551616/18446744073709551617",
        "bytes 0-99/1000 or so"}) {
    CAPTURE(value);
    CHECK(problem_with(range(value)) ==
          "the server answered with status 206, but without a valid Content-Range, at offset 0");
  }
  CHECK(problem_with("HTTP/1.1 206 OK\r\nContent-Encoding: gzip\r\nContent-Range: bytes 0-0/1\r\n\r\nx") ==
        "the server sent gzip (Content-Encoding), which wasn't requested, at offset 0");
  CHECK(problem_with("HTTP/1.1 206 OK\r\nContent-Range: bytes 0-99/1000\r\n\r\n" + std::string(101, 'x')) ==
        "the server sent more than the 100 bytes that it announced, at offset 0");
  CHECK(problem_with("220 ftp.example.org ready\r\n\r\n") ==
        "the server's answer, or where it redirects to, isn't HTTP, at offset 0");
}

TEST_CASE("a server may send less than was requested, and the rest is requested") {
  const std::string object = some_object(300'000);
  std::size_t most = 0;
  misbehaving_server server([&](connection& c, const http_request& r) {
    const std::size_t first = r.range().first, wanted = r.range().second + 1 - first;
    const std::string_view body = std::string_view(object).substr(first, std::min(wanted, most));
    c.send("HTTP/1.1 206 x\r\nContent-Length: " + std::to_string(body.size()) + "\r\nContent-Range: bytes " +
           std::to_string(first) + "-" + std::to_string(first + body.size() - 1) + "/300000\r\n\r\n");
    if (r.number == 1) c.send(body.substr(0, body.size() / 2)), c.reset(); // and one of them breaks off
    else c.send(body);
  });
  const auto store = fl::remote(quick(2));
  for (const std::size_t bytes : {100'000u, 70'000u, 4'000u, 300'000u}) {
    most = bytes;
    CHECK(text_of(part_of(*store, server.url(), 0, object.size())) == object);
    CHECK(text_of(part_of(*store, server.url(), 299'000, 5'000)) == object.substr(299'000));
  }
  const std::size_t before = server.requests().size();
  most = 70'000;
  part_of(*store, server.url(), 0, object.size());
  CHECK(server.requests().size() == before + 5);
  most = 1;
  CHECK(text_of(part_of(*store, server.url(), 1'000, 100)) == object.substr(1'000, 100));
  CHECK(problem_of(*store, server.url(), 1'000, 1'000) ==
        server.url() + ": the server sends less than was requested, again and again, at offset 1101");
}

TEST_CASE("the size of an object is asked for where Content-Range doesn't say it") {
  const std::string object = some_object(1000);
  const auto is_question = [](const http_request& r) { return r.line.starts_with("HEAD "); };
  std::string question = "200 x", etag = "\"1\"", other_etag = etag;
  std::size_t busy = 0; // questions that fail
  misbehaving_server server([&](connection& c, const http_request& r) {
    if (is_question(r)) {
      CHECK(r.header("range").empty());
      c.send("HTTP/1.1 " + (busy > 0 && busy-- > 0 ? "503 x" : question) + "\r\nETag: " + other_etag +
             "\r\nContent-Length: 1000\r\n\r\n");
      return;
    }
    const std::size_t first = r.range().first;
    if (first >= object.size())
      return void(c.send_status("416 x", "ETag: " + etag + "\r\nContent-Range: bytes */1000\r\n"));
    const std::string body = object.substr(first, r.range().second + 1 - first);
    c.send("HTTP/1.1 206 x\r\nETag: " + etag + "\r\nContent-Length: " + std::to_string(body.size()) +
           "\r\nContent-Range: bytes " + std::to_string(first) + "-" +
           std::to_string(first + body.size() - 1) + "/*\r\n\r\n" + body);
  });
  const auto store = fl::remote(quick(3));
  const auto part = part_of(*store, server.url(), 0, 600);
  CHECK(text_of(part) == object.substr(0, 600));
  CHECK(part.object == fl::object_info{1000, etag});
  CHECK(server.requests().size() == 3);
  CHECK(text_of(part_of(*store, server.url(), 600, 600, part.object)) == object.substr(600));
  CHECK(server.requests().size() == 4); // nothing is asked twice
  CHECK(part_of(*store, server.url(), 0, 0).object == part.object);
  CHECK(text_of(part_of(*store, server.url(), 2000, 10)).empty());
  busy = 2;
  CHECK(text_of(part_of(*store, server.url(), 990)) == object.substr(990));
  CHECK(busy == 0);
  question = "403 x";
  CHECK(problem_of(*store, server.url()) ==
        server.url() +
            ": the server doesn't say how large the object is: not in Content-Range, and a request "
            "for that (HEAD) got status 403 Forbidden, at offset 0");
  question = "200 x";
  other_etag = "\"2\"";
  CHECK(problem_of(*store, server.url())
            .starts_with(server.url() + ": has changed: ETag \"2\" before, \"1\" now"));
}

TEST_CASE("an object that is stored as a compressed file is that file") {
  const std::string object = some_object(1000);
  misbehaving_server server([&](connection& c, const http_request& r) {
    const auto [first, last] = r.range();
    const std::string encoding = "Content-Encoding: " + r.path().substr(1) + "\r\n";
    if (r.path() == "/whole-gzip")
      return void(
          c.send("HTTP/1.1 200 x\r\nContent-Encoding: gzip\r\nContent-Length: 1000\r\n\r\n" + object));
    const std::string body = object.substr(first, last + 1 - first);
    c.send("HTTP/1.1 206 x\r\n" + encoding + "Content-Length: " + std::to_string(body.size()) +
           "\r\nContent-Range: bytes " + std::to_string(first) + "-" +
           std::to_string(first + body.size() - 1) + "/1000\r\n\r\n" + body);
  });
  const auto store = fl::remote(quick(1));
  for (const char* path : {"/gzip", "/GZip", "/x-gzip", "/zstd", "/identity"}) {
    CHECK(text_of(part_of(*store, server.url(path), 100, 200)) == object.substr(100, 200));
    CHECK(part_of(*store, server.url(path), 900, 200).object.bytes == 1000);
  }
  CHECK(text_of(part_of(*store, server.url("/whole-gzip"), 0, 1000)) == object);
  CHECK(problem_of(*store, server.url("/br")) ==
        server.url("/br") + ": the server sent br (Content-Encoding), which wasn't requested, at offset 0");
}

TEST_CASE("bodies without a length and with chunks are read") {
  const std::string head = "HTTP/1.1 206 OK\r\nContent-Range: bytes 0-4/5\r\nContent-Encoding: identity\r\n";
  for (const std::string& answer :
       {head + "\r\nhello",
        head + "Transfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\nETag: \"late\"\r\n\r\n",
        "HTTP/1.1 103 Early Hints\r\nContent-Range: bytes 9-9/10\r\n\r\n" + head +
            "Content-Length: 5\r\n\r\nhello"}) {
    misbehaving_server server([&](connection& c, const http_request&) {
      c.send(answer);
      c.close();
    });
    const auto part = part_of(*fl::remote(quick(1)), server.url());
    CHECK(text_of(part) == "hello");
    CHECK(part.object == fl::object_info{5, ""});
  }
}

TEST_CASE("a head that begins by continuing a line doesn't continue the last answer's") {
  misbehaving_server server([](connection& c, const http_request& r) {
    c.send("HTTP/1.1 206 OK\r\n" + std::string(r.number % 2 == 0 ? "" : " ") +
           "ETag: \"1\"\r\nContent-Length: 5\r\nContent-Range: bytes 0-4/5\r\n\r\nhello");
  });
  const auto store = fl::remote(quick());
  for (int i = 0; i < 10; ++i) {
    CHECK(text_of(part_of(*store, server.url())) == "hello");
    static_cast<void>(problem_of(*store, server.url())); // versions of libcurl differ in whether it is one
  }
}

TEST_CASE("endless answers are given up") {
  const fl::test::watchdog dog("endless answers are given up");
  const auto problem_of_endless = [](const std::string& start, const std::string& more) {
    misbehaving_server server([&](connection& c, const http_request&) {
      for (c.send(start); c.send(more);) {
      }
      c.close();
    });
    const std::string name = server.url() + ": ", problem = problem_of(*fl::remote(quick()), server.url());
    return problem.substr(std::min(name.size(), problem.size()));
  };
  CHECK(problem_of_endless("HTTP/1.1 206 OK\r\n", "X-Header: " + std::string(1000, 'x') + "\r\n") ==
        "the answer's header exceeds 128 KiB, at offset 0");
  CHECK(problem_of_endless("", "HTTP/1.1 100 Continue\r\n\r\n") ==
        "the answer's header exceeds 128 KiB, at offset 0");
  CHECK(problem_of_endless("HTTP/1.1 206 OK\r\nX-Header: ", std::string(1000, 'x')) ==
        "the answer's header is too long, at offset 0");
  CHECK(problem_of_endless("HTTP/1.1 404 Not Found\r\n\r\n", std::string(1000, 'x')) ==
        "status 404 Not Found at offset 0");
  CHECK(problem_of_endless("HTTP/1.1 206 OK\r\nContent-Range: bytes 0-99/1000\r\n\r\n",
                           std::string(1000, 'x')) ==
        "the server sent more than the 100 bytes that it announced, at offset 0");
  const std::string chunked =
      "HTTP/1.1 206 OK\r\nTransfer-Encoding: chunked\r\nContent-Range: bytes 0-99/1000\r\n\r\n";
  const std::string trailer = "X-Trailer: " + std::string(1000, 'x') + "\r\n";
  CHECK(problem_of_endless(chunked + "0\r\n", trailer) == "the answer's header exceeds 128 KiB, at offset 0");
  CHECK(problem_of_endless(chunked + "32\r\n" + std::string(50, 'x') + "\r\n0\r\n", trailer) ==
        "the answer's header exceeds 128 KiB, at offset 50");
  CHECK(problem_of_endless(chunked + "64\r\n" + std::string(100, 'x') + "\r\n0\r\n", trailer).empty());
  CHECK(problem_of_endless("HTTP/1.1 302 Found\r\nLocation: /b\r\nContent-Length: 99999999999\r\n\r\n",
                           std::string(1000, 'x')) == "the server redirects too often, at offset 0");
}

TEST_CASE("redirects are followed, but not in a circle and only to web servers") {
  const std::string object = some_object(100);
  misbehaving_server other([&](connection& c, const http_request& r) { c.send_range(r, object); });
  misbehaving_server server([&](connection& c, const http_request& r) {
    if (r.path() == "/circle") c.send_status("302 Found", "Location: /circle\r\n");
    else if (r.path() == "/file") c.send_status("302 Found", "Location: file:///etc/passwd\r\n");
    else if (r.path() == "/wrong") c.send_status("302 Found", "Location: http://a:b:c/?sig=hush\r\n");
    else
      c.send_status("307 Temporary Redirect",
                    "ETag: \"of the redirect\"\r\nLocation: " + other.url("/b") + "\r\n");
  });
  const auto store = fl::remote(quick());
  const auto part = part_of(*store, "http://user:hush@" + server.host() + "/a", 10, 50);
  CHECK(text_of(part) == object.substr(10, 50));
  CHECK(part.object.version == "\"1\"");
  CHECK(server.requests().at(0).header("authorization") == "Basic dXNlcjpodXNo");
  CHECK(other.requests().at(0).header("authorization").empty());

  CHECK(problem_of(*store, server.url("/circle")) ==
        server.url("/circle") + ": the server redirects too often, at offset 0");
  CHECK(problem_of(*store, server.url("/file")) ==
        server.url("/file") + ": the server's answer, or where it redirects to, isn't HTTP, at offset 0");
  const std::string wrong = problem_of(*store, server.url("/wrong"));
  CHECK(wrong == server.url("/wrong") + ": the server redirects to a URL that isn't valid, at offset 0");
}

TEST_CASE("connections are reused") {
  const std::string object = some_object(1000);
  misbehaving_server server([&](connection& c, const http_request& r) { c.send_range(r, object); });
  auto options = quick();
  options.in_flight = 4;
  const auto store = fl::remote(options);
  for (std::size_t i = 0; i < 20; ++i)
    CHECK(text_of(part_of(*store, server.url(), i, 10)) == object.substr(i, 10));
  CHECK(server.connections() == 1);
  CHECK(metric(*store, "requests") == 20);
  CHECK(metric(*store, "bytes received") == 200);
  CHECK(metric(*store, "requests in flight") == 0);
  CHECK(metric(*store, "reads waiting") == 0);
}

TEST_CASE("queued reads of neighbouring bytes share a request") {
  const std::string object = some_object(100'000);
  std::atomic<bool> released{false};
  misbehaving_server server([&](connection& c, const http_request& r) {
    released.wait(false);
    c.send_range(r, object);
  });
  auto options = quick();
  options.in_flight = 1;
  options.part_bytes = 40'000;
  const auto store = fl::remote(options);
  auto first = store->read(server.url("/first"), 0, 1, {});
  server.wait_for_requests(1);
  std::vector<std::unique_ptr<fl::object_read>> reads;
  const auto read = [&](std::size_t offset, std::size_t count,
                        const std::optional<fl::object_info>& expected = {}) {
    reads.push_back(store->read(server.url(), offset, count, expected));
  };
  read(0, 1000);
  read(1000, 10);                                        // continues
  read(5000, 10);                                        // after a gap
  read(90'000, 20'000);                                  // too far away; ends after the object
  read(5010, 10);                                        // not in order
  read(5020, 10, fl::object_info{100'000, "\"1\""});     // expects a version
  read(5030, 39'991, fl::object_info{100'000, "\"1\""}); // would be too long together
  read(60'000, 10);
  reads.pop_back(); // leaves the queue
  released = true;
  released.notify_all();
  CHECK(text_of(first->get({})) == object.substr(0, 1));
  CHECK(text_of(reads.at(0)->get({})) == object.substr(0, 1000));
  CHECK(text_of(reads.at(1)->get({})) == object.substr(1000, 10));
  CHECK(text_of(reads.at(2)->get({})) == object.substr(5000, 10));
  CHECK(text_of(reads.at(3)->get({})) == object.substr(90'000));
  CHECK(text_of(reads.at(4)->get({})) == object.substr(5010, 10));
  CHECK(text_of(reads.at(5)->get({})) == object.substr(5020, 10));
  CHECK(text_of(reads.at(6)->get({})) == object.substr(5030, 39'991));
  std::vector<std::string> ranges;
  for (const auto& r : server.requests()) ranges.push_back(r.header("range"));
  CHECK(ranges == std::vector<std::string>{"bytes=0-0", "bytes=0-5009", "bytes=90000-109999",
                                           "bytes=5010-5019", "bytes=5020-5029", "bytes=5030-45020"});
}

TEST_CASE("many threads read at once") {
  const std::string object = some_object(100'000);
  misbehaving_server server([&](connection& c, const http_request& r) {
    if (r.number % 7 == 3) c.close();
    else if (r.number % 11 == 5) c.send_range(r, object, "\"1\"", 100), c.close();
    else c.send_range(r, object);
  });
  auto options = quick(50);
  options.in_flight = 8;
  const auto store = fl::remote(options);
  std::atomic<int> wrong{0};
  std::vector<std::jthread> threads;
  for (std::size_t thread = 0; thread < 4; ++thread)
    threads.emplace_back([&, thread] {
      std::vector<std::pair<std::size_t, std::unique_ptr<fl::object_read>>> reads;
      for (std::size_t i = 0; i < 20; ++i) {
        const std::size_t offset = (i * 7919 + thread * 104'729) % object.size();
        reads.emplace_back(offset, store->read(server.url(), offset, 3000, {}));
        if (i % 5 == 4) reads.erase(reads.begin() + static_cast<std::ptrdiff_t>(i / 2)); // cancels
      }
      for (const auto& [offset, read] : reads)
        if (text_of(read->get({})) != object.substr(offset, 3000)) ++wrong;
    });
  threads.clear();
  CHECK(wrong == 0);
  CHECK(metric(*store, "requests in flight") == 0);
}

TEST_CASE("a stop wakes a reader that waits") {
  const fl::test::watchdog dog("a stop wakes a reader that waits");
  misbehaving_server server([](connection& c, const http_request&) { c.stall(); });
  const auto store = fl::remote();
  const auto read = store->read(server.url(), 5, 10, {});
  std::stop_source stop;
  std::jthread stopper([&] {
    server.wait_for_requests(1);
    stop.request_stop();
  });
  CHECK_FALSE(read->ready());
  CHECK(fl::test::throws_saying<fl::object_error>(server.url() + ": reading was stopped, at offset 5",
                                                  [&] { static_cast<void>(read->get(stop.get_token())); }));
  CHECK(fl::test::throws_saying<fl::object_error>("stopped", [&] { // before it began
    static_cast<void>(store->read(server.url(), 0, 10, {})->get(stop.get_token()));
  }));
}

TEST_CASE("a read that is destroyed makes room for the next") {
  const fl::test::watchdog dog("a read that is destroyed makes room for the next");
  const std::string object = some_object(100);
  misbehaving_server server([&](connection& c, const http_request& r) {
    if (r.path() == "/slow") c.send_range(r, object, "\"1\"", 50), c.stall();
    else c.send_range(r, object);
  });
  auto options = quick();
  options.in_flight = 2;
  const auto store = fl::remote(options);
  std::vector<std::unique_ptr<fl::object_read>> slow;
  for (int i = 0; i < 6; ++i) slow.push_back(store->read(server.url("/slow"), 0, 100, {}));
  const auto next = store->read(server.url(), 0, 100, {});
  server.wait_for_requests(1);
  slow.clear();
  CHECK(text_of(next->get({})) == object);
}

TEST_CASE("a store that is destroyed ends its reads") {
  const fl::test::watchdog dog("a store that is destroyed ends its reads");
  misbehaving_server server([](connection& c, const http_request&) { c.stall(); });
  auto options = quick();
  options.in_flight = 2;
  auto store = fl::remote(options);
  std::vector<std::unique_ptr<fl::object_read>> reads;
  for (std::size_t i = 0; i < 4; ++i)
    reads.push_back(store->read(server.url("/" + std::to_string(i)), i, 10, {}));
  server.wait_for_requests(2);
  store.reset();
  for (std::size_t i = 0; i < 4; ++i)
    CHECK(fl::test::throws_saying<fl::object_error>(
        "reading was stopped, as its store was destroyed, at offset " + std::to_string(i),
        [&] { static_cast<void>(reads[i]->get({})); }));
}

TEST_CASE("a store that never read has no thread to end") { CHECK(metric(*fl::remote(), "requests") == 0); }

TEST_CASE("options out of range are refused") {
  const auto refuses = [](fl::remote_options options, std::string_view sentence) {
    return fl::test::throws_saying<std::invalid_argument>(sentence, [&] { fl::remote(options); });
  };
  CHECK(refuses({.in_flight = 0}, "in_flight is 0, but must be from 1 to 65,536"));
  CHECK(refuses({.in_flight = static_cast<std::size_t>(-1)}, "in_flight is -1"));
  CHECK(refuses({.part_bytes = 0}, "part_bytes is 0, but must be at least 1"));
  CHECK(refuses({.part_bytes = static_cast<std::size_t>(-1)}, "part_bytes is -1, but can't be negative"));
  CHECK(refuses({.bytes_ahead = 1000}, "bytes_ahead is 1000, but must be at least part_bytes, 8388608"));
  CHECK(refuses({.retry = {.attempts = 0}}, "attempts is 0"));
  CHECK(refuses({.connect_timeout = 0s}, "connect_timeout must be positive"));
  CHECK(refuses({.stall_timeout = -1s}, "stall_timeout must be positive"));
  const auto store =
      fl::remote({.part_bytes = 1000, .bytes_ahead = 5000, .stall_timeout = std::chrono::nanoseconds::max()});
  CHECK(store->part_bytes() == 1000);
  CHECK(store->bytes_ahead() == 5000);
}
