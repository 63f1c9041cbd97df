// SPDX-License-Identifier: MIT
#pragma once
// JPEG files to tensors of 8-bit pixels.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <feedline/core/tensor.hpp>
#include <feedline/image/crop.hpp>
#include <feedline/image/detail/jpeg_memory.hpp>
#include <feedline/image/detail/jpeg_part.hpp>
#include <feedline/image/detail/jpeg_source.hpp>
#include <feedline/image/detail/pixel_rows.hpp>
#include <feedline/image/detail/resampler.hpp>
#include <feedline/image/exif_orientation.hpp>
#include <feedline/image/image_view.hpp>
#include <feedline/image/jpeg_error.hpp>
#include <feedline/image/resize_options.hpp>

namespace feedline::inline v0 {

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
  /// An image in several scans is refused if scans times pixels are more: a file of half a megabyte could ask for
  /// a minute's work. The default lets a photograph of 150 megapixels come in 14 scans.
  std::uint64_t max_scan_pixels = std::uint64_t{1} << 31;
  /// Where decode_crop() shrinks the image, decode it at 1/8, 2/8 or 4/8 of its size, as long as that isn't
  /// smaller than what is wanted: faster, and off by 1 or 2 of 255. Not done where it would be seen: without
  /// antialiasing.
  bool decode_smaller = true;
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
    detail::mention_plain_libjpeg();
    state_.err = &errors_;
    try {
      errors_.run(who, [this] { jpeg_create_decompress(&state_); });
    } catch (...) {
      jpeg_destroy_decompress(&state_);
      throw;
    }
    memory_.manage(state_);
    state_.src = &source_;
    state_.progress = &scan_limit_;
  }

  jpeg_decoder(const jpeg_decoder&) = delete;
  jpeg_decoder& operator=(const jpeg_decoder&) = delete;

  ~jpeg_decoder() { jpeg_destroy_decompress(&state_); }

  /// Reads up to the first scan: the size, before any pixel is decoded.
  jpeg_header read_header(std::span<const std::byte> file, const jpeg_options& options = {}) {
    const idle_at_exit guard{*this};
    return start(file, options);
  }

  /// Gives the pixels as [height, width, channels].
  tensor<std::uint8_t> decode(std::span<const std::byte> file, const jpeg_options& options = {}) {
    const idle_at_exit guard{*this};
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
    const idle_at_exit guard{*this};
    const jpeg_header header = start(file, options);
    if (pixels.size() != header.shape().count())
      throw std::invalid_argument("feedline::jpeg_decoder::decode_into: the image is " +
                                  to_string(header.shape()) + ", but there are " +
                                  std::to_string(pixels.size()) + " bytes for it");
    read_pixels(header, pixels.data());
    return header;
  }

  /// Decodes a part of an image and resizes it to fill `pixels`, in one go and no more of it than is needed:
  /// only the rows and columns that have a say, at a smaller size where that is enough, without an image in
  /// between. (A plain libjpeg decodes all columns, and all rows down to the last one that is needed.)
  ///
  ///     decoder.decode_crop(file, resized_center_crop{}, chw_view(tensor));
  ///
  /// Takes:   `choose(height, width)` gives the crop_box to take of an image of that size, upright if
  ///          the orientation is to be applied; it is asked before a pixel is decoded,
  ///          and must not use this decoder
  /// Gives:   the header; `pixels` has its number of channels, 3 or 1, of float (see normalization) or bytes
  /// Throws:  jpeg_error, also for damage in front of what is needed, but not behind it: that isn't read;
  ///          std::invalid_argument if the box isn't in the image, or the view is empty or of other channels;
  ///          what `choose` throws. Then `pixels` are unspecified.
  template <class Choose, class T>
  jpeg_header decode_crop(std::span<const std::byte> file, const Choose& choose, const image_view<T>& pixels,
                          const resize_options& how = {}, const jpeg_options& options = {}) {
    const idle_at_exit guard{*this};
    const jpeg_header header = start(file, options);
    const crop_box box = choose(header.height, header.width);
    detail::check_crop("feedline::jpeg_decoder::decode_crop", header.shape(), box,
                       {pixels.height, pixels.width, pixels.channels});
    const detail::pixel_scale scale(how.normalization);
    const detail::placed_box stored =
        detail::as_stored(detail::placed_box{box, header.height, header.width}, header.orientation);
    const image_view<T> to = detail::as_stored(how.mirrored ? pixels.mirrored() : pixels, header.orientation);

    const double size = choose_size(stored.box, to, how, options);
    const auto map = [&](double begin, double length, std::size_t count, std::size_t all) {
      return detail::map_axis(begin * size, length * size, count, all, box.sees_outside);
    };
    const std::size_t bytes = header.channels == 1 ? 1 : 4; // of a pixel
    const detail::resampler::region region =
        resampler_.plan(map(stored.box.top, stored.box.height, to.height, state_.output_height),
                        map(stored.box.left, stored.box.width, to.width, state_.output_width), bytes,
                        how.interpolation, how.antialias);
    const std::size_t left = start_region(region);
    const std::size_t row_bytes = std::size_t{state_.output_width} * std::max(bytes, output_components());
    resampler_.run(to, scale, region.left - left, row_bytes, [this](std::uint8_t** rows, std::size_t count) {
      errors_.run(who, [=, this] { read_rows(rows, count); });
    });
    return header;
  }

  /// How many warnings libjpeg had about the last image.
  std::size_t warnings() const noexcept { return static_cast<std::size_t>(errors_.num_warnings); }

 private:
  static constexpr const char* who = "feedline::jpeg_decoder";
  static constexpr std::size_t strip_rows = 16;

  /// Frees what libjpeg holds for one image, however decoding it ends.
  struct idle_at_exit {
    jpeg_decoder& decoder;

    ~idle_at_exit() {
      decoder.memory_.resume(decoder.state_);
      jpeg_abort_decompress(&decoder.state_);
    }
  };

  jpeg_header start(std::span<const std::byte> file, const jpeg_options& options) {
    if (file.empty()) throw jpeg_error(std::string(who) + ": no JPEG but 0 bytes");
    errors_.start(options.on_corrupt == on_corrupt::fail);
    source_.open(file);
    scan_limit_.max_scans = options.max_scans;
    scan_limit_.max_scan_pixels = options.max_scan_pixels;
    // Tables that a damaged file lacks must not be those of the image before.
    std::fill(std::begin(state_.quant_tbl_ptrs), std::end(state_.quant_tbl_ptrs), nullptr);
    std::fill(std::begin(state_.dc_huff_tbl_ptrs), std::end(state_.dc_huff_tbl_ptrs), nullptr);
    std::fill(std::begin(state_.ac_huff_tbl_ptrs), std::end(state_.ac_huff_tbl_ptrs), nullptr);
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
      convert_ = color == pixel_color::gray ? &detail::cmyk_to_gray : &detail::cmyk_to_rgb<3>;
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
    const std::size_t row_bytes = std::size_t{state_.output_width} * output_components();
    if (!direct && strip_.size() < strip_rows * row_bytes) strip_.resize(strip_rows * row_bytes);

    errors_.run(who, [&] {
      jpeg_start_decompress(&state_);
      while (state_.output_scanline < state_.output_height) {
        const std::size_t first = state_.output_scanline;
        const std::size_t count = std::min<std::size_t>(strip_rows, state_.output_height - first);
        std::array<JSAMPROW, strip_rows> rows;
        for (std::size_t i = 0; i < count; ++i)
          rows[i] = direct ? pixels + layout.row_offset(first + i) : strip_.data() + i * row_bytes;
        read_rows(rows.data(), count);
        if (!direct) layout.place(strip_.data(), row_bytes, first, count, pixels);
      }
      // Reads on to the end marker: a file that is cut off behind its last row is found here.
      jpeg_finish_decompress(&state_);
    });
  }

  // Inside a step of errors_.
  void read_rows(JSAMPARRAY rows, std::size_t count) {
    for (std::size_t i = 0; i < count;) { // it gives one or two at a time
      const JDIMENSION got = jpeg_read_scanlines(&state_, rows + i, static_cast<JDIMENSION>(count - i));
      if (got == 0) errors_.fail("The image has fewer rows than its header says");
      i += got;
    }
    for (std::size_t i = 0; convert_ && i < count; ++i) convert_(rows[i], state_.output_width);
  }

  std::size_t output_components() const noexcept {
    return static_cast<std::size_t>(state_.out_color_components);
  }

  // The smallest size at which the box has as many pixels as are wanted. (Only halves have fast transforms.)
  template <class T>
  double choose_size(const crop_box& box, const image_view<T>& to, const resize_options& how,
                     const jpeg_options& options) {
    unsigned eighths = 8;
    if (options.decode_smaller && how.antialias && how.interpolation != interpolation::nearest)
      while (eighths > 1 && box.height * eighths >= 16 * static_cast<double>(to.height) &&
             box.width * eighths >= 16 * static_cast<double>(to.width))
        eighths /= 2;
    // Four bytes a pixel are easier to add up than three.
    if (options.color == pixel_color::rgb) {
      if (state_.out_color_space == JCS_CMYK) convert_ = &detail::cmyk_to_rgb<4>;
      else convert_ = detail::choose_four_bytes(state_);
    }
    state_.scale_num = eighths;
    state_.scale_denom = 8;
    errors_.run(who, [this] { jpeg_calc_output_dimensions(&state_); });
    return eighths / 8.0;
  }

  // Goes to the first row of a region, and gives the first column that rows will have: at or before the
  // region's.
  std::size_t start_region(const detail::resampler::region& region) {
    // Colours are interpolated between neighbours, which must be there too.
    const std::size_t margin = 2 * static_cast<std::size_t>(state_.max_h_samp_factor);
    const std::size_t wanted = region.left - std::min(region.left, margin);
    const std::size_t end = std::min<std::size_t>(region.left + region.width + margin, state_.output_width);
    auto left = static_cast<JDIMENSION>(wanted);
    auto width = static_cast<JDIMENSION>(end - wanted);
    const auto top = static_cast<JDIMENSION>(region.top);
    errors_.run(who, [&] {
      jpeg_start_decompress(&state_);
      if (smooths_blocks()) left = 0;
      else detail::choose_columns(state_, left, width);
      detail::skip_rows(state_, top, strip_);
    });
    return left;
  }

  // Whether libjpeg draws blocks whose coefficients haven't all come with a look at those around them, which
  // therefore have to be there.
  bool smooths_blocks() const noexcept {
    if (!state_.progressive_mode || !state_.coef_bits) return false;
    for (int i = 0; i < state_.num_components; ++i)
      if (std::any_of(std::begin(state_.coef_bits[i]), std::end(state_.coef_bits[i]),
                      [](int missing_bits) { return missing_bits != 0; }))
        return true;
    return false;
  }

  static constexpr int exif_marker = JPEG_APP0 + 1;

  detail::libjpeg_errors errors_;
  detail::jpeg_memory memory_;
  detail::jpeg_memory_source source_;
  detail::jpeg_scan_limit scan_limit_;
  jpeg_decompress_struct state_{};
  detail::row_conversion convert_ = nullptr;
  std::vector<std::uint8_t> strip_;
  detail::resampler resampler_;
};

