// SPDX-License-Identifier: MIT
#pragma once
// The inner loops of resizing, in integer arithmetic: AVX2 makes them faster and doesn't change the result.
#include <cstddef>
#include <cstdint>

#include <feedline/image/detail/axis_filter.hpp>

#if defined(__x86_64__)
#include <immintrin.h>
#define FEEDLINE_DETAIL_AVX2 [[gnu::target("avx2")]]
#endif

namespace feedline::inline FEEDLINE_ABI::detail {

/// Rows that the loops read or write are padded to a multiple of this number of elements.
inline constexpr std::size_t row_block = 32;

constexpr std::size_t padded_row(std::size_t elements) noexcept {
  return (elements + row_block - 1) / row_block * row_block;
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

FEEDLINE_DETAIL_AVX2 inline __m256i widened(const std::uint8_t* bytes) noexcept {
  return _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes)));
}

FEEDLINE_DETAIL_AVX2 inline void store_sums(std::int16_t* to, __m256i low, __m256i high) noexcept {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm256_packs_epi32(_mm256_srai_epi32(low, sum_shift),
                                                                         _mm256_srai_epi32(high, sum_shift)));
}

// Interleaves two rows, because the processor multiplies and adds pairs.
FEEDLINE_DETAIL_AVX2 inline void sum_rows_avx2(const std::uint8_t* const* rows, const std::int16_t* weights,
                                               std::size_t count, std::size_t elements, std::int16_t* sums) {
  const __m256i half = _mm256_set1_epi32(1 << (sum_shift - 1));
  for (std::size_t i = 0; i < elements; i += row_block) {
    __m256i low0 = half, high0 = half, low1 = half, high1 = half;
    for (std::size_t k = 0; k < count; k += 2) {
      const bool is_pair = k + 1 < count;
      const std::uint8_t* const row = rows[k] + i;
      const std::uint8_t* const next = is_pair ? rows[k + 1] + i : row;
      const __m256i w =
          _mm256_set1_epi32((is_pair ? weights[k + 1] * 65536 : 0) | static_cast<std::uint16_t>(weights[k]));
      const __m256i a0 = widened(row), b0 = widened(next), a1 = widened(row + 16), b1 = widened(next + 16);
      low0 = _mm256_add_epi32(low0, _mm256_madd_epi16(_mm256_unpacklo_epi16(a0, b0), w));
      high0 = _mm256_add_epi32(high0, _mm256_madd_epi16(_mm256_unpackhi_epi16(a0, b0), w));
      low1 = _mm256_add_epi32(low1, _mm256_madd_epi16(_mm256_unpacklo_epi16(a1, b1), w));
      high1 = _mm256_add_epi32(high1, _mm256_madd_epi16(_mm256_unpackhi_epi16(a1, b1), w));
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
  // r0 g0 b0 x0 r1 g1 b1 x1 → r0 r1 g0 g1 b0 b1 x0 x1, in both halves
  const __m256i in_pairs =
      _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15));
  for (const std::uint32_t* const end = first + pixels; first != end; ++first, sums += 4) {
    const std::int16_t* from = row + std::size_t{4} * *first;
    __m256i sum{};
    for (std::size_t g = 0; g < groups; ++g, from += 4 * taps_in_group, weights += weights_in_group) {
      const __m256i four = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
      const __m256i w = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(weights));
      const __m256i products = _mm256_madd_epi16(_mm256_shuffle_epi8(four, in_pairs), w);
      sum = g == 0 ? products : _mm256_add_epi32(sum, products);
    }
    _mm_storeu_si128(reinterpret_cast<__m128i*>(sums),
                     _mm_add_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1)));
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
