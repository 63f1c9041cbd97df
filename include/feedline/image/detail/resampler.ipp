// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/image/detail/resampler.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE resampler::region resampler::plan(const axis_map& rows, const axis_map& columns,
                                                  std::size_t channels, interpolation kind, bool antialias) {
  rows_.plan(rows, kind, antialias);
  columns_.plan(columns, kind, antialias);
  channels_ = channels;
  taken_.resize(rows_.widest());
  region_ = {rows_.begin(), columns_.begin(), rows_.end() - rows_.begin(), columns_.end() - columns_.begin()};
  return region_;
}

FEEDLINE_INLINE void resampler::group_weights(bool mirrored) {
  groups_ = (columns_.widest() + taps_in_group - 1) / taps_in_group;
  starts_.resize(columns_.size());
  grouped_.assign(columns_.size() * groups_ * weights_in_group, 0);
  for (std::size_t x = 0; x < columns_.size(); ++x) {
    const axis_filter::taps taps = columns_[mirrored ? columns_.size() - 1 - x : x];
    starts_[x] = static_cast<std::uint32_t>(taps.first - region_.left);
    std::int16_t* const weights = grouped_.data() + x * groups_ * weights_in_group;
    for (std::size_t k = 0; k < taps.count; ++k)
      for (std::size_t c = 0; c < 4; ++c)
        weights[k / taps_in_group * weights_in_group + k % taps_in_group / 2 * 8 + 2 * c + k % 2] =
            taps.weights[k];
  }
}

FEEDLINE_INLINE std::size_t resampler::store_planes(const std::int32_t* pixels, std::size_t count, float* red,
                                                    std::ptrdiff_t channel_step, bool has_alpha,
                                                    const pixel_scale scale) {
  using ints [[gnu::vector_size(16)]] = std::int32_t;
  using floats [[gnu::vector_size(16)]] = float;
  float* const green = red + channel_step;
  float* const blue = green + channel_step;
  const auto store = [&scale](float* to, const ints& sums, std::size_t channel) {
    const floats scaled =
        __builtin_convertvector(sums - scale.offset(channel), floats) * scale.factor(channel);
    std::memcpy(to, &scaled, sizeof scaled);
  };
  std::size_t x = 0;
  for (; x + 4 <= count; x += 4, pixels += 16) {
    ints a, b, c, d;
    std::memcpy(&a, pixels, sizeof a);
    std::memcpy(&b, pixels + 4, sizeof b);
    std::memcpy(&c, pixels + 8, sizeof c);
    std::memcpy(&d, pixels + 12, sizeof d);
    const ints ab = __builtin_shufflevector(a, b, 0, 4, 1, 5); // red, red, green, green
    const ints cd = __builtin_shufflevector(c, d, 0, 4, 1, 5);
    store(red + x, __builtin_shufflevector(ab, cd, 0, 1, 4, 5), 0);
    store(green + x, __builtin_shufflevector(ab, cd, 2, 3, 6, 7), 1);
    const ints ab_rest = __builtin_shufflevector(a, b, 2, 6, 3, 7); // blue, blue, alpha, alpha
    const ints cd_rest = __builtin_shufflevector(c, d, 2, 6, 3, 7);
    store(blue + x, __builtin_shufflevector(ab_rest, cd_rest, 0, 1, 4, 5), 2);
    if (has_alpha) store(blue + channel_step + x, __builtin_shufflevector(ab_rest, cd_rest, 2, 3, 6, 7), 3);
  }
  return x;
}

} // namespace feedline::inline FEEDLINE_ABI::detail
