// SPDX-License-Identifier: MIT
#pragma once
// The rows of unfinished batches, whatever their fields are: workers write them, and this puts them into order.
#include <atomic>
#include <memory_resource>
#include <mutex>

#include <feedline/core/contract.hpp>
#include <feedline/detail/block_cache.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// A field of a row. Its type determines the shape, or else the user.
struct row_field {
  std::size_t element; // bytes
  bool is_optional;    // a number, for which another column says whether it exists
  std::optional<shape> of_row;
};

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

  /// The bytes of a batch's tensors.
  known_bytes bytes_of_batch() const { return bytes_of_rows(plan_.rows); }

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

  // The bytes of the tensors that hold so many rows.
  known_bytes bytes_of_rows(std::size_t rows) const;

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

/// For the stage as the user makes it: `shapes` has only those that the fields' types don't determine. Throws
/// std::invalid_argument if there are too few or too many, and for a batch of no rows.
std::shared_ptr<rows_in_order> plan_rows(row_plan plan);

/// For a run of that stage.
std::shared_ptr<rows_in_order> rows_of_run(const rows_in_order& planned);

} // namespace feedline::inline FEEDLINE_ABI::detail

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_STAGE)
#include <cstring>
#include <stdexcept>

#include <feedline/detail/given_size.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE std::shared_ptr<rows_in_order> plan_rows(row_plan plan) {
  if (plan.rows == 0) throw std::invalid_argument("feedline::batch_into: a batch needs at least one sample");
  refuse_negative(plan.rows, "feedline::batch_into: the size");
  std::vector<shape> all;
  std::span<const shape> given = plan.shapes;
  for (const row_field& field : plan.fields) {
    if (!field.of_row && given.empty())
      throw std::invalid_argument(
          "feedline::batch_into: the shape of a tensor is missing, as its type has none: "
          "add it after the function, as shapes{{{3, 224, 224}}}");
    all.push_back(field.of_row ? *field.of_row : given.front());
    if (!field.of_row) given = given.subspan(1);
  }
  if (!given.empty())
    throw std::invalid_argument("feedline::batch_into: there are more shapes than tensors whose types have "
                                "no shape: leave the others out");
  plan.shapes = std::move(all);
  return std::make_shared<rows_in_order>(std::move(plan));
}

FEEDLINE_INLINE std::shared_ptr<rows_in_order> rows_of_run(const rows_in_order& planned) {
  return std::make_shared<rows_in_order>(planned.plan());
}

FEEDLINE_INLINE known_bytes rows_in_order::bytes_of_rows(std::size_t rows) const {
  const std::span<const row_field> fields = plan_.fields;
  const std::vector<shape>& shapes = plan_.shapes;
  known_bytes sum = 0;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    sum = sum_of(sum, bytes_of_column(product_of(rows, product_of(shapes[i].count(), fields[i].element))));
    if (fields[i].is_optional) sum = sum_of(sum, bytes_of_column(rows));
  }
  return sum;
}

FEEDLINE_INLINE row_block::~row_block() { count(0); }

FEEDLINE_INLINE void row_block::begin(std::uint64_t number_in_run, std::size_t rows,
                                      const std::vector<shape>& shapes, block_cache& memory) {
  number = number_in_run;
  taken.assign(rows, false);
  strangers = 0;
  give_up(nullptr);
  count(rows);
  make_columns(rows, shapes, memory);
}

FEEDLINE_INLINE void row_block::give_up(void* columns) noexcept {
  give_columns(columns);
  rows_of_columns_.clear();
  count(0);
}

FEEDLINE_INLINE void row_block::clear(std::size_t row) noexcept {
  for (const column_rows& c : rows_of_columns_)
    if (c.is_optional) std::memset(c.first + row * c.bytes, 0, c.bytes); // 0 and false
}

FEEDLINE_INLINE void row_block::mark_unwritten(std::size_t row) noexcept {
  for (const column_rows& c : rows_of_columns_)
    if (!c.is_optional && c.bytes >= 4) std::fill_n(c.first + row * c.bytes, c.bytes, unwritten);
}

FEEDLINE_INLINE std::optional<std::size_t> row_block::first_unwritten(std::size_t row) const noexcept {
  for (const column_rows& c : rows_of_columns_) {
    const std::byte* const begin = c.first + row * c.bytes;
    if (!c.is_optional && c.bytes >= 4 &&
        std::all_of(begin, begin + c.bytes, [](std::byte b) { return b == unwritten; }))
      return c.field;
  }
  return std::nullopt;
}

FEEDLINE_INLINE void row_block::copy(std::size_t row, const row_block& from, std::size_t from_row) noexcept {
  for (std::size_t i = 0; i < rows_of_columns_.size(); ++i) {
    const column_rows& to = rows_of_columns_[i];
    if (to.bytes > 0)
      std::memcpy(to.first + row * to.bytes, from.rows_of_columns_[i].first + from_row * to.bytes, to.bytes);
  }
}

FEEDLINE_INLINE void row_block::count(std::size_t rows) noexcept {
  if (counter_) *counter_ += rows - std::exchange(rows_, rows);
}

FEEDLINE_INLINE rows_in_order::rows_in_order(row_plan plan)
    : plan_(std::move(plan)),
      memory_(block_cache::over(plan_.memory)),
      rows_in_blocks_(std::make_shared<std::atomic<std::size_t>>(0)) {}

