// SPDX-License-Identifier: MIT
#pragma once
// Decodes image files of several formats to tensors of pixels, and masks to tensors of numbers.
#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <feedline/core/tensor.hpp>
#include <feedline/image/crop.hpp>
#include <feedline/image/detail/axis_filter.hpp>
#include <feedline/image/detail/image_reader.hpp>
#include <feedline/image/detail/pixel_rows.hpp>
#include <feedline/image/detail/pixel_scale.hpp>
#include <feedline/image/detail/resampler.hpp>
#include <feedline/image/detail/stored_crop.hpp>
#include <feedline/image/image_error.hpp>
#include <feedline/image/image_options.hpp>
#include <feedline/image/image_view.hpp>
#include <feedline/image/jpeg_decoder.hpp>
#include <feedline/image/resize_options.hpp>

namespace feedline::inline FEEDLINE_ABI {

/// Decodes JPEG, PNG and WebP images one after another, whichever their first bytes say, and reuses its memory. Keep one
/// per thread, or call decode_image(), which keeps one for you.
///
/// JPEGs are decoded by a jpeg_decoder. PNGs of all kinds are read: gray, RGB and palettes, 1 to 16 bits, alpha and tRNS,
/// interlaced; 16 bits are rounded to 8, but not where decode_crop() makes floats of them. WebP images are read lossy or
/// lossless, with and without alpha; of an animation the first image, transparent black where it doesn't cover the canvas.
/// Gamma and colour profiles aren't applied.
///
/// PNG needs libpng, WebP libwebp when feedline is configured (see FEEDLINE_IMAGE_PNG and FEEDLINE_IMAGE_WEBP); without
/// them, images of these formats are an image_error. For a WebP image libwebp allocates memory of its own.
///
/// Throws image_error for a file that isn't a readable image or exceeds a limit (for a JPEG, jpeg_error, which is an
/// image_error). The decoder stays usable.
class image_decoder {
 public:
  image_decoder() = default;
  image_decoder(const image_decoder&) = delete;
  image_decoder& operator=(const image_decoder&) = delete;

  /// Reads the header without decoding pixels.
  image_header read_header(std::span<const std::byte> file, const image_options& options = {});

  /// Returns the pixels as [height, width, channels].
  tensor<std::uint8_t> decode(std::span<const std::byte> file, const image_options& options = {});

  /// Writes the pixels to the caller's memory, in the order of decode(). After a failure the content of
  /// `pixels` is unspecified. Throws std::invalid_argument unless `pixels` has as many elements as
  /// read_header()'s shape.
  image_header decode_into(std::span<const std::byte> file, std::span<std::uint8_t> pixels,
                           const image_options& options = {});

  /// Decodes a part of an image and resizes it to fill `pixels`, without an intermediate image of the whole. See
  /// jpeg_decoder::decode_crop() for JPEGs. Of a PNG, the rows after the part aren't decoded, unless it is interlaced; of a
  /// WebP image neither those nor what else the part doesn't need. A PNG's chunks are read, and their checksums compared, up
  /// to the end of the one with the last row that is needed.
  ///
  ///     decoder.decode_crop(file, resized_center_crop{}, chw_view(tensor));
  ///
  /// Takes:   `choose(height, width)` returns the crop_box for an image of that size (upright if
  ///          image_options::apply_orientation is set). It is called before pixels are decoded, and must not
  ///          use this decoder
  /// Gives:   the header; `pixels` has its number of channels, 3, 1 or 4, of float (see normalization) or bytes. Floats
  ///          keep the 16 bits of a PNG, which is decoded twice for that, unless there is a background or it becomes gray
  /// Throws:  image_error, but not for damage that isn't read, or that on_corrupt says a format can't show; std::invalid_argument if the box isn't within the image,
  ///          or the view is empty or has another number of channels; what `choose` throws. The content of
  ///          `pixels` is then unspecified.
  template <class T>
  image_header decode_crop(std::span<const std::byte> file, detail::crop_chooser choose,
                           const image_view<T>& pixels, const resize_options& how = {},
                           const image_options& options = {}) {
    detail::check_element<T>();
    if constexpr (!std::is_same_v<T, float>) {
      return decode_part(file, choose, pixels, how, options, byte_of_pixel::rounded);
    } else {
      crop_box chosen{};
      const auto choose_once = [&](std::size_t height, std::size_t width) {
        return chosen = choose(height, width);
      };
      const image_header header = decode_part(file, choose_once, pixels, how, options, byte_of_pixel::high);
      if (is_wide_) {
        const auto same = [&](std::size_t, std::size_t) { return chosen; };
        low_.resize(pixels.channels * pixels.height * pixels.width);
        const image_view<float> low = chw_view(std::span(low_), pixels.channels, pixels.height, pixels.width);
        decode_part(file, same, low, how, options, byte_of_pixel::low);
        add_low_bytes(pixels);
      }
      return header;
    }
  }

