// SPDX-License-Identifier: MIT
#pragma once
// Columns: each turns the values of one field into one object of a batch.
#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

#include <feedline/core/half.hpp>
#include <feedline/core/tensor.hpp>
#include <feedline/detail/block_cache.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// The element type and the extents of an array, nested or not.
template <class T>
struct array_facts {
  using element = T;

  static void append_extents(shape&) {}
};

template <class T, std::size_t N>
struct array_facts<std::array<T, N>> {
  using element = typename array_facts<T>::element;

  static void append_extents(shape& s) {
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

/// A run of numbers whose length differs from sample to sample.
template <class T>
concept ragged = requires(const T& t) {
  typename T::value_type;
  requires number<typename T::value_type>;
  { t.data() } -> std::convertible_to<const typename T::value_type*>;
  { t.size() } -> std::convertible_to<std::size_t>;
} && !is_array<T> && !is_tensor<T>;

/// A padding value as a number of type T: negative values wrap as in conversions between whole numbers.
template <number T>
constexpr T number_of(double value) {
  if constexpr (std::is_enum_v<T>) return static_cast<T>(number_of<std::underlying_type_t<T>>(value));
  else if constexpr (std::is_class_v<T>) return T(static_cast<float>(value));
  else if constexpr (!std::is_integral_v<T> || std::is_same_v<T, bool>) return static_cast<T>(value);
  else
    return value < 0 ? static_cast<T>(static_cast<std::int64_t>(value))
                     : static_cast<T>(static_cast<std::uint64_t>(value));
}

// Earlier columns still hold a sample that a later column refused: the next `add` or `take` removes it.
template <class T>
void keep_first(std::vector<T>& values, std::size_t rows) {
  while (values.size() > rows) values.pop_back();
}

/// Makes one object per batch from a field of each sample: call `add` with the value of each row, again if
/// another column refused the sample, then `take` the object. The general case is a list of the values.
template <class T>
class list_column {
 public:
  using result = std::vector<T>;

  void add(T&& value, std::size_t row, std::size_t rows) {
    if (row == 0) values_.reserve(rows);
    keep_first(values_, row);
    values_.push_back(std::move(value));
  }

  result take(std::size_t rows) {
    keep_first(values_, rows);
    return std::exchange(values_, {});
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

  void add(T&& value, std::size_t row, std::size_t rows) {
    if constexpr (is_number) {
      if (row == 0) values_ = result(shape{rows}, *memory_);
      values_[row] = value;
    } else {
      if (row == 0) {
        sample_shape_ = shape_of(value);
        shape all{rows};
        for (const std::size_t extent : sample_shape_) all.append(extent);
        values_ = result(all, *memory_);
      } else if (is_tensor<T> && !(shape_of(value) == sample_shape_)) {
        throw std::invalid_argument("its tensor has the shape " + to_string(shape_of(value)) +
                                    ", but the batch began with " + to_string(sample_shape_) +
                                    ": make them equal, or batch with as_list or padded");
      }
      const std::size_t count = sample_shape_.count();
      if (count > 0) std::memcpy(values_.data() + row * count, begin_of(value), count * sizeof(element));
    }
  }

  /// The rows of numbers from `row` on, for writing.
  std::span<T> rows_from(std::size_t row, std::size_t rows)
    requires is_number
  {
    if (row == 0) values_ = result(shape{rows}, *memory_);
    return {values_.data() + row, values_.data() + rows};
  }

  result take(std::size_t rows) {
    values_.truncate(rows);
    return std::move(values_);
  }

 private:
  static shape shape_of(const T& value) {
    if constexpr (is_tensor<T>) {
      return value.shape();
    } else {
      shape s;
      array_facts<T>::append_extents(s);
      return s;
    }
  }

  static const void* begin_of(const T& value) noexcept {
    if constexpr (is_tensor<T>) return value.data();
    else return std::addressof(value);
  }

  block_cache* memory_;
  result values_;
  shape sample_shape_;
};

} // namespace feedline::inline FEEDLINE_ABI::detail

namespace feedline::inline FEEDLINE_ABI {

/// A padded column: values [batch, longest, …] and the length of each sample.
template <class T>
struct padded_tensor {
  tensor<T> values;
  std::vector<std::size_t> lengths; ///< of each sample's first dimension
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

  explicit masked_column(block_cache& memory) : values_(memory), valid_(memory) {}

  void add(T&& value, std::size_t row, std::size_t rows) {
    valid_.add(value.has_value(), row, rows);
    values_.add(value.value_or(element()), row, rows);
  }

  result take(std::size_t rows) { return {values_.take(rows), valid_.take(rows)}; }

 private:
  stacked_column<element> values_;
  stacked_column<bool> valid_;
};

/// Runs of numbers, or tensors that differ in their first dimension: padded to the longest one.
template <class T>
class padded_column {
 public:
  using element = typename T::value_type;
  using result = padded_tensor<element>;

  padded_column(double fill, block_cache& memory) : fill_(number_of<element>(fill)), memory_(&memory) {}

  void add(T&& value, std::size_t row, std::size_t rows) {
    if (row == 0) values_.reserve(rows);
    keep_first(values_, row);
    if constexpr (is_tensor<T>) {
      const auto fits = [&](const shape& a, const shape& b) {
        return a.rank() == b.rank() && a.rank() > 0 && std::equal(a.begin() + 1, a.end(), b.begin() + 1);
      };
      if (!fits(value.shape(), values_.empty() ? value.shape() : values_.front().shape()))
        throw std::invalid_argument(
            "its tensor has the shape " + to_string(value.shape()) +
            ", which can't be padded in the first dimension to match the others in its batch");
    }
    values_.push_back(std::move(value));
  }

  result take(std::size_t rows) {
    keep_first(values_, rows);
    result r;
    std::size_t longest = 0;
    for (const T& value : values_) {
      r.lengths.push_back(length_of(value));
      longest = std::max(longest, r.lengths.back());
    }
    shape all{rows, longest};
    std::size_t row_count = 1;
    if constexpr (is_tensor<T>) {
      for (const std::size_t extent :
           std::span(values_.front().shape().begin() + 1, values_.front().shape().end())) {
        all.append(extent);
        row_count *= extent;
      }
    }
    r.values = tensor<element>(all, *memory_);
    element* out = r.values.begin();
    for (const T& value : values_) {
      element* end = out + longest * row_count;
      out = std::copy(value.data(), value.data() + value.size(), out);
      std::fill(out, end, fill_);
      out = end;
    }
    values_.clear();
    return r;
  }

 private:
  static std::size_t length_of(const T& value) {
    if constexpr (is_tensor<T>) return value.shape()[0];
    else return value.size();
  }

  element fill_;
  block_cache* memory_;
  std::vector<T> values_;
};

} // namespace detail

} // namespace feedline::inline FEEDLINE_ABI
