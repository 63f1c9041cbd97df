// SPDX-License-Identifier: MIT
#pragma once
// How image files are decoded, and what their headers say.
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include <feedline/core/tensor.hpp>
#include <feedline/image/exif_orientation.hpp>

namespace feedline::inline FEEDLINE_ABI {

/// The channels of decoded pixels: red, green, blue; one of luma (0.299 R + 0.587 G + 0.114 B, as JPEG's own Y); or red,
/// green, blue and alpha, which is 255 where the file has none. Colours aren't multiplied by alpha.
enum class pixel_color : std::uint8_t { rgb, gray, rgba };

/// What to do with a damaged file: one that is cut off, has bits that no encoder writes, has a header that doesn't fit
/// its data, or, if it is a PNG, has a chunk with a wrong checksum. For a JPEG these are libjpeg's warnings;
/// jpeg_decoder::warnings() counts those about a file that isn't refused. JPEG and WebP have no checksums: where changed
/// bytes are still valid codes, the image has other pixels and there is no error.
enum class on_corrupt : std::uint8_t {
  fail, ///< throw image_error (for a JPEG jpeg_error)
  keep, ///< keep the decoded part; the rest is black, of a JPEG gray or smeared
  /// Accept what loses no pixels, as other decoders do: in a JPEG a missing end mark, up to 16 surplus bytes before a
  /// marker, an unknown version of JFIF or Adobe marker, and parameters of a scan that its kind doesn't use. Throw for all
  /// else, such as a file that is cut off before its last pixel.
  keep_whole,
};

/// Options of image_decoder and jpeg_decoder.
struct image_options {
  pixel_color color = pixel_color::rgb; ///< of the result
  /// Turn the image upright as its EXIF data says or, where these have no orientation, its XMP data, as Pillow's
  /// exif_transpose() does. Off by default, as in torchvision and Pillow: annotations made with those, such as boxes and
  /// masks, refer to the pixels as stored.
  bool apply_orientation = false;
  feedline::on_corrupt on_corrupt = feedline::on_corrupt::fail; ///< what happens to a damaged file
  /// Images with more pixels are refused before memory is allocated for them. The default accepts photographs of the
  /// largest cameras.
  std::uint64_t max_pixels = std::uint64_t{1} << 28;
  /// Images whose decoding would take more bytes of memory are refused before these are allocated, because a few bytes can
  /// hold many pixels of one colour. Counted are the result of decode() and decode_mask(), and what a progressive JPEG, an
  /// interlaced PNG or a WebP image needs for all of its pixels. A file may always take 64 times its size, which is enough
  /// for photographs. Raise the limit for drawings and masks of more than 50 megapixels. A memory_plan doesn't know of
  /// this memory: it is at most as much for each worker that decodes, and is freed after each image.
  std::uint64_t max_bytes = std::uint64_t{1} << 29;
  /// JPEGs with more scans are refused, because each scan may cost as much time as a whole image. Encoders
  /// write a few dozen at most.
  int max_scans = 100;
  /// JPEGs with several scans are refused if scans times pixels exceed this limit: a file of half a megabyte
  /// could otherwise take a minute to decode. The default accepts a photograph of 150 megapixels in 14 scans.
  std::uint64_t max_scan_pixels = std::uint64_t{1} << 31;
  /// Where decode_crop() shrinks a JPEG, decode it at 1/8, 2/8 or 4/8 of its size, as long as that isn't
  /// smaller than the result. This is faster, and pixels are off by 1 or 2 of 255. Without antialiasing the
  /// difference would be visible, so images are then decoded at full size.
  bool scaled_decoding = true;
  /// The red, green and blue that show through where an image with alpha is decoded to rgb or gray. If not set, alpha is
  /// dropped, as in torchvision, Pillow and TensorFlow.
  std::optional<std::array<std::uint8_t, 3>> background = {};
};

/// The options of jpeg_decoder.
using jpeg_options = image_options;

/// The formats that image_decoder reads.
enum class image_format : std::uint8_t { jpeg, png, webp };

/// What the header of an image says, with the options applied. `shape()` is the shape that decode() returns.
struct image_header {
  std::size_t height = 0;   ///< in pixels
  std::size_t width = 0;    ///< in pixels
  std::size_t channels = 0; ///< of the result: 3, 1 or 4
  int components =
      0; ///< of the file: 1 gray or palette, 2 gray and alpha, 3 YCbCr or RGB, 4 CMYK, YCCK or RGBA
  bool progressive = false; ///< a JPEG stored in scans of rising quality, or an interlaced PNG
  exif_orientation orientation = exif_orientation::upright; ///< upright unless apply_orientation is set
  image_format format = image_format::jpeg;                 ///< of the file
  int bits = 8;                                             ///< of a component: 1, 2, 4, 8 or 16
  bool has_alpha = false;                                   ///< some pixels may be transparent
  bool has_palette = false;                                 ///< a PNG whose numbers are indices of colours

  /// [height, width, channels].
  feedline::shape shape() const { return {height, width, channels}; }
};

/// The header that jpeg_decoder reads.
using jpeg_header = image_header;

namespace detail {

constexpr std::size_t channels_of(pixel_color color) noexcept {
  return color == pixel_color::gray ? 1 : color == pixel_color::rgb ? 3 : 4;
}

} // namespace detail

} // namespace feedline::inline FEEDLINE_ABI
