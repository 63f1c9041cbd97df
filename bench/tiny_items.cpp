// SPDX-License-Identifier: MIT
// What does feedline cost per item when the work on an item is next to nothing? Ten million numbers through a map on
// two workers into batches of 1024, compared with TBB's parallel_pipeline, item by item and with hand-made chunks; and
// a serial chain of stages, compared with a loop written by hand. And records of 16 bytes from a mapped file through a
// map into batches, compared with copying them there.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <benchmark/benchmark.h>
#include <feedline/detail/mapped_file.hpp>
#include <feedline/feedline.hpp>

#include "../tests/support/temporary_folder.hpp"

#ifdef FEEDLINE_WITH_TBB
#include <tbb/global_control.h>
#include <tbb/parallel_pipeline.h>
#endif

namespace fl = feedline;

namespace {

constexpr std::uint64_t items = 10'000'000;
constexpr std::size_t batch_size = 1024;

constexpr auto work = [](std::uint64_t x) { return x * 0x9e3779b97f4a7c15 ^ (x >> 7); };

struct numbers {
  std::optional<std::uint64_t> next() { return at < items ? std::optional(at++) : std::nullopt; }

  std::uint64_t at = 0;
};

void report(benchmark::State& state, std::uint64_t count = items) {
  state.SetItemsProcessed(static_cast<std::int64_t>(static_cast<std::uint64_t>(state.iterations()) * count));
}

void feedline_two_workers(benchmark::State& state) {
  const auto pipeline = numbers() | fl::map(work, fl::workers{2}) | fl::batch(batch_size) | fl::prefetch(64);
  for (auto _ : state) {
    std::uint64_t sum = 0;
    for (const auto& batch : pipeline.finite()) sum += batch.values()[batch.size() - 1];
    benchmark::DoNotOptimize(sum);
  }
  report(state);
}

#ifdef FEEDLINE_WITH_TBB
void tbb_item_by_item(benchmark::State& state) {
  const tbb::global_control two(tbb::global_control::max_allowed_parallelism, 2);
  constexpr std::uint64_t fewer = items / 10; // because it's slow
  for (auto _ : state) {
    std::uint64_t at = 0, sum = 0;
    std::vector<std::uint64_t> batch;
    tbb::parallel_pipeline(
        64,
        tbb::make_filter<void, std::uint64_t>(tbb::filter_mode::serial_in_order,
                                              [&](tbb::flow_control& flow) {
                                                if (at == fewer) flow.stop();
                                                return at++;
                                              }) &
            tbb::make_filter<std::uint64_t, std::uint64_t>(tbb::filter_mode::parallel, work) &
            tbb::make_filter<std::uint64_t, void>(tbb::filter_mode::serial_in_order, [&](std::uint64_t x) {
              batch.push_back(x);
              if (batch.size() == batch_size) {
                sum += batch.back();
                batch.clear();
              }
            }));
    benchmark::DoNotOptimize(sum);
  }
  report(state, fewer);
}

void tbb_hand_chunked(benchmark::State& state) {
  const tbb::global_control two(tbb::global_control::max_allowed_parallelism, 2);
  using chunk = std::vector<std::uint64_t>;
  for (auto _ : state) {
    std::uint64_t at = 0, sum = 0;
    tbb::parallel_pipeline(
        64,
        tbb::make_filter<void, std::shared_ptr<chunk>>(tbb::filter_mode::serial_in_order,
                                                       [&](tbb::flow_control& flow) {
                                                         auto c = std::make_shared<chunk>();
                                                         if (at == items) {
                                                           flow.stop();
                                                           return c;
                                                         }
                                                         c->resize(batch_size);
                                                         for (auto& x : *c) x = at++;
                                                         if (at > items) at = items;
                                                         return c;
                                                       }) &
            tbb::make_filter<std::shared_ptr<chunk>, std::shared_ptr<chunk>>(tbb::filter_mode::parallel,
                                                                             [](std::shared_ptr<chunk> c) {
                                                                               for (auto& x : *c) x = work(x);
                                                                               return c;
                                                                             }) &
            tbb::make_filter<std::shared_ptr<chunk>, void>(
                tbb::filter_mode::serial_in_order,
                [&](const std::shared_ptr<chunk>& c) { sum += c->back(); }));
    benchmark::DoNotOptimize(sum);
  }
  report(state);
}
#endif

constexpr auto keep = [](std::uint64_t x) { return (x & 7) != 0; };

constexpr auto scramble = [](std::uint64_t x) {
  for (int i = 0; i < 8; ++i) x = (x ^ (x >> 29)) * 0xbf58476d1ce4e5b9;
  return x;
};

void feedline_serial_chain(benchmark::State& state) {
  const auto pipeline = numbers() | fl::map(scramble) | fl::filter(keep) | fl::map(scramble) |
                        fl::batch(batch_size) | fl::prefetch(64);
  for (auto _ : state) {
    std::uint64_t sum = 0;
    for (const auto& batch : pipeline.finite()) sum += batch.values()[batch.size() - 1];
    benchmark::DoNotOptimize(sum);
  }
  report(state);
}

// The same batches with numbers and indices, sent to another thread through the queue that the pipeline uses.
void hand_written_serial_chain(benchmark::State& state) {
  struct batch {
    std::vector<std::uint64_t> values, indices;
  };

  for (auto _ : state) {
    std::uint64_t sum = 0;
    fl::spsc_queue<std::unique_ptr<batch>> queue(64);
    std::thread producer([&] {
      auto b = std::make_unique<batch>();
      const auto begin = [&] {
        b = std::make_unique<batch>();
        b->values.reserve(batch_size);
        b->indices.reserve(batch_size);
      };
      begin();
      for (std::uint64_t i = 0; i < items; ++i) {
        const std::uint64_t x = scramble(i);
        if (!keep(x)) continue;
        b->values.push_back(scramble(x));
        b->indices.push_back(i);
        if (b->values.size() == batch_size) {
          queue.push(std::move(b));
          begin();
        }
      }
      queue.push(std::move(b));
      queue.close();
    });
    std::unique_ptr<batch> b;
    while (queue.pop(b) == fl::queue_status::success) sum += b->values.back();
    producer.join();
    benchmark::DoNotOptimize(sum);
  }
  report(state);
}

// Records of 16 bytes from a mapped file into batches.
using record = std::array<float, 4>;

class records_file {
 public:
  records_file() {
    std::ofstream out(path(), std::ios::binary);
    for (std::uint64_t i = 0; i < count; ++i) {
      const record r{static_cast<float>(i), 1, 2, 3};
      out.write(reinterpret_cast<const char*>(&r), sizeof r);
    }
  }

