// SPDX-License-Identifier: MIT
#pragma once
// Resizes images straight from the definition, without regard to speed.
#include <feedline/core/tensor.hpp>
#include <feedline/image/crop.hpp>
#include <feedline/image/resize_options.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace feedline::test {

/// The weight of each old pixel in each new one along one side, as in Pillow's `resize`.
inline std::vector<std::vector<double>> weights_along(double begin, double length, std::size_t count,
                                                      std::size_t first, std::size_t last, interpolation kind,
                                                      bool antialias) {
  std::vector<std::vector<double>> all;
  const double scale = length / static_cast<double>(count);
  const double spread = antialias ? std::max(1.0, scale) : 1.0;
  for (std::size_t i = 0; i < count; ++i) {
    const double center = begin + (static_cast<double>(i) + 0.5) * scale;
    std::vector<double> weights(last, 0.0);
    double sum = 0;
    for (std::size_t p = first; p < last; ++p) {
      const double t = std::abs(static_cast<double>(p) + 0.5 - center) / spread;
      if (kind == interpolation::nearest)
        weights[p] = std::floor(std::min(center, static_cast<double>(last) - 0.5)) == static_cast<double>(p);
      else if (kind == interpolation::bilinear) weights[p] = std::max(0.0, 1 - t);
      else if (t < 1) weights[p] = 1.5 * t * t * t - 2.5 * t * t + 1;
      else if (t < 2) weights[p] = -0.5 * t * t * t + 2.5 * t * t - 4 * t + 2;
      sum += weights[p];
    }
    for (double& w : weights) w /= sum;
    all.push_back(std::move(weights));
  }
  return all;
}

/// Resizes a box of [height, width, channels] bytes to [to_height, to_width, channels], not rounded.
inline std::vector<double> resampled(const tensor<std::uint8_t>& image, const crop_box& box,
                                     std::size_t to_height, std::size_t to_width,
                                     interpolation kind = interpolation::bilinear, bool antialias = true) {
  const std::size_t height = image.shape()[0], width = image.shape()[1], channels = image.shape()[2];
  const auto along = [&](double begin, double length, std::size_t count, std::size_t all) {
    if (box.sample_outside) return weights_along(begin, length, count, 0, all, kind, antialias);
    return weights_along(begin, length, count, static_cast<std::size_t>(begin),
                         static_cast<std::size_t>(std::ceil(begin + length)), kind, antialias);
  };
  const auto rows = along(box.top, box.height, to_height, height);
  const auto columns = along(box.left, box.width, to_width, width);
  std::vector<double> narrow(height * to_width * channels, 0.0), result(to_height * to_width * channels, 0.0);
  for (std::size_t x = 0; x < to_width; ++x)
    for (std::size_t from = 0; from < columns[x].size(); ++from) {
      const double w = columns[x][from];
      if (w == 0) continue;
      for (std::size_t y = 0; y < height; ++y)
        for (std::size_t c = 0; c < channels; ++c)
          narrow[(y * to_width + x) * channels + c] += w * image[(y * width + from) * channels + c];
    }
  const std::size_t row = to_width * channels;
  for (std::size_t y = 0; y < to_height; ++y)
    for (std::size_t from = 0; from < rows[y].size(); ++from) {
      const double w = rows[y][from];
      if (w == 0) continue;
      for (std::size_t i = 0; i < row; ++i) result[y * row + i] += w * narrow[from * row + i];
    }
  return result;
}

} // namespace feedline::test
