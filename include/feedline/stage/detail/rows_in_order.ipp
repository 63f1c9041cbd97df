// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/stage/detail/rows_in_order.hpp>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE std::vector<shape> shapes_of_row(std::span<const row_field> fields,
                                                 std::span<const shape> given) {
  std::vector<shape> all;
  for (const row_field& field : fields) {
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
  return all;
}

FEEDLINE_INLINE known_bytes bytes_of_rows(std::span<const row_field> fields, const std::vector<shape>& shapes,
                                          std::size_t rows) {
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
    return sum_of(plan_.block_size + rows / 8 + 64, bytes_of_rows(plan_.fields, plan_.shapes, rows));
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

FEEDLINE_INLINE std::shared_ptr<rows_in_order> make_rows_in_order(row_plan plan) {
  return std::make_shared<rows_in_order>(std::move(plan));
}

} // namespace feedline::inline FEEDLINE_ABI::detail
