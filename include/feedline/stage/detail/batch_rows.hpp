// SPDX-License-Identifier: MIT
#pragma once
// The rows of unfinished batches: workers write them, and this puts them into order.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <memory_resource>
#include <mutex>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <feedline/core/item_bytes.hpp>
#include <feedline/core/tensor.hpp>
#include <feedline/detail/block_cache.hpp>
#include <feedline/detail/fields.hpp>
#include <feedline/stage/batch.hpp>
#include <feedline/stage/detail/columns.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// The element type and the shape of one row of a field. `shapes`: those of the tensors whose types have no
/// shape.
template <class Field>
struct row_facts {
  static constexpr bool exist = number<Field> || is_array<Field>;
  using element = typename array_facts<Field>::element;
  using column = tensor<element>;

  static shape shape_of_row(std::span<const shape>&) {
    shape s;
    if constexpr (is_array<Field>) array_facts<Field>::append_extents(s);
    return s;
  }
};

template <class T>
struct row_facts<std::optional<T>> {
  static constexpr bool exist = is_optional_number<std::optional<T>>;
  using element = T;
  using column = masked_tensor<T>;

  static shape shape_of_row(std::span<const shape>&) { return {}; }
};

template <class T, std::size_t... Extents>
struct row_facts<tensor<T, Extents...>> {
  static constexpr bool exist = true;
  using element = T;
  using column = tensor<T>;

  static shape shape_of_row(std::span<const shape>& shapes) {
    if constexpr (sizeof...(Extents) > 0) {
      return {Extents...};
    } else {
      if (shapes.empty())
        throw std::invalid_argument(
            "feedline::batch_into: the shape of a tensor is missing, as its type has none: "
            "add it after the function, as shapes{{{3, 224, 224}}}");
      const shape s = shapes.front();
      shapes = {shapes.data() + 1, shapes.size() - 1};
      return s;
    }
  }
};

template <class Columns>
struct row_columns;

template <class... Field>
struct row_columns<std::tuple<field_column<stacked_t, Field>...>> {
  static constexpr bool exist = (row_facts<Field>::exist && ...);
  static constexpr std::size_t count = sizeof...(Field);
  using tensors = std::tuple<typename row_facts<Field>::column...>;
  template <std::size_t I>
  static constexpr bool is_number = number<std::tuple_element_t<I, std::tuple<Field...>>>;
  template <std::size_t I>
  static constexpr bool is_optional = is_optional_number<std::tuple_element_t<I, std::tuple<Field...>>>;

  static std::vector<shape> shapes(std::span<const shape> given) {
    std::vector<shape> all{row_facts<Field>::shape_of_row(given)...};
    if (!given.empty())
      throw std::invalid_argument("feedline::batch_into: there are more shapes than tensors whose types have "
                                  "no shape: leave the others out");
    return all;
  }

  /// The bytes of the tensors that hold `rows` rows with these shapes.
  static known_bytes bytes(const std::vector<shape>& shapes, std::size_t rows) {
    known_bytes sum = 0;
    std::size_t i = 0;
    const auto add = [&](std::size_t element, bool has_mask) {
      sum = sum_of(sum, bytes_of_column(product_of(rows, product_of(shapes[i++].count(), element))));
      if (has_mask) sum = sum_of(sum, bytes_of_column(rows));
    };
    (add(sizeof(typename row_facts<Field>::element), is_optional_number<Field>), ...);
    return sum;
  }
};

template <class T>
using row_columns_of = row_columns<typename columns_of<stacked_t, T>::types>;

template <class T>
consteval bool has_row_columns() {
  if constexpr (columns_of<stacked_t, T>::exist) return row_columns_of<T>::exist;
  else return false;
}

/// An optional number in a row: assign a number or std::nullopt to it.
template <class T>
class optional_slot {
 public:
  optional_slot(T& value, bool& valid) noexcept : value_(value), valid_(valid) {}

  const optional_slot& operator=(const std::optional<T>& number) const noexcept {
    value_ = number.value_or(T());
    valid_ = number.has_value();
    return *this;
  }

  operator std::optional<T>() const noexcept { return valid_ ? std::optional<T>(value_) : std::nullopt; }

 private:
  T& value_;
  bool& valid_;
};

/// The layout of a run's batches.
struct row_plan {
  std::size_t rows;
  std::vector<shape> shapes; // of one row of each field
  std::pmr::memory_resource* memory;
};

/// The rows of one batch, or of a part of one.
template <class T>
class batch_block {
  using facts = row_columns_of<T>;