namespace detail {

inline jpeg_decoder& decoder_of_thread() {
  thread_local jpeg_decoder decoder;
  return decoder;
}

} // namespace detail

/// Decodes a JPEG to [height, width, channels] with a decoder that the thread keeps for its next call. Throws
/// jpeg_error, as jpeg_decoder does.
///
///     auto pixels = feedline::decode_jpeg(file, {.color = feedline::pixel_color::gray});
inline tensor<std::uint8_t> decode_jpeg(std::span<const std::byte> file, const jpeg_options& options = {}) {
  return detail::decoder_of_thread().decode(file, options);
}

/// Decodes a part of a JPEG and resizes it to fill `pixels`, with a decoder that the thread keeps: see
/// jpeg_decoder::decode_crop().
///
///     // for training: a random part, mirrored or not, as float [3, 224, 224]
///     feedline::decode_jpeg_crop(
///         file, [&](auto height, auto width) { return random_resized_crop{}(height, width, context.random); },
///         chw_view(pixels), {.mirrored = context.random.chance(0.5)});
template <class Choose, class T>
jpeg_header decode_jpeg_crop(std::span<const std::byte> file, const Choose& choose,
                             const image_view<T>& pixels, const resize_options& how = {},
                             const jpeg_options& options = {}) {
  return detail::decoder_of_thread().decode_crop(file, choose, pixels, how, options);
}

} // namespace feedline::inline v0
