// SPDX-License-Identifier: MIT
#pragma once
// The source that arrow_rows returns.
#include <feedline/arrow/arrow_error.hpp>
#include <feedline/arrow/detail/indexed_rows.hpp>
#include <feedline/arrow/detail/layout.hpp>
#include <feedline/arrow/detail/loaded_batch.hpp>
#include <feedline/arrow/detail/mapped_table.hpp>
#include <feedline/arrow/detail/pipe.hpp>
#include <feedline/arrow/detail/piped_table.hpp>
#include <feedline/arrow/detail/wanted_columns.hpp>
#include <feedline/arrow/row.hpp>
#include <feedline/core/contract.hpp>
#include <feedline/detail/readable_text.hpp>
#include <feedline/source/detail/file_order.hpp>
#include <feedline/source/detail/read_ahead.hpp>
#include <feedline/source/file_patterns.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// Yields the rows of files, one file after another.
template <class Row>
class rows_source {
 public:
  static constexpr source_traits traits{.kind = "arrow_rows", .splits_files_by_rank = true};

  rows_source(const file_patterns& files, const std::vector<std::string>& columns, arrow_options options)
      : files_(files, traits.kind) {
    if (!std::same_as<Row, arrow_record> && columns.size() != column_count<Row>)
      throw std::invalid_argument("feedline::arrow_rows: the row has " + std::to_string(column_count<Row>) +
                                  " fields, but " + std::to_string(columns.size()) +
                                  " columns are named; name one column for each field");
    wanted_ = want_rows(columns_of_row<Row>(columns), std::move(options));
  }

  void start_epoch(const epoch& e) {
    files_.start(e);
    stop_ = e.stop;
    ahead_ = {};
    close();
  }

  std::optional<arrow_row<Row>> next() {
    try {
      for (;;) {
        if (!is_open()) {
          const auto number = files_.next();
          if (!number) return std::nullopt;
          open(*number);
        }
        if (batch_ && row_ < batch_->rows) {
          index_ = file_order::index_of(number_, batch_->first_row + row_);
          if (mapped_) ahead_.announce(files_, mapped_->mapped(), body_ + row_ * bytes_per_row_);
          return arrow_row<Row>(batch_, row_++);
        }
        if (!next_batch()) close();
      }
    } catch (const pipe_stopped&) {
      close();
      return std::nullopt;
    }
  }

  std::uint64_t index() const noexcept { return index_; }

  /// Before the first row of a pipe, and in it, whether rows have already arrived.
  bool ready() const {
    if (batch_ && row_ < batch_->rows) return true;
    if (piped_) return false;
    if (mapped_ && next_ < mapped_->layout().batches.size()) return true;
    const auto following = files_.peek();
    return !following || !is_pipe(files_.names()[*following]);
  }

  void state(auto& archive) {
    std::uint64_t row = is_open() ? place() : closed;
    files_.state(archive);
    archive(row);
    to_row_ = row;
  }

  void resumed() {
    if (to_row_ == closed) return;
    try {
      open(files_.last());
      go_to(to_row_);
    } catch (const pipe_stopped&) {
      close();
    }
  }

  void seek(std::uint64_t index) {
    const std::size_t number = file_order::file_of(index);
    if (number < files_.names().size() && is_pipe(files_.names()[number]))
      throw arrow_error(
          readable(files_.names()[number]) +
          ": the rows of a pipe can't be read a second time, but the resumed run needs those in its "
          "shuffle buffer");
    if (!mapped_ || number_ != number) {
      close();
      files_.go_to(number);
      first_ = file_order::place_of(index);
    } else {
      go_to(file_order::place_of(index));
    }
  }

  /// The order of files.
  const file_order& files() const noexcept { return files_; }

  std::uint64_t extent() const noexcept { return files_.extent(); }

  std::uint64_t fingerprint(std::uint64_t extent) const {
    std::uint64_t hash = files_.fingerprint(extent);
    for (const wanted_column& column : wanted_->columns) hash = key(hash, stable_hash(column.name));
    if (wanted_->options.concatenated) hash = key(hash, std::uint64_t{1});
    return hash;
  }

  /// Rows of mapped files are views, unless fields own their bytes. Each row of a compressed batch may be the only one
  /// that keeps the batch and the file's dictionaries in memory. Unknown for a pipe.
  std::optional<std::size_t> max_item_bytes() const {
    constexpr bool are_views =
        std::same_as<Row, arrow_record> || []<class... Field>(std::type_identity<std::tuple<Field...>>) {
          return (std::is_trivially_copyable_v<Field> && ...);
        }(std::type_identity<row_types<Row>>());
    const auto memory = memory_of_rows(files_, *wanted_);
    if (!memory) return std::nullopt;
    const std::size_t columns = wanted_->columns.empty() ? memory->columns : wanted_->columns.size();
    return sizeof(arrow_row<Row>) + static_cast<std::size_t>(memory->batch_and_dictionaries) +
           (std::same_as<Row, arrow_record> ? columns * sizeof(arrow_record::column) : 0) +
           (are_views ? 0 : wanted_->options.max_row_bytes);
  }

