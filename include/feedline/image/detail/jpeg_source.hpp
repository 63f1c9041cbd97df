// SPDX-License-Identifier: MIT
#pragma once
// libjpeg's callbacks during decoding: its data source, and a limit on scans.
#include <cstddef>
#include <cstdint>
#include <span>

#include <feedline/image/jpeg_error.hpp>

namespace feedline::inline v0::detail {

/// Bytes in memory as libjpeg's data source. (Not every version of libjpeg has such a source.)
class jpeg_memory_source : public jpeg_source_mgr {
 public:
  jpeg_memory_source() noexcept : jpeg_source_mgr{} {
    init_source = [](j_decompress_ptr) {};
    fill_input_buffer = [](j_decompress_ptr codec) -> boolean {
      end_of_file(codec);
      return TRUE;
    };
    skip_input_data = [](j_decompress_ptr codec, long count) {
      if (count <= 0) return;
      jpeg_source_mgr& source = *codec->src;
      if (static_cast<unsigned long>(count) > source.bytes_in_buffer) return end_of_file(codec);
      source.next_input_byte += count;
      source.bytes_in_buffer -= static_cast<std::size_t>(count);
    };
    resync_to_restart = jpeg_resync_to_restart;
    term_source = [](j_decompress_ptr) {};
  }

  void open(std::span<const std::byte> file) noexcept {
    next_input_byte = reinterpret_cast<const JOCTET*>(file.data());
    bytes_in_buffer = file.size();
  }

 private:
  // Where warnings are kept, this end marker makes libjpeg finish with the data that it has.
  static void end_of_file(j_decompress_ptr codec) {
    static constexpr JOCTET end_marker[] = {0xff, JPEG_EOI};
    libjpeg_errors::of(codec).warn("Premature end of JPEG file");
    codec->src->next_input_byte = end_marker;
    codec->src->bytes_in_buffer = sizeof end_marker;
  }
};

/// Stops decoding an image with more scans than allowed. libjpeg calls it at least once in every scan.
class jpeg_scan_limit : public jpeg_progress_mgr {
 public:
  jpeg_scan_limit() noexcept : jpeg_progress_mgr{} {
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

  int max_scans = 0;
  std::uint64_t max_scan_pixels = 0;
};

} // namespace feedline::inline v0::detail
