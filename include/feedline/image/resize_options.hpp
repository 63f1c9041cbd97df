// SPDX-License-Identifier: MIT
#pragma once
// How an image is brought to another size, and to the numbers that a network wants.
#include <array>
#include <cstdint>

namespace feedline::inline v0 {

/// How pixels between those of an image are made.
enum class interpolation : std::uint8_t {
  nearest,  ///< the nearest pixel
  bilinear, ///< of two neighbours in each direction, by their distance
  bicubic,  ///< of four (R. Keys, "Cubic convolution interpolation", 1981, with a = -1/2, as Pillow has it)
};

/// What becomes of a byte v of a channel: (v / 255 - mean) / deviation. Left as it is: numbers from 0 to 1.
/// Bytes stay bytes.
struct normalization {
  std::array<double, 3> mean{0, 0, 0}; ///< of red, green and blue, or of gray, between -1 and 1
  std::array<double, 3> deviation{1, 1, 1};
};

/// What networks that were trained on ImageNet expect.
inline constexpr normalization imagenet_normalization{{0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}};

struct resize_options {
  feedline::interpolation interpolation = interpolation::bilinear;
  /// Where the image shrinks, average over all pixels that become one, as Pillow does, so that nothing
  /// aliases.
  bool antialias = true;
  /// Exchange left and right.
  bool mirrored = false;
  feedline::normalization normalization = {};
};

} // namespace feedline::inline v0
