// SPDX-License-Identifier: MIT
#pragma once
// The parts of a JPEG between restart markers, which can be decoded alone.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <span>
#include <vector>

#include <feedline/image/detail/resampler.hpp>
#include <feedline/image/jpeg_error.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// The MCUs of an image whose components are coded together. (An MCU has the blocks that are coded one after another.)
struct mcu_grid {
  /// Takes the state after jpeg_read_header().
  explicit mcu_grid(const jpeg_decompress_struct& state) noexcept;

  std::size_t across = 1, down = 1; ///< blocks of the finest component in an MCU; a block has 8 x 8 samples
  std::size_t columns, rows;        ///< MCUs of the image
  int blocks = 1;                   ///< of all components in an MCU
};

/// Finds the segments that a part of an image needs, and makes a JPEG of them alone, in pieces: a header with a smaller
/// size, then for each row of MCUs the bytes of its segments, all but the size where they are in the file.
///
///     ┌──────┬──────┬──────┬──────┐
///     │      │ needed      │      │   the marker after each segment has the next number of 0 to 7
///     │      │ needed      │      │
///     └──────┴──────┴──────┴──────┘
///
/// Keep one per decoder: it reuses its memory.
class restart_segments {
 public:
  /// Chooses the segments for a region of the image decoded at `eighths`/8 of its size. `state` has read the file's
  /// header. False if the whole image must be read: its kind or header is another, it has no markers that divide it, they
  /// aren't in order, or all of it is needed from the top on.
  bool choose(const jpeg_decompress_struct& state, std::span<const std::byte> file,
              const resampler::region& wanted, std::size_t eighths);

  /// The chosen JPEG, for jpeg_memory_source. It refers to the file.
  std::span<const std::span<const std::byte>> pieces() const noexcept { return pieces_; }

  /// The region as one of the chosen JPEG.
  resampler::region within(const resampler::region& wanted) const noexcept {
    return {wanted.top - top_, wanted.left - left_, wanted.height, wanted.width};
  }

 private:
  struct range {
    std::size_t begin, end;
  };

  // The segments of `size` pixels, of `all`, that the pixels [first, first + count) need along an axis. Colours with a
  // sampling factor are interpolated between neighbours, so these are needed too.
  static range divided(std::size_t first, std::size_t count, int factor, std::size_t size,
                       std::size_t all) noexcept {
    const std::size_t margin = factor > 1 ? static_cast<std::size_t>(factor) : 0;
    return {(first - std::min(first, margin)) / size,
            std::min((first + count + margin + size - 1) / size, all)};
  }

  // Adds the file's header with another size. Returns where the coded data begin; null if it isn't as encoders write it.
  const std::byte* add_header(std::span<const std::byte> file, std::size_t height, std::size_t width);

  // Goes through the coded data up to the last segment that is needed. False if a marker isn't the next one.
  bool find(const std::byte* at, const std::byte* const end, range rows, range columns, std::size_t per_row,
            std::size_t row_count);

  // Returns the next marker, and moves `at` to the byte after its 0xff. Null if there is none. 0x00 after 0xff makes it data.
  static const std::byte* next_marker(const std::byte*& at, const std::byte* const end) noexcept;

  std::array<std::byte, 4> size_{}; // in the header
  std::vector<std::span<const std::byte>> pieces_;
  std::size_t top_ = 0, left_ = 0;
};

} // namespace feedline::inline FEEDLINE_ABI::detail

#ifndef FEEDLINE_COMPILED
#include <feedline/image/detail/restart_segments.ipp>
#endif
