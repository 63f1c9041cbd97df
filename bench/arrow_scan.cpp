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
#include <stdexcept>
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

/// Not inlined, as is sum_of() below, so that both sides run the same machine code.
[[gnu::noinline]] std::uint64_t touch(std::span<const std::byte> bytes) {
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

// Columns of further types, of which both sides look at every byte of each value or each line of it: the source by rows,
// the hand-written loop by the buffers of the mapped file. It checks each view and each index, as the source does.

constexpr std::size_t rows_of_batch = 10'000;

struct buffer_place {
  std::size_t offset, size;
};

using buffers = std::vector<std::span<const std::byte>>;

/// A file with a column x, and the places of its batches' buffers.
class column_file {
 public:
  column_file(const arrow_part& part, const arrow_data& data, int batches,
              const arrow_data* dictionary = nullptr) {
    arrow_writer writer({part});
    if (dictionary) writer.dictionary(1, *dictionary);
    for (int i = 0; i < batches; ++i) writer.batch(std::vector{data});
    path_ = folder_.write("x.arrows", writer.stream());
    const fl::detail::mapped_file file(path_);
    const auto layout = fl::detail::layout_reader::read(file.bytes());
    for (const auto& of_dictionary : layout.dictionaries)
      places_.push_back(places(file, of_dictionary.values));
    for (const auto& place : layout.batches) places_.push_back(places(file, place));
  }

  const std::string& path() const { return path_; }

  /// The buffers of the dictionary, if there is one, and of the batches.
  std::vector<buffers> batches(const fl::detail::mapped_file& file) const {
    std::vector<buffers> all;
    for (const auto& places : places_) {
      all.emplace_back();
      for (const auto& [offset, size] : places) all.back().push_back(file.bytes().subspan(offset, size));
    }
    return all;
  }

 private:
  static std::vector<buffer_place> places(const fl::detail::mapped_file& file,
                                          const fl::detail::batch_place& place) {
    const fl::detail::message message(file.bytes().subspan(place.metadata, place.metadata_size));
    std::vector<buffer_place> all;
    for (auto list = message.batch().buffers(); !list.empty(); list = list.subspan(16))
      all.push_back({place.body + fl::detail::load<std::uint64_t>(list.data()),
                     fl::detail::load<std::uint64_t>(list.data() + 8)});
    return all;
  }

  temporary_folder folder_;
  std::string path_;
  std::vector<std::vector<buffer_place>> places_;
};

/// Compares look(value), summed over the column's rows, with by_hand(batches). Both map the file for each pass.
template <class T, class Look, class Hand>
void column(benchmark::State& state, const column_file& file, std::size_t batches, Look look, Hand by_hand) {
  double hand = 0, through = 0;
  for (auto _ : state) {
    const double first = processor_seconds();
    std::uint64_t expected = 0;
    {
      const fl::detail::mapped_file mapped(file.path(), fl::detail::sharing::alone);
      expected = by_hand(file.batches(mapped));
    }
    const double second = processor_seconds();
    std::uint64_t sum = 0;
    {
      auto source = fl::arrow_rows<T>({file.path()}, {"x"}).source();
      source.start_epoch({});
      while (const auto row = source.next()) sum += look(**row);
    }
    const double third = processor_seconds();
    if (sum != expected) return state.SkipWithError("the sums differ");
    hand += second - first;
    through += third - second;
    state.SetIterationTime(third - second);
  }
  const auto rows = static_cast<double>(state.iterations()) * static_cast<double>(batches * rows_of_batch);
  state.SetItemsProcessed(static_cast<std::int64_t>(rows));
  state.counters["by_hand_M/s"] = rows / hand / 1e6;
  state.counters["time_ratio"] = through / hand;
}

void column_of_views(benchmark::State& state) {
  std::vector<std::optional<std::string>> texts;
  for (std::size_t i = 0; i < rows_of_batch; ++i) texts.emplace_back(std::string(i % 4 == 0 ? 10 : 500, 'a'));
  const column_file file({"x", type_kind::utf8_view}, view_data(texts), 20);
  column<std::string_view>(
      state, file, 20, [](std::string_view text) { return touch(std::as_bytes(std::span(text))); },
      [](const std::vector<buffers>& batches) {
        std::uint64_t sum = 0;
        for (const buffers& batch : batches)
          for (std::size_t row = 0; row < rows_of_batch; ++row) {
            const std::byte* const view = batch[1].data() + 16 * row;
            const auto size = fl::detail::load<std::uint32_t>(view);
            const auto number = fl::detail::load<std::uint32_t>(view + 8);
            const auto offset = fl::detail::load<std::uint32_t>(view + 12);
            if (size > 12 && (number + 2 >= batch.size() || offset > batch[2 + number].size() ||
                              size > batch[2 + number].size() - offset))
              throw std::out_of_range("view");
            sum += touch({size <= 12 ? view + 4 : batch[2 + number].data() + offset, size});
          }
        return sum;
      });
}

[[gnu::noinline]] std::uint64_t sum_of(std::span<const std::int32_t> numbers) {
  std::uint64_t sum = 0;
  for (const std::int32_t n : numbers) sum += static_cast<std::uint32_t>(n);
  return sum;
}

constexpr std::size_t list_size = 768; // an embedding

void column_of_lists(benchmark::State& state) {
  std::vector<std::optional<std::int32_t>> numbers(rows_of_batch * list_size, 7);
  const column_file file({"x", type_kind::fixed_size_list, list_size, true, {{"e", type_kind::integer, 32}}},
                         fixed_list_data(std::vector<bool>(rows_of_batch, true), number_data(numbers)), 10);
  column<std::span<const std::int32_t>>(state, file, 10, sum_of, [](const std::vector<buffers>& batches) {
    std::uint64_t sum = 0;
    for (const buffers& batch : batches) {
      const auto* const all = reinterpret_cast<const std::int32_t*>(batch[2].data());
      for (std::size_t row = 0; row < rows_of_batch; ++row) sum += sum_of({all + row * list_size, list_size});
    }
    return sum;
  });
}

void column_of_indices(benchmark::State& state) {
  std::vector<std::optional<std::int64_t>> values;
  std::vector<std::optional<std::int32_t>> indices;
  for (int i = 0; i < 1000; ++i) values.emplace_back(3 * i);
  for (std::size_t i = 0; i < rows_of_batch; ++i)
    indices.emplace_back(static_cast<std::int32_t>(i * 7 % 1000));
  arrow_part part = int64_part("x");
  part.dictionary = 1;
  const arrow_data dictionary = number_data(values);
  const column_file file(part, number_data(indices), 100, &dictionary);
  column<std::int64_t>(
      state, file, 100, [](std::int64_t value) { return static_cast<std::uint64_t>(value); },
      [](const std::vector<buffers>& batches) {
        std::uint64_t sum = 0;
        const std::span<const std::byte> numbers = batches[0][1];
        for (std::size_t batch = 1; batch < batches.size(); ++batch)
          for (std::size_t row = 0; row < rows_of_batch; ++row) {
            const auto index = fl::detail::load<std::uint32_t>(batches[batch][1].data() + 4 * row);
            if (index >= numbers.size() / 8) throw std::out_of_range("index");
            sum += fl::detail::load<std::uint64_t>(numbers.data() + std::size_t{8} * index);
          }
        return sum;
      });
}

BENCHMARK(column_of_views)->UseManualTime();
BENCHMARK(column_of_lists)->UseManualTime();
BENCHMARK(column_of_indices)->UseManualTime();
BENCHMARK(touched)
    ->ArgNames({"bytes", "fresh"})
    ->ArgsProduct({{1 << 10, 16 << 10, 320 << 10}, {0, 1}})
    ->UseManualTime();
BENCHMARK(views)->ArgName("bytes")->Arg(1 << 10)->Arg(16 << 10)->UseRealTime();
BENCHMARK(in_a_run)->ArgNames({"bytes", "workers"})->Args({16 << 10, 1})->Args({16 << 10, 2})->UseRealTime();

} // namespace
