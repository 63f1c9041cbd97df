// SPDX-License-Identifier: MIT
#pragma once
// Reads a run's source for one rank, epoch after epoch.
#include <algorithm>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <stop_token>
#include <utility>

#include <feedline/core/epoch.hpp>
#include <feedline/core/failure.hpp>
#include <feedline/core/options.hpp>
#include <feedline/core/rank.hpp>
#include <feedline/core/run/emitter.hpp>
#include <feedline/core/run/progress.hpp>
#include <feedline/core/source.hpp>
#include <feedline/core/state.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// Reads a source either for the source's thread, which calls next() for one sample after another, or for
/// workers, which take positions of the epoch and read them themselves. `at` is the position that it has
/// reached: next() counts what the source yielded, and the caller counts the failures that it passes on.
template <source Source>
class source_reader {
  using value = decltype(std::declval<Source&>().next());

 public:
  source_reader(const Source& described, const run_options& options, const std::stop_token& stop,
                source_place& at, sample_outcomes* outcomes = nullptr)
      : described_(described),
        options_(options),
        stop_(stop),
        at_(at),
        outcomes_(outcomes),
        passes_over_others_(!shares_itself<Source> && !options.rank.is_alone()) {}

  source_reader(source_reader&&) = delete; // get() returns a reference to a member

  bool is_endless() const noexcept { return options_.epochs == run_options::for_ever; }

  /// Whether the epoch in `at` belongs to the run.
  bool has_epoch() const noexcept {
    return is_endless() || at_.epoch < options_.epochs + std::uint64_t{options_.first_epoch.value_or(0)};
  }

  /// Starts that epoch at its beginning. Throws what the source throws.
  void begin_epoch() {
    auto source = std::make_shared<Source>(described_);
    start(*source, at_.epoch);
    source_ = std::move(source);
  }

  /// Moves to the position in `at`. `rest`: the saved state of the source.
  void take_up(state_reader& rest) {
    if (at_.calls() == 0) return;
    if constexpr (has_state<Source>) read_state(*source_, rest);
    else skip_samples(*source_, at_.calls(), at_.failed, stop_, !passes_over_others_);
  }

  /// Whether the last sample can be read again by the number of its call.
  bool can_repeat() const noexcept { return !passes_over_others_; }

  /// The next sample of this rank; nothing if the epoch has ended. If the source doesn't know ranks, it passes
  /// over the samples of the others. Throws what the source throws.
  value next() {
    if (passes_over_others_) [[unlikely]]
      return next_of_rank();
    value own = source_->next();
    at_.given += own.has_value();
    return own;
  }

  /// The identity of that sample.
  sample_id id() const { return passes_over_others_ ? id_ : id_of_last(*source_, at_.given - 1); }

  /// The source in the current epoch; null before the epoch has begun. Workers that read from it may keep it
  /// longer.
  std::shared_ptr<const Source> epoch() const noexcept { return source_; }

  const Source& get() const noexcept { return *source_; }

  /// The state of the source in the current epoch.
  void state(auto& archive)
    requires has_state<Source>
  {
    if (source_) source_->state(archive);
  }

  /// Finds where this rank continues in the next epoch. Call it when no more of this epoch will be read.
  /// `cut_short`: stages can end an epoch early, so the number of other ranks' samples that were read depends
  /// on timing and isn't used.
  void end_epoch(bool cut_short) {
    at_.next_first = options_.rank.number;
    if (!is_endless()) return;
    if constexpr (splits_samples_by_rank<Source>) {
      if (source_) at_.next_first = source_->next_first();
    } else if constexpr (!splits_files_by_rank<Source>) {
      if (!cut_short) at_.next_first = at_.first;
    }
  }

  /// Whether end_epoch() needs the epoch to have begun, even if none of it is wanted.
  bool needs_begun_epoch() const noexcept { return splits_samples_by_rank<Source> && is_endless(); }

