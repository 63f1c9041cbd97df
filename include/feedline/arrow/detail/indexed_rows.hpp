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

#ifndef FEEDLINE_COMPILED
#include <feedline/arrow/detail/indexed_rows.ipp>
#endif
