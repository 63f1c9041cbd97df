// SPDX-License-Identifier: MIT
#pragma once
// Resizes images.
#include <cstddef>
#include <cstdint>

#include <feedline/core/tensor.hpp>
#include <feedline/image/crop.hpp>
#include <feedline/image/detail/axis_filter.hpp>
#include <feedline/image/detail/pixel_scale.hpp>
#include <feedline/image/detail/resampler.hpp>
#include <feedline/image/image_view.hpp>
#include <feedline/image/resize_options.hpp>

namespace feedline::inline FEEDLINE_ABI {

/// Fills `to` with a resized part of an image. The default is bilinear interpolation with antialiasing, as
/// Pillow's `BILINEAR` and PyTorch's `interpolate(mode="bilinear", antialias=True)`. Sums are integers, so
/// every machine computes the same result: within a tenth of a byte's step of the exact one, then rounded if
/// `to` holds bytes. Where an image shrinks to less than an eighth, regular patterns may be off by a step.
/// (For JPEGs, jpeg_decoder::decode_crop() resizes while it decodes.)
///
/// Throws std::invalid_argument if the box isn't within the image, one of the two has no pixels, or they
/// differ in their number of channels.
template <class T>
void resize(const image_view<const std::uint8_t>& from, const crop_box& box, const image_view<T>& to,
            const resize_options& how = {}) {
  detail::check_element<T>();
  const shape target{to.height, to.width, to.channels};
  detail::check_crop("feedline::resize", {from.height, from.width, from.channels}, box, target);
  const detail::pixel_scale scale(how.normalization);
  thread_local detail::resampler resampler;
  const detail::axis_map rows =
      detail::map_axis(box.top, box.height, to.height, from.height, box.sample_outside);
  const detail::axis_map columns =
      detail::map_axis(box.left, box.width, to.width, from.width, box.sample_outside);
  const bool is_color = from.channels == 3 || from.channels == 4;
  for (std::size_t channel = 0; channel < (is_color ? 1 : from.channels); ++channel) {
    const auto region = resampler.plan(rows, columns, is_color ? 4 : 1, how.interpolation, how.antialias);
    std::size_t y = region.top;
    const auto read = [&](std::uint8_t** lines, std::size_t count) {
      for (std::size_t i = 0; i < count; ++i, ++y)
        for (std::size_t x = 0; x < region.width; ++x)
          if (is_color)
            for (std::size_t c = 0; c < from.channels; ++c) lines[i][4 * x + c] = from(y, region.left + x, c);
          else lines[i][x] = from(y, region.left + x, channel);
    };
    resampler.run((how.horizontal_flip ? to.mirrored() : to).channel(channel), scale, 0,
                  region.width * (is_color ? 4 : 1), read);
  }
}

/// Returns the whole image, [height, width, channels], at another height and width. Throws
/// std::invalid_argument if it doesn't have three dimensions or a side is 0.
inline tensor<std::uint8_t> resize(const tensor<std::uint8_t>& image, std::size_t height, std::size_t width,
                                   const resize_options& how = {}) {
  const auto from = hwc_view(image);
  tensor<std::uint8_t> result(shape{height, width, from.channels});
  resize(from, whole_image(from.height, from.width), hwc_view(result), how);
  return result;
}

} // namespace feedline::inline FEEDLINE_ABI
