// SPDX-License-Identifier: MIT
#pragma once
// Creates the arrays of a record batch, and checks all of their sizes against the body.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>

#include <feedline/arrow/detail/array.hpp>
#include <feedline/arrow/detail/byte_limit.hpp>
#include <feedline/arrow/detail/decompress.hpp>
#include <feedline/arrow/detail/format_tables.hpp>
#include <feedline/arrow/schema.hpp>
#include <feedline/detail/function_ref.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// Returns the dictionary of a field. Throws arrow_error.
using dictionary_finder = function_ref<std::shared_ptr<const arrow_dictionary>(const arrow_field& field)>;

class array_reader {
 public:
  /// `body` is the message's body. `memory` stores decompressed and copied data, up to `limit`. Throws arrow_error.
  array_reader(const batch_table& batch, std::span<const std::byte> body, dictionary_finder find_dictionary,
               owned_bytes& memory, byte_limit& limit);

  /// Reads a column of at least `rows` rows. For a struct on the path, reads only the part on the path.
  arrow_array read(const arrow_field& field, std::uint64_t rows, std::span<const std::size_t> path = {},
                   bool is_list_element = false);

 private:
  static std::uint64_t bytes_for(std::uint64_t length, std::size_t size, std::size_t divisor = 1);

  std::uint64_t node(const arrow_field& field, std::size_t number) const;

  std::uint64_t length_of(const arrow_field& field) const { return node(field, 0); }

  void read_valid(arrow_array& a) {
    if (node(*a.field, 1) > 0) a.valid = buffer(*a.field, 0, bytes_for(a.length, 1, 8));
  }

  void read_offsets(arrow_array& a);

  void read_further(arrow_array& a);

  /// The number of further buffers of the batch's view column number `view`.
  std::uint64_t variadic_count(std::size_t view) const;

  /// The bytes of a buffer in the body, which may be compressed.
  std::span<const std::byte> stored(const arrow_field& field, std::uint64_t number);

  /// A buffer of the field, of at least `least` bytes.
  std::span<const std::byte> buffer(const arrow_field& field, std::uint64_t number, std::uint64_t least);

  /// Copies unaligned numbers, so that lists of them can be returned as spans.
  void align(std::span<const std::byte>& bytes, std::size_t alignment);

  const batch_table& batch_;
  std::span<const std::byte> body_;
  dictionary_finder find_dictionary_;
  owned_bytes& memory_;
  byte_limit& limit_;
  arrow_codec codec_ = arrow_codec::none;
  std::size_t summed_views_ = 0;
  std::uint64_t further_buffers_ = 0; // of that many view columns
};

} // namespace feedline::inline FEEDLINE_ABI::detail

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_ARROW)
#include <string>

#include <feedline/arrow/arrow_error.hpp>
#include <feedline/arrow/detail/flat_table.hpp>
#include <feedline/arrow/detail/type_layout.hpp>
#include <feedline/detail/readable_text.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE array_reader::array_reader(const batch_table& batch, std::span<const std::byte> body,
                                           dictionary_finder find_dictionary, owned_bytes& memory,
                                           byte_limit& limit)
    : batch_(batch), body_(body), find_dictionary_(find_dictionary), memory_(memory), limit_(limit) {
  if (const compression_table* const compression = batch.compression()) {
    if (compression->method() != 0 || compression->codec() < 0 || compression->codec() > 1)
      throw arrow_error("it is compressed with an unknown method");
    codec_ = compression->codec() == 0 ? arrow_codec::lz4 : arrow_codec::zstd;
  }
}

FEEDLINE_INLINE arrow_array array_reader::read(const arrow_field& field, std::uint64_t rows,
                                               std::span<const std::size_t> path, bool is_list_element) {
  limit_.take(sizeof(arrow_array));
  arrow_array a;
  a.field = &field;
  a.length = length_of(field);
  if (a.length < rows)
    throw arrow_error("part " + in_backticks(field.name) + " has " + std::to_string(a.length) +
                      " rows, but needs " + std::to_string(rows));
  switch (layout_of(field.type).holds) {
  case arrow_buffers::none:
    return a;
  case arrow_buffers::bits:
    a.values = buffer(field, 1, bytes_for(a.length, 1, 8));
    break;
  case arrow_buffers::values:
  case arrow_buffers::indices: {
    const std::size_t size = field.type == arrow_type::fixed_size_binary ? field.bytes : field.bits / 8;
    a.values = buffer(field, 1, bytes_for(a.length, size));
    const bool is_number = has_integers(field) || field.type == arrow_type::floating_point;
    if (is_list_element && is_number) align(a.values, size);
    if (field.type == arrow_type::dictionary) a.dictionary = find_dictionary_(field);
    break;
  }
  case arrow_buffers::bytes:
    read_offsets(a);
    a.values = buffer(field, 2, 0);
    break;
  case arrow_buffers::views:
    a.values = buffer(field, 1, bytes_for(a.length, arrow_array::view_size));
    read_further(a);
    break;
  case arrow_buffers::lists: {
    const bool is_fixed = field.type == arrow_type::fixed_size_list;
    if (!is_fixed) read_offsets(a);
    const std::uint64_t elements = is_fixed ? bytes_for(a.length, field.elements) : 0;
    a.children.push_back(read(field.children.front(), elements, {}, true));
    break;
  }
  case arrow_buffers::parts:
    if (!path.empty()) {
      a.children.push_back(read(field.children[path.front()], a.length, path.subspan(1)));
      break;
    }
    for (const arrow_field& child : field.children) a.children.push_back(read(child, a.length));
    break;
  case arrow_buffers::unknown:
    throw arrow_error("part " + in_backticks(field.name) + " is of type " + field.other +
                      ", which isn't supported");
  }
  read_valid(a);
  return a;
}