  /// What access by position keeps.
  std::size_t bytes_held_by_position() const {
    const auto memory = memory_of_rows(files_, *wanted_);
    return memory ? static_cast<std::size_t>(memory->by_position) : 0;
  }

  indexed_rows<Row> indexed(const std::stop_token& stop = {}) const {
    files_.expect_files();
    return {files_, wanted_, stop};
  }

  std::string origin(std::uint64_t index) const {
    return readable(files_.name_of(index)) + ": row " + std::to_string(file_order::place_of(index));
  }

 private:
  static constexpr std::uint64_t closed = ~std::uint64_t{0};

  bool is_open() const noexcept { return mapped_ || piped_; }

  void close() noexcept {
    mapped_.reset();
    piped_.reset();
    batch_.reset();
    next_ = 0;
    row_ = 0;
  }

  // Errors are thrown at the position of the file's first row.
  void open(std::size_t number) {
    close();
    number_ = number;
    index_ = file_order::index_of(number, 0);
    const std::uint64_t first = std::exchange(first_, 0);
    const std::string& name = files_.names()[number];
    if (is_pipe(name)) {
      piped_ = std::make_shared<piped_table>(name, number, wanted_, stop_);
    } else {
      auto file = ahead_.take(number);
      if (!file) file = map_arrow(name);
      const known_layout known = read_layout(*file, *wanted_);
      mapped_ = std::make_shared<mapped_table>(std::move(file), number, known, *wanted_);
      if (first > 0) go_to(first);
    }
  }

  /// The next row, or one past the last row if an error follows.
  std::uint64_t place() const noexcept { return batch_ ? batch_->first_row + row_ : rows_before_; }

  /// Returns false at the end of the file. Throws arrow_error for an error after the last batch.
  bool next_batch() {
    if (batch_) rows_before_ = batch_->first_row + batch_->rows;
    else rows_before_ = 0;
    index_ = file_order::index_of(number_, rows_before_);
    batch_.reset();
    row_ = 0;
    if (mapped_) {
      const arrow_layout& layout = mapped_->layout();
      if (next_ < layout.batches.size()) {
        load(next_++);
        return true;
      }
      const auto table = std::exchange(mapped_, nullptr);
      if (!layout.problem.empty()) throw table->problem();
      return false;
    }
    const auto table = std::exchange(piped_, nullptr); // an error ends the file
    batch_ = table->next();
    if (batch_) piped_ = table;
    return batch_ != nullptr;
  }

  void load(std::size_t number) {
    const batch_place& place = mapped_->layout().batches[number];
    batch_ = mapped_->batch(number);
    body_ = place.body;
    bytes_per_row_ = place.rows == 0 ? 0 : place.body_size / place.rows;
  }

  void go_to(std::uint64_t row) {
    if (mapped_) {
      const arrow_layout& layout = mapped_->layout();
      next_ = layout.batch_of(row);
      row_ = 0;
      batch_.reset();
      if (next_ == layout.batches.size()) {
        if (next_ > 0) load(next_ - 1), row_ = batch_->rows;
        return;
      }
      row_ = row - layout.first_of(next_);
      load(next_++);
      return;
    }
    while (piped_ && place() < row) {
      if (batch_ && row < batch_->first_row + batch_->rows) {
        row_ = row - batch_->first_row;
        return;
      }
      if (!next_batch()) close();
    }
  }

  file_order files_;
  std::shared_ptr<const wanted_rows> wanted_;
  std::stop_token stop_;
  read_ahead ahead_;
  std::shared_ptr<mapped_table> mapped_; // the current file, or …
  std::shared_ptr<piped_table> piped_;
  std::shared_ptr<const loaded_batch> batch_; // the current batch
  std::size_t number_ = 0;                    // position of the file in the list
  std::size_t next_ = 0;                      // next batch
  std::uint64_t row_ = 0;                     // next row in the batch
  std::uint64_t rows_before_ = 0;             // rows before the next batch, if there is no current one
  std::uint64_t first_ = 0;                   // first row to read of the next file
  std::uint64_t index_ = 0;
  std::uint64_t to_row_ = closed; // of the file that was open, for resumed()
  std::uint64_t body_ = 0;        // offset of the batch's body
  std::uint64_t bytes_per_row_ = 0;
};

} // namespace feedline::inline FEEDLINE_ABI::detail
