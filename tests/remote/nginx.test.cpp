// SPDX-License-Identifier: MIT
// Shards behind a real web server: HTTP/1.1, HTTP/2 and TLS.
#include <feedline/remote.hpp>

#include <feedline/source/global_shuffle.hpp>
#include <feedline/source/tar.hpp>
#include <feedline/stage/map.hpp>
#include <feedline/stage/prefetch.hpp>
#include <feedline/stage/shuffle.hpp>
#include <feedline/testing/check_source.hpp>

#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/misbehaving_server.hpp"
#include "support/nginx.hpp"
#include "support/outcome.hpp"
#include "support/rounds.hpp"
#include "support/tar_contents.hpp"
#include "support/tar_writer.hpp"
#include "support/temporary_folder.hpp"
#include "support/watchdog.hpp"

namespace fl = feedline;
using fl::test::collect;

namespace {

constexpr int shard_count = 4, samples_each = 50;

std::string shard(int number, char fill) {
  fl::test::tar_writer tar;
  for (int i = 0; i < samples_each; ++i) {
    const std::string key = std::to_string(number) + "-" + std::to_string(i);
    tar.add(key + ".txt", std::string(static_cast<std::size_t>(100 + 97 * i), fill));
    tar.add(key + ".cls", std::to_string(i % 10));
  }
  return tar.closed();
}

/// A web server with four shards, whose certificate is trusted in this process.
struct served {
  served() {
    for (int n = 0; n < shard_count; ++n) folder.write("train-" + std::to_string(n) + ".tar", shard(n, 'a'));
    server.emplace(folder.path());
    ::setenv("CURL_CA_BUNDLE", server->authority().c_str(), 1);
  }

  ~served() { ::unsetenv("CURL_CA_BUNDLE"); }

  fl::test::temporary_folder folder;
  std::optional<fl::test::nginx> server;
};

std::string contents(const fl::tar_sample& sample) { return fl::test::as_text(sample); }

auto texts_of(const std::string& place, std::shared_ptr<fl::object_store> store = nullptr) {
  return fl::tar_samples(place + "train-{0..3}.tar", {.remote = std::move(store)});
}

bool is_left_out() {
  if (fl::test::has_nginx()) return false;
  WARN("left out: nginx or openssl was not found");
  return true;
}

} // namespace

TEST_CASE("Shards behind nginx have the samples of the files") {
  if (is_left_out()) return;
  const fl::test::watchdog guard("nginx");
  const served all;
  const auto local = collect((texts_of(all.folder.path() + "/") | fl::map(contents)).finite());
  REQUIRE(local.size() == shard_count * samples_each);
  for (const std::string& place : {all.server->url(), all.server->tls_url()}) {
    // Parts from smaller than a sample to larger than a shard.
    for (const std::size_t part_bytes : {std::size_t{1} << 12, std::size_t{1} << 16, std::size_t{8} << 20}) {
      const auto store = fl::remote({.in_flight = 8, .part_bytes = part_bytes});
      CHECK(collect((texts_of(place, store) | fl::map(contents)).finite()) == local);
    }
  }
}

TEST_CASE("A run over shards behind nginx is shuffled as one over files, and resumed") {
  if (is_left_out()) return;
  const fl::test::watchdog guard("nginx");
  const served all;
  const auto run = [&](const std::string& place, std::size_t workers,
                       std::shared_ptr<fl::object_store> store) {
    return texts_of(place, std::move(store)) | fl::global_shuffle() |
           fl::map(contents, fl::workers{workers}) | fl::shuffle({.capacity = 20});
  };
  const auto local = collect(run(all.folder.path() + "/", 1, nullptr).finite({.seed = 7, .epochs = 2}));
  const auto remote = run(all.server->tls_url(), 4, fl::remote());
  CHECK(collect(remote.finite({.seed = 7, .epochs = 2})) == local);

  auto earlier = remote.finite({.seed = 7, .epochs = 2});
  auto got = collect(earlier, 130);
  for (auto& text : collect(remote.finite({.seed = 7, .epochs = 2, .resume = earlier.checkpoint()})))
    got.push_back(std::move(text));
  CHECK(got == local);
}

