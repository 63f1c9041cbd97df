// SPDX-License-Identifier: MIT
#pragma once
// Reads the rows of Arrow files by their position over all files.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include <feedline/arrow/arrow_error.hpp>
#include <feedline/arrow/detail/layout.hpp>
#include <feedline/arrow/detail/mapped_table.hpp>
#include <feedline/arrow/detail/pipe.hpp>
#include <feedline/arrow/detail/wanted_columns.hpp>
#include <feedline/arrow/row.hpp>
#include <feedline/detail/mapped_file.hpp>
#include <feedline/detail/readable_text.hpp>
#include <feedline/detail/run_on_threads.hpp>
#include <feedline/source/detail/file_order.hpp>
#include <feedline/source/detail/index_file.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// The memory that rows need in addition to the mapped files. Files that aren't compressed, or can't be read, need none.
/// Unknown for pipes. Reads the message headers of all files, once for all copies of a source.
std::optional<memory_of_batches> memory_of_rows(const file_order& files, const wanted_rows& wanted);

template <class Row>
class indexed_rows : public places_in_files {
 public:
  /// Reads the message headers of all files. Throws std::runtime_error after a stop.
  indexed_rows(const file_order& files, std::shared_ptr<const wanted_rows> wanted,
               const std::stop_token& stop)
      : shared_(std::make_shared<shared>(files.names(), std::move(wanted))) {
    // They mostly wait for the disk.
    run_each_on_threads(files.names().size(), 16, [&](std::size_t i) {
      throw_if_stopped(stop);
      shared_->files[i] = look_at(files.names()[i]);
    });
    for (const known_file& known : shared_->files)
      add_file(known.problem.empty() ? known.layout.layout->places() : 1);
  }

  /// Throws arrow_error, as the source does at that position.
  arrow_row<Row> at(std::uint64_t place) const {
    const std::size_t number = file_of(place);
    const known_file& known = shared_->files[number];
    if (!known.problem.empty()) throw arrow_error(known.problem);
    const auto table = shared_->table(number);
    const std::uint64_t row = place - first_of(number);
    const arrow_layout& layout = table->layout();
    if (row >= layout.rows()) throw table->problem();
    const std::size_t batch = layout.batch_of(row);
    return arrow_row<Row>(table->batch(batch), row - layout.first_of(batch));
  }

  /// Announces rows that are large, or of a compressed batch: reading others costs less than the request.
  void will_need(std::uint64_t place) const noexcept {
    const std::size_t number = file_of(place);
    const known_file& known = shared_->files[number];
    const std::uint64_t row = place - first_of(number);
    if (known.problem.empty() && known.layout.layout->is_worth_announcing(row)) {
      try {
        shared_->table(number)->will_need(row);
      } catch (...) { // at() throws it
      }
    }
  }

 private:
  struct known_file {
    known_layout layout;
    std::string problem; // why its rows can't be read
  };

  known_file look_at(const std::string& name) const {
    try {
      if (is_pipe(name))
        throw arrow_error(
            readable(name) +
            ": the rows of a pipe can only be read in order, not by position; copy it to a file first");
      const auto file = map_arrow(name, sharing::alone); // other mappings of the file may not expect jumps
      file->expect_jumps();
      known_file known{read_layout(*file, *shared_->wanted), {}};
      mapped_table(file, 0, known.layout, *shared_->wanted); // throws if the columns don't match
      return known;
    } catch (const arrow_error& error) {
      return {{}, error.what()};
    }
  }

  /// What all copies share.
  struct shared {
    static constexpr std::size_t max_open = 1024; // open files; a process can have about 65,530 mappings

    shared(std::vector<std::string> n, std::shared_ptr<const wanted_rows> w)
        : names(std::move(n)), wanted(std::move(w)), files(names.size()), tables(names.size()) {}

