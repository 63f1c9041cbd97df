// SPDX-License-Identifier: MIT
#pragma once
// Crops of an image: random ones for training, center crops for evaluation.
#include <array>
#include <cstddef>
#include <utility>

#include <feedline/core/random.hpp>
#include <feedline/core/tensor.hpp>
#include <feedline/detail/function_ref.hpp>
#include <feedline/image/detail/axis_filter.hpp>

namespace feedline::inline FEEDLINE_ABI {

/// A part of an image, in pixels of the upright image. Its edges may lie within a pixel.
struct crop_box {
  double top = 0;    ///< upper edge
  double left = 0;   ///< left edge
  double height = 0; ///< of the box
  double width = 0;  ///< of the box
  /// Whether pixels outside the box contribute to its outermost pixels, as where an image is first resized
  /// and then cropped. If not, the result is as if the image was first cropped and then resized.
  bool sample_outside = false;

  friend bool operator==(const crop_box&, const crop_box&) = default;
};

namespace detail {

/// Chooses the box of an image of that size.
using crop_chooser = function_ref<crop_box(std::size_t height, std::size_t width)>;

/// A box and the size of its image, with the same transforms as image_view.
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
    return {{box.left, box.top, box.width, box.height, box.sample_outside}, width, height};
  }
};

/// Throws std::invalid_argument unless the box lies within an image of shape `from`, [height, width,
/// channels], and `to` has the same number of channels.
void check_crop(const char* who, const shape& from, const crop_box& box, const shape& to);

/// One axis of a box, resized to `count` pixels; the image has `all` pixels along it.
axis_map map_axis(double begin, double length, std::size_t count, std::size_t all, bool sample_outside);

void check_same_size(std::size_t first_height, std::size_t first_width, std::size_t height,
                     std::size_t width);

} // namespace detail

/// The box of the whole image.
inline crop_box whole_image(std::size_t height, std::size_t width) noexcept {
  return {.height = static_cast<double>(height), .width = static_cast<double>(width)};
}

/// Draws a box of random area and aspect ratio at a random position, which is then resized to the network's
/// input: torchvision's RandomResizedCrop. After ten boxes that don't fit it returns the largest centered box
/// with an allowed ratio.
///
/// (C. Szegedy et al., "Going Deeper with Convolutions", 2015; the area is drawn uniformly, the ratio
/// uniformly in its logarithm; sides are rounded to pixels; all positions are equally likely.)
struct random_resized_crop {
  std::array<double, 2> scale{0.08, 1};          ///< smallest and largest area, as a fraction of the image's
  std::array<double, 2> ratio{3.0 / 4, 4.0 / 3}; ///< smallest and largest width / height

  /// Draws a box in an image of this size. Throws std::invalid_argument if a lower limit isn't positive or is
  /// above the upper one.
  crop_box operator()(std::size_t height, std::size_t width, random_generator& random) const;

 private:
  static void check(const char* what, const std::array<double, 2>& range);
};

/// The center crop of an image whose short side was resized, for evaluation: torchvision's
/// Resize(short_side), then CenterCrop(side). Decode it to `side` x `side` pixels.
struct resized_center_crop {
  std::size_t short_side = 256; ///< of the resized image, in pixels
  std::size_t side = 224;       ///< of the crop, in pixels of the resized image

  /// Throws std::invalid_argument for an image without pixels, a side of 0 or a crop larger than the short
  /// side.
  crop_box operator()(std::size_t height, std::size_t width) const;
};

/// Chooses the box of one image and returns it again for others of its size: an image and its mask get the same crop.
/// Make one for each sample.
///
///     const same_crop crop([&](auto height, auto width) { return random_resized_crop{}(height, width, context.random); });
template <class Choose>
class same_crop {
 public:
  /// `choose(height, width)` returns the crop_box of the first image.
  explicit same_crop(Choose choose) : choose_(std::move(choose)) {}

  /// Throws image_error if the size isn't the first image's.
  crop_box operator()(std::size_t height, std::size_t width) const {
    if (height_ == 0) {
      box_ = choose_(height, width);
      height_ = height;
      width_ = width;
    }
    detail::check_same_size(height_, width_, height, width);
    return box_;
  }

 private:
  Choose choose_;
  mutable crop_box box_;
  mutable std::size_t height_ = 0, width_ = 0; // of the first image
};

} // namespace feedline::inline FEEDLINE_ABI

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_IMAGE)
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
#endif
