// SPDX-License-Identifier: MIT
#pragma once
// A part of an image that fills a view, in the coordinates in which the image is stored.
#include <cstddef>

#include <feedline/image/crop.hpp>
#include <feedline/image/detail/axis_filter.hpp>
#include <feedline/image/image_options.hpp>
#include <feedline/image/image_view.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// A box of an image and the view that it fills. Throws std::invalid_argument if they don't fit the image.
template <class T>
struct stored_crop {
  stored_crop(const char* who, const image_header& header, const crop_box& b, const image_view<T>& pixels,
              bool horizontal_flip) {
    check_crop(who, header.shape(), b, {pixels.height, pixels.width, pixels.channels});
    box = as_stored(placed_box{b, header.height, header.width}, header.orientation).box;
    to = as_stored(horizontal_flip ? pixels.mirrored() : pixels, header.orientation);
  }

  /// The rows of the result, in an image of `all` rows that is decoded at `size` times its size.
  axis_map rows(std::size_t all, double size = 1) const {
    return map_axis(box.top * size, box.height * size, to.height, all, box.sample_outside);
  }

  axis_map columns(std::size_t all, double size = 1) const {
    return map_axis(box.left * size, box.width * size, to.width, all, box.sample_outside);
  }

  crop_box box;
  image_view<T> to;
};

} // namespace feedline::inline FEEDLINE_ABI::detail
