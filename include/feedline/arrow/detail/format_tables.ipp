// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/arrow/detail/format_tables.hpp>

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
