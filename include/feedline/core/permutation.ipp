// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/core/permutation.hpp>

#include <stdexcept>

#include <feedline/detail/given_size.hpp>

namespace feedline::inline FEEDLINE_ABI {

FEEDLINE_INLINE permutation::permutation(std::uint64_t size, std::uint64_t key) : size_(size) {
  if (size > most)
    throw std::length_error("feedline::permutation: the size must be from 0 to 2^40, not " +
                            detail::size_text(size));
  if (is_listed()) {
    for (std::size_t i = 0; i < size; ++i) list_[i] = static_cast<std::uint8_t>(i);
    detail::shuffle_range(list_.begin(), static_cast<std::size_t>(size), random_generator(key));
    return;
  }
  while (size >> (2 * column_bits_ + 2) != 0) ++column_bits_;
  rows_ = ((size - 1) >> column_bits_) + 1;
  for (std::size_t round = 0; round < keys_.size(); ++round) keys_[round] = detail::key(key, round);
}

} // namespace feedline::inline FEEDLINE_ABI
