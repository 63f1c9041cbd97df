// SPDX-License-Identifier: MIT
#pragma once
// Runs that can be resumed with another world size, because one sample determines their position.
#include <cstddef>
#include <cstdint>
#include <optional>

#include <feedline/core/checkpoint.hpp>
#include <feedline/core/options.hpp>
#include <feedline/core/plan/segments.hpp>
#include <feedline/core/rank.hpp>
#include <feedline/core/run/run_type.hpp>
#include <feedline/core/sample.hpp>
#include <feedline/core/snapshot/snapshot.hpp>
#include <feedline/core/source.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// A source that divides its positions among the ranks, yields each once per epoch, and knows the position of each sample.
template <class Source>
concept has_numbers =
    splits_samples_by_rank<Source> && requires(const Source& s, std::uint64_t index) { s.number_of(index); };

/// True if such a source is followed by stages that keep nothing after a batch.
template <class Source, class... Stages>
consteval bool is_elastic(types<Stages...>) {
  return has_numbers<Source> && (traits_of<Stages>().position_from_last_sample && ...);
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
std::optional<snapshot> snapshot_behind(const source_type& type, const void* source,
                                        const run_options& options, const sample_id& last,
                                        const std::optional<sample_id>& failed, std::size_t segments);

/// Where this rank continues, given that all ranks of the earlier run were equally far. Nothing if they can't
/// have been there.
std::optional<snapshot> snapshot_of_other_rank(const source_type& type, const void* source,
                                               const run_options& options, const checkpoint_state& earlier,
                                               std::size_t segments);

} // namespace feedline::inline FEEDLINE_ABI::detail

#ifndef FEEDLINE_COMPILED
#include <feedline/core/run/elastic.ipp>
#endif
