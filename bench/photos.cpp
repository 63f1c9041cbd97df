// SPDX-License-Identifier: MIT
// What is lost between JPEG decoding and a training loop? Two threads decode whole photographs to RGB, and batches of
// 32 are collected: by feedline, by TBB's parallel_pipeline, and by a hand-written thread pool with a mutex queue. The
// baseline is two bare threads that share a counter, decode and keep nothing: what the decoder itself allows.
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "photos.hpp"

#ifdef FEEDLINE_WITH_TBB
#include <tbb/global_control.h>
#include <tbb/parallel_pipeline.h>
#endif

namespace fl = feedline;

namespace {

constexpr std::size_t threads = 2;
constexpr std::size_t batch_size = 32;

void bare_threads(benchmark::State& state) {
  const auto& all = photos(state);
  for (auto _ : state) {
    std::atomic<std::size_t> next{0};
    const auto work = [&] {
      for (std::size_t i; (i = next.fetch_add(1)) < all.size();)
        benchmark::DoNotOptimize(decode(all[i]).data());
    };
    std::vector<std::jthread> pool;
    for (std::size_t i = 0; i < threads; ++i) pool.emplace_back(work);
  }
  report_photos(state, all.size());
}

template <class Loader>
void consume(Loader loader) {
  for (const auto& batch : loader) benchmark::DoNotOptimize(batch.values().front().data());
}

void feedline_pipeline(benchmark::State& state) {
  const auto& all = photos(state);
  if (all.empty()) return;
  const auto pipeline = fl::tar_samples(photo_shards()) |
                        fl::map(decode, fl::workers{threads}, fl::name{"decode"}) |
                        fl::batch(batch_size, fl::as_list);
  for (auto _ : state) consume(pipeline.finite());
  report_photos(state, all.size());
}

// A map under the one lock restores the order; the number of samples in flight is bounded; the caller
// receives batches.
void hand_written_pool(benchmark::State& state) {
  const auto& all = photos(state);
  for (auto _ : state) {
    std::mutex mutex;
    std::condition_variable changed;
    std::map<std::size_t, image> done;
    std::size_t next = 0, taken = 0;
    const auto work = [&] {
      for (;;) {
        std::size_t i;
        {
          std::unique_lock lock(mutex);
          changed.wait(lock, [&] { return next == all.size() || next < taken + 4 * threads; });
          if (next == all.size()) return;
          i = next++;
        }
        image decoded = decode(all[i]);
        const std::lock_guard lock(mutex);
        done.emplace(i, std::move(decoded));
        changed.notify_all();
      }
    };
    std::vector<std::jthread> pool;
    for (std::size_t i = 0; i < threads; ++i) pool.emplace_back(work);
    std::vector<image> batch;
    while (taken < all.size()) {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return done.contains(taken); });
      batch.push_back(std::move(done.extract(taken).mapped()));
      ++taken;
      changed.notify_all();
      if (batch.size() == batch_size) {
        benchmark::DoNotOptimize(batch.front().data());
        batch.clear();
      }
    }
  }
  report_photos(state, all.size());
}

#ifdef FEEDLINE_WITH_TBB
void tbb_parallel_pipeline(benchmark::State& state) {
  const auto& all = photos(state);
  const tbb::global_control limit(tbb::global_control::max_allowed_parallelism, threads);
  for (auto _ : state) {
    std::size_t next = 0;
    std::vector<image> batch;
    using image_ptr = std::shared_ptr<image>;
    tbb::parallel_pipeline(
        4 * threads, tbb::make_filter<void, std::size_t>(tbb::filter_mode::serial_in_order,
                                                         [&](tbb::flow_control& flow) {
                                                           if (next == all.size()) flow.stop();
                                                           return next == all.size() ? next : next++;
                                                         }) &
                         tbb::make_filter<std::size_t, image_ptr>(
                             tbb::filter_mode::parallel,
                             [&](std::size_t i) { return std::make_shared<image>(decode(all[i])); }) &
                         tbb::make_filter<image_ptr, void>(tbb::filter_mode::serial_in_order,
                                                           [&](const image_ptr& decoded) {
                                                             batch.push_back(std::move(*decoded));
                                                             if (batch.size() < batch_size) return;
                                                             benchmark::DoNotOptimize(batch.front().data());
                                                             batch.clear();
                                                           }));
  }
  report_photos(state, all.size());
}

BENCHMARK(tbb_parallel_pipeline)->UseRealTime()->Unit(benchmark::kMillisecond);
#endif

BENCHMARK(bare_threads)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(feedline_pipeline)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(hand_written_pool)->UseRealTime()->Unit(benchmark::kMillisecond);

} // namespace
