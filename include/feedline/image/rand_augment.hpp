// SPDX-License-Identifier: MIT
#pragma once
// Applies randomly chosen changes to an image.
#include <cstddef>

#include <feedline/core/random.hpp>
#include <feedline/image/affine.hpp>
#include <feedline/image/color.hpp>
#include <feedline/image/detail/math.hpp>
#include <feedline/image/image_view.hpp>

namespace feedline::inline FEEDLINE_ABI {

/// Applies `times` randomly chosen changes, one after another. Each change is called as `f(image, random)`
/// and may be chosen more than once.
///
///     apply_some(2, view, context.random, color_jitter{.hue = 0.1f}, random_erasing{},
///                [](auto image, auto& random) { solarize(image, 0.5f); });
template <class T, class... Changes>
void apply_some(int times, const image_view<T>& image, random_generator& random, const Changes&... changes) {
  for (; times > 0; --times) {
    std::size_t skip = random.below(sizeof...(changes));
    const auto offer = [&](const auto& change) {
      if (skip-- == 0) change(image, random);
    };
    (offer(changes), ...);
  }
}

/// RandAugment with torchvision's changes and magnitudes, except for sharpness: identity, shear, translation
/// and rotation (uncovered pixels become black), brightness, saturation, contrast, posterize, solarize,
/// autocontrast, equalize.
///
/// (E. Cubuk et al., "RandAugment: Practical automated data augmentation with a reduced search space", 2019.)
///
///     rand_augment{.changes = 2, .magnitude = 9}(view, context.random);
///
/// Before normalization, as the colour adjustments: it throws what they throw, whichever changes are drawn.
struct rand_augment {
  int changes = 2;      ///< how many are applied
  double magnitude = 9; ///< from 0 to 30

  /// Changes the image in place.
  template <class T>
  void operator()(const image_view<T>& image, random_generator& random) const {
    detail::for_each_pixel(image,
                           [](const T&, const T&, const T&) {}); // refuses an image that was normalized
    const double strength = magnitude / 30;
    const auto signed_up_to = [&](random_generator& r, double most) {
      return (r.chance(0.5) ? -1 : 1) * most * strength;
    };
    const auto factor = [&](random_generator& r) { return static_cast<float>(1 + signed_up_to(r, 0.9)); };
    using view = const image_view<T>&;
    using generator = random_generator&;
    const double width = static_cast<double>(image.width), height = static_cast<double>(image.height);
    apply_some(
        changes, image, random, [](view, generator) {},
        [&](view i, generator r) {
          affine_map shear = affine_map::shear(signed_up_to(r, 0.3), 0);
          shear.x0 = shear.xy * height / 2; // keeps the upper left corner in place
          transform(i, shear);
        },
        [&](view i, generator r) {
          affine_map shear = affine_map::shear(0, signed_up_to(r, 0.3));
          shear.y0 = shear.yx * width / 2;
          transform(i, shear);
        },
        [&](view i, generator r) {
          transform(i, affine_map::translation(detail::truncated(signed_up_to(r, 150.0 / 331 * width)), 0));
        },
        [&](view i, generator r) {
          transform(i, affine_map::translation(0, detail::truncated(signed_up_to(r, 150.0 / 331 * height))));
        },
        [&](view i, generator r) { transform(i, affine_map::rotation(signed_up_to(r, 30))); },
        [&](view i, generator r) { adjust_brightness(i, factor(r)); },
        [&](view i, generator r) { adjust_saturation(i, factor(r)); },
        [&](view i, generator r) { adjust_contrast(i, factor(r)); },
        [&](view i, generator) { posterize(i, 8 - static_cast<int>(detail::rounded(4 * strength))); },
        [&](view i, generator) { solarize(i, static_cast<float>(1 - strength)); },
        [](view i, generator) { autocontrast(i); }, [](view i, generator) { equalize(i); });
  }
};

} // namespace feedline::inline FEEDLINE_ABI
