// SPDX-License-Identifier: MIT
#pragma once
// The inner loops of resizing, in integer arithmetic: AVX2 makes them faster and doesn't change the result.
#include <cstddef>
#include <cstdint>
#include <cstring>

#include <feedline/image/detail/axis_filter.hpp>

#if defined(__x86_64__)
#define FEEDLINE_DETAIL_AVX2 [[gnu::target("avx2")]]
#endif

namespace feedline::inline FEEDLINE_ABI::detail {

/// Rows that the loops read or write are padded to a multiple of this number of elements.
inline constexpr std::size_t row_padding = 32;

constexpr std::size_t padded_row(std::size_t elements) noexcept {
  return (elements + row_padding - 1) / row_padding * row_padding;
}

/// Sums of rows have six fractional bits, and so a range from -512 to 511.98, more than bicubic sums need.
inline constexpr int sum_bits = 6;
inline constexpr int sum_shift = axis_filter::weight_bits - sum_bits;

/// Four taps of a pixel's four channels, in the order in which they are multiplied: two weights for each
/// channel, then the other two.
inline constexpr std::size_t taps_in_group = 4;
inline constexpr std::size_t weights_in_group = 4 * taps_in_group;

inline void sum_rows_plainly(const std::uint8_t* const* rows, const std::int16_t* weights, std::size_t count,
                             std::size_t elements, std::int16_t* sums) {
  for (std::size_t i = 0; i < elements; ++i) {
    std::int32_t sum = 1 << (sum_shift - 1);
    for (std::size_t k = 0; k < count; ++k) sum += weights[k] * rows[k][i];
    sum >>= sum_shift;
    sums[i] = static_cast<std::int16_t>(sum < -32768 ? -32768 : sum > 32767 ? 32767 : sum);
  }
}

inline void sum_pixels_plainly(const std::int16_t* row, const std::uint32_t* first,
                               const std::int16_t* weights, std::size_t groups, std::size_t pixels,
                               std::int32_t* sums) {
  for (std::size_t x = 0; x < pixels; ++x) {
    const std::int16_t* from = row + 4 * first[x];
    for (std::size_t c = 0; c < 4; ++c) {
      std::int32_t sum = 0;
      for (std::size_t k = 0; k < groups * taps_in_group; ++k)
        sum += from[4 * k + c] *
               weights[k / taps_in_group * weights_in_group + k % taps_in_group / 2 * 8 + 2 * c + k % 2];
      sums[4 * x + c] = sum;
    }
    weights += groups * weights_in_group;
  }
}

#ifdef FEEDLINE_DETAIL_AVX2

// Vectors of the compiler: <immintrin.h> alone would take as long to compile as most of the component.
using vector_of_bytes [[gnu::vector_size(16)]] = std::uint8_t;
using vector_of_int16 [[gnu::vector_size(32)]] = std::int16_t;
using vector_of_int32 [[gnu::vector_size(32)]] = std::int32_t;
using half_of_int32 [[gnu::vector_size(16)]] = std::int32_t;

template <class Vector>
FEEDLINE_DETAIL_AVX2 inline Vector loaded(const void* from) noexcept {
  Vector v;
  std::memcpy(&v, from, sizeof(v));
  return v;
}

FEEDLINE_DETAIL_AVX2 inline vector_of_int16 widened(const std::uint8_t* bytes) noexcept {
  const auto v =
      loaded<vector_of_bytes>(bytes); // 16 is a zero behind each; GCC converts vectors in two halves
  return reinterpret_cast<vector_of_int16>(
      __builtin_shufflevector(v, vector_of_bytes{}, 0, 16, 1, 16, 2, 16, 3, 16, 4, 16, 5, 16, 6, 16, 7, 16, 8,
                              16, 9, 16, 10, 16, 11, 16, 12, 16, 13, 16, 14, 16, 15, 16));
}

/// Multiplies, and adds pairs of neighbours.
FEEDLINE_DETAIL_AVX2 inline vector_of_int32 sums_of_pairs(vector_of_int16 a, vector_of_int16 b) noexcept {
  return __builtin_ia32_pmaddwd256(a, b);
}

/// The first four, or the last four, elements of both halves of two rows in turns.
FEEDLINE_DETAIL_AVX2 inline vector_of_int16 low_in_turns(vector_of_int16 a, vector_of_int16 b) noexcept {
  return __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 8, 24, 9, 25, 10, 26, 11, 27);
}

FEEDLINE_DETAIL_AVX2 inline vector_of_int16 high_in_turns(vector_of_int16 a, vector_of_int16 b) noexcept {
  return __builtin_shufflevector(a, b, 4, 20, 5, 21, 6, 22, 7, 23, 12, 28, 13, 29, 14, 30, 15, 31);
}

