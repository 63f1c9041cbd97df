// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/core/run/elastic.hpp>

#include <algorithm>
#include <array>
#include <span>

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

FEEDLINE_INLINE std::optional<snapshot> snapshot_behind(const source_type& type, const void* source,
                                                        const run_options& options, const sample_id& last,
                                                        const std::optional<sample_id>& failed,
                                                        std::size_t segments) {
  if (last.index == sample_id::no_index || (failed && failed->index == sample_id::no_index)) return {};
  const std::uint32_t epoch = failed ? std::max(last.epoch, failed->epoch) : last.epoch;
  std::array<std::uint64_t, 2> indices{};
  std::size_t count = 0;
  if (last.epoch == epoch) indices[count++] = last.index;
  if (failed && failed->epoch == epoch) indices[count++] = failed->index;
  const std::uint64_t number =
      type.last_number(source, make_epoch(options, epoch, {}, 0), std::span(indices).first(count));
  return snapshot_at(epoch, number + options.rank.world_size, segments);
}

FEEDLINE_INLINE std::optional<snapshot> snapshot_of_other_rank(const source_type& type, const void* source,
                                                               const run_options& options,
                                                               const checkpoint_state& earlier,
                                                               std::size_t segments) {
  const std::size_t with_caller = segments + 1;
  const std::uint64_t first_epoch = options.first_epoch.value_or(0);
  if (earlier.at.words.empty() || earlier.at.words[0] != 0) {
    const bool nothing_came = earlier.at.words.size() == 2;
    return nothing_came ? std::optional(snapshot_at(first_epoch, options.rank.number, with_caller))
                        : std::nullopt;
  }
  if (!comes_once(options)) return {};
  std::uint64_t epoch = epoch_of(earlier.at);
  const std::uint64_t places =
      type.places(source, make_epoch(options, static_cast<std::uint32_t>(epoch), {}, 0));
  std::uint64_t next = source_word(earlier.at, 3) + source_word(earlier.at, 1) * earlier.run.ranks;
  if (next < earlier.run.rank) { // its round began in the previous epoch
    if (epoch == first_epoch) return {};
    --epoch;
    next += places;
  }
  next = next - earlier.run.rank + options.rank.number;
  if (options.epochs == run_options::for_ever && next >= places && places > 0) {
    ++epoch;
    next -= places;
  }
  return snapshot_at(epoch, next, with_caller);
}

} // namespace feedline::inline FEEDLINE_ABI::detail
