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

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_IMAGE)
#include <feedline/image/detail/jpeg_markers.hpp>
#include <feedline/image/detail/jpeg_source.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE mcu_grid::mcu_grid(const jpeg_decompress_struct& state) noexcept {
  if (state.num_components > 1) { // else the sampling factors mean nothing
    blocks = 0;
    for (int i = 0; i < state.num_components; ++i)
      blocks += state.comp_info[i].h_samp_factor * state.comp_info[i].v_samp_factor;
    across = static_cast<std::size_t>(state.max_h_samp_factor);
    down = static_cast<std::size_t>(state.max_v_samp_factor);
  }
  columns = (state.image_width + 8 * across - 1) / (8 * across);
  rows = (state.image_height + 8 * down - 1) / (8 * down);
}

FEEDLINE_INLINE bool restart_segments::choose(const jpeg_decompress_struct& state,
                                              std::span<const std::byte> file,
                                              const resampler::region& wanted, std::size_t eighths) {
  const std::size_t interval = state.restart_interval;
  if (interval == 0 || !is_one_sequential_scan(state)) return false;
  const mcu_grid grid(state);
  const bool divides_rows = grid.columns % interval == 0;
  if (!divides_rows && interval % grid.columns != 0) return false;
  // A segment is `wide` MCUs of one row, or `high` whole rows.
  const std::size_t wide = divides_rows ? interval : grid.columns;
  const std::size_t high = divides_rows ? 1 : interval / grid.columns;

  const std::size_t across = wide * 8 * grid.across, down = high * 8 * grid.down; // pixels of a segment
  const std::size_t per_row = grid.columns / wide, row_count = (grid.rows + high - 1) / high;

  const range rows =
      divided(wanted.top, wanted.height, state.max_v_samp_factor, down * eighths / 8, row_count);
  range columns = divided(wanted.left, wanted.width, state.max_h_samp_factor, across * eighths / 8, per_row);
  const auto width = [&] {
    return std::min<std::size_t>(columns.end * across, state.image_width) - columns.begin * across;
  };
  // libjpeg doesn't interpolate colours of a part that has only two columns of them.
  if (width() * eighths <= 16 * grid.across) {
    columns.begin -= columns.begin > 0 ? 1 : 0;
    columns.end = std::min(columns.end + 1, per_row);
  }
  if (rows.begin == 0 && columns.begin == 0 && columns.end == per_row) return false;

  const std::size_t top = rows.begin * down;
  const std::size_t height = std::min<std::size_t>(rows.end * down, state.image_height) - top;
  top_ = top * eighths / 8;
  left_ = columns.begin * across * eighths / 8;
  pieces_.clear();
  const std::byte* const data = add_header(file, height, width());
  return data && find(data, file.data() + file.size(), rows, columns, per_row, row_count);
}

FEEDLINE_INLINE const std::byte* restart_segments::add_header(std::span<const std::byte> file,
                                                              std::size_t height, std::size_t width) {
  const auto byte = [](std::size_t number) { return static_cast<std::byte>(number & 0xff); };
  size_ = {byte(height >> 8), byte(height), byte(width >> 8), byte(width)};
  const std::byte* begin = file.data(); // of the part that isn't among the pieces
  jpeg_markers markers(file);
  while (const auto marker = markers.next()) {
    if (is_jpeg_frame(marker->code)) {
      const auto payload = marker->payload();
      if (payload.size() < 5) return nullptr;
      pieces_.push_back({begin, payload.data() + 1});
      pieces_.push_back(size_);
      begin = payload.data() + 5;
    }
    if (marker->code == jpeg_markers::start_of_scan) {
      const std::byte* const end = marker->bytes.data() + marker->bytes.size();
      pieces_.push_back({begin, end});
      return end;
    }
  }
  return nullptr;
}

FEEDLINE_INLINE bool restart_segments::find(const std::byte* at, const std::byte* const end, range rows,
                                            range columns, std::size_t per_row, std::size_t row_count) {
  static constexpr std::byte restart[] = {std::byte{0xff}, std::byte{0xd0}};
  static constexpr std::byte end_of_image[] = {std::byte{0xff}, std::byte{0xd9}};
  unsigned number = 0; // of the next marker
  const auto* begin = at;
  for (std::size_t row = 0; row < rows.end; ++row) {
    const std::size_t last = row + 1 == rows.end ? columns.end : per_row; // segments of this row to pass
    for (std::size_t column = 0; column < last; ++column) {
      if (column == columns.begin) begin = at;
      if (row + 1 == row_count && column + 1 == per_row) { // no marker follows
        pieces_.push_back({begin, end});
        return true;
      }
      const std::byte* const marker = next_marker(at, end);
      if (!marker || *at != static_cast<std::byte>(0xd0 + number)) return false;
      number = (number + 1) % 8;
      ++at;
      if (row < rows.begin || column + 1 != columns.end) continue;
      pieces_.push_back({begin, marker});
      pieces_.push_back(row + 1 == rows.end ? end_of_image : restart);
    }
  }
  return true;
}

FEEDLINE_INLINE const std::byte* restart_segments::next_marker(const std::byte*& at,
                                                               const std::byte* const end) noexcept {
  while (at < end) {
    const auto* const found =
        static_cast<const std::byte*>(std::memchr(at, 0xff, static_cast<std::size_t>(end - at)));
    if (!found || end - found < 2) return nullptr;
    at = found + 1;
    if (*at != std::byte{0}) return found;
    ++at;
  }
  return nullptr;
}

} // namespace feedline::inline FEEDLINE_ABI::detail
#endif
