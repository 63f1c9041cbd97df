// SPDX-License-Identifier: MIT
#pragma once
// Reads a run's source for one rank, epoch after epoch.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <feedline/core/epoch.hpp>
#include <feedline/core/metrics/thread_counters.hpp>
#include <feedline/core/plan/rank_share.hpp>
#include <feedline/core/plan/run_options.hpp>
#include <feedline/core/run/emitter.hpp>
#include <feedline/core/run/progress.hpp>
#include <feedline/core/sample.hpp>
#include <feedline/core/source.hpp>
#include <feedline/core/state.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// Reads a source either for the source's thread, which takes one sample after another, or for workers, which take
/// positions of the epoch and read them themselves. No virtual function is called for each sample, unless the run passes over
/// those of other ranks.
class source_reader {
 public:
  /// `at` is the position that it has reached: the reader counts what the source yielded, and the caller counts the failures
  /// that it passes on.
  source_reader(const run_options& options, const run_context& context, rank_division division,
                source_place& at);

  source_reader(source_reader&&) = delete;
  virtual ~source_reader() = default;

  bool is_endless() const noexcept { return options_.epochs == run_options::for_ever; }

  /// Whether the epoch in `at` belongs to the run.
  bool has_epoch() const noexcept {
    return is_endless() || at_.epoch < options_.epochs + std::uint64_t{options_.first_epoch.value_or(0)};
  }

  /// Starts that epoch at its beginning. Throws what the source throws.
  void begin_epoch();

  /// Moves to the position in `at`. `rest`: the saved state of the source.
  virtual void take_up(state_reader& rest) = 0;

  /// Whether the last sample can be read again by the number of its call.
  bool can_repeat() const noexcept { return !passes_over_others_; }

  /// The source in the current epoch; null before the epoch has begun. Workers that read from it may keep it
  /// longer.
  const std::shared_ptr<void>& epoch() const noexcept { return source_; }

  /// Adds the source's state to that of its segment, if it has one.
  virtual void add_state_to(segment_progress& progress) const = 0;

  /// The sample for which the last call failed, as far as the source knows it.
  sample_id failed_sample() const noexcept;

  /// Finds where this rank continues in the next epoch. Call it when no more of this epoch will be read.
  /// `cut_short`: stages can end an epoch early, so the number of other ranks' samples that were read depends
  /// on timing and isn't used.
  void end_epoch(bool cut_short);

  /// Whether end_epoch() needs the epoch to have begun, even if none of it is wanted.
  bool needs_begun_epoch() const noexcept { return division_ == rank_division::by_sample && is_endless(); }

  void go_to_next_epoch() noexcept;

  /// Whether the epoch that has ended shows that there are no samples at all; the files of a single rank may be
  /// empty.
  bool is_empty();

  /// The positions of this rank in the current epoch. Null: the source doesn't divide positions.
  virtual const rank_share* share() const noexcept = 0;

  /// See left_out_in() and filters_in().
  virtual std::uint64_t left_out() const = 0;
  virtual std::string filters() const = 0;

  /// Publishes the metrics of a source that was epoch().
  void publish_numbers(const void* source, stage_counters& counters) const noexcept;

 protected:
  /// A fresh copy of the source, with which an epoch was started.
  virtual std::shared_ptr<void> started(const feedline::epoch& e) const = 0;

  // Reads the next sample, of whatever rank, and keeps it if it is wanted. False if there are no more.
  virtual bool read(bool is_wanted) = 0;

  // The identity of that sample, the epoch's `ordinal`-th.
  virtual sample_id id_of_last(std::uint64_t ordinal) const = 0;

  // The index of the sample for which the last call failed; sample_id::no_index if it is unknown.
  virtual std::uint64_t failed_index() const = 0;

  virtual void report_metrics(const void* source, reported_numbers& out) const = 0;

  // Reads the next sample of this rank, and passes over those of the others, also if they fail. False if the epoch has ended.
  bool read_of_rank();

  const run_options& options_;
  const run_context& context_;
  source_place& at_;
  const rank_division division_;
  const bool passes_over_others_;
  sample_id id_; // of the last sample, if others are passed over

