// SPDX-License-Identifier: MIT
#pragma once
// The context that the stages of a run share, and the emitter that passes on a stage's output.
#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>

#include <feedline/core/epoch.hpp>
#include <feedline/core/failure.hpp>
#include <feedline/core/metrics/thread_counters.hpp>
#include <feedline/core/random.hpp>
#include <feedline/core/sample.hpp>
#include <feedline/core/slot.hpp>
#include <feedline/core/snapshot/known_failures.hpp>
#include <feedline/core/transport/channel.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// What a receiver wants from the caller that pushes.
enum class flow : unsigned char {
  more,
  enough, ///< no more of this epoch
  stop,   ///< no more at all
};

class cpu_budget;

/// The data that all threads of a run share.
struct run_context {
  std::uint64_t seed;
  feedline::on_error on_error;
  bool drain; // finite mode: stages emit what they hold at the end of each epoch
  std::stop_token stop;
  std::atomic<bool> stopped{false};    // as `stop`, but cheaper to read
  std::atomic<bool> attention{false};  // the run was stopped, or some stage wanted no more of an epoch
  bool may_end_epochs = false;         // some stage can end an epoch early in infinite mode
  bool may_have_enough = false;        // some stage can end an epoch early in this run
  bool counts_ranks = false;           // a rank's share of an epoch depends on the size of the previous one
  std::uint32_t first_epoch = 0;       // number
  std::uint32_t empty_epochs = 1;      // this many in a row show that the source never yields a sample
  known_failures* known = nullptr;     // failures of the earlier run
  sample_outcomes* outcomes = nullptr; // of a live source
  cpu_budget* budget = nullptr;        // null: no limit
  std::stop_token source_stop{};       // of the source: it is requested with `stop`, or earlier by a close

  /// Whether a failure leaves out the sample, instead of ending the stream.
  bool skips(const noted_failure& f) const noexcept {
    return (known && known->take(f.call)) || (on_error == feedline::on_error::skip && !f.is_outage);
  }
};

/// The end of an epoch. `samples`: how many the source yielded; downstream of stages that keep some for a later
/// epoch, a lower bound of how many calls of the last such stage emitted some.
struct epoch_end {
  std::uint32_t epoch;
  std::uint64_t samples;
};

