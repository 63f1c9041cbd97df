// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/core/plan/segments.hpp>

#include <cstddef>
#include <utility>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE composed_stages::composed_stages() = default;
FEEDLINE_INLINE composed_stages::composed_stages(const composed_stages&) = default;
FEEDLINE_INLINE composed_stages::composed_stages(composed_stages&&) noexcept = default;
FEEDLINE_INLINE composed_stages& composed_stages::operator=(const composed_stages&) = default;
FEEDLINE_INLINE composed_stages& composed_stages::operator=(composed_stages&&) noexcept = default;
FEEDLINE_INLINE composed_stages::~composed_stages() = default;

FEEDLINE_INLINE composed_stages::composed_stages(segment_traits traits,
                                                 std::initializer_list<std::shared_ptr<const void>> all,
                                                 std::size_t capacity)
    : stages(all), segments{{traits, stages.size(), {1, 1, false}, capacity}} {}

FEEDLINE_INLINE composed_stages joined(const composed_stages& before, const composed_stages& after) {
  composed_stages all = before;
  all.stages.insert(all.stages.end(), after.stages.begin(), after.stages.end());
  for (const segment_description& next : after.segments) {
    if (!joins(all.segments.back().traits, next.traits, next.stages)) {
      all.segments.push_back(next);
      continue;
    }
    segment_description& last = all.segments.back();
    last.traits = joined(last.traits, next.traits);
    last.stages += next.stages;
    if (next.traits.has_queue) last.capacity = next.capacity;
  }
  return all;
}

FEEDLINE_INLINE composed_stages composed_stages::first(std::size_t count) const {
  composed_stages result;
  result.stages.assign(stages.begin(), stages.begin() + static_cast<std::ptrdiff_t>(count));
  for (const segment_description& s : segments) {
    if (count == 0 && s.stages > 0 && !result.segments.empty()) break; // else it is the queue after them
    result.segments.push_back(s);
    result.segments.back().stages = count < s.stages ? count : s.stages;
    count -= result.segments.back().stages;
  }
  return result;
}

} // namespace feedline::inline FEEDLINE_ABI::detail
