// SPDX-License-Identifier: MIT
#pragma once
// Columns: each turns the values of one field into one object of a batch.
#include <cstring>
#include <iosfwd>

#include <feedline/core/contract.hpp>
#include <feedline/detail/block_cache.hpp>
#include <feedline/detail/fields.hpp>
#include <feedline/detail/value_text.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// The element type and the extents of an array, nested or not.
template <class T>
struct array_facts {
  using element = T;

  static constexpr void append_extents(shape&) {}
};

template <class T, std::size_t N>
struct array_facts<std::array<T, N>> {
  using element = typename array_facts<T>::element;

  static constexpr void append_extents(shape& s) {
    s.append(N);
    array_facts<T>::append_extents(s);
  }
};

template <class T, std::size_t N>
struct array_facts<T[N]> : array_facts<std::array<T, N>> {};

template <class T>
inline constexpr bool is_array = false;
template <class T, std::size_t N>
inline constexpr bool is_array<std::array<T, N>> = number<typename array_facts<std::array<T, N>>::element>;
template <class T, std::size_t N>
inline constexpr bool is_array<T[N]> = is_array<std::array<T, N>>;

/// A sample that lies in memory as a row of a tensor: a number, or an array of numbers.
template <class T>
inline constexpr bool lies_in_rows = number<T>;
template <class T, std::size_t N>
inline constexpr bool lies_in_rows<std::array<T, N>> = N > 0 && lies_in_rows<T>;

/// A contiguous list whose length differs from sample to sample.
template <class T>
concept ragged = requires(const T& t) {
  typename T::value_type;
  { t.data() } -> std::convertible_to<const typename T::value_type*>;
  { t.size() } -> std::convertible_to<std::size_t>;
  requires !tuple_like<T> && !is_tensor<T>;
};

/// A list that owns its elements.
template <class T>
concept owning = requires(const T& t) { t.capacity(); };

template <class T>
concept any_text = ragged<T> && requires { typename T::traits_type; };

/// A padding value as a number of type T: negative values wrap as in conversions between whole numbers.
template <number T>
constexpr T number_of(double value) {
  if constexpr (std::is_enum_v<T>) return static_cast<T>(number_of<std::underlying_type_t<T>>(value));
  else if constexpr (std::is_class_v<T>) return T(static_cast<float>(value));
  else if constexpr (!std::is_integral_v<T> || std::is_same_v<T, bool>) return static_cast<T>(value);
  else if (!(value >= -0x1p63 && value < 0x1p64)) return T();
  else
    return value < 0 ? static_cast<T>(static_cast<std::int64_t>(value))
                     : static_cast<T>(static_cast<std::uint64_t>(value));
}

/// Selects the element itself, where others select a field of it.
struct whole_element {
  auto& operator()(auto& element) const noexcept { return element; }
};

/// Makes one object per batch from a field of each sample: call `add` with the value of each row, again if
/// another column refused the sample, then `take` the object. The general case is a list of the values.
///
/// For the elements of lists: `begin` with the leading dimensions, then for each list `add_each` with the function that
/// selects a field of an element, or `fill` with one number, then `take`.
template <class T>
class list_column {
 public:
  using result = std::vector<T>;

  void begin(const shape& rows) {
    values_.clear();
    values_.reserve(rows.count());
  }

  void add(T&& value, std::size_t row, std::size_t rows) {
    if (row == 0) begin(shape{rows});
    first(row).push_back(std::move(value));
  }

  template <class List, class Select>
  void add_each(List& list, std::size_t, Select select) {
    for (auto& element : list) values_.push_back(std::move(select(element)));
  }

  result take(std::size_t rows) { return std::exchange(first(rows), {}); }

  // Another column may have refused a sample of which this one still holds the value.
  result& first(std::size_t rows) {
    while (values_.size() > rows) values_.pop_back();
    return values_;
  }

 private:
  result values_;
};

/// Numbers, arrays and tensors of one shape: stacked along a new first dimension.
template <class T>
class stacked_column {
  static constexpr bool is_number = number<T>;

  static auto element_of() {
    if constexpr (is_tensor<T>) return typename T::value_type();
    else return typename array_facts<T>::element();
  }

 public:
  using element = decltype(element_of());
  using result = tensor<element>;

  explicit stacked_column(block_cache& memory) : memory_(&memory) {}

  void begin(shape rows, const shape& of_one) {
    for (const std::size_t extent : of_one) rows.append(extent);
    values_ = result(rows, *memory_);
    count_of_one_ = of_one.count();
  }

  void begin(const shape& rows)
    requires(!is_shapeless<T>)
  {
    if constexpr (is_number) values_ = result(rows, *memory_);
    else begin(rows, shape_of(static_cast<const T*>(nullptr)));
  }

  void add(const T& value, std::size_t row, std::size_t rows) {
    if constexpr (is_shapeless<T>) {
      if (row == 0) begin(shape{rows}, value.shape());
      else if (const shape& all = values_.shape();
               !std::ranges::equal(std::span(all.begin() + 1, all.end()), value.shape()))
        throw std::invalid_argument("its tensor has the shape " + to_string(value.shape()) +
                                    ", but the batch began with " +
                                    to_string(shape(std::span(all.begin() + 1, all.end()))) +
                                    ": make them equal, or batch with as_list or padded");
    } else {
      if (row == 0) begin(shape{rows});
    }
    if constexpr (is_number) values_[row] = value;
    else copy(begin_of(value), 1, row);
  }

