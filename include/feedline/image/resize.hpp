// SPDX-License-Identifier: MIT
#pragma once
// Images to another size.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include <feedline/core/tensor.hpp>

namespace feedline {

namespace detail {

/// For each of `to` places along one side, which of the `from` pixels it is made of, and their weights: a
/// triangle around the place's centre, one pixel wide to either side, or as wide as a place where the image
/// shrinks.
class triangle_filter {
 public:
  struct tap_range {
    std::size_t first, count;
    const float* weights;
  };

  triangle_filter(std::size_t from, std::size_t to) : first_(to), begin_(to + 1) {
    const double scale = static_cast<double>(from) / static_cast<double>(to);
    const double reach = scale > 1 ? scale : 1;
    for (std::size_t i = 0; i < to; ++i) {
      const double center = (static_cast<double>(i) + 0.5) * scale;
      const double low = std::floor(center - reach + 0.5), high = std::floor(center + reach + 0.5);
      const std::size_t first = low > 0 ? static_cast<std::size_t>(low) : 0;
      const std::size_t last = high < static_cast<double>(from) ? static_cast<std::size_t>(high) : from;
      double sum = 0;
      const auto weight = [&](std::size_t pixel) {
        const double distance = std::abs(static_cast<double>(pixel) + 0.5 - center) / reach;
        return distance < 1 ? 1 - distance : 0;
      };
      for (std::size_t pixel = first; pixel < last; ++pixel) sum += weight(pixel);
      for (std::size_t pixel = first; pixel < last; ++pixel)
        weights_.push_back(static_cast<float>(weight(pixel) / sum));
      first_[i] = first;
      begin_[i + 1] = weights_.size();
    }
  }

  tap_range operator[](std::size_t i) const noexcept {
    return {first_[i], begin_[i + 1] - begin_[i], weights_.data() + begin_[i]};
  }

 private:
  std::vector<std::size_t> first_, begin_;
  std::vector<float> weights_;
};

} // namespace detail

/// Gives `image`, [height, width, channels], another height and width, by bilinear interpolation that
/// averages where the image shrinks, so that nothing aliases: PyTorch's `interpolate(mode="bilinear",
/// antialias=True)`, Pillow's `BILINEAR`. Rounds once, at the end. Throws std::invalid_argument if the image
/// hasn't three dimensions or a side is 0.
inline tensor<std::uint8_t> resize(const tensor<std::uint8_t>& image, std::size_t height, std::size_t width) {
  if (image.shape().rank() != 3 || image.size() == 0 || height == 0 || width == 0)
    throw std::invalid_argument("feedline::resize: from " + to_string(image.shape()) + " to " +
                                to_string(shape{height, width}) +
                                "; an image is [height, width, channels], none 0");
  const std::size_t from_height = image.shape()[0], from_width = image.shape()[1],
                    channels = image.shape()[2];
  const detail::triangle_filter columns(from_width, width), rows(from_height, height);

  // First every row to its new width, then the columns of that.
  tensor<float> narrowed(shape{from_height, width, channels});
  for (std::size_t y = 0; y < from_height; ++y)
    for (std::size_t x = 0; x < width; ++x)
      for (std::size_t c = 0; c < channels; ++c) {
        const auto taps = columns[x];
        const std::uint8_t* from = image.data() + (y * from_width + taps.first) * channels + c;
        float sum = 0;
        for (std::size_t i = 0; i < taps.count; ++i)
          sum += taps.weights[i] * static_cast<float>(from[i * channels]);
        narrowed[(y * width + x) * channels + c] = sum;
      }

  const std::size_t stride = width * channels;
  tensor<std::uint8_t> result(shape{height, width, channels});
  std::vector<float> sums(stride);
  for (std::size_t y = 0; y < height; ++y) {
    const auto taps = rows[y];
    sums.assign(stride, 0.5f); // so that cutting off rounds
    for (std::size_t i = 0; i < taps.count; ++i) {
      const float* from = narrowed.data() + (taps.first + i) * stride;
      for (std::size_t x = 0; x < stride; ++x) sums[x] += taps.weights[i] * from[x];
    }
    for (std::size_t x = 0; x < stride; ++x)
      result[y * stride + x] = static_cast<std::uint8_t>(sums[x] < 255.0f ? sums[x] : 255.0f);
  }
  return result;
}

} // namespace feedline
