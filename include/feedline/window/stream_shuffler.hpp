// SPDX-License-Identifier: MIT
#pragma once
// The numbers of a range in random order, each once per pass, while the ends of the range move.
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <vector>

#include <feedline/core/random.hpp>
#include <feedline/core/state.hpp>

namespace feedline::inline FEEDLINE_ABI {

/// Draws numbers of [first(), last()) without repetition: each remaining one is equally likely. Both ends may
/// move during a pass: numbers that enter the range join the pass, those that leave it are dropped. Equal
/// seeds and calls return equal numbers, on every platform.
///
/// A draw takes constant time on average. Memory: a bit for each number of the range, rounded up to a power
/// of two, and toward the end of a pass a list of the remaining numbers, of at most one more bit for each
/// number of the range.
class stream_shuffler {
 public:
  /// The largest size of a range.
  static constexpr std::uint64_t max_window = std::uint64_t{1} << 32;

  /// The range is initially empty.
  explicit stream_shuffler(std::uint64_t seed) noexcept : seed_(seed) {}

  /// The lower end of the range.
  std::uint64_t first() const noexcept { return first_; }

  /// The upper end of the range, not part of it.
  std::uint64_t last() const noexcept { return last_; }

  /// The number of numbers in the range.
  std::uint64_t size() const noexcept { return last_ - first_; }

  /// How many numbers remain in the pass.
  std::uint64_t left() const noexcept { return left_; }

  /// The number of the pass, from 0.
  std::uint64_t pass() const noexcept { return pass_; }

  /// Moves the ends. Throws std::invalid_argument if `last` is less than `first` or than before,
  /// std::length_error for more than `max_window` numbers; then nothing has changed.
  void set_range(std::uint64_t first, std::uint64_t last);

  /// A number that this pass hasn't drawn yet; nothing: it has drawn all of them.
  std::optional<std::uint64_t> draw() {
    if (left_ == 0) return std::nullopt;
    if (left_ < candidates() / sparse) list_those_left();
    random_generator random(detail::key(seed_, draws_++));
    for (;;) {
      const std::uint64_t choice = random.below(candidates());
      std::uint64_t number = listed_ + (choice - list_.size());
      if (choice < list_.size()) {
        std::uint32_t& offset = list_[static_cast<std::size_t>(choice)];
        number = base_ + offset;
        offset = list_.back();
        list_.pop_back();
        if (number < first_) continue; // it has left the range
      }
      std::uint64_t& word = word_of(number);
      const std::uint64_t bit = std::uint64_t{1} << number % 64;
      if ((word & bit) != 0) continue;
      word |= bit;
      --left_;
      return number;
    }
  }

  /// Starts the next pass, with all numbers of the range.
  void start_pass() {
    clear_bits(first_, last_);
    list_.clear();
    listed_ = first_;
    left_ = size();
    ++pass_;
  }

  /// Everything but the seed; see source.
  template <class Archive>
  void state(Archive& archive) {
    std::vector<std::uint64_t> drawn;
    for_each_word(first_, last_,
                  [&](std::uint64_t& word, std::uint64_t mask) { drawn.push_back(word & mask); });
    archive(first_, last_, listed_, base_, draws_, pass_, drawn, list_);
    if constexpr (std::is_same_v<Archive, state_reader>) restore(drawn);
  }

 private:
  // Numbers are tried at random; once fewer than one in `sparse` tries would succeed, the remaining ones are
  // listed.
  static constexpr std::uint64_t sparse = 32;

  // What a try chooses from: the listed numbers, and all numbers from `listed_` on.
  std::uint64_t candidates() const noexcept { return list_.size() + (last_ - listed_); }

  std::uint64_t& word_of(std::uint64_t number) noexcept {
    return words_[static_cast<std::size_t>(number / 64) & (words_.size() - 1)];
  }

  // Calls f with each word that has bits of [begin, end), and a mask of those bits.
  template <class F>
  void for_each_word(std::uint64_t begin, std::uint64_t end, F f) {
    while (begin < end) {
      const std::uint64_t count = std::min(end - begin, 64 - begin % 64);
      const std::uint64_t ones = ~std::uint64_t{0} >> (64 - count);
      f(word_of(begin), ones << begin % 64);
      begin += count;
    }
  }

  void clear_bits(std::uint64_t begin, std::uint64_t end) {
    for_each_word(begin, end, [](std::uint64_t& word, std::uint64_t mask) { word &= ~mask; });
  }

  std::uint64_t count_left(std::uint64_t begin, std::uint64_t end) {
    std::uint64_t count = 0;
    for_each_word(begin, end, [&](std::uint64_t& word, std::uint64_t mask) {
      count += static_cast<std::uint64_t>(std::popcount(~word & mask));
    });
    return count;
  }

  // Makes room for the bits of that range, in a ring.
  void reserve(std::uint64_t first, std::uint64_t last);

  // The work is shared by the draws since the last call, which have left one candidate in `sparse`.
  void list_those_left();

  // Checks the whole state that was read.
  void restore(const std::vector<std::uint64_t>& drawn);

  std::uint64_t seed_;
  std::uint64_t first_ = 0;
  std::uint64_t last_ = 0;
  std::uint64_t left_ = 0;
  std::uint64_t pass_ = 0;
  std::uint64_t draws_ = 0;
  std::vector<std::uint64_t> words_; // a set bit: drawn; number n is in word n / 64, modulo their count
  // Offsets of numbers below `listed_`: all remaining ones, and some that left the range.
  std::vector<std::uint32_t> list_;
  std::uint64_t base_ = 0;   // what the offsets are counted from
  std::uint64_t listed_ = 0; // in [first_, last_]
};

} // namespace feedline::inline FEEDLINE_ABI

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_WINDOW)
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
#endif