    std::shared_ptr<mapped_table> table(std::size_t number) {
      {
        const std::lock_guard lock(mutex);
        if (tables[number]) return tables[number];
      }
      auto table = std::make_shared<mapped_table>(map_arrow(names[number]), number, files[number].layout,
                                                  *wanted, recent);
      std::shared_ptr<mapped_table> oldest; // destroyed without the lock
      const std::lock_guard lock(mutex);
      if (tables[number]) return tables[number];
      if (open.size() == max_open) {
        oldest = std::move(tables[open.front()]);
        open.pop_front();
      }
      open.push_back(number);
      return tables[number] = std::move(table);
    }

    std::vector<std::string> names;
    std::shared_ptr<const wanted_rows> wanted;
    std::vector<known_file> files;
    std::shared_ptr<recent_batches> recent =
        std::make_shared<recent_batches>(wanted->options.max_batch_bytes);
    std::mutex mutex; // for the members below
    std::vector<std::shared_ptr<mapped_table>> tables;
    std::deque<std::size_t> open; // oldest first
  };

  std::shared_ptr<shared> shared_;
};

} // namespace feedline::inline FEEDLINE_ABI::detail

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_ARROW)
#include <span>
#include <stdexcept>

#include <feedline/arrow/detail/flat_table.hpp>
#include <feedline/arrow/detail/format_tables.hpp>
#include <feedline/arrow/detail/message.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// The decompressed size of a batch, as its buffers announce it.
FEEDLINE_INLINE std::uint64_t bytes_in_memory(const batch_place& place, std::span<const std::byte> file) {
  std::uint64_t sum = 0;
  if (!place.is_compressed) return sum;
  const message m(
      file.subspan(static_cast<std::size_t>(place.metadata), static_cast<std::size_t>(place.metadata_size)));
  for (auto list = m.batch().buffers(); !list.empty(); list = list.subspan(batch_table::buffer_size)) {
    const auto at = load<std::int64_t>(list.data()), size = load<std::int64_t>(list.data() + 8);
    if (at < 0 || size < 8 || static_cast<std::uint64_t>(at) > place.body_size ||
        static_cast<std::uint64_t>(size) > place.body_size - static_cast<std::uint64_t>(at))
      continue;
    const auto whole = load<std::int64_t>(file.data() + place.body + static_cast<std::uint64_t>(at));
    constexpr std::int64_t most = std::int64_t{1} << 48; // so that sums don't overflow
    sum += static_cast<std::uint64_t>(std::clamp<std::int64_t>(whole, 0, most));
  }
  return sum;
}

FEEDLINE_INLINE std::optional<memory_of_batches> memory_of_rows(const file_order& files,
                                                                const wanted_rows& wanted) {
  const std::uint64_t most = wanted.options.max_batch_bytes;
  const std::lock_guard lock(wanted.mutex);
  if (wanted.memory) return *wanted.memory;
  std::optional<memory_of_batches>& all = wanted.memory.emplace(memory_of_batches());
  std::uint64_t largest = 0;
  for (const std::string& name : files.names()) {
    if (is_pipe(name)) return all = std::nullopt;
    std::uint64_t batch = 0, dictionaries = 0;
    try {
      const mapped_file file(name, sharing::alone);
      file.expect_jumps();
      const arrow_layout layout = layout_reader::read(file.bytes(), wanted.options.concatenated);
      all->columns = std::max(all->columns, layout.schema.columns.size());
      for (const batch_place& place : layout.batches)
        batch = std::max(batch, std::min(most, bytes_in_memory(place, file.bytes())));
      for (const dictionary_place& part : layout.dictionaries)
        dictionaries = std::min(most, dictionaries + bytes_in_memory(part.values, file.bytes()));
    } catch (const std::runtime_error&) { // next() throws it at the file's position
    }
    largest = std::max(largest, batch);
    all->batch_and_dictionaries = std::max(all->batch_and_dictionaries, batch + dictionaries);
    all->by_position += dictionaries;
  }
  all->by_position += std::max(largest, std::min(most, largest * recent_batches::capacity));
  return all;
}

} // namespace feedline::inline FEEDLINE_ABI::detail
#endif
