// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/arrow/value.hpp>

namespace feedline::inline FEEDLINE_ABI {

FEEDLINE_INLINE std::size_t arrow_value::size() const {
  if (is_null()) return 0;
  if (type() == arrow_type::structure) return place_.array->children.size();
  if (!detail::is_list(*field())) return 0;
  const auto [begin, end] = place_.array->elements(place_.at);
  return static_cast<std::size_t>(end - begin);
}

FEEDLINE_INLINE arrow_value arrow_value::operator[](std::size_t i) const {
  if (i >= size())
    throw arrow_error("there is no element " + std::to_string(i) + "; the value has " +
                      std::to_string(size()));
  if (type() == arrow_type::structure)
    return arrow_value({&place_.array->children[i], place_.at}, max_bytes_);
  return arrow_value({&place_.array->children.front(), place_.array->elements(place_.at).first + i},
                     max_bytes_);
}

} // namespace feedline::inline FEEDLINE_ABI
