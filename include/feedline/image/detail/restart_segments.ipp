// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/image/detail/restart_segments.hpp>

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
