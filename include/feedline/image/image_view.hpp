// SPDX-License-Identifier: MIT
#pragma once
// Images in memory that somebody else owns: where their pixels are.
#include <cstddef>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include <feedline/core/tensor.hpp>
#include <feedline/image/exif_orientation.hpp>

namespace feedline::inline v0 {

/// Numbers of an image and the steps from one to the next, in elements: from row to row, from pixel to pixel
/// of a row, and from channel to channel of a pixel. Owns nothing.
template <class T>
struct image_view {
  T* data = nullptr;
  std::size_t height = 0;
  std::size_t width = 0;
  std::size_t channels = 0;
  std::ptrdiff_t row_step = 0;
  std::ptrdiff_t column_step = 0;
  std::ptrdiff_t channel_step = 0;

  T& operator()(std::size_t y, std::size_t x, std::size_t c) const noexcept {
    return data[static_cast<std::ptrdiff_t>(y) * row_step + static_cast<std::ptrdiff_t>(x) * column_step +
                static_cast<std::ptrdiff_t>(c) * channel_step];
  }

  operator image_view<const T>() const noexcept
    requires(!std::is_const_v<T>)
  {
    return {data, height, width, channels, row_step, column_step, channel_step};
  }

  /// The image from that channel on.
  image_view channel(std::size_t c) const noexcept {
    image_view v = *this;
    v.data += static_cast<std::ptrdiff_t>(c) * channel_step;
    v.channels -= c;
    return v;
  }

  /// The same pixels, left and right exchanged.
  image_view mirrored() const noexcept {
    image_view v = *this;
    v.data += (static_cast<std::ptrdiff_t>(width) - 1) * column_step;
    v.column_step = -column_step;
    return v;
  }

  /// … top and bottom exchanged.
  image_view upside_down() const noexcept {
    image_view v = *this;
    v.data += (static_cast<std::ptrdiff_t>(height) - 1) * row_step;
    v.row_step = -row_step;
    return v;
  }

  /// … rows taken for columns.
  image_view transposed() const noexcept {
    image_view v = *this;
    std::swap(v.height, v.width);
    std::swap(v.row_step, v.column_step);
    return v;
  }
};

namespace detail {

inline void check_image_size(std::size_t elements, const shape& wanted) {
  if (elements != wanted.count())
    throw std::invalid_argument("feedline: " + std::to_string(elements) +
                                " elements are no image of the shape " + to_string(wanted));
}

inline void check_image_shape(const shape& s) {
  if (s.rank() != 3)
    throw std::invalid_argument("feedline: an image has three dimensions, not the shape " + to_string(s));
}

} // namespace detail

/// An image whose channels lie one behind the other, [channels, height, width], as convolutions want them.
/// Throws std::invalid_argument if there are not as many elements.
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

/// An image whose pixels lie one behind the other, [height, width, channels], as decoders give them.
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

/// A tensor [channels, height, width] as an image. Throws std::invalid_argument if it has another rank.
template <class T, std::size_t... Extents>
image_view<T> chw_view(tensor<T, Extents...>& t) {
  detail::check_image_shape(t.shape());
  return chw_view(std::span<T>(t.begin(), t.end()), t.shape()[0], t.shape()[1], t.shape()[2]);
}

template <class T, std::size_t... Extents>
image_view<const T> chw_view(const tensor<T, Extents...>& t) {
  detail::check_image_shape(t.shape());
  return chw_view(std::span<const T>(t.begin(), t.end()), t.shape()[0], t.shape()[1], t.shape()[2]);
}

/// A tensor [height, width, channels] as an image. Throws std::invalid_argument if it has another rank.
template <class T, std::size_t... Extents>
image_view<T> hwc_view(tensor<T, Extents...>& t) {
  detail::check_image_shape(t.shape());
  return hwc_view(std::span<T>(t.begin(), t.end()), t.shape()[0], t.shape()[1], t.shape()[2]);
}

template <class T, std::size_t... Extents>
image_view<const T> hwc_view(const tensor<T, Extents...>& t) {
  detail::check_image_shape(t.shape());
  return hwc_view(std::span<const T>(t.begin(), t.end()), t.shape()[0], t.shape()[1], t.shape()[2]);
}

namespace detail {

/// An upright image, or something that has its place in one, as it is where the image is stored with that
/// orientation.
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

} // namespace feedline::inline v0
