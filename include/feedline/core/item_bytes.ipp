// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/core/item_bytes.hpp>

#include <algorithm>
#include <stdexcept>
#include <string>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE known_bytes sum_of(known_bytes a, known_bytes b) {
  std::size_t sum = 0;
  if (!a || !b || __builtin_add_overflow(*a, *b, &sum)) return std::nullopt;
  return sum;
}

FEEDLINE_INLINE known_bytes product_of(std::size_t count, known_bytes bytes) {
  std::size_t product = 0;
  if (!bytes || __builtin_mul_overflow(count, *bytes, &product)) return std::nullopt;
  return product;
}

FEEDLINE_INLINE known_bytes bytes_of_column(known_bytes elements) {
  if (!elements) return elements;
  return block_cache::bytes_for(std::max(block_cache::smallest, *elements));
}

FEEDLINE_INLINE void throw_too_large(std::size_t taken, max_item_bytes limit) {
  throw std::length_error("the item takes " + bytes_text(taken) + ", more than the max_item_bytes{" +
                          std::to_string(limit.bytes) + "} declared for it");
}

} // namespace feedline::inline FEEDLINE_ABI::detail
