// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/arrow/detail/indexed_rows.hpp>

#include <algorithm>
#include <span>
#include <stdexcept>

#include <feedline/arrow/detail/flat_table.hpp>
#include <feedline/arrow/detail/format_tables.hpp>
#include <feedline/arrow/detail/message.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// The decompressed size of a batch, as its buffers announce it.
FEEDLINE_INLINE std::uint64_t bytes_in_memory(const batch_place& place, std::span<const std::byte> file) {
  std::uint64_t sum = 0;
  if (!place.is_compressed) return sum;
  const message m(
      file.subspan(static_cast<std::size_t>(place.metadata), static_cast<std::size_t>(place.metadata_size)));
  for (auto list = m.batch().buffers(); !list.empty(); list = list.subspan(batch_table::buffer_size)) {
    const auto at = load<std::int64_t>(list.data()), size = load<std::int64_t>(list.data() + 8);
    if (at < 0 || size < 8 || static_cast<std::uint64_t>(at) > place.body_size ||
        static_cast<std::uint64_t>(size) > place.body_size - static_cast<std::uint64_t>(at))
      continue;
    const auto whole = load<std::int64_t>(file.data() + place.body + static_cast<std::uint64_t>(at));
    constexpr std::int64_t most = std::int64_t{1} << 48; // so that sums don't overflow
    sum += static_cast<std::uint64_t>(std::clamp<std::int64_t>(whole, 0, most));
  }
  return sum;
}

FEEDLINE_INLINE std::optional<memory_of_batches> memory_of_rows(const file_order& files,
                                                                const wanted_rows& wanted) {
  const std::uint64_t most = wanted.options.max_batch_bytes;
  const std::lock_guard lock(wanted.mutex);
  if (wanted.memory) return *wanted.memory;
  std::optional<memory_of_batches>& all = wanted.memory.emplace(memory_of_batches());
  std::uint64_t largest = 0;
  for (const std::string& name : files.names()) {
    if (is_pipe(name)) return all = std::nullopt;
    std::uint64_t batch = 0, dictionaries = 0;
    try {
      const mapped_file file(name, sharing::alone);
      file.expect_jumps();
      const arrow_layout layout = layout_reader::read(file.bytes(), wanted.options.concatenated);
      for (const batch_place& place : layout.batches)
        batch = std::max(batch, std::min(most, bytes_in_memory(place, file.bytes())));
      for (const dictionary_place& part : layout.dictionaries)
        dictionaries = std::min(most, dictionaries + bytes_in_memory(part.values, file.bytes()));
    } catch (const std::runtime_error&) { // next() throws it at the file's position
    }
    largest = std::max(largest, batch);
    all->batch_and_dictionaries = std::max(all->batch_and_dictionaries, batch + dictionaries);
    all->by_position += dictionaries;
  }
  all->by_position += std::max(largest, std::min(most, largest * recent_batches::capacity));
  return all;
}

} // namespace feedline::inline FEEDLINE_ABI::detail
