// SPDX-License-Identifier: MIT
#pragma once
// Converts values to bytes and back: numbers, arrays, tensors, texts, vectors and plain structs of those.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <feedline/core/half.hpp>
#include <feedline/core/random.hpp>
#include <feedline/core/tensor.hpp>
#include <feedline/detail/fields.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// Destinations for the bytes of a value: counted only, …
class byte_count {
 public:
  void put(const void*, std::size_t count) noexcept { size_ += count; }

  std::size_t size() const noexcept { return size_; }

 private:
  std::size_t size_ = 0;
};

/// … written to memory that is large enough, …
class byte_copy {
 public:
  explicit byte_copy(std::byte* to) noexcept : to_(to) {}

  void put(const void* bytes, std::size_t count) noexcept {
    if (count == 0) return; // the pointer may be null
    std::memcpy(to_, bytes, count);
    to_ += count;
  }

 private:
  std::byte* to_;
};

/// … or hashed.
class byte_hash {
 public:
  void put(const void* bytes, std::size_t count) noexcept {
    value_ = key(value_, hash_of_block({static_cast<const std::byte*>(bytes), count}));
  }

  std::uint64_t value() const noexcept { return value_; }

 private:
  std::uint64_t value_ = 0;
};

/// Untrusted bytes, read from the start. take() returns false if too few are left.
class stored_bytes {
 public:
  explicit stored_bytes(std::span<const std::byte> bytes) noexcept : bytes_(bytes) {}

  bool take(void* to, std::size_t count) noexcept {
    if (count > bytes_.size()) return false;
    if (to && count > 0) std::memcpy(to, bytes_.data(), count); // null: room for no bytes
    bytes_ = bytes_.subspan(count);
    return true;
  }

  std::size_t left() const noexcept { return bytes_.size(); }

 private:
  std::span<const std::byte> bytes_;
};

template <class T>
inline constexpr bool is_text_or_vector = false;
template <class T, class Allocator>
inline constexpr bool is_text_or_vector<std::vector<T, Allocator>> = true;
template <class Char, class Traits, class Allocator>
inline constexpr bool is_text_or_vector<std::basic_string<Char, Traits, Allocator>> = true;

template <class T>
inline constexpr bool has_fixed_size = false;
template <class T, std::size_t N>
inline constexpr bool has_fixed_size<std::array<T, N>> = true;
template <class T, std::size_t N>
inline constexpr bool has_fixed_size<T[N]> = true;

/// The element type of an array, a text or a vector.
template <class T>
struct element_of_list {
  using type = typename T::value_type;
};

template <class T, std::size_t N>
struct element_of_list<T[N]> {
  using type = T;
};

template <class T>
using element_of_list_t = typename element_of_list<T>::type;

/// The bytes of a number without padding, counted from its first: an x87 long double is followed by padding.
template <class T>
inline constexpr std::size_t bytes_of_number = sizeof(T);
template <>
inline constexpr std::size_t bytes_of_number<long double> =
    std::numeric_limits<long double>::digits == 64 ? 10 : sizeof(long double);

// Not every byte is a valid bool.
template <class T>
concept copied_as_bytes = number<T> && !std::is_same_v<T, bool> && bytes_of_number<T> == sizeof(T);

/// Calls f with a null pointer of each field's type. Returns whether all calls returned true.
template <class T, class F>
consteval bool all_fields(F f) {
  using fields = decltype(fields_of(std::declval<T&>()));
  return [&]<std::size_t... I>(std::index_sequence<I...>) {
    return (f(static_cast<std::remove_reference_t<std::tuple_element_t<I, fields>>*>(nullptr)) && ...);
  }(std::make_index_sequence<std::tuple_size_v<fields>>());
}

template <class T>
consteval bool can_be_stored() {
  if constexpr (std::is_const_v<T> || !std::is_default_constructible_v<T>) return false;
  else if constexpr (number<T>) return true;
  else if constexpr (is_tensor<T>) return can_be_stored<typename T::value_type>();
  else if constexpr (has_fixed_size<T> || is_text_or_vector<T>) return can_be_stored<element_of_list_t<T>>();
  else if constexpr (has_fields<T>)
    return all_fields<T>([]<class Field>(Field*) { return can_be_stored<Field>(); });
  else return false;
}

/// Values that can be turned into bytes and back.
template <class T>
concept storable = can_be_stored<T>();

