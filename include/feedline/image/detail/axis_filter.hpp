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

#ifndef FEEDLINE_COMPILED
#include <feedline/image/detail/axis_filter.ipp>
#endif
