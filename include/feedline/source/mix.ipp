// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/source/mix.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE std::uint64_t pass_index::join(const place& p) const {
  const int width = bits_of(p.pass);
  const int room = part_shift_ - width_bits - width;
  if (width > max_width || bits_of(p.index) > room)
    throw std::length_error("feedline::mix: in pass " + std::to_string(p.pass) + ", source " +
                            std::to_string(p.part) + " has a sample with the index " +
                            std::to_string(p.index) + ", which doesn't fit into the " + std::to_string(room) +
                            " bits that are left for it");
  const std::uint64_t part = part_shift_ < 64 ? std::uint64_t{p.part} << part_shift_ : 0;
  return part | static_cast<std::uint64_t>(width) << (part_shift_ - width_bits) | p.pass << room | p.index;
}

FEEDLINE_INLINE pass_index::place pass_index::split(std::uint64_t index) const noexcept {
  place p{};
  if (part_shift_ < 64) p.part = static_cast<std::size_t>(index >> part_shift_);
  const int width = static_cast<int>(index >> (part_shift_ - width_bits) & 31);
  const int room = part_shift_ - width_bits - width;
  p.pass = index >> room & ((std::uint64_t{1} << width) - 1);
  p.index = index & ((std::uint64_t{1} << room) - 1);
  return p;
}

} // namespace feedline::inline FEEDLINE_ABI::detail
