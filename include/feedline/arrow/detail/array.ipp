// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/arrow/detail/array.hpp>

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
  const arrow_dictionary* part = this;
  while (part->before > wanted) part = part->far_->before > wanted ? part->far_ : part->previous;
  return {&part->values, wanted - part->before};
}

FEEDLINE_INLINE void arrow_dictionary::follow(const arrow_dictionary& earlier) noexcept {
  before = earlier.size();
  first = earlier.first;
  previous = &earlier;
  depth_ = earlier.depth_ + 1;
  const arrow_dictionary& far = *earlier.far_;
  far_ = earlier.depth_ - far.depth_ == far.depth_ - far.far_->depth_ ? far.far_ : &earlier;
}

FEEDLINE_INLINE const arrow_field& value_field(const arrow_field& field) {
  return field.type == arrow_type::dictionary ? value_field(field.children.front()) : field;
}

} // namespace feedline::inline FEEDLINE_ABI::detail
