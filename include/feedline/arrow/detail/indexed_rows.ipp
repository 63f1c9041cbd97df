// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/arrow/detail/indexed_rows.hpp>

#include <stdexcept>

#include <feedline/arrow/detail/flat_table.hpp>
#include <feedline/arrow/detail/format_tables.hpp>
#include <feedline/arrow/detail/message.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE std::optional<std::uint64_t> largest_batch_in_memory(const std::string& name) {
  if (is_pipe(name)) return std::nullopt;
  std::uint64_t largest = 0;
  try {
    const mapped_file file(name, sharing::alone);
    file.expect_jumps();
    const arrow_layout layout = layout_reader::read(file.bytes());
    const auto bytes_of = [&](const batch_place& place) {
      const message m(file.bytes().subspan(static_cast<std::size_t>(place.metadata),
                                           static_cast<std::size_t>(place.metadata_size)));
      std::uint64_t sum = 0;
      if (!m.batch().compression()) return sum;
      for (auto list = m.batch().buffers(); !list.empty(); list = list.subspan(batch_table::buffer_size)) {
        const auto at = load<std::int64_t>(list.data()), size = load<std::int64_t>(list.data() + 8);
        if (at < 0 || size < 8 || static_cast<std::uint64_t>(at) > place.body_size ||
            static_cast<std::uint64_t>(size) > place.body_size - static_cast<std::uint64_t>(at))
          continue;
        const auto whole =
            load<std::int64_t>(file.bytes().data() + place.body + static_cast<std::uint64_t>(at));
        if (whole > 0) sum += static_cast<std::uint64_t>(whole);
      }
      return sum;
    };
    for (const batch_place& place : layout.batches) largest = std::max(largest, bytes_of(place));
  } catch (const std::runtime_error&) { // next() throws it at the file's position
  }
  return largest;
}

} // namespace feedline::inline FEEDLINE_ABI::detail