/// The inverse of taking them in turns, with sums limited to 16 bits.
FEEDLINE_DETAIL_AVX2 inline void store_sums(std::int16_t* to, vector_of_int32 low,
                                            vector_of_int32 high) noexcept {
  const auto sums = __builtin_ia32_packssdw256(low >> sum_shift, high >> sum_shift);
  std::memcpy(to, &sums, sizeof(sums));
}

// Interleaves two rows, because the processor multiplies and adds pairs.
FEEDLINE_DETAIL_AVX2 inline void sum_rows_avx2(const std::uint8_t* const* rows, const std::int16_t* weights,
                                               std::size_t count, std::size_t elements, std::int16_t* sums) {
  const vector_of_int32 half = vector_of_int32{} + (1 << (sum_shift - 1));
  for (std::size_t i = 0; i < elements; i += row_padding) {
    vector_of_int32 low0 = half, high0 = half, low1 = half, high1 = half;
    for (std::size_t k = 0; k < count; k += 2) {
      const bool is_pair = k + 1 < count;
      const std::uint8_t* const row = rows[k] + i;
      const std::uint8_t* const next = is_pair ? rows[k + 1] + i : row;
      const auto w =
          reinterpret_cast<vector_of_int16>(vector_of_int32{} + ((is_pair ? weights[k + 1] * 65536 : 0) |
                                                                 static_cast<std::uint16_t>(weights[k])));
      const vector_of_int16 a0 = widened(row), b0 = widened(next), a1 = widened(row + 16),
                            b1 = widened(next + 16);
      low0 += sums_of_pairs(low_in_turns(a0, b0), w);
      high0 += sums_of_pairs(high_in_turns(a0, b0), w);
      low1 += sums_of_pairs(low_in_turns(a1, b1), w);
      high1 += sums_of_pairs(high_in_turns(a1, b1), w);
    }
    store_sums(sums + i, low0, high0);
    store_sums(sums + i + 16, low1, high1);
  }
}

// `Groups` is the number of groups, or 0 if it is known only at run time.
template <std::size_t Groups>
FEEDLINE_DETAIL_AVX2 void sum_pixels_avx2(const std::int16_t* row, const std::uint32_t* first,
                                          const std::int16_t* weights, std::size_t groups, std::size_t pixels,
                                          std::int32_t* sums) {
  if constexpr (Groups > 0) groups = Groups;
  for (const std::uint32_t* const end = first + pixels; first != end; ++first, sums += 4) {
    const std::int16_t* from = row + std::size_t{4} * *first;
    vector_of_int32 sum{};
    for (std::size_t g = 0; g < groups; ++g, from += 4 * taps_in_group, weights += weights_in_group) {
      const auto four = loaded<vector_of_int16>(from);
      // r0 g0 b0 x0 r1 g1 b1 x1 → r0 r1 g0 g1 b0 b1 x0 x1, in both halves
      const vector_of_int16 in_pairs =
          __builtin_shufflevector(four, four, 0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15);
      const vector_of_int32 products = sums_of_pairs(in_pairs, loaded<vector_of_int16>(weights));
      sum = g == 0 ? products : sum + products;
    }
    const half_of_int32 both =
        __builtin_shufflevector(sum, sum, 0, 1, 2, 3) + __builtin_shufflevector(sum, sum, 4, 5, 6, 7);
    std::memcpy(sums, &both, sizeof(both));
  }
}

#undef FEEDLINE_DETAIL_AVX2

inline bool has_avx2() noexcept { return __builtin_cpu_supports("avx2") != 0; }

#else

inline bool has_avx2() noexcept { return false; }

#endif

/// Adds up rows of bytes by their weights: the first `elements`, possibly with some padding.
inline void sum_rows(const std::uint8_t* const* rows, const std::int16_t* weights, std::size_t count,
                     std::size_t elements, std::int16_t* sums) {
#if defined(__x86_64__)
  if (has_avx2()) return sum_rows_avx2(rows, weights, count, elements, sums);
#endif
  sum_rows_plainly(rows, weights, count, elements, sums);
}

/// Adds up pixels of four channels by their weights: output pixel x sums `groups` times four pixels from
/// first[x] on.
inline void sum_pixels(const std::int16_t* row, const std::uint32_t* first, const std::int16_t* weights,
                       std::size_t groups, std::size_t pixels, std::int32_t* sums) {
#if defined(__x86_64__)
  if (has_avx2()) {
    if (groups == 1) return sum_pixels_avx2<1>(row, first, weights, groups, pixels, sums);
    if (groups == 2) return sum_pixels_avx2<2>(row, first, weights, groups, pixels, sums);
    return sum_pixels_avx2<0>(row, first, weights, groups, pixels, sums);
  }
#endif
  sum_pixels_plainly(row, first, weights, groups, pixels, sums);
}

} // namespace feedline::inline FEEDLINE_ABI::detail
