// SPDX-License-Identifier: MIT
#pragma once
// Erases a random rectangle of an image.
#include <array>
#include <cstddef>
#include <limits>
#include <type_traits>

#include <feedline/core/random.hpp>
#include <feedline/image/detail/math.hpp>
#include <feedline/image/image_view.hpp>

namespace feedline::inline FEEDLINE_ABI {

/// Fills a rectangle of random area and aspect ratio at a random position, in an image of any element type
/// and number of channels: torchvision's RandomErasing. If ten drawn rectangles don't fit, it leaves the
/// image unchanged.
///
/// (Z. Zhong et al., "Random Erasing Data Augmentation", 2017.)
///
///     random_erasing{.probability = 0.25}(view, context.random);
struct random_erasing {
  double probability = 0.5;                ///< of erasing
  std::array<double, 2> scale{0.02, 0.33}; ///< smallest and largest area, as a fraction of the image's
  std::array<double, 2> ratio{0.3, 3.3};   ///< smallest and largest height / width
  /// Of every channel; clamped to the range of an integer type, where NaN becomes the least value.
  float value = 0;

  /// Changes the image in place.
  template <class T>
  void operator()(const image_view<T>& image, random_generator& random) const {
    if (!random.chance(probability)) return;
    const T painted = [&] {
      if constexpr (std::is_integral_v<T>) {
        using limits = std::numeric_limits<T>;
        if (value >= static_cast<float>(limits::max())) return limits::max();
        if (!(value > static_cast<float>(limits::min()))) return limits::min();
      }
      return T(value);
    }();
    const auto rows = static_cast<double>(image.height), columns = static_cast<double>(image.width);
    for (int i = 0; i < 10; ++i) {
      const double area = rows * columns * random.uniform(scale[0], scale[1]);
      const double aspect = detail::exponential_of(
          random.uniform(detail::logarithm_of(ratio[0]), detail::logarithm_of(ratio[1])));
      const double height = detail::rounded(detail::root_of(area * aspect)),
                   width = detail::rounded(detail::root_of(area / aspect));
      if (!(height < rows && width < columns)) continue;
      const auto h = static_cast<std::size_t>(height), w = static_cast<std::size_t>(width);
      const std::size_t top = random.below(image.height - h + 1), left = random.below(image.width - w + 1);
      for (std::size_t y = top; y < top + h; ++y)
        for (std::size_t x = left; x < left + w; ++x)
          for (std::size_t c = 0; c < image.channels; ++c) image(y, x, c) = painted;
      return;
    }
  }
};

} // namespace feedline::inline FEEDLINE_ABI
