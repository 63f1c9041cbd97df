// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/image/crop.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <string>

#include <feedline/detail/given_size.hpp>
#include <feedline/image/image_error.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE void check_crop(const char* who, const shape& from, const crop_box& box, const shape& to) {
  // A sum may be off by a rounding error.
  const auto fits = [](double begin, double length, std::size_t all) {
    const auto end = static_cast<double>(all);
    return begin >= 0 && begin < end && length > 0 && begin + length <= end * (1 + 1e-12);
  };
  if (!fits(box.top, box.height, from[0]) || !fits(box.left, box.width, from[1]))
    throw std::invalid_argument(std::string(who) + ": the image is " + to_string(from) +
                                ", but the box begins at " + std::to_string(box.top) + ", " +
                                std::to_string(box.left) + " and is " + std::to_string(box.height) + " x " +
                                std::to_string(box.width));
  if (from.count() == 0 || to.count() == 0 || to[2] != from[2])
    throw std::invalid_argument(std::string(who) + ": the image is " + to_string(from) +
                                ", but the result has the shape " + to_string(to) +
                                "; both need at least one pixel and the same number of channels");
}

FEEDLINE_INLINE axis_map map_axis(double begin, double length, std::size_t count, std::size_t all,
                                  bool sample_outside) {
  if (sample_outside) return {begin, length, count, 0, all};
  // At least one pixel, however small the box is and wherever rounding moves it.
  const std::size_t first = std::min(static_cast<std::size_t>(std::max(begin, 0.0)), all - 1);
  const auto last = static_cast<std::size_t>(std::ceil(begin + length));
  return {begin, length, count, first, std::clamp(last, first + 1, all)};
}

FEEDLINE_INLINE void check_same_size(std::size_t first_height, std::size_t first_width, std::size_t height,
                                     std::size_t width) {
  if (height != first_height || width != first_width)
    throw image_error("feedline::same_crop: the first image has " + std::to_string(first_height) + " x " +
                      std::to_string(first_width) + " pixels, this one " + std::to_string(height) + " x " +
                      std::to_string(width) + "; an image and its mask must have the same size");
}

} // namespace feedline::inline FEEDLINE_ABI::detail

namespace feedline::inline FEEDLINE_ABI {

FEEDLINE_INLINE crop_box random_resized_crop::operator()(std::size_t height, std::size_t width,
                                                         random_generator& random) const {
  check("area", scale);
  check("ratio", ratio);
  const auto rows = static_cast<double>(height), columns = static_cast<double>(width);
  const double low = std::log(ratio[0]), high = std::log(ratio[1]);
  for (int i = 0; i < 10; ++i) {
    const double area = rows * columns * random.uniform(scale[0], scale[1]);
    const double aspect = std::exp(random.uniform(low, high));
    const double w = std::round(std::sqrt(area * aspect)), h = std::round(std::sqrt(area / aspect));
    if (w < 1 || w > columns || h < 1 || h > rows) continue;
    const auto place = [&](double room) {
      return static_cast<double>(random.below(static_cast<std::uint64_t>(room) + 1));
    };
    const double top = place(rows - h);
    return {top, place(columns - w), h, w};
  }
  double w = columns, h = rows;
  if (columns < rows * ratio[0]) h = std::min(rows, std::round(columns / ratio[0]));
  else if (columns > rows * ratio[1]) w = std::min(columns, std::round(rows * ratio[1]));
  return {std::floor((rows - h) / 2), std::floor((columns - w) / 2), h, w};
}

FEEDLINE_INLINE void random_resized_crop::check(const char* what, const std::array<double, 2>& range) {
  const auto [low, high] = range;
  if (!(low > 0 && low <= high && high < 1e9))
    throw std::invalid_argument(std::string("feedline::random_resized_crop: the limits of the ") + what +
                                " are " + std::to_string(low) + " and " + std::to_string(high) +
                                "; both must be positive, the lower one first");
}

FEEDLINE_INLINE crop_box resized_center_crop::operator()(std::size_t height, std::size_t width) const {
  if (side == 0 || side > short_side || detail::was_negative(short_side) || height == 0 || width == 0)
    throw std::invalid_argument("feedline::resized_center_crop: can't crop " + detail::size_text(side) +
                                " pixels from a short side of " + detail::size_text(short_side) +
                                ", for an image of " + std::to_string(height) + " x " +
                                std::to_string(width) + " pixels");
  const auto resized = [&](std::size_t length) { return short_side * length / std::min(height, width); };
  const auto begin = [&](std::size_t length) {
    // Halves are rounded to the even neighbour.
    return std::nearbyint(static_cast<double>(resized(length) - side) / 2);
  };
  const auto scale = [&](std::size_t length) {
    return static_cast<double>(length) / static_cast<double>(resized(length));
  };
  const auto out = static_cast<double>(side);
  return {begin(height) * scale(height), begin(width) * scale(width), out * scale(height), out * scale(width),
          true};
}

} // namespace feedline::inline FEEDLINE_ABI