  std::string path() const { return folder_ / "records"; }

  static constexpr std::uint64_t count = 4'000'000;

 private:
  feedline::test::temporary_folder folder_;
};

const std::string& path_of_records() {
  static const records_file file;
  static const std::string path = file.path();
  return path;
}

constexpr auto halve = [](const record& r) { return record{r[0] / 2, r[1] / 2, r[2] / 2, r[3] / 2}; };

void feedline_records(benchmark::State& state) {
  const auto pipeline =
      fl::records<record>({path_of_records()}) | fl::map(halve) | fl::batch(batch_size) | fl::prefetch(64);
  for (auto _ : state) {
    float sum = 0;
    for (const auto& batch : pipeline.finite()) sum += batch.values().data()[4 * batch.size() - 4];
    benchmark::DoNotOptimize(sum);
  }
  report(state, records_file::count);
}

// Copies them into batches that it sends to another thread, and changes nothing.
void copied_records(benchmark::State& state) {
  for (auto _ : state) {
    float sum = 0;
    const fl::detail::mapped_file file(path_of_records());
    fl::spsc_queue<std::unique_ptr<record[]>> queue(64);
    std::thread producer([&] {
      for (std::size_t at = 0; at + batch_size <= records_file::count; at += batch_size) {
        auto batch = std::make_unique_for_overwrite<record[]>(batch_size);
        std::memcpy(batch.get(), file.bytes().data() + at * sizeof(record), batch_size * sizeof(record));
        queue.push(std::move(batch));
      }
      queue.close();
    });
    std::unique_ptr<record[]> batch;
    while (queue.pop(batch) == fl::queue_status::success) sum += batch[batch_size - 1][0];
    producer.join();
    benchmark::DoNotOptimize(sum);
  }
  report(state, records_file::count);
}

BENCHMARK(feedline_two_workers)->UseRealTime()->Unit(benchmark::kMillisecond);
#ifdef FEEDLINE_WITH_TBB
BENCHMARK(tbb_item_by_item)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(tbb_hand_chunked)->UseRealTime()->Unit(benchmark::kMillisecond);
#endif
BENCHMARK(feedline_serial_chain)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(hand_written_serial_chain)->UseRealTime()->Unit(benchmark::kMillisecond);

BENCHMARK(feedline_records)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(copied_records)->UseRealTime()->Unit(benchmark::kMillisecond);

} // namespace
