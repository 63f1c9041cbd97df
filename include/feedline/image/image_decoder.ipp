// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/image/image_decoder.hpp>

#include <algorithm>
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
