// SPDX-License-Identifier: MIT
// What does it cost to read the lines of a .zst file? 50 MB of text, in the page cache, through `lines` with
// `unzstd_stream`, and a `map` that looks at each line in the same thread. The baseline is a loop that decompresses with
// libzstd, 64 KB at a time, and makes a string of each line.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <unistd.h>

#include <benchmark/benchmark.h>
#include <zstd.h>

#include <feedline/core/random.hpp>
#include <feedline/detail/mapped_file.hpp>
#include <feedline/source/lines.hpp>
#include <feedline/stage/batch.hpp>
#include <feedline/stage/map.hpp>
#include <feedline/zstd/unzstd.hpp>

namespace fl = feedline;

namespace {

/// Lines of numbers, which zstd makes about half as large; removed at the end.
struct packed_file {
  packed_file() {
    fl::random_generator random(1);
    std::string text;
    while (text.size() < 50'000'000) {
      for (std::uint64_t words = 2 + random.below(36); words > 0; --words)
        text += std::to_string(random.below(100'000)) + " ";
      text.back() = '\n';
      ++lines;
    }
    bytes = text.size();
    std::string packed(::ZSTD_compressBound(bytes), '\0');
    packed.resize(::ZSTD_compress(packed.data(), packed.size(), text.data(), bytes, 3));
    std::ofstream(name, std::ios::binary) << packed;
  }

  packed_file(const packed_file&) = delete;

  ~packed_file() { std::filesystem::remove(name); }

  std::string name =
      (std::filesystem::temp_directory_path() / ("zstd_lines." + std::to_string(::getpid()) + ".zst"))
          .string();
  std::size_t bytes = 0;
  std::size_t lines = 0;
};

const packed_file& file() {
  static const packed_file packed;
  return packed;
}

void report(benchmark::State& state, std::size_t lines) {
  if (lines != file().lines) state.SkipWithError("lines are missing");
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(file().lines));
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(file().bytes));
}

void zstd_lines(benchmark::State& state) {
  const auto pipeline = fl::lines(file().name, {.decompress = {fl::unzstd_stream}}) |
                        fl::map([](const std::string& line) { return line.size(); }) | fl::batch(1024);
  std::size_t lines = 0;
  for (auto _ : state) {
    lines = 0;
    for (const auto& batch : pipeline.finite()) lines += batch.size();
  }
  report(state, lines);
}

void zstd_by_hand(benchmark::State& state) {
  std::size_t lines = 0;
  for (auto _ : state) {
    lines = 0;
    const fl::detail::mapped_file packed(file().name);
    const std::unique_ptr<ZSTD_DCtx, decltype(&::ZSTD_freeDCtx)> zstd(::ZSTD_createDCtx(), ::ZSTD_freeDCtx);
    std::vector<char> block(1 << 16);
    std::string rest;
    ZSTD_inBuffer in{packed.bytes().data(), packed.bytes().size(), 0};
    for (std::size_t left = 1; left > 0;) {
      ZSTD_outBuffer out{block.data(), block.size(), 0};
      left = ::ZSTD_decompressStream(zstd.get(), &out, &in);
      const char* begin = block.data();
      const char* const end = begin + out.pos;
      while (const void* const found = std::memchr(begin, '\n', static_cast<std::size_t>(end - begin))) {
        const char* const line_end = static_cast<const char*>(found);
        std::string line = std::move(rest);
        rest.clear();
        line.append(begin, line_end);
        benchmark::DoNotOptimize(line.data());
        ++lines;
        begin = line_end + 1;
      }
      rest.append(begin, end);
    }
  }
  report(state, lines);
}

BENCHMARK(zstd_lines)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(zstd_by_hand)->UseRealTime()->Unit(benchmark::kMillisecond);

} // namespace
