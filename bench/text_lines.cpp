// SPDX-License-Identifier: MIT
// What do lines of text cost in a random order over all files, in the page cache? 2 million lines of 100 bytes on average
// are read through `indexed_lines` and `global_shuffle`, whose index has the offset of one line in each 1 to 2 KB. The baseline is a
// loop that knows the offset of every line, which takes 8 bytes of memory for each, and reads each with pread into a
// string. How long does it take to find the lines first, compared with a loop that only counts line feeds? And how much
// memory does the index take, relative to the text?
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include <benchmark/benchmark.h>

#include <feedline/core/permutation.hpp>
#include <feedline/core/random.hpp>
#include <feedline/detail/mapped_file.hpp>
#include <feedline/source/global_shuffle.hpp>
#include <feedline/source/indexed_lines.hpp>
#include <feedline/stage/batch.hpp>
#include <feedline/stage/map.hpp>

namespace fl = feedline;

namespace {

constexpr int batch_size = 1024;

/// A text of words, which is removed at the end.
struct text_file {
  text_file() {
    fl::random_generator random(1);
    std::string text;
    for (std::size_t i = 0; i < lines; ++i) {
      for (std::uint64_t words = 2 + random.below(36); words > 0; --words)
        text += std::to_string(random.below(100'000)) + " ";
      text.back() = '\n';
    }
    bytes = text.size();
    std::ofstream(name, std::ios::binary) << text;
  }

  text_file(const text_file&) = delete;

  ~text_file() { std::filesystem::remove(name); }

  static constexpr std::size_t lines = 2'000'000;
  std::string name =
      (std::filesystem::temp_directory_path() / ("text_lines." + std::to_string(::getpid()))).string();
  std::size_t bytes = 0;
};

const text_file& text() {
  static const text_file file;
  return file;
}

std::vector<std::uint64_t> line_begins(const fl::detail::mapped_file& file) {
  const char* const begin = reinterpret_cast<const char*>(file.bytes().data());
  std::vector<std::uint64_t> begins{0};
  while (begins.back() < file.bytes().size()) {
    const void* const end = std::memchr(begin + begins.back(), '\n', file.bytes().size() - begins.back());
    begins.push_back(static_cast<std::uint64_t>(static_cast<const char*>(end) - begin) + 1);
  }
  return begins;
}

void shuffled_lines(benchmark::State& state) {
  const auto pipeline = fl::indexed_lines(text().name) | fl::global_shuffle() |
                        fl::map([](const std::string& line) { return line.size(); }) | fl::batch(batch_size);
  auto loader = pipeline.infinite({.seed = 1});
  benchmark::DoNotOptimize(loader.next()); // it has found the lines
  for (auto _ : state) benchmark::DoNotOptimize(loader.next());
  state.SetItemsProcessed(state.iterations() * batch_size);
}

void shuffled_pread(benchmark::State& state) {
  const std::vector<std::uint64_t> begins = line_begins(fl::detail::mapped_file(text().name));
  const int file = ::open(text().name.c_str(), O_RDONLY);
  const fl::permutation order(text_file::lines, 1);
  std::uint64_t i = 0;
  for (auto _ : state)
    for (int left = batch_size; left > 0; --left) {
      const std::uint64_t line = order[i++ % text_file::lines];
      std::string found(begins[line + 1] - begins[line], '\0');
      if (::pread(file, found.data(), found.size(), static_cast<::off_t>(begins[line])) < 1)
        state.SkipWithError("pread");
      found.pop_back();
      benchmark::DoNotOptimize(found.data());
    }
  ::close(file);
  state.SetItemsProcessed(state.iterations() * batch_size);
}

void find_lines(benchmark::State& state) {
  std::size_t held = 0;
  for (auto _ : state) held = fl::detail::scan_lines(text().name, {}).begins.capacity();
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(text_file::lines));
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(text().bytes));
  state.counters["memory_ratio"] = static_cast<double>(8 * held) / static_cast<double>(text().bytes);
}

void count_lines(benchmark::State& state) {
  for (auto _ : state) {
    const fl::detail::mapped_file file(text().name);
    const char* at = reinterpret_cast<const char*>(file.bytes().data());
    const char* const end = at + file.bytes().size();
    std::size_t lines = 0;
    for (; at < end; ++lines)
      at = static_cast<const char*>(std::memchr(at, '\n', static_cast<std::size_t>(end - at))) + 1;
    benchmark::DoNotOptimize(lines);
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(text_file::lines));
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(text().bytes));
}

BENCHMARK(shuffled_lines)->UseRealTime();
BENCHMARK(shuffled_pread)->UseRealTime();
BENCHMARK(find_lines)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(count_lines)->UseRealTime()->Unit(benchmark::kMillisecond);

} // namespace