/// Writes a value, as at least one byte, to one of the destinations above.
template <storable T, class Bytes>
void store(Bytes& to, const T& value) {
  const auto put_number = [&to](auto n) { to.put(&n, sizeof n); };
  if constexpr (std::is_same_v<T, bool>) {
    put_number(static_cast<unsigned char>(value));
  } else if constexpr (number<T>) {
    to.put(&value, bytes_of_number<T>);
  } else if constexpr (is_tensor<T>) {
    put_number(static_cast<std::uint64_t>(value.shape().rank()));
    for (const std::size_t extent : value.shape()) put_number(static_cast<std::uint64_t>(extent));
    using element = typename T::value_type;
    if constexpr (copied_as_bytes<element>) to.put(value.data(), value.size() * sizeof(element));
    else
      for (const element& e : value) store(to, e);
  } else if constexpr (has_fixed_size<T> || is_text_or_vector<T>) {
    using element = element_of_list_t<T>;
    put_number(static_cast<std::uint64_t>(std::size(value)));
    if constexpr (copied_as_bytes<element>) to.put(std::data(value), std::size(value) * sizeof(element));
    else
      for (const element& e : value) store(to, e);
  } else {
    std::apply([&](const auto&... field) { (store(to, field), ...); }, fields_of(value));
    if (std::tuple_size_v<decltype(fields_of(value))> == 0) put_number('\0');
  }
}

/// Reads a value from bytes that store() wrote, or any other bytes. Returns false if they don't hold one.
template <storable T>
bool take_stored(stored_bytes& from, T& value) {
  const auto take_count = [&from](std::size_t& n) {
    std::uint64_t word = 0;
    const bool taken = from.take(&word, sizeof word) && word <= ~std::size_t{0};
    n = static_cast<std::size_t>(word);
    return taken;
  };
  if constexpr (std::is_same_v<T, bool>) {
    unsigned char byte = 0;
    if (!from.take(&byte, 1) || byte > 1) return false;
    value = byte == 1;
    return true;
  } else if constexpr (number<T>) {
    return from.take(&value, bytes_of_number<T>);
  } else if constexpr (is_tensor<T>) {
    using element = typename T::value_type;
    std::size_t rank = 0, count = 1;
    shape extents;
    if (!take_count(rank) || rank > shape::max_rank) return false;
    for (; rank > 0; --rank) {
      std::size_t extent = 0;
      if (!take_count(extent) || __builtin_mul_overflow(count, extent, &count)) return false;
      extents.append(extent);
    }
    if (count > from.left() / (copied_as_bytes<element> ? sizeof(element) : 1)) return false;
    if constexpr (T::has_static_shape) {
      if (!(extents == value.shape())) return false;
    } else {
      value = T(extents);
    }
    if constexpr (copied_as_bytes<element>) {
      return from.take(value.data(), count * sizeof(element));
    } else {
      for (element& e : value) {
        e = {};
        if (!take_stored(from, e)) return false;
      }
      return true;
    }
  } else if constexpr (has_fixed_size<T> || is_text_or_vector<T>) {
    using element = element_of_list_t<T>;
    std::size_t count = 0;
    if (!take_count(count)) return false;
    if constexpr (has_fixed_size<T>) {
      if (count != std::size(value)) return false;
    }
    if constexpr (copied_as_bytes<element>) {
      if (count > from.left() / sizeof(element)) return false;
      if constexpr (!has_fixed_size<T>) value.resize(count);
      return from.take(std::data(value), count * sizeof(element));
    } else if constexpr (has_fixed_size<T>) {
      for (element& e : value)
        if (!take_stored(from, e)) return false;
      return true;
    } else {
      if (count > from.left()) return false; // each takes at least one byte
      value.clear();
      for (; count > 0; --count) {
        element e{};
        if (!take_stored(from, e)) return false;
        value.push_back(std::move(e));
      }
      return true;
    }
  } else {
    const bool whole =
        std::apply([&](auto&... field) { return (take_stored(from, field) && ...); }, fields_of(value));
    char none = 0;
    return whole && (std::tuple_size_v<decltype(fields_of(value))> > 0 || from.take(&none, 1));
  }
}

/// Memory that is reused, for one value at a time.
class scratch_memory {
 public:
  /// At least `size` bytes, with any content.
  std::byte* of(std::size_t size) {
    if (size > size_) {
      bytes_.reset();
      bytes_ = std::make_shared_for_overwrite<std::byte[]>(size);
      size_ = size;
    }
    return bytes_.get();
  }

 private:
  std::shared_ptr<std::byte[]> bytes_;
  std::size_t size_ = 0;
};

} // namespace feedline::inline FEEDLINE_ABI::detail
