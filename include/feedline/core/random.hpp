// SPDX-License-Identifier: MIT
#pragma once
// Keyed randomness: every decision is a function of a key, so that it is the same on every thread, standard
// library and platform.
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <utility>

#include <feedline/version.hpp>

namespace feedline::inline FEEDLINE_ABI {

namespace detail {

/// The finaliser of SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014;
/// constants by David Stafford, "Mix13"). A bijection of 64 bits.
constexpr std::uint64_t mix(std::uint64_t x) noexcept {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

/// One key from several words; the order of the words matters.
template <std::convertible_to<std::uint64_t>... Words>
constexpr std::uint64_t key(Words... words) noexcept {
  std::uint64_t state = 0x9e3779b97f4a7c15;
  ((state = mix(state + 0x9e3779b97f4a7c15 + static_cast<std::uint64_t>(words))), ...);
  return state;
}

/// A hash of many bytes: four sums in parallel, because each alone would wait for its last multiplication.
/// Each step is a bijection of its sum, so that a difference in one word is never lost.
std::uint64_t hash_of_block(std::span<const std::byte> bytes) noexcept;

} // namespace detail

/// A small generator that starts from a key (SplitMix64: 64 bits of state, period 2^64). Meets
/// std::uniform_random_bit_generator. Its distributions return the same numbers with every standard library,
/// unlike those of `<random>`, and on every processor.
class random_generator {
 public:
  using result_type = std::uint64_t;

  /// Equal keys produce equal numbers.
  explicit constexpr random_generator(std::uint64_t key) noexcept : state_(key) {}

  /// The least number, 0.
  static constexpr result_type min() noexcept { return 0; }

  /// The greatest number, 2^64 - 1.
  static constexpr result_type max() noexcept { return std::numeric_limits<result_type>::max(); }

  /// 64 random bits.
  constexpr result_type operator()() noexcept { return detail::mix(state_ += 0x9e3779b97f4a7c15); }

  /// An integer in [0, bound), each equally likely; 0 if bound is 0. (Lemire, "Fast random integer
  /// generation in an interval", 2019.)
  constexpr std::uint64_t below(std::uint64_t bound) noexcept {
    auto product = wide{(*this)()} * bound;
    if (static_cast<std::uint64_t>(product) < bound) {
      const std::uint64_t threshold = bound == 0 ? 0 : (0 - bound) % bound;
      while (static_cast<std::uint64_t>(product) < threshold) product = wide{(*this)()} * bound;
    }
    return static_cast<std::uint64_t>(product >> 64);
  }

  /// A number in [0, 1), a multiple of 2^-53.
  constexpr double uniform() noexcept { return static_cast<double>((*this)() >> 11) * 0x1p-53; }

  /// A number in [low, high), which must be finite; `low` if both are equal.
  constexpr double uniform(double low, double high) noexcept {
    const double u = uniform(), width = high - low;
    const double x = width <= std::numeric_limits<double>::max() ? low + rounded(width * u)
                                                                 : rounded(low * (1 - u)) + rounded(high * u);
    return x < high || !(low < high) ? x : before(high); // rounding may reach `high`
  }

  /// True with that probability.
  constexpr bool chance(double probability) noexcept { return uniform() < probability; }

 private:
  __extension__ using wide = unsigned __int128;

  // Keeps a product from being fused with an addition, which processors that can do so round once instead of twice: the
  // numbers would depend on the processor. (Clang fuses only within an expression.)
  static constexpr double rounded(double product) noexcept {
#if __has_builtin(__builtin_assoc_barrier)
    return __builtin_assoc_barrier(product);
#else
    return product;
#endif
  }

  // The greatest number below x.
  static constexpr double before(double x) noexcept {
    if (x == 0) return -std::numeric_limits<double>::denorm_min();
    const auto bits = std::bit_cast<std::uint64_t>(x);
    return std::bit_cast<double>(x > 0 ? bits - 1 : bits + 1);
  }

  std::uint64_t state_;
};

namespace detail {

/// Shuffles [first, first + size) (Fisher and Yates): each order is equally likely.
template <class Iterator>
constexpr void shuffle_range(Iterator first, std::size_t size, random_generator random) {
  using difference = decltype(first - first);
  for (std::size_t left = size; left > 1; --left)
    std::swap(first[static_cast<difference>(left - 1)], first[static_cast<difference>(random.below(left))]);
}

} // namespace detail

/// A hash of text that is the same in every process and on every platform: FNV-1a of 64 bits (Fowler, Noll,
/// Vo), with its bits mixed once more.
constexpr std::uint64_t stable_hash(std::string_view text) noexcept {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return detail::mix(hash);
}

/// The same for a number of any type.
template <std::integral Number>
constexpr std::uint64_t stable_hash(Number number) noexcept {
  return detail::key(static_cast<std::uint64_t>(number));
}

} // namespace feedline::inline FEEDLINE_ABI

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_CORE)
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
#endif
