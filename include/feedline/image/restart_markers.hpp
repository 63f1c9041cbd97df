// SPDX-License-Identifier: MIT
#pragma once
// Rewrites JPEGs without loss so that a part of them can be decoded alone.
#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include <feedline/image/detail/jpeg_source.hpp>
#include <feedline/image/jpeg_decoder.hpp>
#include <feedline/image/jpeg_encoder.hpp>
#include <feedline/image/jpeg_error.hpp>

namespace feedline::inline FEEDLINE_ABI {

/// Options of add_restart_markers().
struct restart_marker_options {
  /// The most segments into which each row of MCUs is divided. (An MCU has the blocks that are coded together: 16 x 16
  /// pixels with 4:2:0.) The number of segments is the largest one up to this that divides the row evenly, at least 1.
  std::size_t segments_per_row = 16;
  /// A file that would grow by more than this fraction of its size gets fewer segments per row. If it would even with
  /// one, it is left as it is.
  double max_growth = 0.02;
};

/// What add_restart_markers() returns.
struct marked_jpeg {
  std::vector<std::byte> bytes;     ///< the rewritten file, or the given one
  std::size_t segments_per_row = 0; ///< of the rewritten file; 0: `bytes` is the given file
  std::string unchanged;            ///< why the given file was left as it is; empty if it was rewritten
};

namespace detail {

/// The quantized coefficients of a JPEG.
class jpeg_coefficients {
 public:
  explicit jpeg_coefficients(const char* who) : who_(who) {
    state_.err = &errors_;
    errors_.run(who_, [this] { jpeg_create_decompress(&state_); });
    state_.src = &source_;
    state_.progress = &scan_limit_;
  }

  jpeg_coefficients(const jpeg_coefficients&) = delete;
  jpeg_coefficients& operator=(const jpeg_coefficients&) = delete;

  /// Reads the header. All application markers and comments are kept in the codec's marker_list.
  void open(std::span<const std::byte> file);

  /// Reads the coefficients of the whole image.
  void read() {
    errors_.run(who_, [this] { arrays_ = jpeg_read_coefficients(&state_); });
  }

  jpeg_decompress_struct& state() noexcept { return state_; }

  jvirt_barray_ptr* arrays() noexcept { return arrays_; }

  /// What follows the end of the image, after read().
  std::span<const std::byte> rest() const noexcept;

  /// A row of blocks of a component, after read().
  std::span<const JBLOCK> row(int component, JDIMENSION y) {
    JBLOCKARRAY rows = nullptr;
    errors_.run(who_, [&rows, component, y, this] {
      rows = state_.mem->access_virt_barray(reinterpret_cast<j_common_ptr>(&state_), arrays_[component], y, 1,
                                            FALSE);
    });
    return {rows[0], state_.comp_info[component].width_in_blocks};
  }

 private:
  const char* who_;
  libjpeg_errors errors_;
  jpeg_memory_source source_;
  jpeg_scan_limit scan_limit_;
  jpeg_decompressor state_; // destroyed before what it refers to
  jvirt_barray_ptr* arrays_ = nullptr;
};

/// The largest divisor of `all` that is at most `most`.
constexpr std::size_t largest_divisor(std::size_t all, std::size_t most) noexcept {
  std::size_t divisor = std::clamp<std::size_t>(most, 1, all);
  while (all % divisor != 0) --divisor;
  return divisor;
}

/// Why a file can't be rewritten, as far as its header says. Empty if it can.
std::string reason_against_restart_markers(std::span<const std::byte> file);

/// Writes the coefficients as a sequential file with this restart interval.
std::vector<std::byte> write_with_restarts(const char* who, jpeg_coefficients& image, std::size_t interval,
                                           std::size_t expected_size);

} // namespace detail

/// Rewrites a JPEG so that decode_jpeg_crop() can decode a part of it alone: adds restart markers, which divide each row
/// of MCUs into equal segments, and computes new Huffman tables. The result is an ordinary sequential JPEG with the
/// same coefficients, so the same pixels, and the same metadata (EXIF, colour profile, comments, bytes after the end).
///
///     const auto marked = feedline::add_restart_markers(file);
///
/// Takes:   the bytes of a JPEG: baseline, extended or progressive
/// Gives:   the new file, or the given one and why it is unchanged: it has arithmetic coding or another rare kind, 12 bits
///          per sample, CMYK without an Adobe marker, several pictures, missing scans, or components that can't be coded
///          together; it has such markers already; or it would grow too much
/// Throws:  jpeg_error if the file is damaged, isn't a JPEG, or exceeds the default limits of jpeg_options
marked_jpeg add_restart_markers(std::span<const std::byte> file, const restart_marker_options& options = {});

/// Whether two JPEGs have the same size, components, quantization tables and coefficients. Decoders then give the same
/// pixels for both, unless a progressive one lacks scans, so that they smooth it. Throws jpeg_error as add_restart_markers() does.
bool same_jpeg_coefficients(std::span<const std::byte> a, std::span<const std::byte> b);

} // namespace feedline::inline FEEDLINE_ABI

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_IMAGE)
#include <array>
#include <utility>