  template <class List, class Select>
  void add_each(const List& list, std::size_t row, Select select) {
    if constexpr (std::is_same_v<Select, whole_element> && !is_tensor<T>) {
      copy(list.data(), list.size(), row);
    } else if constexpr (is_number) {
      element* out = values_.data() + row;
      for (const auto& each : list) *out++ = select(each);
    } else {
      for (const auto& each : list) copy(begin_of(select(each)), 1, row++);
    }
  }

  /// Copies the elements of `count` rows, which lie one after another.
  void copy(const void* from, std::size_t count, std::size_t row) {
    const std::size_t of_one = is_number ? 1 : count_of_one_;
    if (count * of_one > 0)
      std::memcpy(values_.data() + row * of_one, from, count * of_one * sizeof(element));
  }

  void fill(std::size_t row, std::size_t count, double value) {
    const std::size_t of_one = is_number ? 1 : count_of_one_;
    std::fill_n(values_.data() + row * of_one, count * of_one, number_of<element>(value));
  }

  /// The rows from `row` on, for writing.
  std::span<T> rows_from(std::size_t row, std::size_t rows)
    requires lies_in_rows<T>
  {
    if (values_.size() == 0) begin(shape{rows}); // also if no row came of it the last time
    return {reinterpret_cast<T*>(values_.data()) + row, rows - row};
  }

  result take(std::size_t rows) {
    values_.truncate(rows);
    return std::move(values_);
  }

 private:
  template <class Element, std::size_t... Extents>
  static shape shape_of(const tensor<Element, Extents...>*) {
    return {Extents...};
  }

  static shape shape_of(const void*) {
    shape s;
    array_facts<T>::append_extents(s);
    return s;
  }

  static const void* begin_of(const T& value) noexcept {
    if constexpr (is_tensor<T>) return value.data();
    else return std::addressof(value);
  }

  block_cache* memory_;
  result values_;
  std::size_t count_of_one_ = 1; // elements
};

} // namespace feedline::inline FEEDLINE_ABI::detail

namespace feedline::inline FEEDLINE_ABI {

/// A column of lists: the elements of all samples, one after another. `Values`: a tensor or, for lists of structs, their
/// struct_columns; text and lists in lists have what the column of such a field has.
template <class Values>
struct ragged_tensor {
  Values values; ///< [elements of the batch, …]
  tensor<std::int64_t>
      offsets; ///< [batch + 1]: sample i has the elements from offsets[i] to before offsets[i + 1]

  /// The numbers of sample i. Throws std::out_of_range.
  auto at(std::size_t i) const
    requires detail::is_tensor<Values>
  {
    const auto begin = static_cast<std::size_t>(offsets.at(i)[0]),
               end = static_cast<std::size_t>(offsets.at(i + 1)[0]);
    const std::size_t of_one = end == begin ? 0 : values.size() / values.shape()[0];
    return std::span(values.data() + begin * of_one, (end - begin) * of_one);
  }

  /// Whether all of it is equal.
  friend bool operator==(const ragged_tensor&, const ragged_tensor&) = default;

  /// Prints all of it, shortened if it is long.
  friend std::ostream& operator<<(std::ostream& out, const ragged_tensor& column) {
    return out << detail::value_text(column);
  }
};

/// A padded column. `Values`: a tensor or, for lists of structs, their struct_columns.
template <class Values>
struct padded_tensor {
  Values values;                ///< [batch, longest, …]
  tensor<std::int64_t> lengths; ///< [batch]: of each sample's first dimension
  tensor<bool> mask; ///< with padded{.mask = true}: [batch, longest], true where a sample has an element

  /// Whether all of it is equal.
  friend bool operator==(const padded_tensor&, const padded_tensor&) = default;

  /// Prints all of it, shortened if it is long.
  friend std::ostream& operator<<(std::ostream& out, const padded_tensor& column) {
    return out << detail::value_text(column);
  }
};

/// A column of optional numbers: values [batch], 0 where there is none, and valid [batch].
template <class T>
struct masked_tensor {
  tensor<T> values;
  tensor<bool> valid;

  /// Keeps the first rows, as tensors do.
  void truncate(std::size_t rows) {
    values.truncate(rows);
    valid.truncate(rows);
  }

  /// Whether all of it is equal.
  friend bool operator==(const masked_tensor&, const masked_tensor&) = default;

  /// Prints all of it, shortened if it is long.
  friend std::ostream& operator<<(std::ostream& out, const masked_tensor& column) {
    return out << detail::value_text(column);
  }
};

namespace detail {

template <class T>
inline constexpr bool is_optional_number = false;
template <number T>
inline constexpr bool is_optional_number<std::optional<T>> = !std::is_const_v<T>;

/// Optional numbers: stacked, with a mask.
template <class T>
class masked_column {
 public:
  using element = typename T::value_type;
  using result = masked_tensor<element>;

