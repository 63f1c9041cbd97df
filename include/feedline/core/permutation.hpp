// SPDX-License-Identifier: MIT
#pragma once
// A random order of any number of elements, computed position by position.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include <feedline/core/random.hpp>

namespace feedline::inline FEEDLINE_ABI {

/// A keyed permutation of [0, size), in constant memory: `p[i]` is the number at position i. Equal keys and
/// sizes produce equal permutations, on every platform.
///
/// Up to 256 numbers are shuffled and listed. A larger range fills the cells of a table with at least as many
/// rows as columns. The row and the column of a cell move in turn, each by a keyed function of the other: a
/// Feistel network (Luby, Rackoff: "How to construct pseudorandom permutations from pseudorandom functions",
/// 1988) for numbers of any base, with cycle walking (Black, Rogaway: "Ciphers with arbitrary finite
/// domains", 2002). With each of the six rounds the positions of any two numbers get closer to a uniform
/// distribution, by a factor of about the number of columns.
class permutation {
 public:
  /// The largest size.
  static constexpr std::uint64_t most = std::uint64_t{1} << 40;

  /// The permutation of [0, size) for `key`. Throws std::length_error for a size above `most`.
  permutation(std::uint64_t size, std::uint64_t key);

  /// The number of positions.
  std::uint64_t size() const noexcept { return size_; }

  /// The number at position i, which must be less than size().
  std::uint64_t operator[](std::uint64_t i) const noexcept {
    if (is_listed()) return list_[static_cast<std::size_t>(i)];
    // The last row's cells beyond the size aren't used: move on from there.
    do i = moved(i);
    while (i >= size_);
    return i;
  }

  /// The position of a number, which must be less than size().
  std::uint64_t find(std::uint64_t number) const noexcept {
    if (is_listed())
      return static_cast<std::uint64_t>(std::find(list_.begin(), list_.end(), number) - list_.begin());
    do number = moved_back(number);
    while (number >= size_);
    return number;
  }

 private:
  static constexpr std::size_t rounds = 6;
  __extension__ using wide = unsigned __int128;

  bool is_listed() const noexcept { return size_ <= list_.size(); }

  std::uint64_t moved(std::uint64_t cell) const noexcept {
    std::uint64_t row = cell >> column_bits_;
    std::uint64_t column = cell & ((std::uint64_t{1} << column_bits_) - 1);
    for (std::size_t round = 0; round < rounds; round += 2) {
      row += static_cast<std::uint64_t>((wide{scrambled(column ^ keys_[round])} * rows_) >> 64);
      row = row < rows_ ? row : row - rows_;
      column ^= scrambled(row ^ keys_[round + 1]) >> (64 - column_bits_);
    }
    return row << column_bits_ | column;
  }

  std::uint64_t moved_back(std::uint64_t cell) const noexcept {
    std::uint64_t row = cell >> column_bits_;
    std::uint64_t column = cell & ((std::uint64_t{1} << column_bits_) - 1);
    for (std::size_t round = rounds; round > 0; round -= 2) {
      column ^= scrambled(row ^ keys_[round - 1]) >> (64 - column_bits_);
      const auto moved =
          static_cast<std::uint64_t>((wide{scrambled(column ^ keys_[round - 2])} * rows_) >> 64);
      row = row >= moved ? row - moved : row + rows_ - moved;
    }
    return row << column_bits_ | column;
  }

  // Like detail::mix, but only the upper bits are good.
  static std::uint64_t scrambled(std::uint64_t x) noexcept {
    x *= 0xbf58476d1ce4e5b9;
    return (x ^ (x >> 32)) * 0x94d049bb133111eb;
  }

  std::uint64_t size_;
  std::uint64_t rows_ = 0;
  int column_bits_ = 0;
  std::array<std::uint64_t, rounds> keys_{};
  std::array<std::uint8_t, 256> list_{};
};

} // namespace feedline::inline FEEDLINE_ABI

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_CORE)
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
#endif