FEEDLINE_INLINE known_bytes rows_in_order::bytes_of_item() const {
  const auto of = [&](std::size_t rows) {
    return sum_of(plan_.block_size + rows / 8 + 64, bytes_of_rows(rows));
  };
  const known_bytes block = of(plan_.rows);
  return sum_of(block ? known_bytes(*block / plan_.rows + 1) : block, of(1));
}

FEEDLINE_INLINE void rows_in_order::expect(std::size_t items) {
  const std::lock_guard lock(mutex_);
  max_blocks_ = items / plan_.rows + 2;
}

FEEDLINE_INLINE row_slot rows_in_order::reserve(std::uint64_t position) {
  row_slot slot;
  slot.position = position;
  const std::lock_guard lock(mutex_);
  const std::uint64_t expected = position + shift_;
  const std::uint64_t number = expected / plan_.rows;
  const auto row = static_cast<std::size_t>(expected % plan_.rows);
  if (block_ptr block = usable(number); block && !block->taken[row]) {
    block->taken[row] = true;
    ++block->strangers;
    slot.block = std::move(block);
    slot.row = row;
  } else {
    slot.block = plan_.make_block(nullptr);
    slot.block->begin(current_, 1, plan_.shapes, *memory_);
  }
  slot.block->clear(slot.row);
  if (plan_.finds_unwritten_fields) slot.block->mark_unwritten(slot.row);
  return slot;
}

FEEDLINE_INLINE void rows_in_order::check_written(const row_slot& slot,
                                                  std::span<const std::string_view> names) const {
  const std::optional<std::size_t> field =
      plan_.finds_unwritten_fields ? slot.block->first_unwritten(slot.row) : std::nullopt;
  if (!field) return;
  std::string name = "field number " + std::to_string(*field) + ", counted from 0,";
  if (!names.empty()) name = "the field `" + std::string(names[*field]) + "`";
  throw std::logic_error("feedline::batch_into: the function didn't write " + name + " of its row");
}

FEEDLINE_INLINE void rows_in_order::release(const row_slot& slot) {
  const std::lock_guard lock(mutex_);
  free(slot);
}

FEEDLINE_INLINE void rows_in_order::add(const row_slot& slot, std::size_t row) {
  const std::lock_guard lock(mutex_);
  if (!batch_) batch_ = find(current_);
  if (!batch_) batch_ = open(current_);
  shift_ = current_ * plan_.rows + row - slot.position; // wraps round if negative
  if (slot.block == batch_ && slot.row == row) {
    --batch_->strangers;
    return;
  }
  if (batch_->taken[row]) detach(row);
  batch_->copy(row, *slot.block, slot.row);
  batch_->taken[row] = true;
  free(slot);
}

FEEDLINE_INLINE void rows_in_order::take(std::size_t rows, void* columns) {
  const std::lock_guard lock(mutex_);
  if (batch_->strangers > 0) detach(rows);
  batch_->give_up(columns);
  end_batch();
}

FEEDLINE_INLINE void rows_in_order::drop() {
  const std::lock_guard lock(mutex_);
  end_batch();
}

// Rows that are stored where they belong need no more blocks than these. If items are left out on the way,
// positions run far ahead of rows; if epochs end within a batch, blocks stay alive for single rows that
// belong elsewhere. Then rows get separate memory until they are moved.
FEEDLINE_INLINE std::shared_ptr<row_block> rows_in_order::usable(std::uint64_t number) {
  if (number < current_ || number - current_ >= max_blocks_) return nullptr;
  block_ptr block = find(number);
  const std::size_t blocks = *rows_in_blocks_ / plan_.rows;
  if (blocks + !block > max_blocks_) return nullptr;
  return block ? block : open(number);
}

FEEDLINE_INLINE std::shared_ptr<row_block> rows_in_order::find(std::uint64_t number) const noexcept {
  for (const block_ptr& b : blocks_)
    if (b->number == number) return b;
  return nullptr;
}

FEEDLINE_INLINE std::shared_ptr<row_block> rows_in_order::fresh(std::uint64_t number) {
  spares_.reserve(blocks_.size() + 2); // so that end_batch() needs no memory
  if (spares_.empty()) spares_.push_back(plan_.make_block(rows_in_blocks_));
  block_ptr block = std::move(spares_.back());
  spares_.pop_back();
  block->begin(number, plan_.rows, plan_.shapes, *memory_);
  return block;
}

FEEDLINE_INLINE std::shared_ptr<row_block> rows_in_order::open(std::uint64_t number) {
  return blocks_.emplace_back(fresh(number));
}

// Reuses a block if no worker has one of its rows.
FEEDLINE_INLINE void rows_in_order::end_batch() noexcept {
  block_ptr done = std::exchange(batch_, nullptr);
  std::erase_if(blocks_, [&](const block_ptr& b) { return b->number <= current_; });
  ++current_;
  if (done->strangers > 0) return;
  done->give_up(nullptr);
  if (spares_.size() < spares_.capacity()) spares_.push_back(std::move(done));
}

FEEDLINE_INLINE void rows_in_order::free(const row_slot& slot) {
  slot.block->taken[slot.row] = false;
  if (slot.block->strangers > 0) --slot.block->strangers;
}

// Moves the first rows to a block that no worker knows.
FEEDLINE_INLINE void rows_in_order::detach(std::size_t rows) {
  const block_ptr own = fresh(current_);
  for (std::size_t i = 0; i < rows; ++i) {
    own->copy(i, *batch_, i);
    own->taken[i] = true;
    batch_->taken[i] = false;
  }
  batch_ = own;
}

} // namespace feedline::inline FEEDLINE_ABI::detail
#endif
