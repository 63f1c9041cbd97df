// SPDX-License-Identifier: MIT
#pragma once
// Decodes JPEG files to tensors of 8-bit pixels.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <feedline/core/tensor.hpp>
#include <feedline/image/crop.hpp>
#include <feedline/image/detail/jpeg_memory.hpp>
#include <feedline/image/detail/jpeg_part.hpp>
#include <feedline/image/detail/jpeg_source.hpp>
#include <feedline/image/detail/pixel_rows.hpp>
#include <feedline/image/detail/pixel_scale.hpp>
#include <feedline/image/detail/resampler.hpp>
#include <feedline/image/detail/restart_segments.hpp>
#include <feedline/image/image_options.hpp>
#include <feedline/image/image_view.hpp>
#include <feedline/image/jpeg_error.hpp>
#include <feedline/image/resize_options.hpp>

namespace feedline::inline FEEDLINE_ABI {

/// Decodes JPEGs one after another and reuses its memory. Keep one per thread, or call decode_jpeg(), which
/// keeps one for you.
///
/// Reads what libjpeg reads: baseline, extended, progressive and (if the library supports it) arithmetic
/// coding; gray, YCbCr, RGB, CMYK and YCCK, 8 bits, all samplings. CMYK is read as inverted, as Adobe writes
/// it and as Pillow, OpenCV and browsers read it: R = C·K/255, G = M·K/255, B = Y·K/255 of the stored bytes,
/// without a colour profile.
///
/// Throws jpeg_error for a file that isn't a readable JPEG or exceeds a limit. The decoder stays usable.
class jpeg_decoder {
 public:
  jpeg_decoder();
  jpeg_decoder(const jpeg_decoder&) = delete;
  jpeg_decoder& operator=(const jpeg_decoder&) = delete;

  /// Reads the header, up to the first scan, without decoding pixels.
  jpeg_header read_header(std::span<const std::byte> file, const jpeg_options& options = {}) {
    const idle_at_exit guard{*this};
    return start(file, options);
  }

  /// Returns the pixels as [height, width, channels].
  tensor<std::uint8_t> decode(std::span<const std::byte> file, const jpeg_options& options = {}) {
    const idle_at_exit guard{*this};
    const jpeg_header header = start(file, options);
    check_bytes(header, header.shape().count(), file.size(), options);
    tensor<std::uint8_t> pixels(header.shape());
    read_pixels(header, {pixels.begin(), pixels.end()});
    return pixels;
  }

  /// Writes the pixels to the caller's memory, in the order of decode(). After a failure the content of
  /// `pixels` is unspecified. Throws std::invalid_argument unless `pixels` has as many elements as
  /// read_header()'s shape.
  jpeg_header decode_into(std::span<const std::byte> file, std::span<std::uint8_t> pixels,
                          const jpeg_options& options = {});

  /// Decodes a part of an image and resizes it to fill `pixels`, in one pass and without an intermediate
  /// image. It decodes only the rows and columns that contribute to the result, at a smaller size where that
  /// is enough. (A plain libjpeg decodes all columns, and all rows down to the last one needed.) Where a
  /// sequential file has restart markers that divide its rows or groups of them, as add_restart_markers() adds
  /// them, it doesn't even read the codes of the rest.
  ///
  ///     decoder.decode_crop(file, resized_center_crop{}, chw_view(tensor));
  ///
  /// Takes:   `choose(height, width)` returns the crop_box for an image of that size (upright if
  ///          jpeg_options::apply_orientation is set). It is called before pixels are decoded, and must not
  ///          use this decoder
  /// Gives:   the header; `pixels` has its number of channels, 3, 1 or 4, of float (see normalization) or bytes
  /// Throws:  jpeg_error, also for damage before the needed rows, but not for damage that isn't read: after
  ///          them, or between other restart markers; std::invalid_argument if the box isn't within the image,
  ///          or the view is empty or has another number of channels; what `choose` throws. The content of
  ///          `pixels` is then unspecified.
  template <class T>
  jpeg_header decode_crop(std::span<const std::byte> file, detail::crop_chooser choose,
                          const image_view<T>& pixels, const resize_options& how = {},
                          const jpeg_options& options = {}) {
    detail::check_element<T>();
    return fill(file, choose, pixels, how, options);
  }

  /// The number of libjpeg's warnings about the last image.
  std::size_t warnings() const noexcept { return static_cast<std::size_t>(errors_.num_warnings); }

 private:
  static constexpr const char* who = "feedline::jpeg_decoder";

