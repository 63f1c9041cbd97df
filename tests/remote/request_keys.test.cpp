// SPDX-License-Identifier: MIT
// Headers and tokens: they are renewed before they expire, and reach only the server that they are for.
#include <feedline/remote/detail/request_keys.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <latch>
#include <memory>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include <feedline/remote.hpp>
#include <feedline/remote/detail/url.hpp>

#include "support/catch.hpp"
#include "support/misbehaving_server.hpp"
#include "support/remote_reads.hpp"
#include "support/throws_saying.hpp"

namespace fl = feedline;
using fl::bearer_token;
using fl::detail::key_ring;
using fl::detail::keys_error;
using fl::detail::request_keys;
using fl::test::environment;
using fl::test::http_request;
using fl::test::misbehaving_server;
using fl::test::part_of;
using fl::test::problem_of;
using fl::test::quick;
using fl::test::text_of;
using fl::test::throws_saying;
using connection = misbehaving_server::connection;
using namespace std::chrono_literals;

namespace {

using system_time = std::chrono::system_clock;

/// Waits for the keys of a ring.
struct waiter {
  std::shared_ptr<const request_keys> get(system_time::time_point now = system_time::now()) {
    while (true) {
      const auto wake = [wakes = wakes] {
        ++*wakes;
        wakes->notify_all();
      };
      if (auto keys = ring.get(awaited, wake, now)) return keys;
      wakes->wait(seen);
      ++seen;
    }
  }

  key_ring& ring;
  std::uint64_t awaited = 0;
  std::shared_ptr<std::atomic<int>> wakes =
      std::make_shared<std::atomic<int>>(0); // the ring may outlive the waiter
  int seen = 0;
};

request_keys numbered(int number, system_time::time_point expires) {
  return {.user = std::to_string(number), .expires = expires};
}

fl::remote_options with_token(std::function<bearer_token()> token, std::size_t attempts = 5) {
  fl::remote_options options = quick(attempts);
  options.token = std::move(token);
  return options;
}

} // namespace

TEST_CASE("keys are found once, and again shortly before they expire, while the old ones are used") {
  int number = 0;
  std::latch may_go_on(1);
  std::atomic<bool> waits = false;
  const auto expires = system_time::now() + 1h;
  key_ring ring([&](const std::stop_token&) {
    if (waits) may_go_on.wait();
    ++number;
    return numbered(number, expires + (number - 1) * 2h);
  });
  waiter w{ring};
  CHECK(w.get()->user == "1");
  CHECK(w.get()->user == "1");
  CHECK(w.get(expires - 6min)->user == "1");
  waits = true;
  const auto late = expires - 4min;
  CHECK(w.get(late)->user == "1"); // the search has begun
  CHECK(w.get(late)->user == "1"); // there is one at a time
  may_go_on.count_down();
  CHECK(w.get(expires)->user == "2"); // waits for that search, as the old keys have expired
  CHECK(number == 2);
}

TEST_CASE("keys that are valid for a minute are renewed in its last quarter") {
  std::atomic<int> number = 0;
  key_ring ring([&](const std::stop_token&) { return numbered(++number, system_time::now() + 1min); });
  waiter w{ring};
  const auto found = w.get();
  CHECK(w.get(found->expires - 16s) == found);
  CHECK(number == 1);
  CHECK(w.get(found->expires - 14s) == found);
  while (*w.wakes < 2) w.get();
  CHECK(w.get()->user == "2");
  CHECK(number == 2);
}

