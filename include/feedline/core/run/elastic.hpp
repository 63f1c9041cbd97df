// SPDX-License-Identifier: MIT
#pragma once
// Runs that can be resumed with another world size, because one sample determines their position.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

#include <feedline/core/checkpoint.hpp>
#include <feedline/core/options.hpp>
#include <feedline/core/plan/place_share.hpp>
#include <feedline/core/plan/segments.hpp>
#include <feedline/core/rank.hpp>
#include <feedline/core/sample.hpp>
#include <feedline/core/snapshot/snapshot.hpp>
#include <feedline/core/source.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// True if the source divides its positions among the ranks and yields each once per epoch, and the stages keep
/// nothing after a batch.
template <class Source, class... Stages>
consteval bool is_elastic(types<Stages...>) {
  if constexpr (requires(const Source& s, std::uint64_t index) { s.number_of(index); })
    return splits_samples_by_rank<Source> && (traits_of<Stages>().position_from_last_sample && ...);
  else return false;
}

/// A snapshot of a run whose next sample is at position `first` of the epoch's order.
snapshot snapshot_at(std::uint64_t epoch, std::uint64_t first, std::size_t segments);

/// Whether no sample appears twice in an epoch, so that a sample determines a position.
inline bool comes_once(const run_options& options) {
  return options.rank.is_alone() || options.rank.remainder != remainder::wrap ||
         options.epochs == run_options::for_ever;
}

/// The snapshot of a run that delivered `last` last and left out `failed` last, which may be further on than
/// `last`. Nothing if it can't be determined.
template <class Source>
std::optional<snapshot> snapshot_behind(Source source, const run_options& options, const sample_id& last,
                                        const std::optional<sample_id>& failed, std::size_t segments) {
  if (last.index == sample_id::no_index || (failed && failed->index == sample_id::no_index)) return {};
  const std::uint32_t epoch = failed ? std::max(last.epoch, failed->epoch) : last.epoch;
  source.start_epoch(make_epoch(options, epoch, {}, 0));
  std::uint64_t number = 0;
  if (last.epoch == epoch) number = source.number_of(last.index);
  if (failed && failed->epoch == epoch) number = std::max(number, source.number_of(failed->index));
  return snapshot_at(epoch, number + options.rank.world_size, segments);
}

/// Where this rank continues, given that all ranks of the earlier run were equally far. Nothing if they can't
/// have been there.
template <class Source>
std::optional<snapshot> snapshot_of_other_rank(Source source, const run_options& options,
                                               const checkpoint_state& earlier, std::size_t segments) {
  const std::size_t with_caller = segments + 1;
  const std::uint64_t first_epoch = options.first_epoch.value_or(0);
  if (earlier.at.words.empty() || earlier.at.words[0] != 0) {
    const bool nothing_came = earlier.at.words.size() == 2;
    return nothing_came ? std::optional(snapshot_at(first_epoch, options.rank.number, with_caller))
                        : std::nullopt;
  }
  if (!comes_once(options)) return {};
  std::uint64_t epoch = epoch_of(earlier.at);
  source.start_epoch(make_epoch(options, static_cast<std::uint32_t>(epoch), {}, 0));
  const std::uint64_t places = source.share().places;
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

#ifndef FEEDLINE_COMPILED
#include <feedline/core/run/elastic.ipp>
#endif