#include <feedline/image/detail/image_reader.hpp>
#include <feedline/image/detail/jpeg_markers.hpp>
#include <feedline/image/detail/restart_segments.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE void jpeg_coefficients::open(std::span<const std::byte> file) {
  const jpeg_options limits;
  check_jpeg_begin(who_, file);
  errors_.start(true, true);
  source_.open(file);
  scan_limit_.max_scans = limits.max_scans;
  scan_limit_.max_scan_pixels = limits.max_scan_pixels;
  errors_.run(who_, [this] {
    jpeg_save_markers(&state_, JPEG_COM, 0xffff);
    for (int i = 0; i < 16; ++i) jpeg_save_markers(&state_, JPEG_APP0 + i, 0xffff);
    jpeg_read_header(&state_, TRUE);
  });
  check_jpeg_size(who_, state_, limits.max_pixels);
  const image_header header{.height = state_.image_height, .width = state_.image_width};
  const std::string too_many =
      too_many_bytes("jpeg_options", header, coefficient_bytes(state_), file.size(), limits);
  if (!too_many.empty()) throw jpeg_error(who_ + (": " + too_many));
}

FEEDLINE_INLINE std::span<const std::byte> jpeg_coefficients::rest() const noexcept {
  return std::as_bytes(std::span(source_.next_input_byte, source_.bytes_in_buffer));
}

FEEDLINE_INLINE std::string reason_against_restart_markers(std::span<const std::byte> file) {
  jpeg_markers markers(file);
  while (const auto marker = markers.next()) {
    const auto payload = marker->payload();
    if (marker->code == 0xc9 || marker->code == 0xca) return "it has arithmetic coding";
    if (const char* kind = libjpeg_errors::unsupported_kind(static_cast<int>(marker->code)))
      return std::string("its kind is ") + kind;
    if (is_jpeg_frame(marker->code) && !payload.empty() && jpeg_byte(payload, 0) != 8)
      return "its samples have " + std::to_string(jpeg_byte(payload, 0)) + " bits";
    constexpr char pictures[] = "MPF";
    if (marker->code == 0xe2 && payload.size() > sizeof pictures &&
        std::memcmp(payload.data(), pictures, sizeof pictures) == 0)
      return "it has several pictures, whose positions in the file it names";
  }
  return {};
}

FEEDLINE_INLINE std::vector<std::byte> write_with_restarts(const char* who, jpeg_coefficients& image,
                                                           std::size_t interval, std::size_t expected_size) {
  libjpeg_errors errors;
  jpeg_vector_destination destination(expected_size);
  jpeg_compressor codec;
  codec.err = &errors;
  errors.run(who, [&] {
    jpeg_create_compress(&codec);
    codec.dest = &destination;
    jpeg_copy_critical_parameters(&image.state(), &codec);
    codec.write_JFIF_header = FALSE; // they are among the markers, if the file has them
    codec.write_Adobe_marker = FALSE;
    codec.optimize_coding = TRUE;
    codec.restart_interval = static_cast<unsigned>(interval);
    jpeg_write_coefficients(&codec, image.arrays());
    for (auto* marker = image.state().marker_list; marker; marker = marker->next)
      jpeg_write_marker(&codec, marker->marker, marker->data, marker->data_length);
    jpeg_finish_compress(&codec);
  });
  return destination.take();
}

} // namespace feedline::inline FEEDLINE_ABI::detail