TEST_CASE("a search that fails is an error for those who wait for it, and is made again for the next") {
  int number = 0;
  key_ring ring([&](const std::stop_token&) -> request_keys {
    switch (++number) {
    case 1:
      throw keys_error("no file");
    case 2:
      throw std::runtime_error("no network");
    case 3:
      throw 3;
    case 4:
      return numbered(4, system_time::now() - 1s);
    case 6:
      throw keys_error("no file again");
    default:
      return numbered(number, system_time::now() + (number == 7 ? 3h : 1h));
    }
  });
  waiter w{ring};
  const auto fails = [&](const std::string& why, bool may_heal) {
    try {
      static_cast<void>(w.get());
    } catch (const keys_error& error) {
      return error.what() == why && error.may_heal == may_heal;
    }
    return false;
  };
  CHECK(fails("no file", false));
  CHECK(fails("no network", true));
  CHECK(fails("an exception of an unknown type", true));
  CHECK(fails("the keys or the token that were found have expired already (is this machine's clock right?)",
              true));
  CHECK(w.get()->user == "5");
  CHECK(w.get(system_time::now() + 58min)->user == "5"); // begins a search, which fails
  while (*w.wakes < 6) w.get();                          // the old keys are still valid
  CHECK(w.get()->user == "5");
  CHECK(w.get(system_time::now() + 2h)->user == "7");
}

TEST_CASE("keys that a server refuses are found again, unless others were found meanwhile") {
  int number = 0;
  key_ring ring([&](const std::stop_token&) { return numbered(++number, system_time::now() + 1h); });
  waiter w{ring};
  const auto first = w.get();
  CHECK(ring.discard(first));
  CHECK(w.get()->user == "2");
  CHECK(ring.discard(first));
  CHECK(w.get()->user == "2");
  key_ring fixed(numbered(1, system_time::time_point::max()));
  CHECK_FALSE(fixed.discard(fixed.get(w.awaited, [] {})));
}

TEST_CASE("a ring that ends stops its search") {
  std::latch begun(1);
  {
    key_ring ring([&](const std::stop_token& stop) {
      begun.count_down();
      std::latch stopped(1);
      const std::stop_callback on_stop(stop, [&] { stopped.count_down(); });
      stopped.wait();
      return request_keys{};
    });
    std::uint64_t awaited = 0;
    CHECK_FALSE(ring.get(awaited, [] {}));
    begun.wait();
  }
  CHECK(begun.try_wait());
}

