// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/core/run/elastic.hpp>

#include <feedline/core/run/progress.hpp>
#include <feedline/core/run/stream_position.hpp>
#include <feedline/core/state.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE snapshot snapshot_at(std::uint64_t epoch, std::uint64_t first, std::size_t segments) {
  snapshot at{{0}, {}};
  write_section(at, [&](state_writer& writer) {
    writer(epoch, 0, 0, first);
    segment_progress::write_ending(writer);
  });
  for (std::size_t i = 1; i < segments; ++i)
    write_section(at, [&](state_writer& writer) {
      write_place(writer, {});
      segment_progress::write_ending(writer);
    });
  return at;
}

} // namespace feedline::inline FEEDLINE_ABI::detail
