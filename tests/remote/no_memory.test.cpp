// SPDX-License-Identifier: MIT
// A process that has no memory left gets errors, and goes on: no thread of a store ends it.
#include <feedline/remote.hpp>

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <feedline/feedline.hpp>

#include "support/catch.hpp"
#include "support/failing_allocations.hpp"
#include "support/memory_store.hpp"
#include "support/misbehaving_server.hpp"
#include "support/remote_reads.hpp"
#include "support/tar_writer.hpp"
#include "support/temporary_folder.hpp"
#include "support/watchdog.hpp"

namespace fl = feedline;
using fl::test::http_request;
using fl::test::misbehaving_server;
using fl::test::quick;
using connection = misbehaving_server::connection;

namespace {

/// Reads parts of an object that the server answers in its own ways. What comes is right.
void read_parts(fl::object_store& store, const misbehaving_server& server, const std::string& object) {
  constexpr std::size_t bytes = 5000;
  std::vector<std::unique_ptr<fl::object_read>> reads;
  std::string name = server.url("/a/rather/long/name/that/needs/memory?token=secret");
  for (std::size_t i = 0; i < 4; ++i) reads.push_back(store.read(name, i * bytes, bytes, std::nullopt));
  reads.push_back(store.read(server.url("/404"), 0, bytes, std::nullopt));
  bool is_wrong = false;
  for (std::size_t i = 0; i < reads.size(); ++i) {
    try {
      const fl::object_part part = reads[i]->get({});
      const std::string_view text(reinterpret_cast<const char*>(part.bytes.data()), part.bytes.size());
      is_wrong = is_wrong || text != std::string_view(object).substr(i * bytes, bytes);
    } catch (const std::exception&) {
    }
  }
  if (is_wrong) std::terminate(); // a test can't fail without memory
}

} // namespace

TEST_CASE("where there is no memory, reads fail, and the process goes on") {
  const fl::test::watchdog dog("where there is no memory");
  std::string object;
  for (int i = 0; object.size() < 20'000; ++i) object += std::to_string(i) + "\n";
  misbehaving_server server([&](connection& c, const http_request& r) {
    const std::string error = "<Error><Code>NoSuchKey</Code><Message>it isn't here</Message></Error>";
    if (r.path() != "/404")
      c.send_range(r, object, "\"0123456789abcdef0123456789abcdef\"",
                   r.number % 7 == 0 ? 3000 : object.size());
    else c.send_status("404 x", "Content-Length: " + std::to_string(error.size()) + "\r\n\r\n" + error);
    if (r.number % 7 == 0) c.close();
  });
  fl::remote_options options = quick(2);
  options.in_flight = 2;
  options.headers = {"X-Api-Key: secret"};
  std::size_t notices = 0;
  options.on_notice = [&](const std::string&) { ++notices; };
  SECTION("of a store") {
    fl::test::without_memory([&] { read_parts(*fl::remote(options), server, object); });
  }
  SECTION("of a store with tokens") {
    options.token = [] { return std::string("a-token-that-is-longer-than-a-small-string"); };
    fl::test::without_memory([&] { read_parts(*fl::remote(options), server, object); });
  }
  SECTION("of a cache") {
    const fl::test::temporary_folder folder;
    fl::test::without_memory([&] {
      read_parts(*fl::cached(fl::remote(options), {.directory = folder / "cache"}), server, object);
    });
  }
  CHECK(server.requests().size() > 10);
}

TEST_CASE("where there is no memory, a cache of shards ends runs with an error") {
  const auto store = std::make_shared<fl::test::memory_store>(2000, 8000);
  fl::test::tar_writer tar;
  for (int i = 0; i < 5; ++i) tar.add(std::to_string(i) + ".txt", std::string(3000, 'x'));
  store->put("mem://a.tar", tar.closed());
  const fl::test::temporary_folder folder;
  const fl::test::watchdog dog("a cache of shards");
  bool has_run = false;
  fl::test::without_memory([&] {
    const auto cached = fl::cached(store, {.directory = folder / "cache", .bytes = 1 << 20});
    auto loader = (fl::tar_samples("mem://a.tar", {.remote = cached}) | fl::prefetch(2)).finite();
    while (loader.next()) continue;
    has_run = true;
  });
  CHECK(has_run);
}