  void go_to_next_epoch() noexcept {
    at_ = {at_.epoch + 1, 0, 0, at_.next_first};
    source_.reset();
  }

  /// Whether the epoch that has ended shows that there are no samples at all; the files of a single rank may be
  /// empty.
  bool is_empty() {
    if constexpr (splits_samples_by_rank<Source>) return source_->places() == 0;
    const std::uint32_t least = empty_epochs_of<Source>(options_.rank);
    const std::uint64_t left_out = left_out_in(*source_); // it may be the whole epoch, by chance
    const bool is_filtered = filtered_.sees_end({0, left_out}, at_.given > 0, false, least);
    empty_epochs_ = at_.given == 0 && left_out == 0 ? empty_epochs_ + 1 : 0;
    return is_filtered || empty_epochs_ >= least;
  }

 private:
  static constexpr std::uint64_t no_more = ~std::uint64_t{0};

  void start(Source& source, std::uint64_t number) const {
    auto e = make_epoch(options_, static_cast<std::uint32_t>(number), stop_, at_.first);
    e.outcomes = outcomes_;
    start_source(source, e);
  }

  sample_id id_of_last(const Source& source, std::uint64_t ordinal) const {
    return id_of(source, ordinal, static_cast<std::uint32_t>(at_.epoch));
  }

  // Passes over samples of other ranks, also those that fail.
  value next_of_rank() {
    const rank& r = options_.rank;
    if (at_.first == no_more) return std::nullopt;
    for (; at_.first > 0; --at_.first)
      if (!pass_over()) return wrapped(r.number - std::min<std::uint64_t>(at_.first, r.number));
    at_.first = r.world_size - 1;
    std::exception_ptr error;
    value own = [&]() -> value {
      try {
        return source_->next();
      } catch (...) {
        error = std::current_exception();
        return std::nullopt;
      }
    }();
    if (!own && !error) {
      at_.first = 0; // continues with the next sample there is
      return wrapped(r.number);
    }
    if (own) id_ = id_of_last(*source_, at_.given++);
    if (!is_endless() && r.remainder != remainder::keep) {
      // Checks whether every rank gets a sample.
      at_.first = r.number;
      for (std::uint32_t other = r.number + 1; other < r.world_size; ++other) {
        if (pass_over()) continue;
        if (r.remainder == remainder::drop) return std::nullopt;
        at_.first = no_more;
        break;
      }
    }
    if (error) std::rethrow_exception(error);
    return own;
  }

  // False if there are no more.
  bool pass_over() {
    try {
      if (!source_->next()) return false;
      ++at_.given;
    } catch (...) { // reported by the rank that it belongs to
      if (is_outage(std::current_exception())) throw;
      ++at_.failed;
    }
    return true;
  }

  // Called when the epoch has ended after `ranks` ranks received their next sample.
  value wrapped(std::uint64_t ranks) {
    const rank& r = options_.rank;
    if (ranks == 0 || r.remainder != remainder::wrap || is_endless() || at_.given == 0) return std::nullopt;
    at_.first = no_more;
    Source again(described_);
    start(again, at_.epoch);
    const std::uint64_t number = (r.number - ranks) % at_.given;
    for (std::uint64_t given = 0;;) {
      try {
        value found = again.next();
        if (found) id_ = id_of_last(again, given);
        if (!found || given++ == number) return found;
      } catch (...) { // was reported before
        if (is_outage(std::current_exception())) throw;
      }
    }
  }

  const Source& described_;
  const run_options& options_;
  const std::stop_token& stop_;
  source_place& at_;
  sample_outcomes* const outcomes_;
  const bool passes_over_others_;
  std::shared_ptr<Source> source_; // of this epoch
  sample_id id_;                   // of the last sample, if others are passed over
  std::uint32_t empty_epochs_ = 0; // in a row
  empty_run_watch filtered_;
};

} // namespace feedline::inline FEEDLINE_ABI::detail
