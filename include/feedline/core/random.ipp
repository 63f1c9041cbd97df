// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/core/random.hpp>

#include <array>
#include <cstring>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE std::uint64_t hash_of_block(std::span<const std::byte> bytes) noexcept {
  std::array<std::uint64_t, 4> lanes{bytes.size(), 1, 2, 3};
  const auto take = [](std::uint64_t& sum, std::uint64_t word) {
    sum = (sum ^ word) * 0xbf58476d1ce4e5b9;
    sum ^= sum >> 32;
  };
  const std::byte* at = bytes.data();
  std::size_t left = bytes.size();
  for (; left >= sizeof lanes; at += sizeof lanes, left -= sizeof lanes) {
    std::array<std::uint64_t, 4> words;
    std::memcpy(words.data(), at, sizeof words);
    for (std::size_t i = 0; i < words.size(); ++i) take(lanes[i], words[i]);
  }
  if (left > 0) {
    std::array<std::uint64_t, 4> words{};
    std::memcpy(words.data(), at, left);
    for (std::size_t i = 0; i < words.size(); ++i) take(lanes[i], words[i]);
  }
  return key(lanes[0], lanes[1], lanes[2], lanes[3]);
}

} // namespace feedline::inline FEEDLINE_ABI::detail
