// SPDX-License-Identifier: MIT
// What do shards behind a web server cost that answers each request after 20 ms? An nginx on this machine serves the
// shards of FEEDLINE_BENCH_PHOTOS over HTTP, or over HTTPS with HTTP/2. Random parts of photographs in batches of 64 on
// two workers: from the disk, from the server with parts requested ahead, with one request at a time, and in a later
// epoch from the cache. Then only the bytes, against `curl --parallel`; 10 GB of them, to see whether memory grows after
// the first gigabyte; and single photographs in random order, where the limit is the number of requests in flight divided
// by 20 ms.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <unistd.h>

#include <benchmark/benchmark.h>
#include <feedline/feedline.hpp>
#include <feedline/image.hpp>
#include <feedline/remote.hpp>

#include "photos.hpp"
#include "support/nginx.hpp"

namespace fl = feedline;
using namespace std::chrono_literals;

namespace {

constexpr std::size_t side = 224;

struct example {
  fl::tensor<float, 3, side, side> pixels;
};

const auto load = [](const fl::tar_sample& sample, fl::batch_slot<example>& slot, fl::context& context) {
  const auto part = [&](std::size_t height, std::size_t width) {
    return fl::random_resized_crop{}(height, width, context.random);
  };
  fl::decode_jpeg_crop(sample["jpg"], part, fl::chw_view(slot.get<&example::pixels>(), 3, side, side));
};

/// The shards behind a web server: each appears several times, as links.
struct served {
  static constexpr int links = 4;

  explicit served(std::chrono::milliseconds delay) {
    const fl::tar_samples listed(photo_shards());
    for (const std::string& shard : listed.shards())
      for (int n = 0; n < links; ++n) {
        names.push_back(std::to_string(names.size()) + ".tar");
        std::filesystem::create_symlink(std::filesystem::absolute(shard), folder / names.back());
        bytes += std::filesystem::file_size(shard);
      }
    server.emplace(folder.path(), delay);
  }

  std::vector<std::string> at(const std::string& place) const {
    std::vector<std::string> all;
    for (const std::string& name : names) all.push_back(place + name);
    return all;
  }

  feedline::test::temporary_folder folder;
  std::vector<std::string> names;
  std::size_t bytes = 0;
  std::optional<feedline::test::nginx> server;
};

/// Both servers. The process reads once which authorities it trusts, so both start before the first request.
struct two_servers {
  two_servers() {
    const std::string trusted = late.folder / "authorities.pem";
    for (const served* one : {&late, &prompt})
      std::ofstream(trusted, std::ios::app) << std::ifstream(one->server->authority()).rdbuf();
    ::setenv("CURL_CA_BUNDLE", trusted.c_str(), 1);
  }

