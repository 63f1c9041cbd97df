// SPDX-License-Identifier: MIT
#pragma once
// Decoding with libjpeg: its state, its data source, and limits on the image.
#include <cstddef>
#include <cstdint>
#include <span>

#include <feedline/image/jpeg_error.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// Bytes in memory as libjpeg's data source. (Not every version of libjpeg has such a source.)
class jpeg_memory_source : public jpeg_source_mgr {
 public:
  jpeg_memory_source() noexcept;

  void open(std::span<const std::byte> file) noexcept {
    pieces_ = {};
    has_any_restart_ = false;
    next_input_byte = reinterpret_cast<const JOCTET*>(file.data());
    bytes_in_buffer = file.size();
  }

  /// Reads these pieces one after another, the first of which must hold the header. Restart markers may have any number.
  void open(std::span<const std::span<const std::byte>> pieces) noexcept {
    pieces_ = pieces;
    has_any_restart_ = true;
    next_piece();
  }

  /// Whether bytes before the last piece weren't read.
  bool has_surplus() const noexcept { return pieces_.size() == 1 && bytes_in_buffer > 0; }

 private:
  bool next_piece() noexcept;

  // Where warnings are kept, this end marker makes libjpeg finish with the data that it has.
  static void end_of_file(j_decompress_ptr codec) noexcept;

  // Whether only the end mark may be missing: the last scan has begun. libjpeg, which reads ahead, warns when it needs a
  // code that is missing, unless they are arithmetic codes.
  static bool may_have_all_pixels(const jpeg_decompress_struct& state) noexcept;

  std::span<const std::span<const std::byte>> pieces_; // after this one
  bool has_any_restart_ = false;
};

/// A decompressor that is destroyed also after an error.
struct jpeg_decompressor : jpeg_decompress_struct {
  jpeg_decompressor() noexcept : jpeg_decompress_struct{} {}

  jpeg_decompressor(const jpeg_decompressor&) = delete;
  jpeg_decompressor& operator=(const jpeg_decompressor&) = delete;

  ~jpeg_decompressor() { jpeg_destroy_decompress(this); }
};

/// Whether all components are coded together, in one scan with Huffman codes.
inline bool is_one_sequential_scan(const jpeg_decompress_struct& state) noexcept {
  return !state.progressive_mode && !state.arith_code && state.comps_in_scan == state.num_components;
}

/// Refuses a file that is empty or of another known kind, and says which.
void check_jpeg_begin(const char* who, std::span<const std::byte> file);

/// Refuses an image whose samples don't have 8 bits or that has more than `max_pixels`, and limits libjpeg's memory to
/// what an image of that size needs. `state` has read the header.
void check_jpeg_size(const char* who, jpeg_decompress_struct& state, std::uint64_t max_pixels);

/// Whether libjpeg keeps the coefficients of the whole image, because they come in several scans.
inline bool has_several_scans(const jpeg_decompress_struct& state) noexcept {
  return state.progressive_mode != FALSE || state.comps_in_scan < state.num_components;
}

/// The memory for the coefficients of the whole image.
std::uint64_t coefficient_bytes(const jpeg_decompress_struct& state) noexcept;

/// Whether libjpeg smooths blocks, because scans are missing that would complete their coefficients.
bool smooths_blocks(const jpeg_decompress_struct& state) noexcept;

/// Stops decoding an image with more scans than allowed. libjpeg calls it at least once in every scan.
class jpeg_scan_limit : public jpeg_progress_mgr {
 public:
  jpeg_scan_limit() noexcept;

  int max_scans = 0;
  std::uint64_t max_scan_pixels = 0;
};

} // namespace feedline::inline FEEDLINE_ABI::detail

#ifndef FEEDLINE_COMPILED
#include <feedline/image/detail/jpeg_source.ipp>
#endif