TEST_CASE("Shards behind nginx keep the promises of a source") {
  if (is_left_out()) return;
  const served all;
  for (int n = 0; n < 3; ++n)
    all.folder.write("few-" + std::to_string(n) + ".tar", fl::test::pairs(3 + n, 10 * n).closed());
  const auto store = fl::remote({.part_bytes = 4096}); // smaller than a shard
  for (const std::string& place : {all.server->url(), all.server->tls_url()})
    fl::testing::check_source([=] { return fl::tar_samples(place + "few-{0..2}.tar", {.remote = store}); },
                              {.places = fl::test::rounds(std::size_t{6}, 2)}, contents);
}

TEST_CASE("Shards on a server without ranges are read in order, if a part can have a whole shard") {
  const fl::test::watchdog guard("nginx");
  std::vector<std::string> shards;
  const fl::test::temporary_folder folder;
  for (int n = 0; n < shard_count; ++n) {
    shards.push_back(shard(n, 'a'));
    folder.write("train-" + std::to_string(n) + ".tar", shards.back());
  }
  const auto local = collect((texts_of(folder.path() + "/") | fl::map(contents)).finite());
  fl::test::misbehaving_server server([&](fl::test::misbehaving_server::connection& c,
                                          const fl::test::http_request& r) {
    const std::string path = r.path();
    if (!path.ends_with(".tar")) return void(c.send_status("404 x"));
    const std::string& bytes = shards.at(static_cast<std::size_t>(path.at(path.size() - 5) - '0'));
    c.send("HTTP/1.1 200 OK\r\nETag: \"1\"\r\nContent-Length: " + std::to_string(bytes.size()) + "\r\n\r\n");
    c.send(bytes.substr(0, r.number % 3 == 1 ? bytes.size() / 2 : bytes.size()));
    c.close();
  });
  const auto described = [&](std::size_t part_bytes) {
    return texts_of(server.url("/"), fl::remote({.part_bytes = part_bytes})) | fl::map(contents);
  };
  CHECK(collect(described(1 << 20).finite()) == local);
  auto earlier = described(1 << 20).finite();
  auto got = collect(earlier, 70);
  for (auto& text : collect(described(1 << 20).finite({.resume = earlier.checkpoint()})))
    got.push_back(std::move(text));
  CHECK(got == local);
  const auto small = fl::test::run_to_end(described(1 << 16).finite());
  REQUIRE(small.failed);
  CHECK(small.failed->message.find("remote_options::part_bytes is at least " +
                                   std::to_string(shards[0].size())) != std::string::npos);
}

TEST_CASE("A server whose certificate isn't trusted is refused, and a missing shard is named") {
  if (is_left_out()) return;
  const fl::test::watchdog guard("nginx");
  const served all;
  const auto missing = fl::test::run_to_end(
      (fl::tar_samples(all.server->url() + "no.tar", {.remote = fl::remote()}) | fl::map(contents)).finite());
  REQUIRE(missing.failed);
  CHECK(missing.failed->message.find(all.server->url() + "no.tar") != std::string::npos);
  CHECK(missing.failed->message.find("404") != std::string::npos);
  ::unsetenv("CURL_CA_BUNDLE");
  const auto refused =
      fl::test::run_to_end((texts_of(all.server->tls_url(), fl::remote()) | fl::map(contents)).finite());
  REQUIRE(refused.failed);
  CHECK(refused.failed->message.find("certificate") != std::string::npos);
}

TEST_CASE("A shard that is replaced while it is read is an error, and a replaced one isn't resumed") {
  if (is_left_out()) return;
  const fl::test::watchdog guard("nginx");
  const served all;
  const auto described = [&] {
    return texts_of(all.server->url(), fl::remote({.part_bytes = 4096, .bytes_ahead = 8192})) |
           fl::map(contents) | fl::prefetch(1);
  };
  const auto p = described();
  auto loader = p.finite();
  REQUIRE(loader.next());
  const fl::checkpoint before = loader.checkpoint();
  const std::string replaced = all.folder.write("train-0.tar", shard(0, 'b'));
  // nginx makes an ETag of the size and the second of the last change.
  std::filesystem::last_write_time(replaced,
                                   std::filesystem::last_write_time(replaced) + std::chrono::seconds(10));
  bool has_failed = false;
  try {
    while (loader.next()) continue;
  } catch (const fl::pipeline_error& error) {
    has_failed = std::string(error.what()).find("has changed") != std::string::npos;
    INFO(error.what());
    CHECK(has_failed);
  }
  CHECK(has_failed);
  CHECK_THROWS_AS(described().finite({.resume = before}), std::invalid_argument);
}
