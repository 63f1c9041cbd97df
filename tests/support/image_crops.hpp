// SPDX-License-Identifier: MIT
#pragma once
// Parts of images at their own size, compared with the whole image.
#include <feedline/core/random.hpp>
#include <feedline/image/jpeg_decoder.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace feedline::test {

inline crop_box random_box(std::size_t height, std::size_t width, random_generator& random) {
  const std::size_t h = 1 + random.below(height), w = 1 + random.below(width);
  return {static_cast<double>(random.below(height - h + 1)), static_cast<double>(random.below(width - w + 1)),
          static_cast<double>(h), static_cast<double>(w)};
}

inline auto takes(const crop_box& box) {
  return [box](std::size_t, std::size_t) { return box; };
}

inline std::size_t whole(double number) { return static_cast<std::size_t>(number); }

/// A box of whole pixels at its own size.
template <class Decoder>
tensor<std::uint8_t> part_of(Decoder& decoder, const std::vector<std::byte>& file, const crop_box& box,
                             const image_options& options = {}, bool mirrored = false) {
  tensor<std::uint8_t> part(shape{whole(box.height), whole(box.width), detail::channels_of(options.color)});
  decoder.decode_crop(file, takes(box), hwc_view(part), {.horizontal_flip = mirrored}, options);
  return part;
}

/// Whether a part has exactly the pixels that the image has in the box.
inline bool has_pixels_of(const tensor<std::uint8_t>& part, const tensor<std::uint8_t>& image,
                          const crop_box& box, bool mirrored = false) {
  const auto all = hwc_view(image), some = hwc_view(part);
  for (std::size_t y = 0; y < some.height; ++y)
    for (std::size_t x = 0; x < some.width; ++x)
      for (std::size_t c = 0; c < some.channels; ++c)
        if (some(y, mirrored ? some.width - 1 - x : x, c) != all(whole(box.top) + y, whole(box.left) + x, c))
          return false;
  return true;
}

/// Whether the box is decoded to these pixels of the image, as it must, whatever the decoder reads to compute them.
template <class Decoder>
bool gives_pixels_of(Decoder& decoder, const std::vector<std::byte>& file, const tensor<std::uint8_t>& image,
                     const crop_box& box, const image_options& options, bool mirrored = false) {
  return has_pixels_of(part_of(decoder, file, box, options, mirrored), image, box, mirrored);
}

} // namespace feedline::test
