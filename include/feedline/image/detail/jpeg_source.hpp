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

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_IMAGE)
#include <algorithm>
#include <iterator>
#include <limits>
#include <string>

#include <feedline/detail/file_kind.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE jpeg_memory_source::jpeg_memory_source() noexcept : jpeg_source_mgr{} {
  init_source = [](j_decompress_ptr) {};
  fill_input_buffer = [](j_decompress_ptr codec) -> boolean {
    auto& source = static_cast<jpeg_memory_source&>(*codec->src);
    if (!source.next_piece()) end_of_file(codec);
    return TRUE;
  };
  skip_input_data = [](j_decompress_ptr codec, long count) {
    if (count <= 0) return;
    jpeg_source_mgr& source = *codec->src;
    if (static_cast<unsigned long>(count) > source.bytes_in_buffer) return end_of_file(codec);
    source.next_input_byte += count;
    source.bytes_in_buffer -= static_cast<std::size_t>(count);
  };
  resync_to_restart = [](j_decompress_ptr codec, int wanted) -> boolean {
    const auto& source = static_cast<const jpeg_memory_source&>(*codec->src);
    if (!source.has_any_restart_ || codec->unread_marker < JPEG_RST0 || codec->unread_marker > JPEG_RST0 + 7)
      return jpeg_resync_to_restart(codec, wanted);
    codec->unread_marker = 0;
    return TRUE;
  };
  term_source = [](j_decompress_ptr) {};
}

FEEDLINE_INLINE void jpeg_memory_source::end_of_file(j_decompress_ptr codec) noexcept {
  static constexpr JOCTET end_marker[] = {0xff, JPEG_EOI};
  constexpr const char* either = "keep_whole if only its end mark is missing, or else to on_corrupt::keep";
  const bool is_harmless = may_have_all_pixels(*codec);
  libjpeg_errors::of(codec).warn("Premature end of JPEG file", is_harmless, is_harmless ? either : "keep");
  codec->src->next_input_byte = end_marker;
  codec->src->bytes_in_buffer = sizeof end_marker;
}

FEEDLINE_INLINE bool jpeg_memory_source::may_have_all_pixels(const jpeg_decompress_struct& state) noexcept {
  if (state.input_scan_number == 0 || state.arith_code || smooths_blocks(state)) return false;
  for (int i = 0; i < state.num_components; ++i)
    if (!state.comp_info[i].quant_table)
      return false; // it is kept when the first scan of the component begins
  return true;
}

FEEDLINE_INLINE bool jpeg_memory_source::next_piece() noexcept {
  while (!pieces_.empty()) {
    const auto piece = pieces_.front();
    pieces_ = pieces_.subspan(1);
    next_input_byte = reinterpret_cast<const JOCTET*>(piece.data());
    bytes_in_buffer = piece.size();
    if (!piece.empty()) return true;
  }
  return false;
}

FEEDLINE_INLINE void check_jpeg_begin(const char* who, std::span<const std::byte> file) {
  if (file.empty()) throw jpeg_error(std::string(who) + ": the file is empty (0 bytes); a JPEG was expected");
  if (file[0] == std::byte{0xff}) return;
  if (const std::string other = what_it_is(file); !other.empty())
    throw jpeg_error(std::string(who) + ": Not a JPEG file" + other);
}

FEEDLINE_INLINE void check_jpeg_size(const char* who, jpeg_decompress_struct& state,
                                     std::uint64_t max_pixels) {
  if (state.data_precision != 8)
    throw jpeg_error(std::string(who) + ": the image has samples of " + std::to_string(state.data_precision) +
                     " bits; only 8 bits are supported");
  if (std::uint64_t{state.image_width} * state.image_height > max_pixels)
    throw jpeg_error(std::string(who) + ": " + std::to_string(state.image_width) + " x " +
                     std::to_string(state.image_height) + " pixels are more than jpeg_options::max_pixels, " +
                     std::to_string(max_pixels));
  // Four components of two bytes, and a margin for sides that aren't whole blocks. Without this line an
  // environment variable would set the limit.
  constexpr std::uint64_t unlimited = std::numeric_limits<long>::max();
  constexpr std::uint64_t margin = std::uint64_t{1} << 26;
  state.mem->max_memory_to_use =
      static_cast<long>(max_pixels < (unlimited - margin) / 8 ? 8 * max_pixels + margin : unlimited);
}

FEEDLINE_INLINE std::uint64_t coefficient_bytes(const jpeg_decompress_struct& state) noexcept {
  const auto whole_mcus = [](JDIMENSION blocks, int factor) {
    const auto f = static_cast<std::uint64_t>(factor);
    return (blocks + f - 1) / f * f;
  };
  std::uint64_t blocks = 0;
  for (int i = 0; i < state.num_components; ++i) {
    const jpeg_component_info& c = state.comp_info[i];
    blocks +=
        whole_mcus(c.width_in_blocks, c.h_samp_factor) * whole_mcus(c.height_in_blocks, c.v_samp_factor);
  }
  return blocks * sizeof(JBLOCK);
}

FEEDLINE_INLINE bool smooths_blocks(const jpeg_decompress_struct& state) noexcept {
  if (!state.progressive_mode || !state.coef_bits) return false;
  for (int i = 0; i < state.num_components; ++i)
    if (std::any_of(std::begin(state.coef_bits[i]), std::end(state.coef_bits[i]),
                    [](int missing_bits) { return missing_bits != 0; }))
      return true;
  return false;
}

FEEDLINE_INLINE jpeg_scan_limit::jpeg_scan_limit() noexcept : jpeg_progress_mgr{} {
  progress_monitor = [](j_common_ptr codec) {
    const auto& state = *reinterpret_cast<j_decompress_ptr>(codec);
    const auto& limit = *static_cast<const jpeg_scan_limit*>(state.progress);
    const int scan = state.input_scan_number;
    if (scan > limit.max_scans)
      libjpeg_errors::of(codec).fail("More scans than jpeg_options::max_scans, %d; raise it to decode them",
                                     limit.max_scans);
    const std::uint64_t pixels = std::uint64_t{state.image_width} * state.image_height;
    if (scan > 1 && static_cast<std::uint64_t>(scan) > limit.max_scan_pixels / pixels)
      libjpeg_errors::of(codec).fail("%d or more scans of %u x %u pixels are more than "
                                     "jpeg_options::max_scan_pixels, %llu; raise it to decode them",
                                     scan, state.image_width, state.image_height,
                                     static_cast<unsigned long long>(limit.max_scan_pixels));
  };
}

} // namespace feedline::inline FEEDLINE_ABI::detail
#endif