  explicit masked_column(block_cache& memory) : memory_(&memory) {}

  void begin(const shape& rows) { column_ = {tensor<element>(rows, *memory_), tensor<bool>(rows, *memory_)}; }

  void add(const T& value, std::size_t row, std::size_t rows) {
    if (row == 0) begin(shape{rows});
    column_.values[row] = value.value_or(element());
    column_.valid[row] = value.has_value();
  }

  template <class List, class Select>
  void add_each(const List& list, std::size_t row, Select select) {
    for (const auto& each : list) {
      column_.values[row] = select(each).value_or(element());
      column_.valid[row++] = select(each).has_value();
    }
  }

  void fill(std::size_t row, std::size_t count, double) {
    std::fill_n(column_.values.data() + row, count, element());
    std::fill_n(column_.valid.data() + row, count, false);
  }

  result take(std::size_t rows) {
    column_.truncate(rows);
    return std::move(column_);
  }

 private:
  block_cache* memory_;
  result column_;
};

/// Lists: one after another. `Elements`: the column of their elements.
template <class T, class Elements>
class ragged_column {
 public:
  using result = ragged_tensor<typename Elements::result>;

  ragged_column(Elements elements, block_cache& memory) : elements_(std::move(elements)), memory_(&memory) {}

  void begin(const shape& rows) { values_.begin(rows); }

  void add(T&& value, std::size_t row, std::size_t rows) { values_.add(std::move(value), row, rows); }

  template <class List, class Select>
  void add_each(List& list, std::size_t row, Select select) {
    values_.add_each(list, row, select);
  }

  result take(std::size_t rows) {
    std::vector<T>& lists = values_.first(rows);
    result all{{}, tensor<std::int64_t>(shape{rows + 1}, *memory_)};
    std::size_t count = 0;
    all.offsets[0] = 0;
    for (std::size_t row = 0; row < rows; ++row)
      all.offsets[row + 1] = static_cast<std::int64_t>(count += lists[row].size());
    elements_.begin(shape{count});
    for (std::size_t row = 0; row < rows; ++row)
      elements_.add_each(lists[row], static_cast<std::size_t>(all.offsets[row]), whole_element());
    all.values = elements_.take(count);
    lists.clear();
    return all;
  }

 private:
  Elements elements_;
  list_column<T> values_;
  block_cache* memory_;
};

/// Lists, or tensors that differ in their first dimension: padded to the longest one.
template <class T, class Elements>
class padded_column {
 public:
  using result = padded_tensor<typename Elements::result>;

  padded_column(Elements elements, double fill, bool has_mask, block_cache& memory)
      : elements_(std::move(elements)), memory_(&memory), fill_(fill), has_mask_(has_mask) {}

  void add(T&& value, std::size_t row, std::size_t rows) {
    if constexpr (is_tensor<T>) {
      const shape& first = row == 0 ? value.shape() : values_.first(row).front().shape();
      const auto fits = [&](const shape& a, const shape& b) {
        return a.rank() == b.rank() && a.rank() > 0 && std::equal(a.begin() + 1, a.end(), b.begin() + 1);
      };
      if (!fits(value.shape(), first))
        throw std::invalid_argument(
            "its tensor has the shape " + to_string(value.shape()) +
            ", which can't be padded in the first dimension to match the others in its batch");
    }
    values_.add(std::move(value), row, rows);
  }

  result take(std::size_t rows) {
    std::vector<T>& lists = values_.first(rows);
    result all{{}, tensor<std::int64_t>(shape{rows}, *memory_), {}};
    std::size_t longest = 0;
    for (std::size_t row = 0; row < rows; ++row) {
      const std::size_t length = length_of(lists[row]);
      all.lengths[row] = static_cast<std::int64_t>(length);
      longest = std::max(longest, length);
    }
    const shape leading{rows, longest};
    if (has_mask_) all.mask = tensor<bool>(leading, *memory_);
    if constexpr (is_tensor<T>) {
      const shape& first = lists.front().shape();
      elements_.begin(leading, shape(std::span(first.begin() + 1, first.end())));
    } else {
      elements_.begin(leading);
    }
    for (std::size_t row = 0; row < rows; ++row) {
      const std::size_t length = length_of(lists[row]), begin = row * longest, end = begin + length;
      if constexpr (is_tensor<T>) elements_.copy(lists[row].data(), length, begin);
      else elements_.add_each(lists[row], begin, whole_element());
      elements_.fill(end, longest - length, fill_);
      if (has_mask_) {
        std::fill_n(all.mask.data() + begin, length, true);
        std::fill_n(all.mask.data() + end, longest - length, false);
      }
    }
    all.values = elements_.take(rows);
    lists.clear();
    return all;
  }

 private:
  static std::size_t length_of(const T& value) {
    if constexpr (is_tensor<T>) return value.shape()[0];
    else return value.size();
  }

  Elements elements_;
  list_column<T> values_;
  block_cache* memory_;
  double fill_;
  bool has_mask_;
};

} // namespace detail

} // namespace feedline::inline FEEDLINE_ABI
