// SPDX-License-Identifier: MIT
#pragma once
// JPEG files to tensors of 8-bit pixels.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <feedline/core/tensor.hpp>
#include <feedline/image/detail/jpeg_source.hpp>
#include <feedline/image/detail/pixel_rows.hpp>
#include <feedline/image/exif_orientation.hpp>
#include <feedline/image/jpeg_error.hpp>

namespace feedline {

/// The colours that pixels are decoded to: three bytes red, green, blue, or one byte of luma
/// (0.299 R + 0.587 G + 0.114 B, as JPEG's own Y).
enum class pixel_color : std::uint8_t { rgb, gray };

/// What to do with a JPEG that libjpeg warns about: one that is cut off, has bits that no encoder writes, or
/// lies about itself.
enum class on_corrupt : std::uint8_t {
  fail, ///< throw jpeg_error
  keep, ///< keep what could be decoded, the rest grey or smeared; jpeg_decoder::warnings() tells how often
};

struct jpeg_options {
  pixel_color color = pixel_color::rgb;
  /// Turn the image upright as its EXIF data says. Off by default, as in torchvision and Pillow: boxes and
  /// masks made with those refer to the pixels as stored.
  bool apply_orientation = false;
  feedline::on_corrupt on_corrupt = feedline::on_corrupt::fail;
  /// An image of more pixels is refused before memory is taken for it. Decoding takes at most 3 bytes per
  /// pixel for the result and, for a progressive image, 8 for libjpeg. The default lets the largest cameras'
  /// photographs in.
  std::uint64_t max_pixels = std::uint64_t{1} << 28;
  /// An image in more scans is refused: each may cost as much as a whole image. Encoders write at most some
  /// dozens.
  int max_scans = 100;
};

/// What a JPEG's header says, with the options applied: `shape()` is what decode() would give.
struct jpeg_header {
  std::size_t height = 0; ///< in pixels
  std::size_t width = 0;
  std::size_t channels = 0; ///< of the result: 3 or 1
  int components = 0;       ///< of the file: 1 gray, 3 YCbCr or RGB, 4 CMYK or YCCK
  bool progressive = false;
  exif_orientation orientation = exif_orientation::upright; ///< upright unless it is to be applied

  feedline::shape shape() const { return {height, width, channels}; }
};

/// Decodes JPEGs one after another, reusing its memory: keep one per thread, or call decode_jpeg(), which
/// does.
///
/// Reads what libjpeg reads: baseline, extended, progressive and (if the library can) arithmetic coding;
/// gray, YCbCr, RGB, CMYK and YCCK, 8 bits, all samplings. CMYK is taken as inverted, as Adobe writes it and
/// as Pillow, OpenCV and browsers read it: R = C·K/255, G = M·K/255, B = Y·K/255 of the stored bytes, without
/// a colour profile.
///
/// Throws jpeg_error for what isn't a readable JPEG or is over a limit; the decoder can be used again after.
class jpeg_decoder {
 public:
  jpeg_decoder() {
    state_.err = &errors_;
    try {
      errors_.run(who, [this] { jpeg_create_decompress(&state_); });
    } catch (...) {
      jpeg_destroy_decompress(&state_);
      throw;
    }
    state_.src = &source_;
    state_.progress = &scan_limit_;
  }

  jpeg_decoder(const jpeg_decoder&) = delete;
  jpeg_decoder& operator=(const jpeg_decoder&) = delete;

  ~jpeg_decoder() { jpeg_destroy_decompress(&state_); }

  /// Reads up to the first scan: the size, before any pixel is decoded.
  jpeg_header read_header(std::span<const std::byte> file, const jpeg_options& options = {}) {
    const idle_at_exit guard{state_};
    return start(file, options);
  }

  /// Gives the pixels as [height, width, channels].
  tensor<std::uint8_t> decode(std::span<const std::byte> file, const jpeg_options& options = {}) {
    const idle_at_exit guard{state_};
    const jpeg_header header = start(file, options);
    tensor<std::uint8_t> pixels(header.shape());
    read_pixels(header, pixels.data());
    return pixels;
  }

  /// Writes the pixels to memory of the caller's, in the order of decode(). If it fails, what `pixels` holds
  /// is unspecified. Throws std::invalid_argument unless `pixels` has as many elements as read_header()'s
  /// shape.
  jpeg_header decode_into(std::span<const std::byte> file, std::span<std::uint8_t> pixels,
                          const jpeg_options& options = {}) {
    const idle_at_exit guard{state_};
    const jpeg_header header = start(file, options);
    if (pixels.size() != header.shape().count())
      throw std::invalid_argument("feedline::jpeg_decoder::decode_into: the image is " +
                                  to_string(header.shape()) + ", but there are " +
                                  std::to_string(pixels.size()) + " bytes for it");
    read_pixels(header, pixels.data());
    return header;
  }

  /// How many warnings libjpeg had about the last image.
  std::size_t warnings() const noexcept { return static_cast<std::size_t>(errors_.num_warnings); }

 private:
  static constexpr const char* who = "feedline::jpeg_decoder";
  static constexpr std::size_t strip_rows = 16;

  /// Frees what libjpeg holds for one image, however decoding it ends.
  struct idle_at_exit {
    jpeg_decompress_struct& state;

    ~idle_at_exit() { jpeg_abort_decompress(&state); }
  };

