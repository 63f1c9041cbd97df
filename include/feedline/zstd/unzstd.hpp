// SPDX-License-Identifier: MIT
#pragma once
// unzstd_stream: decompresses a zstd file piece by piece.
#include <cstddef>
#include <memory>
#include <span>

#include <feedline/source/lines_options.hpp>

namespace feedline::inline FEEDLINE_ABI {

namespace detail {

/// As zstd(1) without --long, which writes no larger window. A stream takes as much memory as the window of its file.
inline constexpr int largest_zstd_window = 27; // its binary logarithm: 128 MiB

std::unique_ptr<text_stream> open_zstd(std::span<const std::byte> begin, compressed_rest rest);

} // namespace detail

/// Opens zstd files: their frames, one after another. Skippable frames are left out. A frame whose window is larger than
/// 128 MiB, as of `zstd --ultra --long=28`, is an error, and so are data that are cut off, damaged, or don't match their
/// checksum; then the contents end with the last complete part before. The checksum stands at the end of a frame, so it is
/// compared after the lines or samples before it were delivered, and not in a run that ends earlier.
///
/// Example: `lines("corpus/*.jsonl.zst", {.decompress = {unzstd_stream}})`
///          `tar_samples("photos-*.tar.zst", {.decompress = {unzstd_stream}})`
inline constexpr text_opener unzstd_stream{
    "zstd data", (std::size_t{1} << detail::largest_zstd_window) + (std::size_t{1} << 20),
    &detail::open_zstd};

} // namespace feedline::inline FEEDLINE_ABI

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_ZSTD)
#include <algorithm>
#include <new>
#include <string>
#include <utility>

#include <zstd.h>
#include <zstd_errors.h>

namespace feedline::inline FEEDLINE_ABI::detail {

class zstd_text final : public text_stream {
 public:
  zstd_text(std::span<const std::byte> begin, compressed_rest rest)
      : piece_(begin), rest_(std::move(rest)), zstd_(::ZSTD_createDCtx()) {
    if (!zstd_ ||
        ::ZSTD_isError(::ZSTD_DCtx_setParameter(zstd_.get(), ZSTD_d_windowLogMax, largest_zstd_window)))
      throw std::bad_alloc();
    if (!load()) end("the file is empty");
  }

  // After an error zstd doesn't report what it wrote in that call. So each call gets the input for one block, without the
  // header of the next one, and none before all of the last one was written.
  std::size_t read(std::byte* to, std::size_t count) override {
    ZSTD_outBuffer out{to, count, 0};
    while (out.pos < out.size && !ended_) {
      const bool has_more = is_full_ || load();
      const std::size_t block = wanted_ > block_header ? wanted_ - block_header : wanted_;
      ZSTD_inBuffer in{piece_.data(), is_full_ ? 0 : std::min(block, piece_.size()), 0};
      wanted_ = ::ZSTD_decompressStream(zstd_.get(), &out, &in);
      offset_ += in.pos;
      piece_ = piece_.subspan(in.pos);
      if (::ZSTD_isError(wanted_)) {
        end(message_of(::ZSTD_getErrorCode(wanted_)));
      } else if (wanted_ == 0) { // the end of a frame
        frame_ = offset_;
        wanted_ = first_wanted;
        ended_ = !load();
      } else if (!has_more) {
        end("the zstd data are cut off: they end at offset " + std::to_string(offset_) + ", inside a frame");
      }
      is_full_ = out.pos == out.size;
    }
    return out.pos;
  }

  std::size_t offset() const noexcept override { return offset_; }

  const std::string& problem() const noexcept override { return problem_; }

 private:
  static constexpr std::size_t first_wanted = 5; // the beginning of a frame, which says how it continues
  static constexpr std::size_t block_header = 3; // which zstd wants together with the block before

  struct end_of_zstd {
    void operator()(ZSTD_DCtx* z) const noexcept { ::ZSTD_freeDCtx(z); }
  };

  // Makes piece_ contain the next byte. False at the end of the file.
  bool load() {
    if (piece_.empty() && rest_) piece_ = rest_();
    return !piece_.empty();
  }

  void end(std::string problem) {
    ended_ = true;
    problem_ = std::move(problem);
  }

  std::string message_of(ZSTD_ErrorCode code) const {
    const std::string frame = "the frame at offset " + std::to_string(frame_);
    switch (code) {
    case ZSTD_error_memory_allocation:
      throw std::bad_alloc();
    case ZSTD_error_frameParameter_windowTooLarge:
      return frame + " has a window of more than " + std::to_string(1 << (largest_zstd_window - 20)) +
             " MiB: compress the file again with a smaller --long";
    case ZSTD_error_prefix_unknown:
      return "the zstd data end at offset " + std::to_string(frame_) + ", but other data follow";
    default:
      return "the zstd data are damaged (" + std::string(::ZSTD_getErrorString(code)) + ") in " + frame +
             ", before offset " + std::to_string(offset_);
    }
  }

  std::span<const std::byte> piece_;  // not read yet
  compressed_rest rest_;              // after it
  std::size_t offset_ = 0;            // of the first byte that was not read yet
  std::size_t frame_ = 0;             // where the current frame begins
  std::size_t wanted_ = first_wanted; // bytes, for the next block and the header after it
  bool is_full_ = false;              // there may be more to write than fitted
  bool ended_ = false;
  std::string problem_;
  std::unique_ptr<ZSTD_DCtx, end_of_zstd> zstd_;
};

FEEDLINE_INLINE std::unique_ptr<text_stream> open_zstd(std::span<const std::byte> begin,
                                                       compressed_rest rest) {
  return std::make_unique<zstd_text>(begin, std::move(rest));
}

} // namespace feedline::inline FEEDLINE_ABI::detail
#endif
