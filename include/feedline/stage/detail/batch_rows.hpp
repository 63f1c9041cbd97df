// SPDX-License-Identifier: MIT
#pragma once
// Rows of batches: what a function fills, by the types of the fields.
#include <atomic>

#include <feedline/core/contract.hpp>
#include <feedline/detail/block_cache.hpp>
#include <feedline/detail/fields.hpp>
#include <feedline/detail/share.hpp>
#include <feedline/stage/batch.hpp>
#include <feedline/stage/detail/columns.hpp>
#include <feedline/stage/detail/rows_in_order.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// A field and its column. The shape of a row is that of an array or a tensor, as far as its type has one.
template <class Field>
struct row_facts {
  static constexpr bool exist = number<Field> || is_array<Field>;
  using column = tensor<typename array_facts<Field>::element>;
  static constexpr row_field field{sizeof(typename array_facts<Field>::element), false, [] {
                                     shape s;
                                     if constexpr (is_array<Field>) array_facts<Field>::append_extents(s);
                                     return s;
                                   }()};
};

template <class T>
struct row_facts<std::optional<T>> {
  static constexpr bool exist = is_optional_number<std::optional<T>>;
  using column = masked_tensor<T>;
  static constexpr row_field field{sizeof(T), true, shape()};
};

template <class T, std::size_t... Extents>
struct row_facts<tensor<T, Extents...>> {
  static constexpr bool exist = true;
  using column = tensor<T>;
  static constexpr row_field field{sizeof(T), false,
                                   sizeof...(Extents) > 0 ? std::optional(shape{Extents...}) : std::nullopt};
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
  static constexpr std::array<row_field, count> fields{row_facts<Field>::field...};
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

/// The rows of a batch of samples of type T.
template <class T>
class batch_block final : public row_block {
  using facts = row_columns_of<T>;
  using all_numbers = std::make_index_sequence<facts::count>;

 public:
  using row_block::row_block;

  static std::shared_ptr<row_block> make(std::shared_ptr<std::atomic<std::size_t>> counter) {
    return owned<row_block>(new batch_block(std::move(counter)));
  }

  template <std::size_t I>
  decltype(auto) at(std::size_t row) {
    auto& t = std::get<I>(columns_);
    if constexpr (facts::template is_optional<I>) return optional_slot(t.values[row], t.valid[row]);
    else if constexpr (facts::template is_number<I>) return (t[row]);
    else return t.at(row);
  }

 private:
  void make_columns(std::size_t rows, const std::vector<shape>& shapes, block_cache& memory) override {
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      (make_column(std::get<I>(columns_), I, rows, shapes[I], memory), ...);
    }(all_numbers());
  }

  template <class Element>
  void make_column(tensor<Element>& t, std::size_t field, std::size_t rows, const shape& of_row,
                   block_cache& memory, bool is_optional = false) {
    shape all{rows};
    for (const std::size_t extent : of_row) all.append(extent);
    t = tensor<Element>(all, memory);
    const std::span<std::byte> first = std::as_writable_bytes(t.at(0));
    rows_of_columns_.push_back({first.data(), first.size(), field, is_optional});
  }

  template <class Element>
  void make_column(masked_tensor<Element>& t, std::size_t field, std::size_t rows, const shape& of_row,
                   block_cache& memory) {
    make_column(t.values, field, rows, of_row, memory, true);
    make_column(t.valid, field, rows, of_row, memory, true);
  }

  void give_columns(void* to) noexcept override {
    if (to) *static_cast<typename facts::tensors*>(to) = std::move(columns_);
    columns_ = typename facts::tensors();
  }

  typename facts::tensors columns_;
};

/// Lets the stages that use slots find their rows.
struct slot_access {
  static auto& of(auto& slot) noexcept { return slot.at_; }
};

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
    if constexpr (has_rows) return block().template at<detail::field_index<Member>()>(at_.row);
    else return (static_cast<T*>(nullptr)->*Member);
  }

  /// Field number I, for pairs and tuples, for example.
  template <std::size_t I>
  decltype(auto) get() const {
    if constexpr (has_rows) return block().template at<I>(at_.row);
    else return std::get<I>(detail::fields_of(*static_cast<T*>(nullptr)));
  }

  /// The only field, for samples that are one tensor, array or number.
  decltype(auto) value() const
    requires detail::is_one_column<stacked_t, T>
  {
    if constexpr (has_rows) return block().template at<0>(at_.row);
    else return (*static_cast<T*>(nullptr));
  }

 private:
  friend struct detail::slot_access;

  detail::batch_block<T>& block() const noexcept { return static_cast<detail::batch_block<T>&>(*at_.block); }

  detail::row_slot at_;

  // Here, as the function that fills a slot may be compiled before batch_into is.
  static_assert(
      has_rows,
      "feedline: the samples of batch_into must be numbers, std::optional numbers, std::arrays and tensors, "
      "or plain "
      "structs of those (at most 64 fields; give a class with a constructor or a base class a function "
      "fields() that returns "
      "std::tie(a, b)): for texts and lists use map and batch, or a std::array of a text's most characters");
};

} // namespace feedline::inline FEEDLINE_ABI