namespace feedline::inline FEEDLINE_ABI {

FEEDLINE_INLINE marked_jpeg add_restart_markers(std::span<const std::byte> file,
                                                const restart_marker_options& options) {
  constexpr const char* who = "feedline::add_restart_markers";
  const auto unchanged = [&](std::string reason) {
    return marked_jpeg{{file.begin(), file.end()}, 0, std::move(reason)};
  };
  if (std::string reason = detail::reason_against_restart_markers(file); !reason.empty())
    return unchanged(std::move(reason));

  detail::jpeg_coefficients image(who);
  image.open(file);
  const jpeg_decompress_struct& state = image.state();
  if (state.num_components == 4 && !state.saw_Adobe_marker)
    return unchanged("it is CMYK without an Adobe marker");
  const detail::mcu_grid grid(state);
  if (grid.blocks > 10) return unchanged("its components have too many samples to be coded together");
  const std::size_t now = state.restart_interval > 0 && grid.columns % state.restart_interval == 0
                              ? grid.columns / state.restart_interval
                              : 0;
  constexpr const char* marked_already = "it has restart markers already";
  bool is_marked = detail::is_one_sequential_scan(state) && now > 0 && now <= options.segments_per_row;
  if (is_marked && now > 1) return unchanged(marked_already);
  std::size_t segments = detail::largest_divisor(grid.columns, options.segments_per_row);

  image.read();
  for (int i = 0; i < state.num_components; ++i)
    if (!state.comp_info[i].quant_table) return unchanged("it has no scan of some components");
  if (detail::smooths_blocks(state))
    return unchanged("its last scans are missing, so that decoders smooth it");
  const auto write = [&](std::size_t per_row) {
    auto bytes =
        detail::write_with_restarts(who, image, grid.columns / per_row, file.size() + file.size() / 8);
    bytes.insert(bytes.end(), image.rest().begin(), image.rest().end());
    return bytes;
  };
  for (;;) {
    marked_jpeg marked{{}, segments, {}};
    try {
      // One segment per row may be all that was possible: the growth allowed now would be counted twice.
      if (std::exchange(is_marked, false) && std::ranges::equal(write(now), file))
        return unchanged(marked_already);
      marked.bytes = write(segments);
    } catch (const jpeg_error& error) { // read() found no damage, but a sequential file can't hold it
      return unchanged("it can't be written as a sequential file" +
                       std::string(error.what()).substr(std::strlen(who)));
    }
    const double before = static_cast<double>(file.size()), after = static_cast<double>(marked.bytes.size());
    const double surplus = after - before * (1 + options.max_growth);
    if (!(surplus > 0)) return marked;
    if (segments == 1) {
      char text[64];
      std::snprintf(text, sizeof text, "it would grow by %.1f %%", 100 * (after / before - 1));
      return unchanged(text);
    }
    // A segment costs about three bytes: its marker, the rest of its last byte, and a first value that isn't a difference.
    const double too_many = 1 + surplus / (3.0 * static_cast<double>(grid.rows));
    const auto most = static_cast<double>(segments) - too_many;
    segments = detail::largest_divisor(grid.columns, most < 1 ? 1 : static_cast<std::size_t>(most));
  }
}

FEEDLINE_INLINE bool same_jpeg_coefficients(std::span<const std::byte> a, std::span<const std::byte> b) {
  constexpr const char* who = "feedline::same_jpeg_coefficients";
  std::array<detail::jpeg_coefficients, 2> images{detail::jpeg_coefficients(who),
                                                  detail::jpeg_coefficients(who)};
  images[0].open(a);
  images[1].open(b);
  images[0].read();
  images[1].read();
  const jpeg_decompress_struct &first = images[0].state(), &second = images[1].state();
  const auto frame = [](const jpeg_decompress_struct& s) {
    return std::array<long, 4>{static_cast<long>(s.image_width), static_cast<long>(s.image_height),
                               s.num_components, static_cast<long>(s.jpeg_color_space)};
  };
  if (frame(first) != frame(second)) return false;
  for (int i = 0; i < first.num_components; ++i) {
    const jpeg_component_info &one = first.comp_info[i], &other = second.comp_info[i];
    if (one.component_id != other.component_id || one.h_samp_factor != other.h_samp_factor ||
        one.v_samp_factor != other.v_samp_factor || !one.quant_table || !other.quant_table ||
        !std::ranges::equal(one.quant_table->quantval, other.quant_table->quantval))
      return false;
    for (JDIMENSION y = 0; y < one.height_in_blocks; ++y) {
      const auto left = images[0].row(i, y), right = images[1].row(i, y);
      if (std::memcmp(left.data(), right.data(), left.size_bytes()) != 0) return false;
    }
  }
  return true;
}

} // namespace feedline::inline FEEDLINE_ABI
#endif
