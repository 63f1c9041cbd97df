// SPDX-License-Identifier: MIT
#pragma once
// Runs that can be resumed with another world size, because one sample determines their position.
#include <cstddef>
#include <cstdint>
#include <optional>

#include <feedline/core/checkpoint.hpp>
#include <feedline/core/epoch.hpp>
#include <feedline/core/plan/rank_share.hpp>
#include <feedline/core/plan/run_options.hpp>
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
  rank_share share_of(std::uint64_t epoch, std::uint32_t rank) const;
  std::uint64_t items_of(std::uint64_t samples, bool drains = true) const;
  bool counts_items() const noexcept;
};

/// Where this rank continues, given that all ranks of the earlier run were equally far. Nothing if they can't
/// have been there.
std::optional<snapshot> snapshot_of_other_rank(const source_type& type, const void* source,
                                               const run_options& options, const checkpoint_state& earlier,
                                               std::size_t segments);

} // namespace feedline::inline FEEDLINE_ABI::detail

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_CORE_RUN)
#include <algorithm>

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

FEEDLINE_INLINE elastic_place elastic_run::place_behind(const sample_id& last,
                                                        const std::optional<sample_id>& failed,
                                                        std::uint64_t epoch, bool ended) const {
  const rank& r = options.rank;
  const bool may_differ = !r.is_alone() && r.remainder == remainder::keep && last_epoch() != no_last_epoch;
  elastic_place result{{}, !may_differ || counts_items()};
  if (ended) epoch = last_epoch();
  if (const auto position = position_of(last, failed)) {
    epoch = last.epoch;
    std::uint64_t next = *position + r.world_size;
    bool all_ended = ended;
    if (may_differ) {
      const rank_share mine = share_of(epoch, r.number);
      const std::uint64_t taken = (next - mine.first) / mine.step;
      const bool has_ended = taken >= mine.size;
      const std::uint64_t items = items_of(taken, has_ended);
      // Its last item wasn't full, so the others have none that is further on.
      all_ended |= has_ended && items != items_of(taken, false);
      // Otherwise ranks with fewer items have begun the next epoch.
      result.is_common &= epoch == last_epoch() || items <= items_of(share_of(epoch, r.world_size - 1).size);
    }
    if (all_ended) next = std::max(next, type.source.places(source, epoch_of(epoch, r.number)) + r.number);
    result.at = snapshot_at(epoch, next, type.segments.size());
  }
  // All epochs from the second one on are alike.
  for (std::uint64_t e = begin.epoch; may_differ && e < std::min(epoch, begin.epoch + 2); ++e)
    result.is_common &= items_of(share_of(e, 0).size) == items_of(share_of(e, r.world_size - 1).size);
  return result;
}

// Of `last`. Nothing if `failed` is further on: samples between the two may not have been delivered yet, and its failure must not
// come again.
FEEDLINE_INLINE std::optional<std::uint64_t>
elastic_run::position_of(const sample_id& last, const std::optional<sample_id>& failed) const {
  if (last.index == sample_id::no_index) return {};
  const feedline::epoch e = epoch_of(last.epoch, options.rank.number);
  const std::uint64_t position = type.source.number_of(source, e, last.index);
  if (!failed || failed->epoch < last.epoch) return position;
  if (failed->epoch > last.epoch || failed->index == sample_id::no_index) return {};
  if (type.source.number_of(source, e, failed->index) > position) return {};
  return position;
}

FEEDLINE_INLINE std::uint64_t elastic_run::last_epoch() const noexcept {
  if (options.epochs == run_options::for_ever) return no_last_epoch;
  return options.first_epoch.value_or(0) + std::uint64_t{options.epochs} - 1;
}

FEEDLINE_INLINE epoch elastic_run::epoch_of(std::uint64_t number, std::uint32_t rank) const {
  const std::uint64_t first = number == begin.epoch ? begin.first : options.rank.number;
  feedline::epoch e =
      make_epoch(options, static_cast<std::uint32_t>(number), {}, first - options.rank.number + rank);
  e.rank.number = rank;
  return e;
}

FEEDLINE_INLINE rank_share elastic_run::share_of(std::uint64_t epoch, std::uint32_t rank) const {
  const feedline::epoch e = epoch_of(epoch, rank);
  return {type.source.places(source, e), e};
}

FEEDLINE_INLINE std::uint64_t elastic_run::items_of(std::uint64_t samples, bool drains) const {
  for (std::size_t i = 0; i < type.stages.size() && type.stages[i].output_count; ++i)
    samples = type.stages[i].output_count(stages.stages[i].get(), samples, drains);
  return samples;
}

FEEDLINE_INLINE bool elastic_run::counts_items() const noexcept {
  return std::all_of(type.stages.begin(), type.stages.end(),
                     [](const stage_type& s) { return s.output_count != nullptr; });
}

FEEDLINE_INLINE std::optional<snapshot> snapshot_of_other_rank(const source_type& type, const void* source,
                                                               const run_options& options,
                                                               const checkpoint_state& earlier,
                                                               std::size_t segments) {
  const std::size_t with_caller = segments + 1;
  const std::uint64_t first_epoch = options.first_epoch.value_or(0);
  if (!has_source(earlier.at)) {
    const bool nothing_came = earlier.at.words.size() == 2;
    return nothing_came ? std::optional(snapshot_at(first_epoch, options.rank.number, with_caller))
                        : std::nullopt;
  }
  std::uint64_t epoch = epoch_of(earlier.at, first_epoch);
  const auto places = [&] {
    return type.places(source, make_epoch(options, static_cast<std::uint32_t>(epoch), {}, 0));
  };
  std::uint64_t next = source_word(earlier.at, 3) + source_word(earlier.at, 1) * earlier.run.ranks;
  while (next < earlier.run.rank) { // its round began in an earlier epoch
    if (epoch == first_epoch) return {};
    --epoch;
    next += places();
  }
  next = next - earlier.run.rank + options.rank.number;
  if (options.epochs == run_options::for_ever)
    for (std::uint64_t size = places(); next >= size && size > 0; size = places()) {
      ++epoch;
      next -= size;
    }
  return snapshot_at(epoch, next, with_caller);
}

} // namespace feedline::inline FEEDLINE_ABI::detail
#endif
