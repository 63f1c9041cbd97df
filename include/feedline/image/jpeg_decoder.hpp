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

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_IMAGE)
#include <cstring>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <feedline/core/half.hpp>
#include <feedline/image/detail/image_reader.hpp>
#include <feedline/image/detail/stored_crop.hpp>

namespace feedline::inline FEEDLINE_ABI {

FEEDLINE_INLINE jpeg_decoder::jpeg_decoder() {
  detail::mention_plain_libjpeg();
  state_.err = &errors_;
  errors_.run(who, [this] { jpeg_create_decompress(&state_); });
  memory_.manage(state_);
  state_.src = &source_;
  state_.progress = &scan_limit_;
}

FEEDLINE_INLINE jpeg_header jpeg_decoder::decode_into(std::span<const std::byte> file,
                                                      std::span<std::uint8_t> pixels,
                                                      const jpeg_options& options) {
  const idle_at_exit guard{*this};
  const jpeg_header header = start(file, options);
  detail::check_decode_into(who, pixels.size(), header.shape());
  check_bytes(header, 0, file.size(), options);
  read_pixels(header, pixels);
  return header;
}

FEEDLINE_INLINE jpeg_header jpeg_decoder::start(std::span<const std::byte> file,
                                                const jpeg_options& options) {
  detail::check_jpeg_begin(who, file);
  errors_.start(options.on_corrupt == on_corrupt::fail, options.on_corrupt != on_corrupt::keep,
                "; to decode the file nevertheless, set jpeg_options::on_corrupt to on_corrupt::");
  source_.open(file);
  scan_limit_.max_scans = options.max_scans;
  scan_limit_.max_scan_pixels = options.max_scan_pixels;
  clear_tables();
  errors_.run(who, [this, &options] {
    jpeg_save_markers(&state_, exif_marker, options.apply_orientation ? 0xffff : 0);
    jpeg_read_header(&state_, TRUE);
  });
  detail::check_jpeg_size(who, state_, options.max_pixels);
  choose_colors(options.color);
  errors_.run(who, [this] { jpeg_calc_output_dimensions(&state_); });

  jpeg_header header{.height = state_.output_height,
                     .width = state_.output_width,
                     .channels = detail::channels_of(options.color),
                     .components = state_.num_components,
                     .progressive = state_.progressive_mode != FALSE,
                     .orientation = stored_orientation()};
  if (swaps_sides(header.orientation)) std::swap(header.height, header.width);
  return header;
}

FEEDLINE_INLINE void jpeg_decoder::check_bytes(const jpeg_header& header, std::uint64_t own,
                                               std::size_t file_bytes, const jpeg_options& options) const {
  const std::uint64_t bytes =
      own + (detail::has_several_scans(state_) ? detail::coefficient_bytes(state_) : 0);
  const std::string too_many = detail::too_many_bytes("jpeg_options", header, bytes, file_bytes, options);
  if (!too_many.empty()) throw jpeg_error(who + (": " + too_many));
}

FEEDLINE_INLINE void jpeg_decoder::clear_tables() noexcept {
  std::fill(std::begin(state_.quant_tbl_ptrs), std::end(state_.quant_tbl_ptrs), nullptr);
  std::fill(std::begin(state_.dc_huff_tbl_ptrs), std::end(state_.dc_huff_tbl_ptrs), nullptr);
  std::fill(std::begin(state_.ac_huff_tbl_ptrs), std::end(state_.ac_huff_tbl_ptrs), nullptr);
}

FEEDLINE_INLINE void jpeg_decoder::choose_colors(pixel_color color) {
  const J_COLOR_SPACE stored = state_.jpeg_color_space;
  if (stored == JCS_CMYK || stored == JCS_YCCK) {
    state_.out_color_space = JCS_CMYK;
    convert_ = color == pixel_color::gray  ? &detail::cmyk_to_gray
               : color == pixel_color::rgb ? &detail::cmyk_to_rgb<3>
                                           : &detail::cmyk_to_rgb<4>;
  } else if (color == pixel_color::gray && stored != JCS_GRAYSCALE && stored != JCS_YCbCr) {
    state_.out_color_space = JCS_RGB;
    convert_ = &detail::to_gray<3>;
  } else if (color == pixel_color::rgba) {
    convert_ = detail::choose_four_bytes(state_);
  } else {
    state_.out_color_space = color == pixel_color::gray ? JCS_GRAYSCALE : JCS_RGB;
    convert_ = nullptr;
  }
}

FEEDLINE_INLINE exif_orientation jpeg_decoder::stored_orientation() const noexcept {
  constexpr std::string_view xmp("http://ns.adobe.com/xap/1.0/\0", 29);
  std::optional<exif_orientation> by_xmp;
  for (auto* marker = state_.marker_list; marker != nullptr; marker = marker->next) {
    const auto payload = std::as_bytes(std::span(marker->data, marker->data_length));
    if (const auto found = read_exif_orientation(payload)) return *found;
    if (payload.size() >= xmp.size() && std::memcmp(payload.data(), xmp.data(), xmp.size()) == 0)
      by_xmp = detail::read_xmp_orientation(payload);
  }
  return by_xmp.value_or(exif_orientation::upright);
}

FEEDLINE_INLINE void jpeg_decoder::read_pixels(const jpeg_header& header, std::span<std::uint8_t> pixels) {
  const image_view<std::uint8_t> upright = hwc_view(pixels, header.height, header.width, header.channels);
  errors_.run(who, [this] { jpeg_start_decompress(&state_); });
  detail::read_rows_into(detail::as_stored(upright, header.orientation), row_bytes(header.channels),
                         convert_ != nullptr, strip_, [this](std::uint8_t** rows, std::size_t count) {
                           errors_.run(who, [=, this] { read_rows(rows, count); });
                         });
  // Reads on to the end marker, which finds a file that is cut off after its last row.
  errors_.run(who, [this] { jpeg_finish_decompress(&state_); });
}

FEEDLINE_INLINE void jpeg_decoder::read_rows(JSAMPARRAY rows, std::size_t count) {
  for (std::size_t i = 0; i < count;) { // libjpeg returns one or two at a time
    const JDIMENSION got = jpeg_read_scanlines(&state_, rows + i, static_cast<JDIMENSION>(count - i));
    if (got == 0) errors_.fail("The image has fewer rows than its header says");
    i += got;
  }
  for (std::size_t i = 0; convert_ && i < count; ++i) convert_(rows[i], state_.output_width);
}

FEEDLINE_INLINE void jpeg_decoder::set_output(pixel_color color, unsigned eighths) {
  choose_colors(color == pixel_color::gray ? color : pixel_color::rgba);
  state_.scale_num = eighths;
  state_.scale_denom = 8;
  errors_.run(who, [this] { jpeg_calc_output_dimensions(&state_); });
}

FEEDLINE_INLINE bool jpeg_decoder::open_segments(std::span<const std::byte> file,
                                                 const detail::resampler::region& region, pixel_color color,
                                                 unsigned eighths) {
  if (!segments_.choose(state_, file, region, eighths)) return false;
  jpeg_abort_decompress(&state_);
  clear_tables();
  source_.open(segments_.pieces());
  errors_.run(who, [this] {
    jpeg_save_markers(&state_, exif_marker, 0);
    jpeg_read_header(&state_, TRUE);
  });
  set_output(color, eighths);
  return true;
}

template <class T>
jpeg_header jpeg_decoder::fill(std::span<const std::byte> file, detail::crop_chooser choose,
                               const image_view<T>& pixels, const resize_options& how,
                               const jpeg_options& options) {
  const idle_at_exit guard{*this};
  const jpeg_header header = start(file, options);
  const crop_box box = choose(header.height, header.width);
  const detail::stored_crop<T> crop("feedline::jpeg_decoder::decode_crop", header, box, pixels,
                                    how.horizontal_flip);
  const detail::pixel_scale scale(how.normalization);
  const image_view<T>& to = crop.to;

  // The smallest size at which the box has at least as many pixels as `to`. (Only powers of two have fast transforms.)
  unsigned eighths = 8;
  if (options.scaled_decoding && how.antialias && how.interpolation != interpolation::nearest)
    while (eighths > 1 && crop.box.height * eighths >= 16 * static_cast<double>(to.height) &&
           crop.box.width * eighths >= 16 * static_cast<double>(to.width))
      eighths /= 2;
  set_output(options.color, eighths);
  const double size = eighths / 8.0;
  const std::size_t bytes = header.channels == 1 ? 1 : 4; // of a pixel
  const detail::resampler::region region =
      resampler_.plan(crop.rows(state_.output_height, size), crop.columns(state_.output_width, size), bytes,
                      how.interpolation, how.antialias);
  check_bytes(header, resampler_.bytes(row_bytes(bytes)), file.size(), options);
  if (open_segments(file, region, options.color, eighths)) {
    read_region(segments_.within(region), bytes, to, scale);
    if (!has_surplus()) return header;
    jpeg_abort_decompress(&state_); // the markers lie: decode as if there were none
    start(file, options);
    set_output(options.color, eighths);
  }
  read_region(region, bytes, to, scale);
  return header;
}

template <class T>
void jpeg_decoder::read_region(const detail::resampler::region& region, std::size_t bytes,
                               const image_view<T>& to, const detail::pixel_scale& scale) {
  // Colours are interpolated between neighbours, so decode these too.
  const std::size_t margin = 2 * static_cast<std::size_t>(state_.max_h_samp_factor);
  const std::size_t wanted = region.left - std::min(region.left, margin);
  const std::size_t end = std::min<std::size_t>(region.left + region.width + margin, state_.output_width);
  auto left = static_cast<JDIMENSION>(wanted);
  auto width = static_cast<JDIMENSION>(end - wanted);
  const auto top = static_cast<JDIMENSION>(region.top);
  errors_.run(who, [&] {
    jpeg_start_decompress(&state_);
    // For smoothing it needs the blocks around those of the region.
    if (detail::smooths_blocks(state_) || !detail::can_choose_columns(state_)) left = 0;
    else detail::choose_columns(state_, left, width);
    detail::skip_rows(state_, top, strip_);
  });
  resampler_.run(to, scale, region.left - left, row_bytes(bytes),
                 [this](std::uint8_t** rows, std::size_t count) {
                   errors_.run(who, [=, this] { read_rows(rows, count); });
                 });
}

#ifdef FEEDLINE_COMPILED
template jpeg_header jpeg_decoder::fill(std::span<const std::byte>, detail::crop_chooser,
                                        const image_view<std::uint8_t>&, const resize_options&,
                                        const jpeg_options&);
template jpeg_header jpeg_decoder::fill(std::span<const std::byte>, detail::crop_chooser,
                                        const image_view<float>&, const resize_options&, const jpeg_options&);
template jpeg_header jpeg_decoder::fill(std::span<const std::byte>, detail::crop_chooser,
                                        const image_view<float16>&, const resize_options&,
                                        const jpeg_options&);
template jpeg_header jpeg_decoder::fill(std::span<const std::byte>, detail::crop_chooser,
                                        const image_view<bfloat16>&, const resize_options&,
                                        const jpeg_options&);
#endif

FEEDLINE_INLINE jpeg_decoder& detail::jpeg_decoder_of_thread() {
  thread_local jpeg_decoder decoder;
  return decoder;
}

} // namespace feedline::inline FEEDLINE_ABI
#endif
