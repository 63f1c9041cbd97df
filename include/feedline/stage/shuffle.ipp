// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/stage/shuffle.hpp>

#include <stdexcept>
#include <string>

#include <feedline/detail/given_size.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE void check_shuffle(const shuffle_options& o) {
  if (o.capacity == 0)
    throw std::invalid_argument("feedline::shuffle: a buffer needs room for at least one item");
  refuse_negative(o.capacity, "feedline::shuffle: the capacity");
  refuse_negative(o.min_fill, "feedline::shuffle: the min_fill");
  if (o.min_fill > o.capacity)
    throw std::invalid_argument("feedline::shuffle: min_fill " + std::to_string(o.min_fill) +
                                " is more than the capacity of " + std::to_string(o.capacity));
}

} // namespace feedline::inline FEEDLINE_ABI::detail
