// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/arrow/detail/array.hpp>

#include <algorithm>
#include <string>

#include <feedline/arrow/arrow_error.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE void arrow_array::refuse_range(std::int64_t begin, std::int64_t end, std::uint64_t limit) {
  throw arrow_error("offsets " + std::to_string(begin) + " and " + std::to_string(end) +
                    " aren't within the data, which has a length of " + std::to_string(limit));
}

FEEDLINE_INLINE void arrow_array::refuse_view(std::uint64_t at) const {
  const std::byte* const view = values.data() + static_cast<std::size_t>(at) * view_size;
  throw arrow_error("the view of " + std::to_string(load<std::int32_t>(view)) + " bytes at offset " +
                    std::to_string(load<std::int32_t>(view + 12)) + " of buffer " +
                    std::to_string(load<std::int32_t>(view + 8)) + " isn't within the column's " +
                    std::to_string(further.size()) + " buffers");
}

FEEDLINE_INLINE arrow_place arrow_dictionary::at(std::int64_t index) const {
  const auto wanted = static_cast<std::uint64_t>(index); // a negative index is larger than any dictionary
  if (wanted >= size())
    throw arrow_error("the row refers to value " + std::to_string(index) + " of a dictionary that has only " +
                      std::to_string(size()));
  const auto part =
      static_cast<std::size_t>(std::upper_bound(ends.begin(), ends.end(), wanted) - ends.begin());
  return {parts[part].get(), wanted - (part == 0 ? 0 : ends[part - 1])};
}

FEEDLINE_INLINE bool takes_bytes(const arrow_field& field) {
  switch (field.type) {
  case arrow_type::null:
    return false;
  case arrow_type::fixed_size_binary:
    return field.bytes > 0;
  case arrow_type::fixed_size_list:
    return field.elements > 0 && takes_bytes(field.children.front());
  case arrow_type::structure:
    return std::any_of(field.children.begin(), field.children.end(), takes_bytes);
  default:
    return true;
  }
}

FEEDLINE_INLINE const arrow_field& value_field(const arrow_field& field) {
  return field.type == arrow_type::dictionary ? value_field(field.children.front()) : field;
}

} // namespace feedline::inline FEEDLINE_ABI::detail