 public:
  /// `counter`, unless null, counts the rows of all blocks that have memory for rows.
  explicit batch_block(std::shared_ptr<std::atomic<std::size_t>> counter) : counter_(std::move(counter)) {}

  batch_block(const batch_block&) = delete;
  batch_block& operator=(const batch_block&) = delete;

  ~batch_block() {
    columns = {};
    count(0);
  }

  /// Begins a batch, and forgets the one before.
  void begin(std::uint64_t number_in_run, std::size_t rows, const std::vector<shape>& shapes,
             block_cache& memory) {
    number = number_in_run;
    taken.assign(rows, false);
    strangers = 0;
    give_up();
    count(rows);
    std::size_t i = 0;
    const auto make = [&](auto& t) {
      shape all{rows};
      for (const std::size_t extent : shapes[i++]) all.append(extent);
      if constexpr (is_tensor<std::remove_reference_t<decltype(t)>>) {
        t = std::remove_reference_t<decltype(t)>(all, memory);
      } else {
        t.values = decltype(t.values)(all, memory);
        t.valid = tensor<bool>(all, memory);
      }
    };
    std::apply([&](auto&... t) { (make(t), ...); }, columns);
  }

  /// Returns its rows and no longer has any.
  typename facts::tensors give_up() noexcept {
    auto all = std::exchange(columns, {});
    count(0);
    return all;
  }

  template <std::size_t I>
  decltype(auto) at(std::size_t row) {
    auto& t = std::get<I>(columns);
    if constexpr (facts::template is_optional<I>) return optional_slot(t.values[row], t.valid[row]);
    else if constexpr (facts::template is_number<I>) return (t[row]);
    else return t.at(row);
  }

  /// Empties the optional numbers of a row that isn't filled yet.
  void clear(std::size_t row) {
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      const auto clear_one = [&]<std::size_t Number>() {
        if constexpr (facts::template is_optional<Number>) at<Number>(row) = std::nullopt;
      };
      (clear_one.template operator()<I>(), ...);
    }(std::make_index_sequence<facts::count>());
  }

#ifndef NDEBUG
  /// Fills the numbers of a row with a pattern, by which first_unwritten() finds out whether they were written. Fields of
  /// less than four bytes are left out, as a real value could equal the pattern.
  void mark_unwritten(std::size_t row) {
    for_each_field(row, [](std::size_t, std::span<std::byte> field) { std::ranges::fill(field, unwritten); });
  }

  /// The number of the first field whose bytes are all unwritten; the number of fields if there is none.
  std::size_t first_unwritten(std::size_t row) {
    std::size_t first = facts::count;
    for_each_field(row, [&](std::size_t i, std::span<std::byte> field) {
      const auto is_unwritten = [](std::byte b) { return b == unwritten; };
      if (first == facts::count && std::ranges::all_of(field, is_unwritten)) first = i;
    });
    return first;
  }
#endif

  void copy(std::size_t row, const batch_block& from, std::size_t from_row) {
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      (copy_row(std::get<I>(columns), row, std::get<I>(from.columns), from_row), ...);
    }(std::make_index_sequence<facts::count>());
  }

  std::uint64_t number = 0; // of the batch in the run
  typename facts::tensors columns;
  std::vector<bool> taken;   // rows that are or were being written; under the lock of row_places
  std::size_t strangers = 0; // taken rows that may not belong to this batch; likewise

 private:
#ifndef NDEBUG
  static constexpr std::byte unwritten{0xa5};

  template <class F>
  void for_each_field(std::size_t row, F f) {
    std::size_t i = 0;
    const auto visit = [&](auto& t) {
      if constexpr (is_tensor<std::remove_reference_t<decltype(t)>>) {
        const auto field = std::as_writable_bytes(std::span(t.at(row)));
        if (field.size() >= 4) f(i, field);
      }
      ++i;
    };
    std::apply([&](auto&... t) { (visit(t), ...); }, columns);
  }
#endif

  void count(std::size_t rows) noexcept {
    if (counter_) *counter_ += rows - std::exchange(rows_, rows);
  }

  template <class Element>
  static void copy_row(tensor<Element>& to, std::size_t row, const tensor<Element>& from,
                       std::size_t from_row) {
    const std::span<Element> target = to.at(row);
    if (!target.empty()) std::memcpy(target.data(), from.at(from_row).data(), target.size_bytes());
  }

  template <class Element>
  static void copy_row(masked_tensor<Element>& to, std::size_t row, const masked_tensor<Element>& from,
                       std::size_t from_row) {
    to.values[row] = from.values[from_row];
    to.valid[row] = from.valid[from_row];
  }

  std::shared_ptr<std::atomic<std::size_t>> counter_;
  std::size_t rows_ = 0;
};

