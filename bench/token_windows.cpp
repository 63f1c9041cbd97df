// SPDX-License-Identifier: MIT
// What does it cost to cut documents into windows of 1024 tokens and to stack those in batches of 8? Documents of 300
// tokens on average are copied into windows, which overlap by one token, with a separator after each document. The
// baseline is a thread that appends documents to a block, cuts the batches out of it and sends them through a queue. Both
// copy each token twice, and neither waits for a disk or a tokenizer.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include <benchmark/benchmark.h>

#include <feedline/core/pipeline.hpp>
#include <feedline/core/random.hpp>
#include <feedline/queue/spsc_queue.hpp>
#include <feedline/stage/batch.hpp>
#include <feedline/stage/windows.hpp>

namespace fl = feedline;

namespace {

using token = std::int32_t;
constexpr std::size_t length = 1025, stride = 1024, batch_size = 8;
constexpr token separator = 0;
constexpr std::int64_t batches = 2000;

/// The tokens of all documents, and where each ends. They lie in the processor's caches.
struct corpus {
  std::vector<token> tokens;
  std::vector<std::size_t> ends;

  corpus() {
    fl::random_generator random(1);
    while (tokens.size() < 100'000) {
      for (std::uint64_t left = 1 + random.below(599); left > 0; --left)
        tokens.push_back(static_cast<token>(1 + random.below(50'000)));
      ends.push_back(tokens.size());
    }
  }

  std::span<const token> operator[](std::size_t i) const {
    const std::size_t begin = i == 0 ? 0 : ends[i - 1];
    return std::span(tokens).subspan(begin, ends[i] - begin);
  }
};

const corpus documents;

struct document_source {
  std::optional<std::span<const token>> next() {
    if (at == documents.ends.size()) return std::nullopt;
    return documents[at++];
  }

  std::size_t at = 0;
};

token looked_at(const token* batch) {
  token sum = 0;
  for (std::size_t i = 0; i < batch_size * length; i += 16) sum += batch[i];
  return sum;
}

void report(benchmark::State& state) {
  state.SetItemsProcessed(state.iterations() * batches * static_cast<std::int64_t>(batch_size * stride));
  state.SetBytesProcessed(state.iterations() * batches * static_cast<std::int64_t>(batch_size * stride) *
                          static_cast<std::int64_t>(sizeof(token)));
}

void through_windows(benchmark::State& state) {
  const auto pipeline = document_source() | fl::windows(length, {.stride = stride, .separator = separator}) |
                        fl::batch(batch_size);
  for (auto _ : state) {
    auto loader = pipeline.infinite();
    for (std::int64_t i = 0; i < batches; ++i) {
      const auto batch = loader.next();
      benchmark::DoNotOptimize(looked_at(batch->values().data()));
    }
  }
  report(state);
}

// Sends the batches to another thread through the queue that the pipeline uses.
void by_hand(benchmark::State& state) {
  for (auto _ : state) {
    fl::spsc_queue<std::unique_ptr<token[]>> queue(8);
    std::thread producer([&] {
      std::vector<token> stream;
      std::unique_ptr<token[]> batch;
      std::size_t document = 0, rows = 0;
      for (std::int64_t made = 0; made < batches;) {
        const std::span<const token> tokens = documents[document];
        document = (document + 1) % documents.ends.size();
        stream.insert(stream.end(), tokens.begin(), tokens.end());
        stream.push_back(separator);
        std::size_t begin = 0;
        for (; stream.size() - begin >= length && made < batches; begin += stride) {
          if (rows == 0) batch = std::make_unique_for_overwrite<token[]>(batch_size * length);
          std::copy_n(stream.begin() + static_cast<std::ptrdiff_t>(begin), length,
                      batch.get() + rows * length);
          if (++rows < batch_size) continue;
          queue.push(std::move(batch));
          rows = 0;
          ++made;
        }
        stream.erase(stream.begin(), stream.begin() + static_cast<std::ptrdiff_t>(begin));
      }
      queue.close();
    });
    std::unique_ptr<token[]> batch;
    while (queue.pop(batch) == fl::queue_status::success) benchmark::DoNotOptimize(looked_at(batch.get()));
    producer.join();
  }
  report(state);
}

BENCHMARK(through_windows)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(by_hand)->UseRealTime()->Unit(benchmark::kMillisecond);

} // namespace