  /// Returns the numbers of a mask as [height, width, 1]: the stored numbers of a gray PNG, or the indices into the palette
  /// of a PNG that has one, as in PASCAL VOC. Only image_options::apply_orientation and the limits matter. Throws
  /// image_error for any other image, because its numbers wouldn't be exact.
  tensor<std::uint16_t> decode_mask(std::span<const std::byte> file, const image_options& options = {});

  /// Decodes a part of a mask and resizes it to fill `mask`, without interpolation: each number is one of the file's.
  ///
  /// Takes:   `choose` as decode_crop() does; `how`, of which only horizontal_flip matters
  /// Gives:   the header; `mask` has one channel, of any integers
  /// Throws:  as decode_mask() and decode_crop(); image_error if a number is too large for T
  template <std::integral T>
  image_header decode_mask_crop(std::span<const std::byte> file, detail::crop_chooser choose,
                                const image_view<T>& mask, const resize_options& how = {},
                                const image_options& options = {}) {
    const opened image(*this, file, options, true);
    const image_header& header = image.header;
    const detail::stored_crop<T> crop(detail::image_decoder_name, header, choose(header.height, header.width),
                                      mask, how.horizontal_flip);
    start_numbers(image, crop.rows(image.stored_size().first), crop.columns(image.stored_size().second));
    for (std::size_t y = 0; y < crop.to.height; ++y) {
      read_numbers(image, y);
      for (std::size_t x = 0; x < crop.to.width; ++x) {
        if (!std::in_range<T>(numbers_[x])) fail_number(numbers_[x]);
        crop.to(y, x, 0) = static_cast<T>(numbers_[x]);
      }
    }
    image.reader->check();
    return header;
  }

 private:
  /// An image that was opened, unless it is a JPEG, and is closed at the end of a call.
  struct opened {
    opened(image_decoder& decoder, std::span<const std::byte> file, const image_options& options,
           bool as_numbers = false);
    opened(const opened&) = delete;
    opened& operator=(const opened&) = delete;

    ~opened() {
      if (reader) reader->close();
    }

    /// Height and width as stored.
    std::pair<std::size_t, std::size_t> stored_size() const noexcept {
      if (swaps_sides(header.orientation)) return {header.width, header.height};
      return {header.height, header.width};
    }

    /// All rows and columns.
    detail::resampler::region whole() const noexcept {
      return {0, 0, stored_size().first, stored_size().second};
    }

    detail::image_reader* reader = nullptr; // null for a JPEG
    image_header header;
    std::size_t file_bytes;
    const image_options& options;
  };

  /// What is read of a channel that has 16 bits.
  enum class byte_of_pixel : std::uint8_t { high, low, rounded };

  template <class T>
  image_header decode_part(std::span<const std::byte> file, detail::crop_chooser choose,
                           const image_view<T>& pixels, const resize_options& how,
                           const image_options& options, byte_of_pixel byte);

  // Adds what was decoded of the low bytes to pixels that were decoded of the high bytes.
  void add_low_bytes(const image_view<float>& pixels) const noexcept;

  // Chooses which pixels are read to become those of `bytes` bytes that are wanted.
  void choose_pixels(const opened& image, std::size_t bytes, byte_of_pixel byte = byte_of_pixel::rounded);

  // Refuses an image whose region takes too much memory to read, with `own` bytes for the result and for rows of it.
  void check_bytes(const opened& image, const detail::resampler::region& region, std::uint64_t own) const;

