// SPDX-License-Identifier: MIT
#pragma once
// A random rectangle of an image, painted over.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include <feedline/core/random.hpp>
#include <feedline/image/image_view.hpp>

namespace feedline::inline v0 {

/// Paints over a rectangle of random area and aspect ratio at a random place, of an image of any kind and
/// number of channels: torchvision's RandomErasing. Where ten rectangles don't fit it leaves the image as it
/// is.
///
/// (Z. Zhong et al., "Random Erasing Data Augmentation", 2017.)
///
///     random_erasing{.probability = 0.25}(view, context.random);
struct random_erasing {
  double probability = 0.5;
  double min_area = 0.02; ///< as a share of the image's
  double max_area = 0.33;
  double min_ratio = 0.3; ///< height to width
  double max_ratio = 3.3;
  float value = 0; ///< that every channel gets; of bytes the nearest one

  template <class T>
  void operator()(const image_view<T>& image, random_generator& random) const {
    if (!random.chance(probability)) return;
    const T painted = [&] {
      if constexpr (std::is_integral_v<T>)
        return static_cast<T>(std::clamp(value, static_cast<float>(std::numeric_limits<T>::min()),
                                         static_cast<float>(std::numeric_limits<T>::max())));
      else return T(value);
    }();
    const auto rows = static_cast<double>(image.height), columns = static_cast<double>(image.width);
    for (int i = 0; i < 10; ++i) {
      const double area = rows * columns * random.uniform(min_area, max_area);
      const double ratio = std::exp(random.uniform(std::log(min_ratio), std::log(max_ratio)));
      const double height = std::round(std::sqrt(area * ratio)), width = std::round(std::sqrt(area / ratio));
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

} // namespace feedline::inline v0