FEEDLINE_INLINE std::uint64_t array_reader::bytes_for(std::uint64_t length, std::size_t size,
                                                      std::size_t divisor) {
  std::uint64_t bytes = 0;
  if (__builtin_mul_overflow(length, size, &bytes) || __builtin_add_overflow(bytes, divisor - 1, &bytes))
    throw arrow_error("the batch has more rows than memory can address");
  return bytes / divisor;
}

FEEDLINE_INLINE std::uint64_t array_reader::node(const arrow_field& field, std::size_t number) const {
  const auto nodes = batch_.nodes();
  if (field.node >= nodes.size() / batch_table::node_size)
    throw arrow_error("the batch has fewer nodes than the schema has fields");
  const auto value = load<std::int64_t>(nodes.data() + field.node * batch_table::node_size + 8 * number);
  if (value < 0) throw arrow_error("part " + in_backticks(field.name) + " has a negative length");
  return static_cast<std::uint64_t>(value);
}

FEEDLINE_INLINE void array_reader::read_offsets(arrow_array& a) {
  if (a.length == 0) return; // the buffer may be absent
  std::uint64_t count = 0;
  if (__builtin_add_overflow(a.length, 1, &count))
    throw arrow_error("the batch has more rows than memory can address");
  a.offsets = buffer(*a.field, 1, bytes_for(count, layout_of(a.field->type).offset_size));
}

FEEDLINE_INLINE std::uint64_t array_reader::variadic_count(std::size_t view) const {
  const auto counts = batch_.variadic_counts();
  if (view >= counts.size() / batch_table::count_size)
    throw arrow_error("the batch has fewer variadic counts than view columns");
  const auto count = load<std::int64_t>(counts.data() + view * batch_table::count_size);
  if (count < 0) throw arrow_error("the batch has an invalid variadic count");
  return static_cast<std::uint64_t>(count);
}

FEEDLINE_INLINE std::span<const std::byte> array_reader::stored(const arrow_field& field,
                                                                std::uint64_t number) {
  if (summed_views_ > field.view)
    summed_views_ = further_buffers_ = 0; // a column to the left of the last one
  for (; summed_views_ < field.view; ++summed_views_)
    if (__builtin_add_overflow(further_buffers_, variadic_count(summed_views_), &further_buffers_))
      throw arrow_error("the batch has an invalid variadic count");
  std::uint64_t at = 0;
  if (__builtin_add_overflow(std::uint64_t{field.buffer}, further_buffers_, &at))
    throw arrow_error("the batch has an invalid variadic count");
  const auto buffers = batch_.buffers();
  const std::size_t count = buffers.size() / batch_table::buffer_size;
  if (at >= count || number >= count - at)
    throw arrow_error("the batch has fewer buffers than the schema needs");
  const std::byte* const entry =
      buffers.data() + static_cast<std::size_t>(at + number) * batch_table::buffer_size;
  const auto offset = load<std::int64_t>(entry), size = load<std::int64_t>(entry + 8);
  if (offset < 0 || size < 0 || static_cast<std::uint64_t>(offset) > body_.size() ||
      static_cast<std::uint64_t>(size) > body_.size() - static_cast<std::uint64_t>(offset))
    throw arrow_error("a buffer of part " + in_backticks(field.name) + " is outside the body");
  return body_.subspan(static_cast<std::size_t>(offset), static_cast<std::size_t>(size));
}

FEEDLINE_INLINE std::span<const std::byte> array_reader::buffer(const arrow_field& field,
                                                                std::uint64_t number, std::uint64_t least) {
  auto bytes = stored(field, number);
  if (codec_ != arrow_codec::none) bytes = decompress(codec_, bytes, memory_, limit_);
  if (bytes.size() < least)
    throw arrow_error("a buffer of part " + in_backticks(field.name) + " has " +
                      std::to_string(bytes.size()) + " bytes, but needs at least " + std::to_string(least));
  return bytes;
}

FEEDLINE_INLINE void array_reader::read_further(arrow_array& a) {
  const std::uint64_t count = variadic_count(a.field->view);
  std::uint64_t left = body_.size(); // so that the buffers can't be more than the body has bytes
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t size = stored(*a.field, 2 + i).size();
    if (size > left) throw arrow_error("the buffers of part " + in_backticks(a.field->name) + " overlap");
    left -= size;
    a.further.push_back(buffer(*a.field, 2 + i, 0));
  }
}

FEEDLINE_INLINE void array_reader::align(std::span<const std::byte>& bytes, std::size_t alignment) {
  if (reinterpret_cast<std::uintptr_t>(bytes.data()) % alignment == 0) return;
  const auto copy = memory_.add(bytes.size(), limit_);
  std::memcpy(copy.data(), bytes.data(), bytes.size());
  bytes = copy;
}

} // namespace feedline::inline FEEDLINE_ABI::detail
#endif
