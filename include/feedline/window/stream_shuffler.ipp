// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/window/stream_shuffler.hpp>

#include <stdexcept>
#include <string>
#include <utility>

namespace feedline::inline FEEDLINE_ABI {

FEEDLINE_INLINE void stream_shuffler::set_range(std::uint64_t first, std::uint64_t last) {
  if (last < first || last < last_)
    throw std::invalid_argument("feedline::stream_shuffler: the range can't become [" +
                                std::to_string(first) + ", " + std::to_string(last) + "), it was [" +
                                std::to_string(first_) + ", " + std::to_string(last_) +
                                "): its upper end can't fall, or be below the lower one");
  if (last - first > max_window)
    throw std::length_error("feedline::stream_shuffler: a range of " + std::to_string(last - first) +
                            " numbers is larger than 2^32");
  const std::uint64_t kept_first = std::max(first, first_);
  const std::uint64_t dropped = kept_first < last_ ? count_left(first_, kept_first) : 0;
  reserve(first, last);
  if (kept_first >= last_) {
    clear_bits(first, last);
    list_.clear();
    listed_ = first;
    left_ = last - first;
  } else {
    left_ -= dropped;
    if (first < first_) {
      clear_bits(first, first_);
      left_ += first_ - first;
      list_.clear(); // the bits contain the same information
      listed_ = first;
    } else if (first >= listed_) {
      list_.clear();
      listed_ = first;
    }
    clear_bits(last_, last);
    left_ += last - last_;
  }
  first_ = first;
  last_ = last;
}

FEEDLINE_INLINE void stream_shuffler::reserve(std::uint64_t first, std::uint64_t last) {
  if (first == last) return;
  const auto needed = static_cast<std::size_t>((last - 1) / 64 - first / 64 + 1);
  if (needed <= words_.size()) return;
  std::vector<std::uint64_t> larger(std::bit_ceil(needed));
  for (std::uint64_t n = std::max(first, first_) / 64; !words_.empty() && n * 64 < last_; ++n)
    larger[static_cast<std::size_t>(n) & (larger.size() - 1)] = word_of(n * 64);
  words_ = std::move(larger);
}

FEEDLINE_INLINE void stream_shuffler::list_those_left() {
  std::size_t kept = 0;
  for (const std::uint32_t offset : list_)
    if (base_ + offset >= first_) list_[kept++] = static_cast<std::uint32_t>(base_ + offset - first_);
  list_.resize(kept);
  list_.reserve(static_cast<std::size_t>(left_));
  base_ = first_;
  std::uint64_t begin = listed_;
  for_each_word(listed_, last_, [&](std::uint64_t& word, std::uint64_t mask) {
    const std::uint64_t block = begin - begin % 64;
    for (std::uint64_t bits = ~word & mask; bits != 0; bits &= bits - 1)
      list_.push_back(
          static_cast<std::uint32_t>(block + static_cast<std::uint64_t>(std::countr_zero(bits)) - first_));
    begin = block + 64;
  });
  listed_ = last_;
}

FEEDLINE_INLINE void stream_shuffler::restore(const std::vector<std::uint64_t>& drawn) {
  constexpr const char* broken = "feedline::stream_shuffler: the state is incomplete or damaged";
  const std::uint64_t words = first_ < last_ ? (last_ - 1) / 64 - first_ / 64 + 1 : 0;
  if (last_ < first_ || last_ - first_ > max_window || drawn.size() != words || listed_ < first_ ||
      listed_ > last_)
    throw std::invalid_argument(broken);
  words_.assign(std::bit_ceil(std::max<std::size_t>(drawn.size(), 1)), 0);
  const auto put = [&] {
    std::size_t next = 0;
    for_each_word(first_, last_,
                  [&](std::uint64_t& word, std::uint64_t mask) { word = drawn[next++] & mask; });
  };
  // The list must have each remaining number below `listed_`, and no other one of the range.
  put();
  for (const std::uint32_t offset : list_) {
    const std::uint64_t number = base_ + offset;
    if (number < first_) continue;
    const std::uint64_t bit = std::uint64_t{1} << number % 64;
    if (number >= listed_ || (word_of(number) & bit) != 0) throw std::invalid_argument(broken);
    word_of(number) |= bit;
  }
  if (count_left(first_, listed_) != 0) throw std::invalid_argument(broken);
  put();
  left_ = count_left(first_, last_);
}

} // namespace feedline::inline FEEDLINE_ABI
