// SPDX-License-Identifier: MIT
// What does it cost to read the lines of a .zst file, and the samples of a .tar.zst shard? 50 MB of text, in the page cache,
// through `lines` with `unzstd_stream`, and a `map` that looks at each line in the same thread. The baseline is a loop that
// decompresses with libzstd, 64 KB at a time, and makes a string of each line. The same for a shard of 500 members of
// 100 KB through `tar_samples`; its baseline decompresses the header and then the contents of each member into new memory.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
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
#include <feedline/source/tar.hpp>
#include <feedline/stage/batch.hpp>
#include <feedline/stage/map.hpp>
#include <feedline/zstd/unzstd.hpp>

namespace fl = feedline;

namespace {

std::string compressed(const std::string& bytes) {
  std::string packed(::ZSTD_compressBound(bytes.size()), '\0');
  packed.resize(::ZSTD_compress(packed.data(), packed.size(), bytes.data(), bytes.size(), 3));
  return packed;
}

/// Lines of numbers, which zstd makes about half as large, and a shard of the same text; removed at the end.
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
    std::ofstream(name, std::ios::binary) << compressed(text);
    std::string tar;
    for (std::size_t i = 0; i < members; ++i) {
      std::string header(512, '\0');
      std::snprintf(header.data(), 100, "%zu.txt", i);
      std::snprintf(header.data() + 124, 12, "%011zo", member_bytes);
      header[156] = '0';
      header.replace(257, 8, "ustar\00000", 8);
      header.replace(148, 8, 8, ' ');
      unsigned sum = 0;
      for (const char c : header) sum += static_cast<unsigned char>(c);
      std::snprintf(header.data() + 148, 8, "%06o", sum);
      tar += header + text.substr(i * member_bytes, member_bytes);
    }
    std::ofstream(shard, std::ios::binary) << compressed(tar + std::string(1024, '\0'));
  }

  packed_file(const packed_file&) = delete;

  ~packed_file() {
    std::filesystem::remove(name);
    std::filesystem::remove(shard);
  }

  static constexpr std::size_t members = 480, member_bytes = 200 * 512;

  std::string name =
      (std::filesystem::temp_directory_path() / ("zstd_lines." + std::to_string(::getpid()) + ".zst"))
          .string();
  std::string shard = name + ".tar.zst";
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
  const std::string& name = file().name;
  std::size_t lines = 0;
  for (auto _ : state) {
    lines = 0;
    const fl::detail::mapped_file packed(name);
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

void report_shard(benchmark::State& state, std::size_t members) {
  if (members != packed_file::members) state.SkipWithError("members are missing");
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(members));
  state.SetBytesProcessed(state.iterations() *
                          static_cast<std::int64_t>(members * (512 + packed_file::member_bytes)));
}

void zstd_shard(benchmark::State& state) {
  const auto pipeline = fl::tar_samples(file().shard, {.decompress = {fl::unzstd_stream}}) |
                        fl::map([](const fl::tar_sample& sample) { return sample["txt"].size(); }) |
                        fl::batch(16);
  std::size_t members = 0;
  for (auto _ : state) {
    members = 0;
    for (const auto& batch : pipeline.finite()) members += batch.size();
  }
  report_shard(state, members);
}

void zstd_shard_by_hand(benchmark::State& state) {
  const std::string& name = file().shard;
  std::size_t members = 0;
  for (auto _ : state) {
    members = 0;
    const fl::detail::mapped_file packed(name);
    const std::unique_ptr<ZSTD_DCtx, decltype(&::ZSTD_freeDCtx)> zstd(::ZSTD_createDCtx(), ::ZSTD_freeDCtx);
    ZSTD_inBuffer in{packed.bytes().data(), packed.bytes().size(), 0};
    const auto read = [&](char* to, std::size_t count) {
      ZSTD_outBuffer out{to, count, 0};
      while (out.pos < out.size && !::ZSTD_isError(::ZSTD_decompressStream(zstd.get(), &out, &in))) continue;
    };
    for (std::vector<char> header(512);; ++members) {
      read(header.data(), header.size());
      const std::size_t size = std::strtoull(header.data() + 124, nullptr, 8);
      if (size == 0) break;
      const std::unique_ptr<char[]> contents(new char[size]);
      read(contents.get(), size); // a multiple of 512
      benchmark::DoNotOptimize(contents.get());
    }
  }
  report_shard(state, members);
}

BENCHMARK(zstd_lines)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(zstd_by_hand)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(zstd_shard)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(zstd_shard_by_hand)->UseRealTime()->Unit(benchmark::kMillisecond);

} // namespace
