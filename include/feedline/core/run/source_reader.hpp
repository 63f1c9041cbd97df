// SPDX-License-Identifier: MIT
#pragma once
// The reader of a run's source: epoch after epoch, as one rank sees it.
#include <algorithm>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <stop_token>
#include <utility>

#include <feedline/core/epoch.hpp>
#include <feedline/core/options.hpp>
#include <feedline/core/rank.hpp>
#include <feedline/core/run/progress.hpp>
#include <feedline/core/run/sample_finder.hpp>
#include <feedline/core/snapshot/snapshot.hpp>
#include <feedline/core/source.hpp>

namespace feedline::inline v0::detail {

/// Reads a source for its own thread, which asks for one sample after another, or for workers, which take places of the
/// epoch and read them where they are. `at` is the place that it has come to: next() counts what the source has given,
/// and whoever hands on a failure counts that.
template <source Source>
class source_reader {
  using value = decltype(std::declval<Source&>().next());

 public:
  source_reader(const Source& described, const run_options& options, const std::stop_token& stop,
                source_place& at)
      : described_(described),
        options_(options),
        stop_(stop),
        at_(at),
        passes_over_others_(!shares_itself<Source> && !options.rank.is_alone()) {}

  source_reader(source_reader&&) = delete; // get() is lent

  bool is_endless() const noexcept { return options_.epochs == run_options::for_ever; }

  /// Whether the epoch in `at` is one of the run's.
  bool has_epoch() const noexcept { return is_endless() || at_.epoch < options_.epochs; }

  /// Starts that epoch, at its beginning. Throws what the source throws.
  void begin_epoch() {
    auto source = std::make_shared<Source>(described_);
    start(*source, at_.epoch);
    source_ = std::move(source);
  }

  /// Goes to the place in the epoch that is in `at`. `rest`: what was put down of the source's own state.
  void take_up(state_reader& rest) {
    if (at_.calls() == 0) return;
    if constexpr (has_state<Source>) {
      if (!std::exchange(at_.without_state, false)) return read_state(*source_, rest);
    }
    skip_samples(*source_, at_.calls(), at_.failed, stop_, !passes_over_others_);
  }

  /// Whether the sample that it gave last can be asked for again, by the number of its call.
  bool can_repeat() const noexcept { return !passes_over_others_; }

  /// The next sample that is this rank's: of a source that knows nothing of ranks, those of the others are passed over.
  /// Nothing: the epoch has ended. Throws what the source throws.
  value next() {
    if (passes_over_others_) [[unlikely]]
      return next_of_rank();
    value own = source_->next();
    at_.given += own.has_value();
    return own;
  }

  /// The index of that sample.
  std::uint64_t index() const { return passes_over_others_ ? index_ : index_of(*source_, at_.given - 1); }

  /// The source in the epoch in hand; null before it has begun. Who reads places of it may keep it for longer.
  std::shared_ptr<const Source> epoch() const noexcept { return source_; }

  const Source& get() const noexcept { return *source_; }

  /// The state of the source in the epoch in hand.
  void state(auto& archive)
    requires has_state<Source>
  {
    if (source_) source_->state(archive);
  }

  /// Finds where this rank goes on in the next epoch, once no more of this one will be read. `cut_short`: stages can have
  /// enough of an epoch. How many samples of others it has then seen depends on how soon that was noticed.
  void end_epoch(bool cut_short) {
    at_.next_first = options_.rank.number;
    if (!is_endless()) return;
    if constexpr (shares_places<Source>) {
      if (source_) at_.next_first = source_->next_first();
    } else if constexpr (!shares_files<Source>) {
      if (!cut_short) at_.next_first = at_.first;
    }
  }

  /// Whether end_epoch() must see the epoch begun, also where nothing of it is wanted.
  bool tells_next_first() const noexcept { return shares_places<Source> && is_endless(); }

  void go_to_next_epoch() noexcept {
    at_ = {at_.epoch + 1, 0, 0, at_.next_first};
    source_.reset();
  }

  /// Whether the epoch that has ended shows that there are no samples at all; a rank may well have one of
  /// empty files.
  bool is_empty() {
    if constexpr (shares_places<Source>) return source_->places() == 0;
    empty_epochs_ = at_.given == 0 ? empty_epochs_ + 1 : 0;
    return empty_epochs_ >= empty_epochs_of<Source>(options_.rank);
  }

 private:
  static constexpr std::uint64_t no_more = ~std::uint64_t{0};

  void start(Source& source, std::uint64_t number) const {
    start_source(source, make_epoch(options_, static_cast<std::uint32_t>(number), stop_, at_.first));
  }

  // Passes over samples of other ranks, however they fare.
  value next_of_rank() {
    const rank& r = options_.rank;
    if (at_.first == no_more) return std::nullopt;
    for (; at_.first > 0; --at_.first)
      if (!pass_over()) return wrapped(r.number - std::min<std::uint64_t>(at_.first, r.number));
    at_.first = r.of - 1;
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
      at_.first = 0; // the next one there is
      return wrapped(r.number);
    }
    if (own) index_ = index_of(*source_, at_.given++);
    if (!is_endless() && r.rest != uneven::keep) {
      // Does every rank get one?
      at_.first = r.number;
      for (std::uint32_t other = r.number + 1; other < r.of; ++other) {
        if (pass_over()) continue;
        if (r.rest == uneven::drop) return std::nullopt;
        at_.first = no_more;
        break;
      }
    }
    if (error) std::rethrow_exception(error);
    return own;
  }

  // False: there are no more.
  bool pass_over() {
    try {
      if (!source_->next()) return false;
      ++at_.given;
    } catch (...) { // is told by the rank whose it is
      ++at_.failed;
    }
    return true;
  }

  // The epoch has ended after so many ranks had got their next sample.
  value wrapped(std::uint64_t ranks) {
    const rank& r = options_.rank;
    if (ranks == 0 || r.rest != uneven::wrap || is_endless() || at_.given == 0) return std::nullopt;
    at_.first = no_more;
    Source again(described_);
    start(again, at_.epoch);
    const std::uint64_t number = (r.number - ranks) % at_.given;
    for (std::uint64_t given = 0;;) {
      try {
        value found = again.next();
        index_ = found ? index_of(again, given) : 0;
        if (!found || given++ == number) return found;
      } catch (...) { // was told before
      }
    }
  }

  const Source& described_;
  const run_options& options_;
  const std::stop_token& stop_;
  source_place& at_;
  const bool passes_over_others_;
  std::shared_ptr<Source> source_; // of this epoch
  std::uint64_t index_ = 0;        // of the sample given last, if others are passed over
  std::uint32_t empty_epochs_ = 0;
};

} // namespace feedline::inline v0::detail
