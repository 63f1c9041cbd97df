// SPDX-License-Identifier: MIT
#pragma once
// Runs that can be resumed with another world size, because one sample determines their position.
#include <cstddef>
#include <cstdint>
#include <optional>

#include <feedline/core/checkpoint.hpp>
#include <feedline/core/epoch.hpp>
#include <feedline/core/options.hpp>
#include <feedline/core/plan/place_share.hpp>
#include <feedline/core/plan/segments.hpp>
#include <feedline/core/rank.hpp>
#include <feedline/core/run/progress.hpp>
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

/// What a checkpoint of one rank says, given that all ranks have delivered equally many items.
struct elastic_place {
  std::optional<snapshot> at; ///< where this rank continues; nothing if its samples don't determine that
  bool is_common = true;      ///< whether all ranks continue at one position of the epoch's order
};

/// A run that has begun at `begin`, as all of its ranks have.
struct elastic_run {
  const run_type& type;
  const void* source;
  const composed_stages& stages;
  const run_options& options;
  source_place begin;

  /// The run has delivered `last` last and left out `failed` last, which may be further on than `last`: then its samples don't
  /// determine where it continues. `epoch`: of the consumer, if nothing was delivered. `ended`: the consumer has reached the end.
  elastic_place place_behind(const sample_id& last, const std::optional<sample_id>& failed,
                             std::uint64_t epoch, bool ended) const;

 private:
  static constexpr std::uint64_t no_last_epoch = ~std::uint64_t{0};

  std::optional<std::uint64_t> position_of(const sample_id& last,
                                           const std::optional<sample_id>& failed) const;
  std::uint64_t last_epoch() const noexcept;
  feedline::epoch epoch_of(std::uint64_t number, std::uint32_t rank) const;
  place_share share_of(std::uint64_t epoch, std::uint32_t rank) const;
  std::uint64_t items_of(std::uint64_t samples, bool drains = true) const;
  bool counts_items() const noexcept;
};

/// Where this rank continues, given that all ranks of the earlier run were equally far. Nothing if they can't
/// have been there.
std::optional<snapshot> snapshot_of_other_rank(const source_type& type, const void* source,
                                               const run_options& options, const checkpoint_state& earlier,
                                               std::size_t segments);

} // namespace feedline::inline FEEDLINE_ABI::detail

#ifndef FEEDLINE_COMPILED
#include <feedline/core/run/elastic.ipp>
#endif