  // What the plan of a crop takes, which is much only where a PNG has few rows or columns of millions of pixels.
  static std::uint64_t plan_bytes(std::size_t height, std::size_t width) noexcept;

  void read(const opened& image, std::uint8_t* const* rows, std::size_t count);

  void read_pixels(const opened& image, std::span<std::uint8_t> pixels);

  // Plans which numbers become those of the result, which takes `own` bytes.
  void start_numbers(const opened& image, const detail::axis_map& rows, const detail::axis_map& columns,
                     std::uint64_t own = 0);

  // Reads the numbers of the result's row y; y rises by 1 from call to call.
  void read_numbers(const opened& image, std::size_t y);

  [[noreturn]] static void fail_number(unsigned number);

  jpeg_decoder jpeg_;
  std::shared_ptr<detail::image_reader> png_, webp_; // made when the first image of the format is read
  detail::resampler resampler_;
  std::vector<std::uint8_t> strip_;
  std::vector<float> low_;
  // Of the image in hand: the bytes of a pixel that is read, and how its rows become those that are wanted.
  std::size_t bytes_ = 0, width_ = 0;
  bool is_wide_ = false; // the rows that are read have 16 bits, of which one byte is wanted
  byte_of_pixel byte_ = byte_of_pixel::rounded;
  std::optional<std::array<std::uint8_t, 3>> background_;
  detail::row_conversion convert_ = nullptr;
  // Of the mask in hand.
  detail::axis_filter rows_, columns_;
  std::size_t rows_read_ = 0;
  std::vector<std::uint16_t> numbers_;
};

namespace detail {

/// The decoder that this thread keeps for its next call.
image_decoder& image_decoder_of_thread();

} // namespace detail

/// Decodes a JPEG, PNG or WebP image to [height, width, channels] with a decoder that the thread keeps for its next call.
/// Throws image_error, as image_decoder does.
///
///     auto pixels = feedline::decode_image(file, {.color = feedline::pixel_color::rgba});
inline tensor<std::uint8_t> decode_image(std::span<const std::byte> file, const image_options& options = {}) {
  return detail::image_decoder_of_thread().decode(file, options);
}

/// Decodes a part of a JPEG, PNG or WebP image and resizes it to fill `pixels`, with a decoder that the thread keeps for
/// its next call: see image_decoder::decode_crop().
///
///     feedline::decode_image_crop(file, feedline::resized_center_crop{}, chw_view(pixels));
template <class T>
image_header decode_image_crop(std::span<const std::byte> file, detail::crop_chooser choose,
                               const image_view<T>& pixels, const resize_options& how = {},
                               const image_options& options = {}) {
  return detail::image_decoder_of_thread().decode_crop(file, choose, pixels, how, options);
}

/// Returns the numbers of a mask, a gray PNG or one with a palette, as [height, width, 1]: see
/// image_decoder::decode_mask().
inline tensor<std::uint16_t> decode_mask(std::span<const std::byte> file, const image_options& options = {}) {
  return detail::image_decoder_of_thread().decode_mask(file, options);
}

/// Decodes a part of a mask and resizes it to fill `mask` without interpolation: see image_decoder::decode_mask_crop().
///
///     // an image and its mask get the same crop and flip
///     const feedline::same_crop crop([&](auto height, auto width) {
///       return feedline::random_resized_crop{}(height, width, context.random);
///     });
///     const feedline::resize_options how{.horizontal_flip = context.random.chance(0.5)};
///     feedline::decode_image_crop(sample["jpg"], crop, chw_view(pixels), how);
///     feedline::decode_mask_crop(sample["png"], crop, chw_view(mask), how);
template <std::integral T>
image_header decode_mask_crop(std::span<const std::byte> file, detail::crop_chooser choose,
                              const image_view<T>& mask, const resize_options& how = {},
                              const image_options& options = {}) {
  return detail::image_decoder_of_thread().decode_mask_crop(file, choose, mask, how, options);
}

} // namespace feedline::inline FEEDLINE_ABI

#ifndef FEEDLINE_COMPILED
#include <feedline/image/image_decoder.ipp>
#endif