TEST_CASE("headers and token go to the server of the name, and no further") {
  const environment none({});
  misbehaving_server other([](connection& c, const http_request& r) { c.send_range(r, "hello"); });
  misbehaving_server first([&](connection& c, const http_request& r) {
    const std::string path = r.path();
    const std::string page(20'000, '<');
    if (path == "/near")
      c.send("HTTP/1.1 307 x\r\nLocation: there?a=b\r\nContent-Length: 20000\r\n\r\n" + page);
    else if (path == "/far") c.send_status("302 x", "Location: " + other.url("/elsewhere") + "\r\n");
    else if (path == "/both") c.send_status("302 x", "Location: /far\r\n");
    else c.send_range(r, "hello");
  });
  fl::remote_options options = with_token([] { return std::string("hush"); });
  options.headers = {"X-Api-Key: hushed", "Cookie: a=hushed"};
  const auto store = fl::remote(options);
  const auto has_secrets = [](const http_request& r) {
    const bool has_key = r.header("x-api-key") == "hushed";
    CHECK((r.header("authorization") == "Bearer hush") == has_key);
    CHECK(r.headers.contains("cookie") == has_key);
    return has_key;
  };
  for (const char* path : {"/a", "/near", "/far", "/both"})
    CHECK(text_of(part_of(*store, first.url(path))) == "hello");
  for (const http_request& r : first.requests()) CHECK(has_secrets(r));
  CHECK(first.requests().at(2).line == "GET /there?a=b HTTP/1.1");
  CHECK(first.requests().size() == 6);
  CHECK(other.requests().size() == 2);
  for (const http_request& r : other.requests()) CHECK_FALSE(has_secrets(r));
}

TEST_CASE("a part that is read through a redirect begins each attempt at the first server") {
  const environment none({});
  misbehaving_server other([](connection& c, const http_request& r) {
    c.send_range(r, "hello", "\"1\"", r.number == 0 ? 2 : std::string::npos);
    if (r.number == 0) c.close();
  });
  misbehaving_server first([&](connection& c, const http_request&) {
    c.send_status("302 x", "Location: " + other.url("/cdn") + "\r\n");
  });
  const auto store = fl::remote(with_token([] { return std::string("hush"); }));
  CHECK(text_of(part_of(*store, first.url())) == "hello");
  REQUIRE(first.requests().size() == 2);
  CHECK(first.requests().at(1).header("authorization") == "Bearer hush");
  CHECK(other.requests().at(1).header("range") == "bytes=2-99");
}

TEST_CASE("redirects of requests with secrets that lead nowhere are errors") {
  const environment none({});
  misbehaving_server server([&](connection& c, const http_request& r) {
    if (r.path() == "/circle") c.send_status("302 x", "Location: /circle\r\n");
    else if (r.path() == "/bad") c.send_status("302 x", "Location: http://h:port/?sig=hush\r\n");
    else if (r.path() == "/ftp") c.send_status("302 x", "Location: ftp://u:hush@h/\r\n");
    else c.send_status("302 x");
  });
  const auto store = fl::remote(with_token([] { return std::string("hush"); }));
  const auto problem = [&](const std::string& path) { return problem_of(*store, server.url(path)); };
  CHECK(problem("/circle") == server.url("/circle") + ": the server redirects too often, at offset 0");
  CHECK(server.requests().size() == 11);
  CHECK(problem("/bad") ==
        server.url("/bad") + ": the server redirects to a URL that isn't valid, at offset 0");
  CHECK(problem("/ftp") ==
        server.url("/ftp") + ": the server's answer, or where it redirects to, isn't HTTP, at offset 0");
  CHECK(problem("/none") == server.url("/none") + ": status 302 Found at offset 0");
}

TEST_CASE("user and password of a name aren't sent to another server, and come before a token") {
  const environment none({});
  misbehaving_server other([](connection& c, const http_request& r) { c.send_range(r, "hello"); });
  misbehaving_server first([&](connection& c, const http_request&) {
    c.send_status("302 x", "Location: " + other.url("/cdn") + "\r\n");
  });
  const auto store = fl::remote(with_token([] { return std::string("hush"); }));
  CHECK(text_of(part_of(*store, "http://user:hush@" + first.host() + "/a")) == "hello");
  CHECK(first.requests().at(0).header("authorization") == "Basic dXNlcjpodXNo");
  CHECK(other.requests().at(0).header("authorization").empty());
}

TEST_CASE("a token that the server refuses is renewed once, and then the refusal is the error") {
  const environment none({});
  std::atomic<int> calls = 0;
  misbehaving_server server([&](connection& c, const http_request& r) {
    const std::string body =
        "<Error><Code>A</Code><Message>" + r.header("authorization") + "</Message></Error>";
    if (r.number == 1) c.send_status("503 x");
    else if (r.header("authorization") == "Bearer token2") c.send_range(r, "hello");
    else c.send("HTTP/1.1 401 x\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
  });
  const auto store = fl::remote(with_token([&] { return "token" + std::to_string(++calls); }, 2));
  CHECK(text_of(part_of(*store, server.url())) == "hello");
  CHECK(text_of(part_of(*store, server.url())) == "hello");
  CHECK(calls == 2);
  CHECK(server.requests().size() == 4); // the first didn't count as an attempt
  const auto wrong = fl::remote(with_token([] { return std::string("wrong"); }));
  CHECK(problem_of(*wrong, server.url()) == server.url() + ": status 401 Unauthorized (A: …) at offset 0");
  CHECK(server.requests().size() == 6);
}

TEST_CASE("many requests wait for one token") {
  const environment none({});
  std::atomic<int> calls = 0;
  std::latch may_go_on(1);
  misbehaving_server server([](connection& c, const http_request& r) { c.send_range(r, "hello"); });
  const auto store = fl::remote(with_token([&]() -> bearer_token {
    may_go_on.wait();
    ++calls;
    return {"token" + std::to_string(calls), system_time::now() + 1h};
  }));
  std::vector<std::unique_ptr<fl::object_read>> reads;
  for (std::size_t i = 0; i < 20; ++i)
    reads.push_back(store->read(server.url("/" + std::to_string(i)), 0, 100, {}));
  auto cancelled = store->read(server.url("/no"), 0, 100, {});
  cancelled.reset();
  may_go_on.count_down();
  for (const auto& read : reads) CHECK(text_of(read->get({})) == "hello");
  CHECK(calls == 1);
  for (const http_request& r : server.requests()) CHECK(r.header("authorization") == "Bearer token1");
}

TEST_CASE("a failure to get a token is an outage: it is tried again, and says why") {
  const environment none({});
  misbehaving_server server([](connection& c, const http_request& r) { c.send_range(r, "hello"); });
  int calls = 0;
  const auto healed = fl::remote(with_token([&]() -> bearer_token {
    if (++calls < 3) throw std::runtime_error("no network");
    return {"token"};
  }));
  CHECK(text_of(part_of(*healed, server.url())) == "hello");
  const auto broken =
      fl::remote(with_token([]() -> bearer_token { throw std::runtime_error("no network"); }, 2));
  CHECK(throws_saying<fl::outage_error>(server.url() + ": no network, at offset 0; tried 2 times",
                                        [&] { part_of(*broken, server.url()); }));
  for (const char* text : {"", "hu sh", "hush\r\nX: y"}) {
    const auto wrong = fl::remote(with_token([&] { return std::string(text); }));
    CHECK(throws_saying<fl::outage_error>(
        server.url() + ": remote_options::token returned a text that is empty or can't be sent in a header",
        [&] { part_of(*wrong, server.url()); }));
    CHECK(problem_of(*wrong, server.url()).find("hu") == std::string::npos);
  }
  CHECK(server.requests().size() == 1);
}

TEST_CASE("a proxy doesn't get the secrets for a server of https") {
  misbehaving_server proxy([](connection& c, const http_request&) { c.send_status("503 x"), c.close(); });
  const environment of_proxy({{"https_proxy", "http://" + proxy.host()}, {"no_proxy", ""}});
  fl::remote_options options = with_token([] { return std::string("hush"); }, 1);
  options.headers = {"X-Api-Key: hushed"};
  CHECK(problem_of(*fl::remote(options), "https://host/a").find("hush") == std::string::npos);
  CHECK(proxy.requests().at(0).line == "CONNECT host:443 HTTP/1.1");
  CHECK(proxy.requests().at(0).header("authorization").empty());
  CHECK(proxy.requests().at(0).header("x-api-key").empty());
}

TEST_CASE("a header may authorize instead of a token, and messages hide its value") {
  misbehaving_server server([](connection& c, const http_request&) {
    const std::string body = "<Error><Code>A</Code><Message>abc long c; hush; Basic hush</Message></Error>";
    c.send("HTTP/1.1 401 x\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
  });
  const environment of_store({{"HF_TOKEN", "hf_hush"}, {"HF_ENDPOINT", server.url("")}});
  fl::remote_options options = quick();
  options.headers = {"authorization: Basic hush", "X-Note: long c"};
  CHECK(problem_of(*fl::remote(options), server.url()) ==
        server.url() + ": status 401 Unauthorized (A: abc …; …; …) at offset 0");
  CHECK(server.requests().at(0).header("authorization") == "Basic hush");
  options.token = [] { return std::string("hush"); };
  CHECK(throws_saying<std::invalid_argument>("headers[0] sets authorization, which remote() sets itself",
                                             [&] { fl::remote(options); }));
}

TEST_CASE("HF_TOKEN goes to Hugging Face and not to where it redirects") {
  misbehaving_server other([](connection& c, const http_request& r) { c.send_range(r, "hello"); });
  misbehaving_server hub([&](connection& c, const http_request& r) {
    if (r.path() == "/datasets/a/resolve/main/a.tar")
      c.send_status("302 x", "Location: " + other.url("/cdn") + "\r\n");
    else c.send_range(r, "hello");
  });
  const environment of_store({{"HF_TOKEN", "hf_hush"}, {"HF_ENDPOINT", "http://" + hub.host() + "/"}});
  auto anonymous = quick();
  anonymous.anonymous = true;
  CHECK(text_of(part_of(*fl::remote(quick()), hub.url("/datasets/a/resolve/main/a.tar"))) == "hello");
  CHECK(hub.requests().at(0).header("authorization") == "Bearer hf_hush");
  CHECK(other.requests().at(0).header("authorization").empty());
  CHECK(text_of(part_of(*fl::remote(quick()), other.url())) == "hello");
  CHECK(other.requests().at(1).header("authorization").empty());
  CHECK(text_of(part_of(*fl::remote(anonymous), hub.url())) == "hello");
  CHECK(hub.requests().at(1).header("authorization").empty());
  CHECK(text_of(part_of(*fl::remote(with_token([] { return std::string("mine"); })), hub.url())) == "hello");
  CHECK(hub.requests().at(2).header("authorization") == "Bearer mine");
  const auto has_token = [](const char* url) {
    return fl::detail::target_of(url, {}, fl::detail::web_secrets({})).keys != nullptr;
  };
  ::unsetenv("HF_ENDPOINT");
  CHECK(has_token("https://huggingface.co/datasets/a/resolve/main/a.tar"));
  CHECK(has_token("HTTPS://HuggingFace.co:443/a"));
  for (const char* url : {"http://huggingface.co/a", "https://huggingface.co:8443/a",
                          "https://a.huggingface.co/a", "https://huggingface.co.example.org/a",
                          "https://huggingface.co@example.org/a", "https://user:hush@huggingface.co/a"})
    CHECK_FALSE(has_token(url));
  ::setenv("HF_TOKEN", " hush\r\n", 1); // as read from a file
  CHECK(has_token("https://huggingface.co/a"));
  ::setenv("HF_TOKEN", "hu\nsh", 1);
  CHECK(throws_saying<std::invalid_argument>(
      "feedline::remote: HF_TOKEN has characters that can't be sent in a header", [] { fl::remote(); }));
}

TEST_CASE("headers that can't be sent are refused without showing them") {
  const auto problem = [](const std::string& header) {
    fl::remote_options options;
    options.headers = {"A: b", header};
    try {
      fl::remote(options);
    } catch (const std::invalid_argument& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK(problem("X-Key: a b").empty());
  for (const char* header :
       {"", "hush", ": hush", "X-Key:", "X-Key: ", "X Key: hush", "X-Key: hush\r\nY: z", "X-Key\n: hush"})
    CHECK(problem(header) == "feedline::remote: headers[1] isn't one line of the form `Name: value`");
  CHECK(problem(std::string("X: a\0b", 6)).find("isn't one line") != std::string::npos);
  CHECK(problem("RANGE: bytes=0-1") == "feedline::remote: headers[1] sets RANGE, which remote() sets itself");
}

TEST_CASE("S3 gets neither headers nor tokens of web servers") {
  misbehaving_server server([](connection& c, const http_request& r) { c.send_range(r, "hello"); });
  const environment of_store(
      {{"AWS_ENDPOINT_URL", server.url("")}, {"HF_TOKEN", "hush"}, {"HF_ENDPOINT", server.url("")}});
  fl::remote_options options = with_token([] { return std::string("hush"); });
  options.headers = {"X-Api-Key: hushed"};
  CHECK(text_of(part_of(*fl::remote(options), "s3://bucket/k")) == "hello");
  CHECK(server.requests().at(0).header("authorization").empty());
  CHECK(server.requests().at(0).header("x-api-key").empty());
}
