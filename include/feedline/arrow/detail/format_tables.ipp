// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/arrow/detail/format_tables.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE bool type_table::verify(flat_verifier& v, type_kind kind) const {
  if (!begin(v)) return false;
  bool is_whole = true;
  if (kind == type_kind::integer)
    is_whole = has_number<std::int32_t>(v, bit_width) && has_number<std::uint8_t>(v, is_signed);
  else if (kind == type_kind::floating_point || kind == type_kind::union_of)
    is_whole = has_number<std::int16_t>(v, precision);
  else if (kind == type_kind::fixed_size_binary || kind == type_kind::fixed_size_list)
    is_whole = has_number<std::int32_t>(v, size);
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
