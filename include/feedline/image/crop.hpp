// SPDX-License-Identifier: MIT
#pragma once
// Which part of an image is taken: the choices that image classifiers are trained and evaluated with.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

#include <feedline/core/random.hpp>
#include <feedline/core/tensor.hpp>
#include <feedline/detail/given_size.hpp>
#include <feedline/image/detail/axis_filter.hpp>

namespace feedline::inline v0 {

/// A part of an image, in pixels of the upright image; it may begin and end within a pixel.
struct crop_box {
  double top = 0;
  double left = 0;
  double height = 0;
  double width = 0;
  /// What lies outside the box has a say in its outermost pixels: as where an image is resized first and
  /// cropped then. Else it is as if the image was cropped first and resized then.
  bool sees_outside = false;

  friend bool operator==(const crop_box&, const crop_box&) = default;
};

namespace detail {

/// A box in its image, turned as image_view is.
struct placed_box {
  crop_box box;
  std::size_t height, width; // of the image

  placed_box mirrored() const noexcept {
    placed_box b = *this;
    b.box.left = static_cast<double>(width) - box.left - box.width;
    return b;
  }

  placed_box upside_down() const noexcept {
    placed_box b = *this;
    b.box.top = static_cast<double>(height) - box.top - box.height;
    return b;
  }

  placed_box transposed() const noexcept {
    return {{box.left, box.top, box.width, box.height, box.sees_outside}, width, height};
  }
};

/// Throws std::invalid_argument unless the box lies in an image of shape `from`, [height, width, channels],
/// and `to` is of as many channels.
inline void check_crop(const char* who, const shape& from, const crop_box& box, const shape& to) {
  // Sums may be off by a rounding.
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
                                ", but the pixels are to be " + to_string(to));
}

/// One side of a box in an image with `all` pixels along it, to be `count` new ones.
inline axis_map map_axis(double begin, double length, std::size_t count, std::size_t all, bool sees_outside) {
  if (sees_outside) return {begin, length, count, 0, all};
  // At least one pixel, however small the box is and wherever rounding puts it.
  const std::size_t first = std::min(static_cast<std::size_t>(std::max(begin, 0.0)), all - 1);
  const auto last = static_cast<std::size_t>(std::ceil(begin + length));
  return {begin, length, count, first, std::clamp(last, first + 1, all)};
}

} // namespace detail

/// All of an image.
inline crop_box whole_image(std::size_t height, std::size_t width) noexcept {
  return {.height = static_cast<double>(height), .width = static_cast<double>(width)};
}

/// A box of random area and aspect ratio at a random place, to be resized to what a network wants:
/// torchvision's RandomResizedCrop. After ten boxes that don't fit it takes the largest one in the middle
/// whose ratio is allowed.
///
/// (C. Szegedy et al., "Going Deeper with Convolutions", 2015; the area is uniform, the ratio's logarithm is,
/// sides are rounded to pixels, each place is as likely.)
struct random_resized_crop {
  double min_area = 0.08; ///< as a share of the image's
  double max_area = 1;
  double min_ratio = 3.0 / 4; ///< width to height
  double max_ratio = 4.0 / 3;

  /// Draws a box in an image of that size. Throws std::invalid_argument if a limit isn't positive, or is
  /// above its upper limit.
  crop_box operator()(std::size_t height, std::size_t width, random_generator& random) const {
    check("area", min_area, max_area);
    check("ratio", min_ratio, max_ratio);
    const auto rows = static_cast<double>(height), columns = static_cast<double>(width);
    const double low = std::log(min_ratio), high = std::log(max_ratio);
    for (int i = 0; i < 10; ++i) {
      const double area = rows * columns * random.uniform(min_area, max_area);
      const double ratio = std::exp(random.uniform(low, high));
      const double w = std::round(std::sqrt(area * ratio)), h = std::round(std::sqrt(area / ratio));
      if (w < 1 || w > columns || h < 1 || h > rows) continue;
      const auto place = [&](double room) {
        return static_cast<double>(random.below(static_cast<std::uint64_t>(room) + 1));
      };
      const double top = place(rows - h);
      return {top, place(columns - w), h, w};
    }
    double w = columns, h = rows;
    if (columns < rows * min_ratio) h = std::min(rows, std::round(columns / min_ratio));
    else if (columns > rows * max_ratio) w = std::min(columns, std::round(rows * max_ratio));
    return {std::floor((rows - h) / 2), std::floor((columns - w) / 2), h, w};
  }

 private:
  static void check(const char* what, double low, double high) {
    if (!(low > 0 && low <= high && high < 1e9))
      throw std::invalid_argument(std::string("feedline::random_resized_crop: an ") + what + " between " +
                                  std::to_string(low) + " and " + std::to_string(high));
  }
};

/// The box in the middle of an image whose short side was resized: for evaluation, torchvision's
/// Resize(short_side), then CenterCrop(side). Decode it to `side` x `side` pixels.
struct resized_center_crop {
  std::size_t short_side = 256;
  std::size_t side = 224;

  /// Throws std::invalid_argument if there is nothing to see: a side of 0, or a crop larger than the short
  /// side.
  crop_box operator()(std::size_t height, std::size_t width) const {
    if (side == 0 || side > short_side || detail::was_negative(short_side) || height == 0 || width == 0)
      throw std::invalid_argument("feedline::resized_center_crop: " + detail::size_text(side) +
                                  " pixels of " + detail::size_text(short_side) + ", of an image of " +
                                  std::to_string(height) + " x " + std::to_string(width));
    const auto resized = [&](std::size_t length) { return short_side * length / std::min(height, width); };
    const auto begin = [&](std::size_t length) {
      // Half pixels go to the even side.
      return std::nearbyint(static_cast<double>(resized(length) - side) / 2);
    };
    const auto scale = [&](std::size_t length) {
      return static_cast<double>(length) / static_cast<double>(resized(length));
    };
    const auto out = static_cast<double>(side);
    return {begin(height) * scale(height), begin(width) * scale(width), out * scale(height),
            out * scale(width), true};
  }
};

} // namespace feedline::inline v0
