// SPDX-License-Identifier: MIT
// How fast are the rows of a cached Arrow file, compared with a walk over the file's own bytes?
//
// Each row has a clip, a label and a name that may be missing. Rows are views: giving one costs the same however long
// it is, so bytes per second are only honest if the bytes are read. Both sides read one byte of each cache line of
// every clip; the hand-written loop gets the places of the clips. Where each pass maps the file again, as the first
// pass of a program does, most of the time goes into page faults. The two take turns and are compared by processor
// time, so that other programs don't count.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <time.h>

#include <benchmark/benchmark.h>

#include <feedline/arrow.hpp>
#include <feedline/feedline.hpp>

#include "../tests/support/arrow_writer.hpp"
#include "../tests/support/temporary_folder.hpp"

namespace fl = feedline;
using namespace feedline::test;

namespace {

constexpr std::size_t file_size = std::size_t{512} << 20;

struct clip {
  std::span<const std::byte> audio;
  std::int64_t label;
  std::optional<std::string_view> name;
};

/// A stream of clips of one size, 1000 per record batch, in the page cache.
class table {
 public:
  explicit table(std::size_t bytes) {
    arrow_writer writer({binary_part("audio"), int64_part("label"), text_part("name")});
    const std::size_t rows = 1000;
    std::vector<std::optional<std::string>> clips, names;
    std::vector<std::optional<std::int64_t>> labels;
    for (std::size_t i = 0; i < rows; ++i) {
      clips.emplace_back(std::string(bytes, static_cast<char>('a' + i % 26)));
      names.push_back(i % 10 == 0 ? std::nullopt : std::optional("clip " + std::to_string(i)));
      labels.emplace_back(static_cast<std::int64_t>(i));
    }
    const std::vector<arrow_data> columns{text_data(clips), number_data(labels), text_data(names)};
    for (std::size_t written = 0; written < file_size; written += rows * bytes) writer.batch(columns);
    path_ = folder_.write("clips.arrows", writer.stream());
  }

  const std::string& path() const { return path_; }

 private:
  temporary_folder folder_;
  std::string path_;
};

const table& table_of(std::size_t bytes) {
  static std::size_t size = 0;
  static std::unique_ptr<table> kept;
  if (size != bytes) {
    kept.reset();
    kept = std::make_unique<table>(size = bytes);
  }
  return *kept;
}

std::uint64_t touch(std::span<const std::byte> bytes) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < bytes.size(); i += 64) sum += std::to_integer<unsigned>(bytes[i]);
  return sum;
}

template <class Look>
std::size_t through_source(const std::string& path, Look look) {
  auto source = fl::arrow_rows<clip>({path}, {"audio", "label", "name"}).source();
  source.start_epoch({});
  std::size_t bytes = 0;
  while (const auto row = source.next()) {
    const clip& c = **&*row;
    look(c);
    bytes += c.audio.size();
  }
  return bytes;
}

/// The position of a clip in the file.
struct place {
  std::size_t offset, size;
};

std::size_t by_hand(const fl::detail::mapped_file& file, const std::vector<place>& clips) {
  std::size_t bytes = 0;
  for (const auto& [offset, size] : clips) {
    benchmark::DoNotOptimize(touch(file.bytes().subspan(offset, size)));
    bytes += size;
  }
  return bytes;
}

/// The processor time of this thread.
double processor_seconds() {
  ::timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

void touched(benchmark::State& state) {
  const std::string& path = table_of(static_cast<std::size_t>(state.range(0))).path();
  std::optional<fl::detail::mapped_file> file(path);
  std::vector<place> clips;
  through_source(path, [&](const clip& c) {
    clips.push_back({static_cast<std::size_t>(c.audio.data() - file->bytes().data()), c.audio.size()});
  });
  by_hand(*file, clips);
  const bool fresh = state.range(1) != 0;
  if (fresh) file.reset();
  double hand = 0, source = 0;
  std::size_t bytes = 0;
  for (auto _ : state) {
    const double first = processor_seconds();
    if (fresh) by_hand(fl::detail::mapped_file(path, fl::detail::sharing::alone), clips);
    else by_hand(*file, clips);
    const double second = processor_seconds();
    bytes += through_source(path, [](const clip& c) { benchmark::DoNotOptimize(touch(c.audio)); });
    const double third = processor_seconds();
    hand += second - first;
    source += third - second;
    state.SetIterationTime(third - second);
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(bytes));
  state.counters["by_hand_GB/s"] = static_cast<double>(bytes) / hand / 1e9;
  state.counters["source_GB/s"] = static_cast<double>(bytes) / source / 1e9;
  state.counters["time_ratio"] = source / hand;
}

void views(benchmark::State& state) {
  const std::string& path = table_of(static_cast<std::size_t>(state.range(0))).path();
  std::size_t rows = 0, bytes = 0;
  for (auto _ : state)
    bytes += through_source(path, [&](const clip& c) {
      benchmark::DoNotOptimize(c);
      ++rows;
    });
  state.SetItemsProcessed(static_cast<std::int64_t>(rows));
  state.counters["GB/s_not_looked_at"] =
      benchmark::Counter(static_cast<double>(bytes) / 1e9, benchmark::Counter::kIsRate);
}

/// The same in a run: the source has a separate thread and sends packets of rows through a queue.
void in_a_run(benchmark::State& state) {
  const std::string& path = table_of(static_cast<std::size_t>(state.range(0))).path();
  const auto p =
      fl::arrow_rows<clip>({path}, {"audio", "label", "name"}) |
      fl::map([](const fl::arrow_row<clip>& row) { return std::pair(touch(row->audio), row->audio.size()); },
              fl::workers{static_cast<std::size_t>(state.range(1))}) |
      fl::prefetch(64);
  std::size_t bytes = 0;
  for (auto _ : state)
    for (const auto& [sum, size] : p.finite()) bytes += size;
  state.SetBytesProcessed(static_cast<std::int64_t>(bytes));
}

BENCHMARK(touched)
    ->ArgNames({"bytes", "fresh"})
    ->ArgsProduct({{1 << 10, 16 << 10, 320 << 10}, {0, 1}})
    ->UseManualTime();
BENCHMARK(views)->ArgName("bytes")->Arg(1 << 10)->Arg(16 << 10)->UseRealTime();
BENCHMARK(in_a_run)->ArgNames({"bytes", "workers"})->Args({16 << 10, 1})->Args({16 << 10, 2})->UseRealTime();

} // namespace
