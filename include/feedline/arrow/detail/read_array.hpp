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

#ifndef FEEDLINE_COMPILED
#include <feedline/arrow/detail/read_array.ipp>
#endif