template <class T>
class row_places;

} // namespace feedline::inline FEEDLINE_ABI::detail

namespace feedline::inline FEEDLINE_ABI {

/// A row of an unfinished batch. A function fills all of it; parts that it doesn't fill are unspecified. In a debug build
/// a sample fails if a field of four bytes or more wasn't written at all.
template <class T>
class batch_slot {
  static constexpr bool has_rows = detail::has_row_columns<T>();

 public:
  /// The field that a member pointer names: a std::span of its elements in row-major order, or a reference if
  /// it is a number. A std::optional number is assigned a std::optional; it is empty until then.
  template <auto Member>
    requires detail::names_field<T, Member>
  decltype(auto) get() const {
    if constexpr (has_rows) return block_->template at<detail::field_index<Member>()>(row_);
    else return (static_cast<T*>(nullptr)->*Member);
  }

  /// Field number I, for pairs and tuples, for example.
  template <std::size_t I>
  decltype(auto) get() const {
    if constexpr (has_rows) return block_->template at<I>(row_);
    else return std::get<I>(detail::fields_of(*static_cast<T*>(nullptr)));
  }

  /// The only field, for samples that are one tensor, array or number.
  decltype(auto) value() const
    requires detail::is_one_column<stacked_t, T>
  {
    if constexpr (has_rows) return block_->template at<0>(row_);
    else return (*static_cast<T*>(nullptr));
  }

 private:
  friend class detail::row_places<T>;

  std::shared_ptr<detail::batch_block<T>> block_;
  std::size_t row_ = 0;
  std::uint64_t position_ = 0; // in the stream of items

  // Here, as the function that fills a slot may be compiled before batch_into is.
  static_assert(
      has_rows,
      "feedline: the samples of batch_into must be numbers, std::optional numbers, std::arrays and tensors, "
      "or plain "
      "structs of those (at most 64 fields; give a class with a constructor or a base class a function "
      "fields() that returns "
      "std::tie(a, b)): for texts and lists use map and batch, or a std::array of a text's most characters");
};

namespace detail {

/// Hands out rows to the workers of a run, and puts filled rows into order. A worker first gets the row at
/// its item's position in the stream. If items before it failed, the row belongs further ahead: then it is
/// copied there, and later rows are handed out that much further ahead.
template <class T>
class row_places {
  using block_ptr = std::shared_ptr<batch_block<T>>;

 public:
  explicit row_places(row_plan plan) : plan_(std::move(plan)), memory_(block_cache::over(plan_.memory)) {}

  const row_plan& plan() const noexcept { return plan_; }

  /// The most bytes that each item in progress takes: its share of a block, and a separate row if that has to
  /// be moved.
  known_bytes bytes_of_item() const {
    const auto of = [&](std::size_t rows) {
      return sum_of(sizeof(batch_block<T>) + rows / 8 + 64, row_columns_of<T>::bytes(plan_.shapes, rows));
    };
    const known_bytes block = of(plan_.rows);
    return sum_of(block ? known_bytes(*block / plan_.rows + 1) : block, of(1));
  }

  /// Sets the most items in progress between the workers and their batch.
  void expect(std::size_t items) {
    const std::lock_guard lock(mutex_);
    max_blocks_ = items / plan_.rows + 2;
  }

  /// A row for the item at that position.
  batch_slot<T> reserve(std::uint64_t position) {
    batch_slot<T> slot;
    slot.position_ = position;
    const std::lock_guard lock(mutex_);
    const std::uint64_t expected = position + shift_;
    const std::uint64_t number = expected / plan_.rows;
    const auto row = static_cast<std::size_t>(expected % plan_.rows);
    if (block_ptr block = usable(number); block && !block->taken[row]) {
      block->taken[row] = true;
      ++block->strangers;
      slot.block_ = std::move(block);
      slot.row_ = row;
    } else {
      slot.block_ = std::make_shared<batch_block<T>>(nullptr);
      slot.block_->begin(current_, 1, plan_.shapes, *memory_);
    }
    slot.block_->clear(slot.row_);
#ifndef NDEBUG
    slot.block_->mark_unwritten(slot.row_);
#endif
    return slot;
  }

#ifndef NDEBUG
  /// Throws std::logic_error if a field wasn't written.
  static void check_written(const batch_slot<T>& slot) {
    const std::size_t field = slot.block_->first_unwritten(slot.row_);
    if (field >= row_columns_of<T>::count) return;
    std::string name = "field number " + std::to_string(field) + ", counted from 0,";
    if constexpr (plain_struct<T>) name = "the field `" + std::string(names_of_fields<T>()[field]) + "`";
    throw std::logic_error("feedline::batch_into: the function didn't write " + name + " of its row");
  }
#endif

