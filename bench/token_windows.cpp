// SPDX-License-Identifier: MIT
// What does it cost to cut documents into windows of 1024 tokens and to stack those in batches of 8? Documents of 300
// tokens on average are copied into windows, which overlap by one token, with a separator after each document. The
// baseline is a thread that appends documents to a block, cuts the batches out of it and sends them through a queue. Both
// copy each token twice, and neither waits for a disk or a tokenizer. And a file of 16-bit tokens, as nanoGPT's scripts write
// them: how fast are windows of its tokens one after another, and random windows, with the inputs and the targets shifted
// by one in tensors of their own? There the baseline is a loop that copies with memcpy from the mapped file to a batch.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <sys/mman.h>
#include <unistd.h>

#include <benchmark/benchmark.h>

#include <feedline/core/pipeline.hpp>
#include <feedline/core/random.hpp>
#include <feedline/queue/spsc_queue.hpp>
#include <feedline/source/global_shuffle.hpp>
#include <feedline/source/records.hpp>
#include <feedline/stage/batch.hpp>
#include <feedline/stage/batch_into.hpp>
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

constexpr std::size_t context = 1024, rows = 64;

/// A mapped file of 200 million random tokens, more than the processor's caches hold.
class token_file {
 public:
  token_file() {
    char name[] = "/tmp/feedline_tokens_XXXXXX";
    const int file = ::mkstemp(name);
    path = name;
    std::vector<std::uint16_t> some(1'000'000);
    fl::random_generator random(1);
    for (std::uint16_t& t : some) t = static_cast<std::uint16_t>(random.below(50'257));
    for (int i = 0; i < 200 && file >= 0; ++i)
      if (::write(file, some.data(), some.size() * 2) != static_cast<::ssize_t>(some.size() * 2))
        std::abort();
    size = 200 * some.size();
    void* const memory = ::mmap(nullptr, size * 2, PROT_READ, MAP_SHARED | MAP_POPULATE, file, 0);
    if (memory == MAP_FAILED) std::abort();
    tokens = static_cast<const std::uint16_t*>(memory);
    ::close(file);
  }

  token_file(const token_file&) = delete;

  ~token_file() { ::unlink(path.c_str()); }

  std::string path;
  const std::uint16_t* tokens = nullptr;
  std::size_t size = 0;
};

const token_file& file() {
  static const token_file one;
  return one;
}

void report_of_file(benchmark::State& state) {
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(rows * context));
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(rows * context * 2));
}

/// Windows of the file, from each token on.
struct windows_of_file {
  std::uint64_t size() const { return file().size - context; }

  std::span<const std::uint16_t> at(std::uint64_t first) const {
    return {file().tokens + first, context + 1};
  }
};

struct example {
  std::array<std::uint16_t, context> x, y;
};

void fill_example(std::span<const std::uint16_t> window, fl::batch_slot<example>& slot) {
  std::copy_n(window.begin(), context, slot.get<&example::x>().begin());
  std::copy_n(window.begin() + 1, context, slot.get<&example::y>().begin());
}

template <class Pipeline>
void batches_of(benchmark::State& state, const Pipeline& pipeline) {
  auto loader = pipeline.infinite({.seed = 1});
  benchmark::DoNotOptimize(loader.next());
  for (auto _ : state) benchmark::DoNotOptimize(loader.next());
  report_of_file(state);
}

void tokens_one_by_one(benchmark::State& state) {
  batches_of(state, fl::records<std::uint16_t>(file().path) | fl::windows(context + 1, {.stride = context}) |
                        fl::batch(rows));
}

void blocks_of_tokens(benchmark::State& state) {
  batches_of(state, fl::records<std::array<std::uint16_t, 1000>>(file().path) |
                        fl::windows(context + 1, {.stride = context}) | fl::batch(rows));
}

void tokens_by_memcpy(benchmark::State& state) {
  std::vector<std::uint16_t> batch(rows * (context + 1));
  std::size_t first = 0;
  for (auto _ : state) {
    for (std::size_t row = 0; row < rows; ++row, first += context) {
      if (first + context >= file().size) first = 0;
      std::memcpy(batch.data() + row * (context + 1), file().tokens + first, (context + 1) * 2);
    }
    benchmark::DoNotOptimize(batch.data());
    benchmark::ClobberMemory();
  }
  report_of_file(state);
}

void random_windows(benchmark::State& state) {
  batches_of(state, windows_of_file() | fl::global_shuffle() | fl::batch_into<example>(rows, fill_example));
}

void random_windows_on_worker(benchmark::State& state) {
  batches_of(state, windows_of_file() | fl::global_shuffle() |
                        fl::batch_into<example>(rows, fill_example, fl::workers{1}));
}

void random_by_memcpy(benchmark::State& state) {
  std::vector<std::uint16_t> x(rows * context), y(rows * context);
  fl::random_generator random(1);
  for (auto _ : state) {
    for (std::size_t row = 0; row < rows; ++row) {
      const std::uint16_t* const first = file().tokens + random.below(file().size - context);
      std::memcpy(x.data() + row * context, first, context * 2);
      std::memcpy(y.data() + row * context, first + 1, context * 2);
    }
    benchmark::DoNotOptimize(x.data());
    benchmark::DoNotOptimize(y.data());
    benchmark::ClobberMemory();
  }
  report_of_file(state);
}

BENCHMARK(tokens_one_by_one)->UseRealTime()->MeasureProcessCPUTime();
BENCHMARK(blocks_of_tokens)->UseRealTime()->MeasureProcessCPUTime();
BENCHMARK(tokens_by_memcpy)->UseRealTime()->MeasureProcessCPUTime();
BENCHMARK(random_windows)->UseRealTime()->MeasureProcessCPUTime();
BENCHMARK(random_windows_on_worker)->UseRealTime()->MeasureProcessCPUTime();
BENCHMARK(random_by_memcpy)->UseRealTime()->MeasureProcessCPUTime();
BENCHMARK(through_windows)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(by_hand)->UseRealTime()->Unit(benchmark::kMillisecond);

} // namespace
