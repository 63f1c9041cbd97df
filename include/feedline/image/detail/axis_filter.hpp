// SPDX-License-Identifier: MIT
#pragma once
// One axis of a resized image: the input pixels of each output pixel, and their weights.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <feedline/image/resize_options.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// Input pixels [begin, begin + length) that become `count` output pixels. Only those within [first, last)
/// contribute.
struct axis_map {
  double begin;
  double length;
  std::size_t count;
  std::size_t first;
  std::size_t last;
};

/// For each output pixel the range of contributing input pixels and their weights. Weights are integers that
/// add up to `one`, so that every machine computes the same result.
class axis_filter {
 public:
  static constexpr int weight_bits = 14;
  static constexpr int one = 1 << weight_bits;

  struct taps {
    std::size_t first; ///< input pixel
    std::size_t count;
    const std::int16_t* weights;
  };

  /// Reuses its memory from one image to the next.
  void plan(const axis_map& map, interpolation kind, bool antialias);

  std::size_t size() const noexcept { return first_.size(); }

  /// The first contributing input pixel; end() is one past the last.
  std::size_t begin() const noexcept { return first_.front(); }

  std::size_t end() const noexcept { return first_.back() + count_.back(); }

  /// The largest number of input pixels per output pixel.
  std::size_t widest() const noexcept { return widest_; }

  taps operator[](std::size_t i) const noexcept {
    return {first_[i], count_[i], weights_.data() + i * stride_};
  }

 private:
  static std::size_t clamped(double place, std::size_t low, std::size_t high) noexcept {
    if (!(place > static_cast<double>(low))) return low;
    return std::min(static_cast<std::size_t>(place), high);
  }

  // The weights of pixels at distances `at`, `at` + `step`, …, rounded so that they add up to `one`.
  void weigh(interpolation kind, double at, double step, std::int16_t* weights, std::size_t count);

  static double weight(interpolation kind, double distance) noexcept;

  std::size_t widest_ = 0;
  std::size_t stride_ = 0;
  std::vector<std::size_t> first_, count_;
  std::vector<std::int16_t> weights_; // `stride_` for each output pixel, of which `count_` are set
  std::vector<double> exact_;
};

} // namespace feedline::inline FEEDLINE_ABI::detail

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_IMAGE)
#include <cmath>
#include <cstdlib>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE void axis_filter::plan(const axis_map& map, interpolation kind, bool antialias) {
  const double scale = map.length / static_cast<double>(map.count);
  const double reach = kind == interpolation::bicubic ? 2 : 1;
  const double spread = antialias && scale > 1 ? scale : 1; // widens the filter
  stride_ = 1;
  if (kind != interpolation::nearest)
    stride_ = std::min(static_cast<std::size_t>(std::ceil(reach * spread)) * 2 + 1, map.last - map.first);
  first_.resize(map.count);
  count_.resize(map.count);
  weights_.resize(map.count * stride_);
  exact_.resize(stride_);
  widest_ = 1;
  for (std::size_t i = 0; i < map.count; ++i) {
    const double center = map.begin + (static_cast<double>(i) + 0.5) * scale;
    if (kind == interpolation::nearest) {
      first_[i] = clamped(center, map.first, map.last - 1);
      count_[i] = 1;
      weights_[i] = one;
    } else {
      first_[i] = clamped(center - reach * spread + 0.5, map.first, map.last - 1);
      const std::size_t end = clamped(center + reach * spread + 0.5, first_[i] + 1, map.last);
      count_[i] = std::min(end - first_[i], stride_);
      widest_ = std::max(widest_, count_[i]);
      const double nearest = static_cast<double>(first_[i]) + 0.5 - center;
      weigh(kind, nearest / spread, 1 / spread, weights_.data() + i * stride_, count_[i]);
    }
  }
}

FEEDLINE_INLINE void axis_filter::weigh(interpolation kind, double at, double step, std::int16_t* weights,
                                        std::size_t count) {
  double sum = 0;
  for (std::size_t k = 0; k < count; ++k, at += step) sum += exact_[k] = weight(kind, std::abs(at));
  const double factor = one / sum;
  // Carries each rounding error over to the next weight.
  double exact = 0;
  int given = 0;
  for (std::size_t k = 0; k < count; ++k) {
    exact += exact_[k] * factor;
    const int all = static_cast<int>(std::floor(exact + 0.5));
    weights[k] = static_cast<std::int16_t>(all - given);
    given = all;
  }
}

FEEDLINE_INLINE double axis_filter::weight(interpolation kind, double distance) noexcept {
  if (kind == interpolation::bilinear) return distance < 1 ? 1 - distance : 0;
  constexpr double a = -0.5;
  if (distance < 1) return ((a + 2) * distance - (a + 3)) * distance * distance + 1;
  if (distance < 2) return (((distance - 5) * distance + 8) * distance - 4) * a;
  return 0;
}

} // namespace feedline::inline FEEDLINE_ABI::detail
#endif
