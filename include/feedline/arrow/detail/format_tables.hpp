// SPDX-License-Identifier: MIT
#pragma once
// The tables of Arrow's IPC metadata with the numbers of their fields, from Schema.fbs, Message.fbs and
// File.fbs of the format's specification.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include <feedline/arrow/detail/flat_table.hpp>
#include <feedline/arrow/detail/type_layout.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// A table with the parameters of a type.
class type_table : public flat_table {
 public:
  static constexpr unsigned bit_width = 0, is_signed = 1; // of an integer
  static constexpr unsigned precision = 0;                // of floating point: half, single, double
  static constexpr unsigned size = 0;                     // of fixed_size_binary and fixed_size_list
  static constexpr unsigned mode = 0;                     // of a union: sparse, dense
  static constexpr unsigned digits = 0, scale = 1, decimal_bits = 2; // of a decimal
  static constexpr unsigned unit = 0, timezone = 1, time_bits = 1;   // of dates and times

  bool verify(flat_verifier& v, type_kind kind) const;
};

class integer_table : public type_table {
 public:
  bool Verify(flat_verifier& v) const { return verify(v, type_kind::integer); }
};

class dictionary_table : public flat_table {
 public:
  bool Verify(flat_verifier& v) const {
    return begin(v) && has_number<std::int64_t>(v, 0) && has_table<integer_table>(v, 1) && end(v);
  }

  std::int64_t id() const { return number<std::int64_t>(0, 0); }

  const integer_table* index() const { return table<integer_table>(1); }
};

class field_table : public flat_table {
 public:
  bool Verify(flat_verifier& v) const {
    return begin(v) && has_text(v, 0) && has_number<std::uint8_t>(v, 1) && has_number<std::uint8_t>(v, 2) &&
           verify_type(v) && has_table<dictionary_table>(v, 4) && has_tables<field_table>(v, 5) && end(v);
  }

  std::string_view name() const { return text(0); }

  bool is_nullable() const { return number<std::uint8_t>(1, 0) != 0; }

  type_kind kind() const { return static_cast<type_kind>(number<std::uint8_t>(2, 0)); }

  const type_table* type() const { return table<type_table>(3); }

  const dictionary_table* dictionary() const { return table<dictionary_table>(4); }

  std::size_t children() const { return count<field_table>(5); }

  const field_table& child(std::size_t i) const { return element<field_table>(5, i); }

 private:
  // For a table whose kind its own Verify() doesn't know.
  struct any_type : flat_table {
    bool Verify(flat_verifier& v) const { return begin(v) && end(v); }
  };

  bool verify_type(flat_verifier& v) const {
    return has_table<any_type>(v, 3) && (!type() || type()->verify(v, kind()));
  }
};

class schema_table : public flat_table {
 public:
  bool Verify(flat_verifier& v) const {
    return begin(v) && has_number<std::int16_t>(v, 0) && has_tables<field_table>(v, 1) && end(v);
  }

  bool is_big_endian() const { return number<std::int16_t>(0, 0) != 0; }

  std::size_t columns() const { return count<field_table>(1); }

  const field_table& column(std::size_t i) const { return element<field_table>(1, i); }
};

class compression_table : public flat_table {
 public:
  bool Verify(flat_verifier& v) const {
    return begin(v) && has_number<std::int8_t>(v, 0) && has_number<std::int8_t>(v, 1) && end(v);
  }

  int codec() const { return number<std::int8_t>(0, 0); } // LZ4 frames, ZSTD

  int method() const { return number<std::int8_t>(1, 0); } // 0: each buffer separately
};

class batch_table : public flat_table {
 public:
  static constexpr std::size_t node_size = 16, buffer_size = 16, count_size = 8; // bytes

  bool Verify(flat_verifier& v) const {
    return begin(v) && has_number<std::int64_t>(v, 0) && has_records<node_size>(v, 1) &&
           has_records<buffer_size>(v, 2) && has_table<compression_table>(v, 3) &&
           has_records<count_size>(v, 4) && end(v);
  }

