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

#ifndef FEEDLINE_COMPILED
#include <feedline/image/restart_markers.ipp>
#endif
