// SPDX-License-Identifier: MIT
#pragma once
// Views of images in memory: a size, and the steps between pixels.
#include <cstddef>
#include <span>
#include <type_traits>
#include <utility>

#include <feedline/core/tensor.hpp>
#include <feedline/image/exif_orientation.hpp>

namespace feedline::inline FEEDLINE_ABI {

/// A view of an image that doesn't own its memory. The steps are counted in elements: from row to row, from
/// pixel to pixel of a row, and from channel to channel of a pixel.
template <class T>
struct image_view {
  T* data = nullptr;               ///< channel 0 of the upper left pixel
  std::size_t height = 0;          ///< in pixels
  std::size_t width = 0;           ///< in pixels
  std::size_t channels = 0;        ///< of a pixel
  std::ptrdiff_t row_step = 0;     ///< from row to row
  std::ptrdiff_t column_step = 0;  ///< from pixel to pixel of a row
  std::ptrdiff_t channel_step = 0; ///< from channel to channel of a pixel

  /// Channel c of the pixel in row y and column x, unchecked.
  T& operator()(std::size_t y, std::size_t x, std::size_t c) const noexcept {
    return data[static_cast<std::ptrdiff_t>(y) * row_step + static_cast<std::ptrdiff_t>(x) * column_step +
                static_cast<std::ptrdiff_t>(c) * channel_step];
  }

  /// A view that can't change the pixels.
  operator image_view<const T>() const noexcept
    requires(!std::is_const_v<T>)
  {
    return {data, height, width, channels, row_step, column_step, channel_step};
  }

  /// The channels from `c` on.
  image_view channel(std::size_t c) const noexcept {
    image_view v = *this;
    v.data += static_cast<std::ptrdiff_t>(c) * channel_step;
    v.channels -= c;
    return v;
  }

  /// The same pixels with left and right exchanged.
  image_view mirrored() const noexcept {
    image_view v = *this;
    v.data += (static_cast<std::ptrdiff_t>(width) - 1) * column_step;
    v.column_step = -column_step;
    return v;
  }

  /// The same pixels with top and bottom exchanged.
  image_view upside_down() const noexcept {
    image_view v = *this;
    v.data += (static_cast<std::ptrdiff_t>(height) - 1) * row_step;
    v.row_step = -row_step;
    return v;
  }

  /// The same pixels with rows and columns exchanged.
  image_view transposed() const noexcept {
    image_view v = *this;
    std::swap(v.height, v.width);
    std::swap(v.row_step, v.column_step);
    return v;
  }
};

namespace detail {

void check_image_size(std::size_t elements, const shape& wanted);

void check_image_shape(const shape& s);

/// `of`: the class of the decode_into() that was passed `bytes` bytes for an image of shape `wanted`.
void check_decode_into(const char* of, std::size_t bytes, const shape& wanted);

} // namespace detail

/// A view of an image that is stored plane by plane, [channels, height, width], as convolutions take it.
/// Throws std::invalid_argument for another number of elements.
template <class T>
image_view<T> chw_view(std::span<T> elements, std::size_t channels, std::size_t height, std::size_t width) {
  detail::check_image_size(elements.size(), {channels, height, width});
  return {.data = elements.data(),
          .height = height,
          .width = width,
          .channels = channels,
          .row_step = static_cast<std::ptrdiff_t>(width),
          .column_step = 1,
          .channel_step = static_cast<std::ptrdiff_t>(height * width)};
}

/// A view of an image that is stored pixel by pixel, [height, width, channels], as decoders return it. Throws
/// std::invalid_argument for another number of elements.
template <class T>
image_view<T> hwc_view(std::span<T> elements, std::size_t height, std::size_t width, std::size_t channels) {
  detail::check_image_size(elements.size(), {height, width, channels});
  return {.data = elements.data(),
          .height = height,
          .width = width,
          .channels = channels,
          .row_step = static_cast<std::ptrdiff_t>(width * channels),
          .column_step = static_cast<std::ptrdiff_t>(channels),
          .channel_step = 1};
}

/// A view of a tensor [channels, height, width]. Throws std::invalid_argument if it has another rank.
template <class T, std::size_t... Extents>
image_view<T> chw_view(tensor<T, Extents...>& t) {
  detail::check_image_shape(t.shape());
  return chw_view(std::span<T>(t.begin(), t.end()), t.shape()[0], t.shape()[1], t.shape()[2]);
}

/// The same, for reading.
template <class T, std::size_t... Extents>
image_view<const T> chw_view(const tensor<T, Extents...>& t) {
  detail::check_image_shape(t.shape());
  return chw_view(std::span<const T>(t.begin(), t.end()), t.shape()[0], t.shape()[1], t.shape()[2]);
}

/// A view of a tensor [height, width, channels]. Throws std::invalid_argument if it has another rank.
template <class T, std::size_t... Extents>
image_view<T> hwc_view(tensor<T, Extents...>& t) {
  detail::check_image_shape(t.shape());
  return hwc_view(std::span<T>(t.begin(), t.end()), t.shape()[0], t.shape()[1], t.shape()[2]);
}

/// The same, for reading.
template <class T, std::size_t... Extents>
image_view<const T> hwc_view(const tensor<T, Extents...>& t) {
  detail::check_image_shape(t.shape());
  return hwc_view(std::span<const T>(t.begin(), t.end()), t.shape()[0], t.shape()[1], t.shape()[2]);
}

namespace detail {

/// Converts a view of the upright image, or a box in it, to one of the image as stored with this orientation.
template <class Oriented>
Oriented as_stored(const Oriented& upright, exif_orientation orientation) noexcept {
  switch (orientation) {
  case exif_orientation::mirror_horizontal:
    return upright.mirrored();
  case exif_orientation::rotate_180:
    return upright.mirrored().upside_down();
  case exif_orientation::mirror_vertical:
    return upright.upside_down();
  case exif_orientation::transpose:
    return upright.transposed();
  case exif_orientation::rotate_90:
    return upright.mirrored().transposed();
  case exif_orientation::transverse:
    return upright.mirrored().upside_down().transposed();
  case exif_orientation::rotate_270:
    return upright.upside_down().transposed();
  case exif_orientation::upright:
    break;
  }
  return upright;
}

} // namespace detail

} // namespace feedline::inline FEEDLINE_ABI

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_IMAGE)
#include <stdexcept>
#include <string>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE void check_image_size(std::size_t elements, const shape& wanted) {
  if (elements != wanted.count())
    throw std::invalid_argument("feedline: an image of shape " + to_string(wanted) + " doesn't have " +
                                std::to_string(elements) + " elements");
}

FEEDLINE_INLINE void check_decode_into(const char* of, std::size_t bytes, const shape& wanted) {
  if (bytes != wanted.count())
    throw std::invalid_argument(std::string(of) + "::decode_into: the image is " + to_string(wanted) +
                                ", but `pixels` has " + std::to_string(bytes) + " bytes");
}

FEEDLINE_INLINE void check_image_shape(const shape& s) {
  if (s.rank() != 3)
    throw std::invalid_argument("feedline: an image has three dimensions, but the tensor's shape is " +
                                to_string(s));
}

} // namespace feedline::inline FEEDLINE_ABI::detail
#endif