  std::int64_t rows() const { return number<std::int64_t>(0, 0); }

  /// Two numbers per node: length, nulls.
  std::span<const std::byte> nodes() const { return records<node_size>(1); }

  /// Two numbers per buffer: offset in the body, length.
  std::span<const std::byte> buffers() const { return records<buffer_size>(2); }

  const compression_table* compression() const { return table<compression_table>(3); }

  /// For each view column, the number of buffers after its first two.
  std::span<const std::byte> variadic_counts() const { return records<count_size>(4); }
};

class dictionary_batch_table : public flat_table {
 public:
  bool Verify(flat_verifier& v) const {
    return begin(v) && has_number<std::int64_t>(v, 0) && has_table<batch_table>(v, 1) &&
           has_number<std::uint8_t>(v, 2) && end(v);
  }

  std::int64_t id() const { return number<std::int64_t>(0, 0); }

  const batch_table* data() const { return table<batch_table>(1); }

  bool is_delta() const { return number<std::uint8_t>(2, 0) != 0; }
};

/// The kinds of messages, as Message.fbs numbers them.
enum class message_kind : std::uint8_t { none, schema, dictionary_batch, record_batch };

class message_table : public flat_table {
 public:
  bool Verify(flat_verifier& v) const {
    return begin(v) && has_number<std::int16_t>(v, 0) && has_number<std::uint8_t>(v, 1) && verify_header(v) &&
           has_number<std::int64_t>(v, 3) && end(v);
  }

  int version() const { return number<std::int16_t>(0, 0); } // from 0: 3 is V4

  message_kind kind() const { return static_cast<message_kind>(number<std::uint8_t>(1, 0)); }

  template <class T>
  const T* header() const {
    return table<T>(2);
  }

  std::int64_t body_size() const { return number<std::int64_t>(3, 0); }

 private:
  bool verify_header(flat_verifier& v) const;
};

class footer_table : public flat_table {
 public:
  static constexpr std::size_t block_size =
      24; // bytes: offset, size of the metadata and four unused, size of the body

  bool Verify(flat_verifier& v) const {
    return begin(v) && has_number<std::int16_t>(v, 0) && has_table<schema_table>(v, 1) &&
           has_records<block_size>(v, 2) && has_records<block_size>(v, 3) && end(v);
  }

  int version() const { return number<std::int16_t>(0, 0); }

  const schema_table* schema() const { return table<schema_table>(1); }

  std::span<const std::byte> dictionaries() const { return records<block_size>(2); }

  std::span<const std::byte> batches() const { return records<block_size>(3); }
};

} // namespace feedline::inline FEEDLINE_ABI::detail

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_ARROW)
namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE bool type_table::verify(flat_verifier& v, type_kind kind) const {
  bool is_whole = begin(v);
  const type_layout* const layout = layout_of(kind);
  for (unsigned i = 0; layout && is_whole && i < layout->parameters.size(); ++i) {
    switch (layout->parameters[i]) {
    case 'b':
      is_whole = has_number<std::uint8_t>(v, i);
      break;
    case 'h':
      is_whole = has_number<std::int16_t>(v, i);
      break;
    case 'i':
      is_whole = has_number<std::int32_t>(v, i);
      break;
    default:
      is_whole = has_text(v, i);
    }
  }
  return is_whole && end(v);
}

FEEDLINE_INLINE bool message_table::verify_header(flat_verifier& v) const {
  switch (kind()) {
  case message_kind::schema:
    return has_table<schema_table>(v, 2);
  case message_kind::dictionary_batch:
    return has_table<dictionary_batch_table>(v, 2);
  case message_kind::record_batch:
    return has_table<batch_table>(v, 2);
  default:
    return true;
  }
}

} // namespace feedline::inline FEEDLINE_ABI::detail
#endif
