// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/image/jpeg_decoder.hpp>

#include <cstring>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <feedline/image/detail/image_reader.hpp>

namespace feedline::inline FEEDLINE_ABI {

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

} // namespace feedline::inline FEEDLINE_ABI