/// Detects, at one stage of an infinite run, that no sample will ever arrive, as opposed to samples that are
/// rarely let through.
class empty_run_watch {
 public:
  /// `some_came`: samples arrived in the epoch that ends. `keeps`: a stage upstream keeps samples for a later
  /// epoch, so that an epoch in which it emitted none proves nothing. True if nothing will ever arrive.
  bool sees_end(const epoch_end& e, bool some_came, bool keeps, std::uint32_t least_epochs) noexcept {
    if (keeps && !some_came && e.samples == 0) return false;
    epochs_ = some_came ? 0 : epochs_ + 1;
    samples_ = some_came ? 0 : samples_ + e.samples;
    return epochs_ >= least_epochs && (epochs_ >= 100 || (epochs_ >= 3 && samples_ >= 10'000));
  }

 private:
  std::uint32_t epochs_ = 0; // in a row without a sample here
  std::uint64_t samples_ = 0;
};

/// A stage's position in its run.
struct stage_place {
  const run_context& run;
  std::string name;   // for messages
  std::size_t number; // counted over the whole pipeline: part of the key of its random decisions
  // Some stage upstream carries state from one epoch to the next in infinite mode, so that leaving out samples
  // there would change later ones.
  bool after_state;
  bool after_opaque = false;       // see stage_facts
  std::size_t items_in_flight = 1; // see stage_info
  std::string filters{};           // names of the stages upstream that may leave out samples
  std::size_t of_source = 0;       // stages upstream that belong to the source
  bool of_parts = false;           // some stage upstream may make several items of a sample

  std::uint64_t random_key() const noexcept { return key(run.seed, number - of_source); }

  part_names parts() const noexcept { return {number - of_source, of_parts}; }

  /// The error being handled, as a failure of the stage.
  [[gnu::noinline, gnu::cold]] failure_ptr note(const sample_id& id) const {
    return note_failure(name, id, {number, id});
  }
};

/// Whether a stage there may end an epoch early, as that makes no difference later.
inline bool may_cut_epoch_short(const stage_place& place) noexcept {
  return place.run.drain || (!place.after_state && (!place.run.counts_ranks || place.run.may_end_epochs));
}

/// A running stage calls it to emit a value. `OfUser`: the stage is a user's, which may make several values
/// from one sample, and each becomes a part of it; the library's stages name the parts themselves. `Again`: it may go on
/// after it has emitted a value.
template <class Out, class Next, bool OfUser, bool Again>
class emitter {
 public:
  static constexpr bool takes_slots = is_large_item<Out>;

  /// `id` is that of the current sample; it must outlive the emitter and stay unchanged. `at`: of the thread.
  emitter(Next& next, const stage_place& place, const sample_id& id, work_in_hand& at) noexcept
      : next_(next), place_(place), id_(id), at_(at) {}

  emitter(Next&, const stage_place&, sample_id&&, work_in_hand&) = delete;

  /// Emits a value that belongs to the current sample; a second one is another part of it. False if no more is
  /// wanted.
  template <class V>
    requires std::constructible_from<Out, V>
  [[gnu::always_inline]] bool operator()(V&& value) {
    return pass_on(
        sample<Out>{Out(std::forward<V>(value)), OfUser ? place_.parts().part_of(id_, given_) : id_});
  }

  /// Emits a value with its own identity.
  [[gnu::always_inline]] bool operator()(sample<Out>&& s) {
    at_.begin_sample(s.id.index);
    return pass_on(std::move(s));
  }

  /// The same for a large value.
  bool operator()(sample<slot<Out>>&& s)
    requires is_large_item<Out>
  {
    at_.begin_sample(s.id.index);
    return pass_on(std::move(s));
  }

  /// Passes on a failure of the current sample that the stage caught from stages inside it. False if no more is
  /// wanted.
  bool failed(failure_ptr f) {
    if (flow_ != detail::flow::more) return false;
    ++failures_;
    f->call = {place_.number, id_};
    if (place_.run.skips(*f)) flow_ = next_.sink().skipped(std::move(f));
    else
      flow_ =
          next_.sink().fail(std::move(f)) == detail::flow::stop ? detail::flow::stop : detail::flow::enough;
    return flow_ == detail::flow::more;
  }

  /// How many failures it passed on.
  std::uint64_t failures() const noexcept { return failures_; }

  /// Passes on at once what was emitted so far, to be called before a long wait.
  void hand_over() {
    if (flow_ == detail::flow::more) flow_ = next_.sink().hand_over_in_call();
  }

  /// Declares that no more of this epoch is wanted. It has an effect only where that makes no difference later.
  void enough() noexcept {
    if (flow_ != detail::flow::more || !may_cut_epoch_short(place_)) return;
    flow_ = detail::flow::enough;
    said_enough_ = true;
  }

  /// Whether enough() was called and had an effect.
  bool said_enough() const noexcept { return said_enough_; }

  /// Whether the stage has emitted anything in this call.
  bool emitted_some() const noexcept { return given_ > 0; }

  const sample_id& id() const noexcept { return id_; }

  detail::flow flow() const noexcept { return flow_; }

 private:
  template <class Sample>
  [[gnu::always_inline]] bool pass_on(Sample&& s) {
    // The stage's caller checks for a stop between items; a stage that makes many values from one item needs
    // this check.
    if (given_ > 0 && place_.run.attention.load(std::memory_order_relaxed) &&
        place_.run.stopped.load(std::memory_order_relaxed))
      flow_ = detail::flow::stop;
    ++given_;
    if (flow_ == detail::flow::more) flow_ = next_.push(std::forward<Sample>(s));
    if constexpr (Again) at_.enter(place_.number);
    return flow_ == detail::flow::more;
  }

  Next& next_;
  const stage_place& place_;
  const sample_id& id_;
  work_in_hand& at_;
  detail::flow flow_ = detail::flow::more;
  std::uint64_t given_ = 0; // values
  std::uint32_t failures_ = 0;
  bool said_enough_ = false;
};

/// Checks between two samples of a packet whether more are wanted.
struct watch {
  const run_context& run;
  const channel_base& from;
  std::uint64_t generation;

  flow operator()() const noexcept {
    if (!run.attention.load(std::memory_order_relaxed)) [[likely]]
      return flow::more;
    if (run.stopped.load(std::memory_order_relaxed)) return flow::stop;
    return from.is_abandoned(generation) ? flow::enough : flow::more;
  }
};

} // namespace feedline::inline FEEDLINE_ABI::detail