 private:
  static constexpr std::uint64_t no_more =
      ~std::uint64_t{0}; // in source_place::first: nothing follows for this rank

  // False if there are no more.
  bool pass_over();

  // Called when the epoch has ended after `ranks` ranks received their next sample: the others get one from its beginning.
  bool wrap(std::uint64_t ranks);

  std::shared_ptr<void> source_;   // of this epoch
  std::uint32_t empty_epochs_ = 0; // in a row
  empty_run_watch filtered_;
};

/// The reader of a source of one type.
template <source Source>
class source_reader_of final : public source_reader {
 public:
  using item = source_item_t<Source>;

  source_reader_of(const Source& described, const run_options& options, const run_context& context,
                   source_place& at)
      : source_reader(options, context, division_of<Source>(), at), described_(described) {}

  void take_up(state_reader& rest) override {
    if (at_.calls() == 0) return;
    if constexpr (has_state<Source>) read_state(source(), rest);
    else skip_samples(source(), at_.calls(), at_.failed, context_.stop, !passes_over_others_);
  }

  /// The next sample of this rank; nothing if the epoch has ended. If the source doesn't know ranks, it passes
  /// over the samples of the others. Throws what the source throws.
  std::optional<item> next() {
    if (passes_over_others_) [[unlikely]]
      return next_of_rank();
    auto own = source().next();
    at_.given += own.has_value();
    return own;
  }

  /// The identity of that sample.
  sample_id id() const { return passes_over_others_ ? id_ : id_of_last(at_.given - 1); }

  Source& source() const noexcept { return *static_cast<Source*>(epoch().get()); }

  void add_state_to(segment_progress& progress) const override {
    if constexpr (has_state<Source>)
      progress.add({this, 0, true, nullptr, [](const void* reader, state_writer& writer) {
                      const auto& self = *static_cast<const source_reader_of*>(reader);
                      if (self.epoch()) self.source().state(writer);
                    }});
  }

  const rank_share* share() const noexcept override {
    if constexpr (splits_samples_by_rank<Source>) return &source().share();
    else return nullptr;
  }

  std::uint64_t left_out() const override { return left_out_in(source()); }

  std::string filters() const override { return filters_in(source()); }

 private:
  std::shared_ptr<void> started(const feedline::epoch& e) const override {
    auto source = std::make_shared<Source>(described_);
    start_source(*source, e);
    return source;
  }

  std::optional<item> next_of_rank() {
    read_.reset(); // also if the last call threw
    const bool has_own = read_of_rank();
    std::optional<item> own = has_own ? std::move(read_) : std::nullopt;
    read_.reset(); // so that it is destroyed with the item
    return own;
  }

  bool read(bool is_wanted) override {
    auto next = source().next();
    const bool has_value = next.has_value();
    if (is_wanted && next) read_.emplace(*std::move(next));
    return has_value;
  }

  sample_id id_of_last(std::uint64_t ordinal) const override {
    return id_of(source(), ordinal, static_cast<std::uint32_t>(at_.epoch));
  }

  std::uint64_t failed_index() const override {
    if constexpr (splits_samples_by_rank<Source>) return source().index();
    else return sample_id::no_index;
  }

  void report_metrics([[maybe_unused]] const void* source,
                      [[maybe_unused]] reported_numbers& out) const override {
    if constexpr (requires(const Source& s, reported_numbers to) { s.metrics(to); })
      static_cast<const Source*>(source)->metrics(out);
  }

  const Source& described_;
  std::optional<item> read_; // by read()
};

} // namespace feedline::inline FEEDLINE_ABI::detail

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_CORE_RUN)
#include <algorithm>
#include <exception>

#include <feedline/core/failure.hpp>
#include <feedline/core/rank.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE source_reader::source_reader(const run_options& options, const run_context& context,
                                             rank_division division, source_place& at)
    : options_(options),
      context_(context),
      at_(at),
      division_(division_among(options.rank, division)),
      passes_over_others_(division_ == rank_division::by_run && !options.rank.is_alone()) {}

FEEDLINE_INLINE void source_reader::begin_epoch() {
  feedline::epoch e =
      make_epoch(options_, static_cast<std::uint32_t>(at_.epoch), context_.source_stop, at_.first);
  e.outcomes = context_.outcomes;
  source_ = started(e);
}