  /// Frees libjpeg's memory for one image, also after an error.
  struct idle_at_exit {
    jpeg_decoder& decoder;

    ~idle_at_exit() {
      decoder.memory_.resume(decoder.state_);
      jpeg_abort_decompress(&decoder.state_);
    }
  };

  jpeg_header start(std::span<const std::byte> file, const jpeg_options& options);

  template <class T>
  jpeg_header fill(std::span<const std::byte> file, detail::crop_chooser choose, const image_view<T>& pixels,
                   const resize_options& how, const jpeg_options& options);

  // Refuses an image that takes too much memory to decode, with `own` bytes for the result or for rows of it.
  void check_bytes(const jpeg_header& header, std::uint64_t own, std::size_t file_bytes,
                   const jpeg_options& options) const;

  // Of a row whose pixels become those of `bytes` bytes.
  std::size_t row_bytes(std::size_t bytes) const noexcept {
    return std::size_t{state_.output_width} * std::max(bytes, output_components());
  }

  // A damaged file that lacks tables must not use those of the image before.
  void clear_tables() noexcept;

  // libjpeg converts gray, YCbCr and RGB to RGB, and gray and YCbCr to gray. convert_ does the rest, row by
  // row.
  void choose_colors(pixel_color color);

  // start() saves markers only if the orientation is applied.
  exif_orientation stored_orientation() const noexcept;

  void read_pixels(const jpeg_header& header, std::span<std::uint8_t> pixels);

  // Called inside a step of errors_.
  void read_rows(JSAMPARRAY rows, std::size_t count);

  std::size_t output_components() const noexcept {
    return static_cast<std::size_t>(state_.out_color_components);
  }

  // For a part of the image, at eighths/8 of its size. Four bytes per pixel are faster to add up than three.
  void set_output(pixel_color color, unsigned eighths);

  // Opens only the segments between restart markers that a region needs, as an image of their own, if the file has such
  // markers. False if it stays the whole image.
  bool open_segments(std::span<const std::byte> file, const detail::resampler::region& region,
                     pixel_color color, unsigned eighths);

  // Whether the last segment that was read has more codes than MCUs.
  bool has_surplus() const noexcept {
    return state_.input_iMCU_row == state_.total_iMCU_rows && source_.has_surplus();
  }

  // Fills the view, for which the resampler has planned, with a region of the opened image.
  template <class T>
  void read_region(const detail::resampler::region& region, std::size_t bytes, const image_view<T>& to,
                   const detail::pixel_scale& scale);

  static constexpr int exif_marker = JPEG_APP0 + 1;

  detail::libjpeg_errors errors_;
  detail::jpeg_memory memory_;
  detail::jpeg_memory_source source_;
  detail::jpeg_scan_limit scan_limit_;
  detail::restart_segments segments_;
  detail::jpeg_decompressor state_; // destroyed before what it refers to
  detail::row_conversion convert_ = nullptr;
  std::vector<std::uint8_t> strip_;
  detail::resampler resampler_;
};

namespace detail {

/// The decoder that this thread keeps for its next call.
jpeg_decoder& jpeg_decoder_of_thread();

} // namespace detail

/// Decodes a JPEG to [height, width, channels] with a decoder that the thread keeps for its next call. Throws
/// jpeg_error, as jpeg_decoder does.
///
///     auto pixels = feedline::decode_jpeg(file, {.color = feedline::pixel_color::gray});
inline tensor<std::uint8_t> decode_jpeg(std::span<const std::byte> file, const jpeg_options& options = {}) {
  return detail::jpeg_decoder_of_thread().decode(file, options);
}

/// Decodes a part of a JPEG and resizes it to fill `pixels`, with a decoder that the thread keeps for its
/// next call: see jpeg_decoder::decode_crop().
///
///     // for training: a random resized crop with a random horizontal flip, as float [3, 224, 224]
///     feedline::decode_jpeg_crop(
///         file, [&](auto height, auto width) { return random_resized_crop{}(height, width, context.random); },
///         chw_view(pixels), {.horizontal_flip = context.random.chance(0.5)});
template <class T>
jpeg_header decode_jpeg_crop(std::span<const std::byte> file, detail::crop_chooser choose,
                             const image_view<T>& pixels, const resize_options& how = {},
                             const jpeg_options& options = {}) {
  return detail::jpeg_decoder_of_thread().decode_crop(file, choose, pixels, how, options);
}

} // namespace feedline::inline FEEDLINE_ABI

#ifndef FEEDLINE_COMPILED
#include <feedline/image/jpeg_decoder.ipp>
#endif
