// SPDX-License-Identifier: MIT
#pragma once
// The rows of unfinished batches, whatever their fields are: workers write them, and this puts them into order.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include <feedline/core/item_bytes.hpp>
#include <feedline/core/tensor.hpp>
#include <feedline/detail/block_cache.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// A field of a row. Its type determines the shape, or else the user.
struct row_field {
  std::size_t element; // bytes
  bool is_optional;    // a number, for which another column says whether it exists
  std::optional<shape> of_row;
};

/// The shapes of all fields, `given` those that their types don't determine. Throws std::invalid_argument if there are too few
/// or too many.
std::vector<shape> shapes_of_row(std::span<const row_field> fields, std::span<const shape> given);

/// The bytes of the tensors that hold `rows` rows with these shapes.
known_bytes bytes_of_rows(std::span<const row_field> fields, const std::vector<shape>& shapes,
                          std::size_t rows);

/// The rows of one batch, or of a part of one.
class row_block {
 public:
  /// `counter`, unless null, counts the rows of all blocks that have memory for rows.
  explicit row_block(std::shared_ptr<std::atomic<std::size_t>> counter) : counter_(std::move(counter)) {}

  row_block(const row_block&) = delete;
  row_block& operator=(const row_block&) = delete;
  FEEDLINE_INLINE virtual ~row_block();

  /// Begins a batch, and forgets the one before.
  void begin(std::uint64_t number_in_run, std::size_t rows, const std::vector<shape>& shapes,
             block_cache& memory);

  /// Moves its rows to a std::tuple of columns, unless it is null, and no longer has any.
  void give_up(void* columns) noexcept;

  /// Empties the optional numbers of a row that isn't filled yet.
  void clear(std::size_t row) noexcept;

  /// Fills the numbers of a row with a pattern, by which first_unwritten() finds out whether they were written. Fields of
  /// less than four bytes are left out, as a real value could equal the pattern.
  void mark_unwritten(std::size_t row) noexcept;

  /// The number of the first field whose bytes are all unwritten; nothing if there is none.
  std::optional<std::size_t> first_unwritten(std::size_t row) const noexcept;

  void copy(std::size_t row, const row_block& from, std::size_t from_row) noexcept;

  std::uint64_t number = 0;  // of the batch in the run
  std::vector<bool> taken;   // rows that are or were being written; under the lock of rows_in_order
  std::size_t strangers = 0; // taken rows that may not belong to this batch; likewise

 protected:
  /// Where the rows of a column lie; an optional number has two.
  struct column_rows {
    std::byte* first;
    std::size_t bytes; // of a row
    std::size_t field;
    bool is_optional;
  };

  std::vector<column_rows> rows_of_columns_;

 private:
  static constexpr std::byte unwritten{0xa5};

  // Allocates the columns and lists their rows.
  virtual void make_columns(std::size_t rows, const std::vector<shape>& shapes, block_cache& memory) = 0;

  virtual void give_columns(void* columns) noexcept = 0;

  void count(std::size_t rows) noexcept;

  std::shared_ptr<std::atomic<std::size_t>> counter_;
  std::size_t rows_ = 0;
};

/// The layout of a run's batches.
struct row_plan {
  std::size_t rows;
  std::vector<shape> shapes; // of one row of each field
  std::pmr::memory_resource* memory;
  std::span<const row_field> fields;
  std::shared_ptr<row_block> (*make_block)(std::shared_ptr<std::atomic<std::size_t>> counter);
  std::size_t block_size;      // of such an object
  bool finds_unwritten_fields; // in debug builds
};

/// A row of an unfinished batch.
struct row_slot {
  std::shared_ptr<row_block> block;
  std::size_t row = 0;
  std::uint64_t position = 0; // in the stream of items
};

/// Hands out rows to the workers of a run, and puts filled rows into order. A worker first gets the row at
/// its item's position in the stream. If items before it failed, the row belongs further ahead: then it is
/// copied there, and later rows are handed out that much further ahead.
class rows_in_order {
  using block_ptr = std::shared_ptr<row_block>;

 public:
  explicit rows_in_order(row_plan plan);

  const row_plan& plan() const noexcept { return plan_; }

  /// The most bytes that each item in progress takes: its share of a block, and a separate row if that has to
  /// be moved.
  known_bytes bytes_of_item() const;

  /// Sets the most items in progress between the workers and their batch.
  void expect(std::size_t items);

  /// A row for the item at that position.
  row_slot reserve(std::uint64_t position);

  /// Throws std::logic_error if a field wasn't written. `names`: those of the fields, or none.
  void check_written(const row_slot& slot, std::span<const std::string_view> names) const;

  /// Frees a row that will not be added.
  void release(const row_slot& slot);

  /// Adds row number `row`, the next of the current batch, and moves it there if necessary.
  void add(const row_slot& slot, std::size_t row);

  /// Moves the rows of the current batch to a std::tuple of columns. A worker that still writes to another row of its block
  /// keeps separate memory.
  void take(std::size_t rows, void* columns);

  /// Forgets the rows of the current batch.
  void drop();

 private:
  block_ptr usable(std::uint64_t number);
  block_ptr find(std::uint64_t number) const noexcept;
  block_ptr fresh(std::uint64_t number);
  block_ptr open(std::uint64_t number);
  void end_batch() noexcept;
  static void free(const row_slot& slot);
  void detach(std::size_t rows);

  const row_plan plan_;
  const std::shared_ptr<block_cache> memory_;
  const std::shared_ptr<std::atomic<std::size_t>> rows_in_blocks_;
  std::mutex mutex_; // guards the members below
  std::size_t max_blocks_ = 2;
  std::vector<block_ptr> blocks_;
  std::vector<block_ptr> spares_;
  block_ptr batch_;           // the current one
  std::uint64_t current_ = 0; // its number
  std::uint64_t shift_ = 0;   // a row's number minus its item's position
};

std::shared_ptr<rows_in_order> make_rows_in_order(row_plan plan);

} // namespace feedline::inline FEEDLINE_ABI::detail

#ifndef FEEDLINE_COMPILED
#include <feedline/stage/detail/rows_in_order.ipp>
#endif
