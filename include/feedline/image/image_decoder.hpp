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

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_IMAGE)
#include <cstring>
#include <string>
#include <string_view>

#include <feedline/core/half.hpp>
#include <feedline/detail/file_kind.hpp>
#include <feedline/image/detail/png_reader.hpp>
#include <feedline/image/detail/webp_reader.hpp>

namespace feedline::inline FEEDLINE_ABI {

FEEDLINE_INLINE image_decoder::opened::opened(image_decoder& decoder, std::span<const std::byte> file,
                                              const image_options& chosen, bool as_numbers)
    : file_bytes(file.size()), options(chosen) {
  const auto begins = [file](std::string_view bytes, std::size_t at = 0) {
    return file.size() >= at + bytes.size() && std::memcmp(file.data() + at, bytes.data(), bytes.size()) == 0;
  };
  const bool is_jpeg = begins("\xff\xd8"), is_webp = begins("RIFF") && begins("WEBP", 8);
  if (!is_jpeg && !is_webp && !begins("\x89PNG\r\n\x1a\n"))
    detail::fail_image("the file isn't a JPEG, PNG or WebP image" + detail::what_it_is(file));
  if (as_numbers && (is_jpeg || is_webp))
    detail::fail_image("a mask must be a PNG, which keeps its numbers" + detail::what_it_is(file));
  if (is_jpeg) return;
  auto& kept = is_webp ? decoder.webp_ : decoder.png_;
  if (!kept) kept = is_webp ? detail::make_webp_reader() : detail::make_png_reader();
  try {
    header = kept->open(file, options, as_numbers);
  } catch (...) {
    kept->close();
    throw;
  }
  reader = kept.get();
  header.channels = as_numbers ? 1 : detail::channels_of(options.color);
  if (swaps_sides(header.orientation)) std::swap(header.height, header.width);
}

FEEDLINE_INLINE image_header image_decoder::read_header(std::span<const std::byte> file,
                                                        const image_options& options) {
  const opened image(*this, file, options);
  return image.reader ? image.header : jpeg_.read_header(file, options);
}

FEEDLINE_INLINE tensor<std::uint8_t> image_decoder::decode(std::span<const std::byte> file,
                                                           const image_options& options) {
  const opened image(*this, file, options);
  if (!image.reader) return jpeg_.decode(file, options);
  choose_pixels(image, image.header.channels);
  check_bytes(image, image.whole(), image.header.shape().count());
  tensor<std::uint8_t> pixels(image.header.shape());
  read_pixels(image, {pixels.begin(), pixels.end()});
  return pixels;
}

FEEDLINE_INLINE image_header image_decoder::decode_into(std::span<const std::byte> file,
                                                        std::span<std::uint8_t> pixels,
                                                        const image_options& options) {
  const opened image(*this, file, options);
  if (!image.reader) return jpeg_.decode_into(file, pixels, options);
  detail::check_decode_into(detail::image_decoder_name, pixels.size(), image.header.shape());
  choose_pixels(image, image.header.channels);
  check_bytes(image, image.whole(), 0);
  read_pixels(image, pixels);
  return image.header;
}

FEEDLINE_INLINE void image_decoder::choose_pixels(const opened& image, std::size_t bytes,
                                                  byte_of_pixel byte) {
  const image_header& header = image.header;
  const bool is_gray = header.components <= 2 && !header.has_palette;
  background_ = header.has_alpha && header.channels != 4 ? image.options.background : std::nullopt;
  if (background_ || bytes == 4) bytes_ = 4;
  else bytes_ = bytes == 1 && is_gray ? 1 : 3;
  if (bytes == bytes_) convert_ = nullptr;
  else if (bytes == 3) convert_ = &detail::rgba_to_rgb;
  else convert_ = bytes_ == 3 ? &detail::to_gray<3> : &detail::to_gray<4>;
  is_wide_ = byte != byte_of_pixel::rounded && header.bits == 16 && !background_ && !convert_;
  if (is_wide_) bytes_ *= 2;
  byte_ = byte;
  width_ = image.stored_size().second;
}

FEEDLINE_INLINE void image_decoder::check_bytes(const opened& image, const detail::resampler::region& region,
                                                std::uint64_t own) const {
  const std::uint64_t bytes = own + image.reader->needed_bytes(region, bytes_);
  const std::string too_many =
      detail::too_many_bytes("image_options", image.header, bytes, image.file_bytes, image.options);
  if (!too_many.empty()) detail::fail_image(too_many);
}

FEEDLINE_INLINE void image_decoder::read(const opened& image, std::uint8_t* const* rows, std::size_t count) {
  image.reader->read(rows, count);
  for (std::size_t i = 0; i < count; ++i) {
    if (is_wide_)
      for (std::size_t j = 0; j < width_ * bytes_ / 2; ++j)
        rows[i][j] = rows[i][2 * j + static_cast<std::size_t>(byte_)];
    if (background_) detail::lay_over(*background_, rows[i], width_);
    if (convert_) convert_(rows[i], width_);
  }
}

// v / 65535 is (256 * high / 255 + low / 255) / 257, and scaling keeps that relation.
FEEDLINE_INLINE void image_decoder::add_low_bytes(const image_view<float>& pixels) const noexcept {
  const float* low = low_.data();
  for (std::size_t c = 0; c < pixels.channels; ++c)
    for (std::size_t y = 0; y < pixels.height; ++y)
      for (std::size_t x = 0; x < pixels.width; ++x) {
        float& pixel = pixels(y, x, c);
        pixel += (*low++ - pixel) / 257;
      }
}

FEEDLINE_INLINE void image_decoder::read_pixels(const opened& image, std::span<std::uint8_t> pixels) {
  const image_header& header = image.header;
  image.reader->start(image.whole(), bytes_);
  const image_view<std::uint8_t> upright = hwc_view(pixels, header.height, header.width, header.channels);
  detail::read_rows_into(detail::as_stored(upright, header.orientation),
                         width_ * std::max(bytes_, header.channels), convert_ != nullptr, strip_,
                         [&](std::uint8_t** rows, std::size_t count) { read(image, rows, count); });
  image.reader->finish();
}

FEEDLINE_INLINE tensor<std::uint16_t> image_decoder::decode_mask(std::span<const std::byte> file,
                                                                 const image_options& options) {
  const opened image(*this, file, options, true);
  const auto [height, width] = image.stored_size();
  const auto axis = [](std::size_t length) {
    return detail::axis_map{0, static_cast<double>(length), length, 0, length};
  };
  start_numbers(image, axis(height), axis(width), sizeof(std::uint16_t) * image.header.shape().count());
  tensor<std::uint16_t> mask(image.header.shape());
  const image_view<std::uint16_t> to = detail::as_stored(hwc_view(mask), image.header.orientation);
  for (std::size_t y = 0; y < height; ++y) {
    read_numbers(image, y);
    for (std::size_t x = 0; x < width; ++x) to(y, x, 0) = numbers_[x];
  }
  image.reader->finish();
  return mask;
}

FEEDLINE_INLINE void image_decoder::start_numbers(const opened& image, const detail::axis_map& rows,
                                                  const detail::axis_map& columns, std::uint64_t own) {
  bytes_ = image.header.bits == 16 ? 2 : 1;
  width_ = image.stored_size().second;
  check_bytes(image, image.whole(), own + plan_bytes(image.header.height, image.header.width));
  rows_.plan(rows, interpolation::nearest, false);
  columns_.plan(columns, interpolation::nearest, false);
  const detail::resampler::region region{rows_.begin(), columns_.begin(), rows_.end() - rows_.begin(),
                                         columns_.end() - columns_.begin()};
  strip_.resize(std::max(strip_.size(), width_ * bytes_));
  numbers_.resize(columns_.size());
  image.reader->start(region, bytes_);
  rows_read_ = rows_.begin();
}

FEEDLINE_INLINE void image_decoder::read_numbers(const opened& image, std::size_t y) {
  std::uint8_t* const row = strip_.data();
  if (rows_read_ > rows_[y].first) return; // the same as before
  for (; rows_read_ <= rows_[y].first; ++rows_read_) image.reader->read(&row, 1);
  for (std::size_t x = 0; x < numbers_.size(); ++x) {
    const std::size_t from = columns_[x].first;
    if (bytes_ == 1) numbers_[x] = row[from];
    else std::memcpy(&numbers_[x], row + 2 * from, 2);
  }
}

FEEDLINE_INLINE void image_decoder::fail_number(unsigned number) {
  detail::fail_image("the mask has the number " + std::to_string(number) +
                     ", which is too large for the elements of the result");
}

FEEDLINE_INLINE std::uint64_t image_decoder::plan_bytes(std::size_t height, std::size_t width) noexcept {
  return std::uint64_t{24} * (height + width);
}

template <class T>
image_header image_decoder::decode_part(std::span<const std::byte> file, detail::crop_chooser choose,
                                        const image_view<T>& pixels, const resize_options& how,
                                        const image_options& options, byte_of_pixel byte) {
  const opened image(*this, file, options);
  is_wide_ = false;
  if (!image.reader) return jpeg_.decode_crop(file, choose, pixels, how, options);
  const image_header& header = image.header;
  const detail::stored_crop<T> crop(detail::image_decoder_name, header, choose(header.height, header.width),
                                    pixels, how.horizontal_flip);
  const detail::pixel_scale scale(how.normalization);
  const auto [height, width] = image.stored_size();
  const std::size_t bytes = header.channels == 1 ? 1 : 4; // of a pixel
  choose_pixels(image, bytes, byte);
  check_bytes(image, {}, plan_bytes(height, width));
  const detail::resampler::region region =
      resampler_.plan(crop.rows(height), crop.columns(width), bytes, how.interpolation, how.antialias);
  const std::size_t row_bytes = width * std::max(bytes, bytes_);
  check_bytes(image, region, resampler_.bytes(row_bytes));
  image.reader->start(region, bytes_);
  resampler_.run(crop.to, scale, region.left, row_bytes,
                 [&](std::uint8_t** rows, std::size_t count) { read(image, rows, count); });
  image.reader->check();
  return header;
}

#ifdef FEEDLINE_COMPILED
template image_header image_decoder::decode_part(std::span<const std::byte>, detail::crop_chooser,
                                                 const image_view<std::uint8_t>&, const resize_options&,
                                                 const image_options&, byte_of_pixel);
template image_header image_decoder::decode_part(std::span<const std::byte>, detail::crop_chooser,
                                                 const image_view<float>&, const resize_options&,
                                                 const image_options&, byte_of_pixel);
template image_header image_decoder::decode_part(std::span<const std::byte>, detail::crop_chooser,
                                                 const image_view<float16>&, const resize_options&,
                                                 const image_options&, byte_of_pixel);
template image_header image_decoder::decode_part(std::span<const std::byte>, detail::crop_chooser,
                                                 const image_view<bfloat16>&, const resize_options&,
                                                 const image_options&, byte_of_pixel);
#endif

FEEDLINE_INLINE image_decoder& detail::image_decoder_of_thread() {
  thread_local image_decoder decoder;
  return decoder;
}

} // namespace feedline::inline FEEDLINE_ABI
#endif
