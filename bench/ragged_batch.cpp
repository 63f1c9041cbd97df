// SPDX-License-Identifier: MIT
// What does it cost to gather lists of structs into batches? A million images with up to 15 boxes each become batches of 256,
// with one tensor for each field of a box, as values and offsets, or padded. The baselines are loops written by hand that make
// the same columns, and send them to another thread through the queue that the pipeline uses.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <benchmark/benchmark.h>
#include <feedline/feedline.hpp>

namespace fl = feedline;

namespace {

constexpr std::uint64_t images = 1'000'000;
constexpr std::size_t batch_size = 256;

struct box {
  float x, y, width, height;
  int label;
};

constexpr auto make_boxes = [](std::uint64_t i) {
  std::vector<box> boxes(i * 0x9e3779b97f4a7c15 >> 60);
  for (box& b : boxes) b = {static_cast<float>(i), 1, 2, 3, 4};
  return boxes;
};

struct numbers {
  std::optional<std::uint64_t> next() { return at < images ? std::optional(at++) : std::nullopt; }

  std::uint64_t at = 0;
};

void report(benchmark::State& state) {
  state.SetItemsProcessed(static_cast<std::int64_t>(static_cast<std::uint64_t>(state.iterations()) * images));
}

void feedline_with(benchmark::State& state, auto... mode) {
  const auto pipeline = numbers() | fl::map(make_boxes) | fl::batch(batch_size, mode...) | fl::prefetch(64);
  for (auto _ : state) {
    std::size_t sum = 0;
    for (const auto& batch : pipeline.finite())
      sum += batch.values().values.template get<&box::label>().size();
    benchmark::DoNotOptimize(sum);
  }
  report(state);
}

struct columns {
  std::vector<float> x, y, width, height;
  std::vector<int> label;
  std::vector<std::int64_t> lists; // their offsets or lengths
  std::vector<std::uint64_t> indices;

  void resize(std::size_t count) {
    for (auto* of : {&x, &y, &width, &height}) of->resize(count);
    label.resize(count);
  }

  void set(std::size_t at, const box& b) {
    x[at] = b.x;
    y[at] = b.y;
    width[at] = b.width;
    height[at] = b.height;
    label[at] = b.label;
  }
};

using gathered = std::vector<std::vector<box>>;

columns ragged(const gathered& all) {
  columns c;
  c.lists.push_back(0);
  for (const auto& boxes : all) c.lists.push_back(c.lists.back() + static_cast<std::int64_t>(boxes.size()));
  c.resize(static_cast<std::size_t>(c.lists.back()));
  std::size_t at = 0;
  for (const auto& boxes : all)
    for (const box& b : boxes) c.set(at++, b);
  return c;
}

columns padded(const gathered& all) {
  columns c;
  std::size_t longest = 0, at = 0;
  for (const auto& boxes : all) {
    c.lists.push_back(static_cast<std::int64_t>(boxes.size()));
    longest = std::max(longest, boxes.size());
  }
  c.resize(all.size() * longest);
  for (const auto& boxes : all) {
    for (const box& b : boxes) c.set(at++, b);
    for (std::size_t i = boxes.size(); i < longest; ++i) c.set(at++, {});
  }
  return c;
}

void loop_with(benchmark::State& state, columns (*make)(const gathered&)) {
  for (auto _ : state) {
    std::size_t sum = 0;
    fl::spsc_queue<std::unique_ptr<columns>> queue(64);
    std::thread producer([&] {
      gathered all;
      std::vector<std::uint64_t> indices;
      const auto send = [&] {
        auto next = std::make_unique<columns>(make(all));
        next->indices = std::exchange(indices, {});
        all.clear();
        queue.push(std::move(next));
      };
      for (std::uint64_t i = 0; i < images; ++i) {
        all.push_back(make_boxes(i));
        indices.push_back(i);
        if (all.size() == batch_size) send();
      }
      if (!all.empty()) send();
      queue.close();
    });
    std::unique_ptr<columns> next;
    while (queue.pop(next) == fl::queue_status::success) sum += next->label.size();
    producer.join();
    benchmark::DoNotOptimize(sum);
  }
  report(state);
}

void feedline_ragged(benchmark::State& state) { feedline_with(state); }

void feedline_padded(benchmark::State& state) { feedline_with(state, fl::padded{}); }

void hand_written_ragged(benchmark::State& state) { loop_with(state, ragged); }

void hand_written_padded(benchmark::State& state) { loop_with(state, padded); }

BENCHMARK(feedline_ragged)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(hand_written_ragged)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(feedline_padded)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(hand_written_padded)->UseRealTime()->Unit(benchmark::kMillisecond);

} // namespace