  /// Frees a row that will not be added.
  void release(const batch_slot<T>& slot) {
    const std::lock_guard lock(mutex_);
    free(slot);
  }

  /// Adds row number `row`, the next of the current batch, and moves it there if necessary.
  void add(const batch_slot<T>& slot, std::size_t row) {
    const std::lock_guard lock(mutex_);
    if (!batch_) batch_ = find(current_);
    if (!batch_) batch_ = open(current_);
    shift_ = current_ * plan_.rows + row - slot.position_; // wraps round if negative
    if (slot.block_ == batch_ && slot.row_ == row) {
      --batch_->strangers;
      return;
    }
    if (batch_->taken[row]) detach(row);
    batch_->copy(row, *slot.block_, slot.row_);
    batch_->taken[row] = true;
    free(slot);
  }

  /// Returns the rows of the current batch. A worker that still writes to another row of its block keeps
  /// separate memory.
  typename row_columns_of<T>::tensors take(std::size_t rows) {
    const std::lock_guard lock(mutex_);
    if (batch_->strangers > 0) detach(rows);
    auto columns = batch_->give_up();
    end_batch();
    return columns;
  }

  /// Forgets the rows of the current batch.
  void drop() {
    const std::lock_guard lock(mutex_);
    end_batch();
  }

 private:
  // Rows that are stored where they belong need no more blocks than these. If items are left out on the way,
  // positions run far ahead of rows; if epochs end within a batch, blocks stay alive for single rows that
  // belong elsewhere. Then rows get separate memory until they are moved.
  block_ptr usable(std::uint64_t number) {
    if (number < current_ || number - current_ >= max_blocks_) return nullptr;
    block_ptr block = find(number);
    const std::size_t blocks = *rows_in_blocks_ / plan_.rows;
    if (blocks + !block > max_blocks_) return nullptr;
    return block ? block : open(number);
  }

  block_ptr find(std::uint64_t number) const noexcept {
    for (const block_ptr& b : blocks_)
      if (b->number == number) return b;
    return nullptr;
  }

  block_ptr fresh(std::uint64_t number) {
    spares_.reserve(blocks_.size() + 2); // so that end_batch() needs no memory
    if (spares_.empty()) spares_.push_back(std::make_shared<batch_block<T>>(rows_in_blocks_));
    block_ptr block = std::move(spares_.back());
    spares_.pop_back();
    block->begin(number, plan_.rows, plan_.shapes, *memory_);
    return block;
  }

  block_ptr open(std::uint64_t number) { return blocks_.emplace_back(fresh(number)); }

  // Reuses a block if no worker has one of its rows.
  void end_batch() noexcept {
    block_ptr done = std::exchange(batch_, nullptr);
    std::erase_if(blocks_, [&](const block_ptr& b) { return b->number <= current_; });
    ++current_;
    if (done->strangers > 0) return;
    done->give_up();
    if (spares_.size() < spares_.capacity()) spares_.push_back(std::move(done));
  }

  static void free(const batch_slot<T>& slot) {
    slot.block_->taken[slot.row_] = false;
    if (slot.block_->strangers > 0) --slot.block_->strangers;
  }

  // Moves the first rows to a block that no worker knows.
  void detach(std::size_t rows) {
    const block_ptr own = fresh(current_);
    for (std::size_t i = 0; i < rows; ++i) {
      own->copy(i, *batch_, i);
      own->taken[i] = true;
      batch_->taken[i] = false;
    }
    batch_ = own;
  }

  const row_plan plan_;
  const std::shared_ptr<block_cache> memory_;
  const std::shared_ptr<std::atomic<std::size_t>> rows_in_blocks_ =
      std::make_shared<std::atomic<std::size_t>>(0);
  std::mutex mutex_; // guards the members below
  std::size_t max_blocks_ = 2;
  std::vector<block_ptr> blocks_;
  std::vector<block_ptr> spares_;
  block_ptr batch_;           // the current one
  std::uint64_t current_ = 0; // its number
  std::uint64_t shift_ = 0;   // a row's number minus its item's position
};

} // namespace detail

} // namespace feedline::inline FEEDLINE_ABI
