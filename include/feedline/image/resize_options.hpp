// SPDX-License-Identifier: MIT
#pragma once
// How to resize an image, and how to normalize its pixels.
#include <array>
#include <cstdint>

#include <feedline/version.hpp>

namespace feedline::inline FEEDLINE_ABI {

/// How to compute a value between pixels.
enum class interpolation : std::uint8_t {
  nearest,  ///< the nearest pixel
  bilinear, ///< from two neighbours in each direction, weighted by distance
  bicubic,  ///< from four (R. Keys, "Cubic convolution interpolation", 1981, with a = -1/2, as in Pillow)
};

/// Converts a byte v of a channel to (v / 255 - mean) / std. The default scales to the range from 0 to 1.
/// Images of bytes aren't normalized. Where colours are adjusted after decoding, decode with the default, and call
/// normalize() after the adjustments.
struct normalization {
  std::array<double, 3> mean{0, 0, 0}; ///< of red, green and blue, or of gray, between -1 and 1
  std::array<double, 3> std{1, 1, 1};  ///< of the same channels, on the same scale
};

/// The mean and std that networks trained on ImageNet expect.
inline constexpr normalization imagenet_normalization{{0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}};

/// How an image is resized, flipped and normalized.
struct resize_options {
  feedline::interpolation interpolation = interpolation::bilinear; ///< how new pixels are computed
  /// Where the image shrinks, average over all input pixels that an output pixel covers, as Pillow does, so
  /// that nothing aliases.
  bool antialias = true;
  /// Exchange left and right.
  bool horizontal_flip = false;
  feedline::normalization normalization = {}; ///< of float images
};

} // namespace feedline::inline FEEDLINE_ABI