FEEDLINE_INLINE sample_id source_reader::failed_sample() const noexcept {
  sample_id id{.epoch = static_cast<std::uint32_t>(at_.epoch)};
  try {
    if (source_) id.index = failed_index();
  } catch (...) { // then it is unknown
  }
  return id;
}

FEEDLINE_INLINE void source_reader::end_epoch(bool cut_short) {
  at_.next_first = options_.rank.number;
  if (!is_endless()) return;
  if (division_ == rank_division::by_sample) {
    if (source_) at_.next_first = share()->next_first();
  } else if (division_ != rank_division::by_file && !cut_short) {
    at_.next_first = at_.first;
  }
}

FEEDLINE_INLINE void source_reader::go_to_next_epoch() noexcept {
  at_ = {at_.epoch + 1, 0, 0, at_.next_first};
  source_.reset();
}

FEEDLINE_INLINE bool source_reader::is_empty() {
  if (division_ == rank_division::by_sample) return share()->places == 0;
  const std::uint64_t left_out_now = left_out(); // it may be the whole epoch, by chance
  const std::uint32_t least = context_.empty_epochs;
  const bool is_filtered = filtered_.sees_end({0, left_out_now}, at_.given > 0, false, least);
  empty_epochs_ = at_.given == 0 && left_out_now == 0 ? empty_epochs_ + 1 : 0;
  return is_filtered || empty_epochs_ >= least;
}

FEEDLINE_INLINE void source_reader::publish_numbers(const void* source,
                                                    stage_counters& counters) const noexcept {
  try {
    reported_numbers out{counters.numbers};
    report_metrics(source, out);
  } catch (...) { // metrics aren't worth a failure
  }
}

FEEDLINE_INLINE bool source_reader::read_of_rank() {
  const rank& r = options_.rank;
  if (at_.first == no_more) return false;
  for (; at_.first > 0; --at_.first)
    if (!pass_over()) return wrap(r.number - std::min<std::uint64_t>(at_.first, r.number));
  at_.first = r.world_size - 1;
  std::exception_ptr error;
  bool own = false;
  try {
    own = read(true);
  } catch (...) {
    error = std::current_exception();
  }
  if (!own && !error) {
    at_.first = 0; // continues with the next sample there is
    return wrap(r.number);
  }
  if (own) {
    id_ = id_of_last(at_.given);
    ++at_.given;
  }
  if (!is_endless() && r.remainder != remainder::keep) {
    // Checks whether every rank gets a sample.
    at_.first = r.number;
    for (std::uint32_t other = r.number + 1; other < r.world_size; ++other) {
      if (pass_over()) continue;
      if (r.remainder == remainder::drop && !(error && is_outage(error))) return false;
      at_.first = no_more;
      break;
    }
  }
  if (error) std::rethrow_exception(error);
  return own;
}

FEEDLINE_INLINE bool source_reader::pass_over() {
  try {
    if (!read(false)) return false;
    ++at_.given;
  } catch (...) { // reported by the rank that it belongs to
    if (is_outage(std::current_exception())) throw;
    ++at_.failed;
  }
  return true;
}

FEEDLINE_INLINE bool source_reader::wrap(std::uint64_t ranks) {
  const rank& r = options_.rank;
  if (ranks == 0 || r.remainder != remainder::wrap || is_endless() || at_.given == 0) return false;
  at_.first = no_more;

  // The epoch goes on with the copy that has ended it.
  struct put_back {
    std::shared_ptr<void>& source;
    std::shared_ptr<void> ended = source;

    ~put_back() { source = std::move(ended); }
  } const after{source_};

  begin_epoch();
  const std::uint64_t number = (r.number - ranks) % at_.given;
  for (std::uint64_t given = 0;;) {
    try {
      const bool found = read(true);
      if (found) id_ = id_of_last(given);
      if (!found || given++ == number) return found;
    } catch (...) { // was reported before
      if (is_outage(std::current_exception())) throw;
    }
  }
}

} // namespace feedline::inline FEEDLINE_ABI::detail
#endif
