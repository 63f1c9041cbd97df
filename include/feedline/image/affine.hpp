// SPDX-License-Identifier: MIT
#pragma once
// Rotates, shears and shifts images in place.
#include <cstddef>
#include <numbers>
#include <vector>

#include <feedline/image/detail/math.hpp>
#include <feedline/image/image_view.hpp>

namespace feedline::inline FEEDLINE_ABI {

/// An affine transform as a map from output to input: the output pixel at (x, y), relative to the center of
/// the image, is the input pixel at (xx x + xy y + x0, yx x + yy y + y0).
struct affine_map {
  ///@{
  /// A coefficient of the map above.
  double xx = 1, xy = 0, x0 = 0;
  double yx = 0, yy = 1, y0 = 0;

  ///@}

  /// Rotates the image counter-clockwise by `degrees`.
  static affine_map rotation(double degrees) {
    const double angle = degrees * std::numbers::pi / 180;
    const double cosine = detail::cosine_of(angle), sine = detail::sine_of(angle);
    return {cosine, -sine, 0, sine, cosine, 0};
  }

  /// Shifts each row by `across` times its distance from the center row, and each column by `down` times its
  /// distance from the center column.
  static affine_map shear(double across, double down) noexcept { return {1, across, 0, down, 1, 0}; }

  /// Shifts the image to the right and down, in pixels.
  static affine_map translation(double right, double down) noexcept { return {1, 0, -right, 0, 1, -down}; }
};

/// Transforms an image in place. Each pixel becomes the nearest input pixel, or `fill` where the map leaves
/// the image.
template <class T>
void transform(const image_view<T>& image, const affine_map& from, T fill = {}) {
  thread_local std::vector<T> old;
  const std::size_t channels = image.channels;
  old.resize(image.height * image.width * channels);
  std::size_t at = 0;
  for (std::size_t y = 0; y < image.height; ++y)
    for (std::size_t x = 0; x < image.width; ++x)
      for (std::size_t c = 0; c < channels; ++c) old[at++] = image(y, x, c);
  const auto height = static_cast<double>(image.height), width = static_cast<double>(image.width);
  for (std::size_t y = 0; y < image.height; ++y)
    for (std::size_t x = 0; x < image.width; ++x) {
      const double to_x = static_cast<double>(x) + 0.5 - width / 2,
                   to_y = static_cast<double>(y) + 0.5 - height / 2;
      const double from_x = from.xx * to_x + from.xy * to_y + from.x0 + width / 2;
      const double from_y = from.yx * to_x + from.yy * to_y + from.y0 + height / 2;
      const bool inside = from_x >= 0 && from_x < width && from_y >= 0 && from_y < height;
      const std::size_t source =
          inside
              ? (static_cast<std::size_t>(from_y) * image.width + static_cast<std::size_t>(from_x)) * channels
              : 0;
      for (std::size_t c = 0; c < channels; ++c) image(y, x, c) = inside ? old[source + c] : fill;
    }
}

} // namespace feedline::inline FEEDLINE_ABI