  served late{20ms}, prompt{0ms};
};

served* shards(benchmark::State& state, std::chrono::milliseconds delay = 20ms) {
  if (photo_shards().empty() || !feedline::test::has_nginx()) {
    state.SkipWithError(
        "needs nginx, openssl, and FEEDLINE_BENCH_PHOTOS: the name of a TAR shard of JPEGs, or a pattern");
    return nullptr;
  }
  static two_servers both;
  return delay > 0ms ? &both.late : &both.prompt;
}

void read_all(const std::vector<std::string>& names, const fl::tar_options& options) {
  const auto size = [](const fl::tar_sample& s) { return s.size(); };
  for (const std::size_t fields : (fl::tar_samples(names, options) | fl::map(size)).finite())
    benchmark::DoNotOptimize(fields);
}

void run_photos(benchmark::State& state, const std::vector<std::string>& names,
                const fl::tar_options& options) {
  std::size_t photos = 0;
  for (auto _ : state) {
    auto loader =
        (fl::tar_samples(names, options) | fl::batch_into<example>(64, load, fl::workers{2})).finite();
    for (const auto& batch : loader) photos += batch.size();
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(photos));
}

void photos_from_disk(benchmark::State& state) {
  if (const served* all = shards(state)) run_photos(state, all->at(all->folder.path() + "/"), {});
}

void photos_from_server(benchmark::State& state) {
  if (const served* all = shards(state))
    run_photos(
        state, all->at(all->server->url()),
        {.remote = fl::remote({.in_flight = 16, .part_bytes = 4 << 20}), .max_sample_bytes = 10'000'000});
}

void photos_from_server_with_tls(benchmark::State& state) {
  if (const served* all = shards(state))
    run_photos(
        state, all->at(all->server->tls_url()),
        {.remote = fl::remote({.in_flight = 16, .part_bytes = 4 << 20}), .max_sample_bytes = 10'000'000});
}

void photos_without_read_ahead(benchmark::State& state) {
  if (const served* all = shards(state))
    run_photos(state, all->at(all->server->url()),
               {.remote = fl::remote({.in_flight = 1, .part_bytes = 256 << 10, .bytes_ahead = 256 << 10}),
                .max_sample_bytes = 10'000'000});
}

void photos_from_cache(benchmark::State& state) {
  const served* all = shards(state);
  if (!all) return;
  const feedline::test::temporary_folder folder;
  const fl::tar_options options{
      .remote = fl::cached(fl::remote({.part_bytes = 4 << 20}), {.directory = folder.path()}),
      .max_sample_bytes = 10'000'000};
  const auto names = all->at(all->server->url());
  read_all(names, options);
  run_photos(state, names, options);
}

void bytes_from_server(benchmark::State& state) {
  const served* all = shards(state, 0ms);
  if (!all) return;
  const fl::tar_options options{.remote = fl::remote({.in_flight = 16}), .max_sample_bytes = 10'000'000};
  for (auto _ : state) read_all(all->at(all->server->url()), options);
  state.SetBytesProcessed(
      static_cast<std::int64_t>(static_cast<std::size_t>(state.iterations()) * all->bytes));
}

/// The memory of this process, in bytes.
double resident() {
  std::size_t all = 0, pages = 0;
  std::ifstream("/proc/self/statm") >> all >> pages;
  return static_cast<double>(pages) * static_cast<double>(::sysconf(_SC_PAGESIZE));
}

double received(const fl::object_store& store) {
  double bytes = 0;
  const auto see = [&](const std::string& name, double value) {
    if (name == "bytes received") bytes = value;
  };
  store.metrics(see, see);
  return bytes;
}

/// Streams gigabytes, epoch after epoch.
void memory_of_a_stream(benchmark::State& state) {
  const served* all = shards(state, 0ms);
  if (!all) return;
  const double wanted = static_cast<double>(state.range(0)) * 1e9;
  double growth = 0, streamed = 0;
  for (auto _ : state) {
    const auto store = fl::remote({.in_flight = 16});
    const fl::tar_options options{.remote = store, .max_sample_bytes = 10'000'000};
    auto loader =
        (fl::tar_samples(all->at(all->server->url()), options) | fl::map([](const fl::tar_sample& s) {
           return s.size();
         })).infinite();
    double first = 0, most = 0, now = 0;
    for (std::size_t n = 0; now < wanted && loader.next(); ++n) {
      if (n % 256 != 0) continue;
      now = received(*store);
      if (now < 1e9) first = std::max(first, resident());
      else most = std::max(most, resident());
    }
    growth = std::max(growth, most - first);
    streamed += now;
  }
  state.counters["growth_mb"] = std::max(0.0, growth) * 1e-6;
  state.SetBytesProcessed(static_cast<std::int64_t>(streamed));
}

void bytes_with_curl(benchmark::State& state) {
  const served* all = shards(state, 0ms);
  if (!all) return;
  std::string command = "curl -s --parallel --parallel-max 16";
  for (const std::string& url : all->at(all->server->url())) command += " -o /dev/null " + url;
  for (auto _ : state)
    if (std::system(command.c_str()) != 0) state.SkipWithError("curl fails");
  state.SetBytesProcessed(
      static_cast<std::int64_t>(static_cast<std::size_t>(state.iterations()) * all->bytes));
}

void single_photos_in_random_order(benchmark::State& state) {
  const served* all = shards(state);
  if (!all) return;
  const auto in_flight = static_cast<std::size_t>(state.range(0));
  const auto p =
      fl::tar_samples(all->at(all->server->url()),
                      {.remote = fl::remote({.in_flight = in_flight}), .max_sample_bytes = 10'000'000}) |
      fl::global_shuffle() | fl::map([](const fl::tar_sample& s) { return s.size(); }, fl::workers{2});
  std::size_t photos = 0;
  for ([[maybe_unused]] const std::size_t size : p.finite()) ++photos; // makes the index
  for (auto _ : state)
    for (const std::size_t size : p.finite()) benchmark::DoNotOptimize(size);
  state.SetItemsProcessed(static_cast<std::int64_t>(static_cast<std::size_t>(state.iterations()) * photos));
  state.counters["of_limit"] =
      benchmark::Counter(static_cast<double>(static_cast<std::size_t>(state.iterations()) * photos) * 0.02 /
                             static_cast<double>(in_flight),
                         benchmark::Counter::kIsRate);
}

BENCHMARK(photos_from_disk)->UseRealTime();
BENCHMARK(photos_from_server)->UseRealTime();
BENCHMARK(photos_from_server_with_tls)->UseRealTime();
BENCHMARK(photos_without_read_ahead)->UseRealTime();
BENCHMARK(photos_from_cache)->UseRealTime();
BENCHMARK(bytes_from_server)->UseRealTime();
BENCHMARK(bytes_with_curl)->UseRealTime();
BENCHMARK(memory_of_a_stream)->Arg(10)->Iterations(1)->UseRealTime();
BENCHMARK(single_photos_in_random_order)->Arg(8)->Arg(32)->UseRealTime();

} // namespace