  jpeg_header start(std::span<const std::byte> file, const jpeg_options& options) {
    if (file.empty()) throw jpeg_error(std::string(who) + ": no JPEG but 0 bytes");
    errors_.start(options.on_corrupt == on_corrupt::fail);
    source_.open(file);
    scan_limit_.max_scans = options.max_scans;
    errors_.run(who, [this, &options] {
      jpeg_save_markers(&state_, exif_marker, options.apply_orientation ? 0xffff : 0);
      jpeg_read_header(&state_, TRUE);
    });
    check_limits(options);
    choose_colors(options.color);
    errors_.run(who, [this] { jpeg_calc_output_dimensions(&state_); });

    jpeg_header header{.height = state_.output_height,
                       .width = state_.output_width,
                       .channels = options.color == pixel_color::gray ? 1u : 3u,
                       .components = state_.num_components,
                       .progressive = state_.progressive_mode != FALSE,
                       .orientation = stored_orientation()};
    if (swaps_sides(header.orientation)) std::swap(header.height, header.width);
    return header;
  }

  void check_limits(const jpeg_options& options) {
    if (state_.data_precision != 8)
      throw jpeg_error(std::string(who) + ": samples of " + std::to_string(state_.data_precision) +
                       " bits; only 8 are supported");
    if (std::uint64_t{state_.image_width} * state_.image_height > options.max_pixels)
      throw jpeg_error(std::string(who) + ": " + std::to_string(state_.image_width) + " x " +
                       std::to_string(state_.image_height) +
                       " pixels are more than jpeg_options::max_pixels, " +
                       std::to_string(options.max_pixels));
    // Four components of two bytes, with room for sides that aren't whole blocks. Otherwise an environment
    // variable would set it.
    constexpr std::uint64_t most = std::numeric_limits<long>::max();
    constexpr std::uint64_t margin = std::uint64_t{1} << 26;
    state_.mem->max_memory_to_use =
        static_cast<long>(options.max_pixels < (most - margin) / 8 ? 8 * options.max_pixels + margin : most);
  }

  // libjpeg makes RGB of gray, YCbCr and RGB, and gray of gray and YCbCr. The rest is done row by row.
  void choose_colors(pixel_color color) {
    const J_COLOR_SPACE stored = state_.jpeg_color_space;
    if (stored == JCS_CMYK || stored == JCS_YCCK) {
      state_.out_color_space = JCS_CMYK;
      convert_ = color == pixel_color::gray ? &detail::cmyk_to_gray : &detail::cmyk_to_rgb;
    } else if (color == pixel_color::gray && stored != JCS_GRAYSCALE && stored != JCS_YCbCr) {
      state_.out_color_space = JCS_RGB;
      convert_ = &detail::rgb_to_gray;
    } else {
      state_.out_color_space = color == pixel_color::gray ? JCS_GRAYSCALE : JCS_RGB;
      convert_ = nullptr;
    }
  }

  // Markers were saved only if the orientation is to be applied.
  exif_orientation stored_orientation() const noexcept {
    for (auto* marker = state_.marker_list; marker != nullptr; marker = marker->next)
      if (const auto found =
              read_exif_orientation(std::as_bytes(std::span(marker->data, marker->data_length))))
        return *found;
    return exif_orientation::upright;
  }

  void read_pixels(const jpeg_header& header, std::uint8_t* pixels) {
    const detail::pixel_layout layout(header.orientation, state_.output_width, state_.output_height,
                                      header.channels);
    const bool direct = convert_ == nullptr && layout.keeps_rows();
    const std::size_t row_bytes =
        std::size_t{state_.output_width} * static_cast<std::size_t>(state_.out_color_components);
    if (!direct && strip_.size() < strip_rows * row_bytes) strip_.resize(strip_rows * row_bytes);

    errors_.run(who, [&] {
      jpeg_start_decompress(&state_);
      while (state_.output_scanline < state_.output_height) {
        const std::size_t first = state_.output_scanline;
        const std::size_t count = std::min<std::size_t>(strip_rows, state_.output_height - first);
        std::array<JSAMPROW, strip_rows> rows;
        for (std::size_t i = 0; i < count; ++i)
          rows[i] = direct ? pixels + layout.row_offset(first + i) : strip_.data() + i * row_bytes;
        // It gives one or two rows at a time.
        for (std::size_t i = 0; i < count;)
          i += jpeg_read_scanlines(&state_, rows.data() + i, static_cast<JDIMENSION>(count - i));
        if (direct) continue;
        if (convert_)
          for (std::size_t i = 0; i < count; ++i) convert_(rows[i], state_.output_width);
        layout.place(strip_.data(), row_bytes, first, count, pixels);
      }
      // Reads on to the end marker: a file that is cut off behind its last row is found here.
      jpeg_finish_decompress(&state_);
    });
  }

  static constexpr int exif_marker = JPEG_APP0 + 1;

  detail::libjpeg_errors errors_;
  detail::jpeg_memory_source source_;
  detail::jpeg_scan_limit scan_limit_;
  jpeg_decompress_struct state_{};
  detail::row_conversion convert_ = nullptr;
  std::vector<std::uint8_t> strip_;
};

/// Decodes a JPEG to [height, width, channels] with a decoder that the thread keeps for its next call. Throws
/// jpeg_error, as jpeg_decoder does.
///
///     auto pixels = feedline::decode_jpeg(file, {.color = feedline::pixel_color::gray});
inline tensor<std::uint8_t> decode_jpeg(std::span<const std::byte> file, const jpeg_options& options = {}) {
  thread_local jpeg_decoder decoder;
  return decoder.decode(file, options);
}

} // namespace feedline
