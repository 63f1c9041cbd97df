// SPDX-License-Identifier: MIT
#pragma once
// What the stages of a run share, and how a stage hands on what it makes.
#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>

#include <feedline/core/failure.hpp>
#include <feedline/core/options.hpp>
#include <feedline/core/random.hpp>
#include <feedline/core/sample.hpp>
#include <feedline/core/snapshot/known_failures.hpp>
#include <feedline/core/transport/channel.hpp>

namespace feedline::inline v0::detail {

/// What is wanted of whoever pushes.
enum class flow : unsigned char {
  more,
  enough, ///< no more of this epoch
  stop,   ///< no more at all
};

/// What all threads of a run share.
struct run_context {
  std::uint64_t seed;
  feedline::on_error on_error;
  bool drain; // finite mode: stages give what they hold at the end of each epoch
  std::stop_token stop;
  std::atomic<bool> stopped{false};   // as `stop`, but read in one instruction
  std::atomic<bool> attention{false}; // the run was stopped, or some stage wanted no more of an epoch
  std::uint64_t failure_limit = ~std::uint64_t{0};
  bool may_end_epochs = false;    // some stage says that it can have enough of an epoch
  bool may_have_enough = false;   // the same, wherever it would be heard: see hears_enough
  bool counts_ranks = false;      // a rank's share of an epoch depends on how many samples the one before had
  std::uint32_t empty_epochs = 1; // so many in a row show that the source will never give a sample
  known_failures* known = nullptr; // of the run that is resumed

  /// Whether what that call threw leaves the sample out, rather than end the stream.
  bool skips(const failed_call& call) const noexcept {
    return (known && known->take(call)) || on_error == feedline::on_error::skip;
  }

  /// Whether there is a limit that ends a run in which everything fails.
  bool limits_failures() const noexcept { return failure_limit != ~std::uint64_t{0}; }
};

/// The end of an epoch of which so many samples came from the source or, downstream of stages that keep some for a later
/// epoch, at least so many calls of the last of those gave some.
struct epoch_end {
  std::uint32_t epoch;
  std::uint64_t samples;
};

/// Tells, at some place of an infinite run, a wait for samples that are rarely let through from one for ever.
class empty_run_watch {
 public:
  /// `some_came`: in the epoch that ends. `keeps`: some stage upstream keeps samples for a
  /// later epoch, so that an epoch in which it gave none shows nothing. True: nothing will ever come.
  bool sees_end(const epoch_end& e, bool some_came, bool keeps, std::uint32_t least_epochs) noexcept {
    if (keeps && !some_came && e.samples == 0) return false;
    epochs_ = some_came ? 0 : epochs_ + 1;
    samples_ = some_came ? 0 : samples_ + e.samples;
    return epochs_ >= least_epochs && (epochs_ >= 100 || (epochs_ >= 3 && samples_ >= 10'000));
  }

 private:
  std::uint32_t epochs_ = 0; // in a row of which nothing came here
  std::uint64_t samples_ = 0;
};

/// A stage's place in its run.
struct stage_place {
  const run_context& run;
  std::string name;   // for messages
  std::size_t number; // counted over the whole pipeline: part of the key of its random decisions
  // Some stage before it takes state from one epoch to the next in infinite mode, so that leaving out samples
  // there would change what comes later.
  bool behind_state;
  // Some stage before it makes of samples what can't be made again of one of them alone.
  bool behind_opaque;
  std::size_t items_behind = 1; // see stage_info

  std::uint64_t random_key() const noexcept { return key(run.seed, number); }
};

/// Whether a stage there can end an epoch: nobody could tell the difference later.
inline bool hears_enough(const stage_place& place) noexcept {
  return place.run.drain || (!place.behind_state && (!place.run.counts_ranks || place.run.may_end_epochs));
}

/// What a running stage calls to hand on a value. `OfUser`: the stage is a user's own, and may make several of one
/// sample, each of which then is a part of it; the library's that do so name the parts themselves.
template <class Out, class Next, bool OfUser>
class emitter {
 public:
  /// `id`, of the sample in hand, must stay as it is.
  emitter(Next& next, const stage_place& place, const sample_id& id) noexcept
      : next_(next), place_(place), id_(id) {}

  emitter(Next&, const stage_place&, sample_id&&) = delete;

  /// Hands on a value that belongs to the sample in hand; a second one is another part of it. False: nobody wants
  /// more.
  template <class V>
    requires std::constructible_from<Out, V>
  [[gnu::always_inline]] bool operator()(V&& value) {
    const bool is_part = OfUser && given_ > 0;
    return (*this)(sample<Out>{Out(std::forward<V>(value)), is_part ? part_of(id_, given_) : id_});
  }

  /// Hands on a value with an identity of its own.
  [[gnu::always_inline]] bool operator()(sample<Out>&& s) {
    // Whoever calls the stage looks for a stop between items; a stage that makes many of one must look
    // itself.
    if (given_ > 0 && place_.run.attention.load(std::memory_order_relaxed) &&
        place_.run.stopped.load(std::memory_order_relaxed))
      flow_ = detail::flow::stop;
    ++given_;
    if (flow_ == detail::flow::more) flow_ = next_.push(std::move(s));
    return flow_ == detail::flow::more;
  }

  /// Hands on a failure of the sample in hand that the stage has caught itself, of stages inside it. False:
  /// nobody wants more.
  bool failed(failure_ptr f) {
    auto& progress = next_.progress();
    if (flow_ != detail::flow::more) return false;
    ++failures_;
    f->call = {place_.number, id_};
    if (place_.run.skips(f->call) && progress.skip_one(place_.run.failure_limit)) {
      flow_ = next_.skipped(std::move(f));
    } else {
      f->over_limit = place_.run.on_error == on_error::skip;
      next_.sink().begin_failure(place_.number, false, *f);
      flow_ = next_.fail(std::move(f)) == detail::flow::stop ? detail::flow::stop : detail::flow::enough;
    }
    return flow_ == detail::flow::more;
  }

  /// How many such there were.
  std::uint64_t failures() const noexcept { return failures_; }

  /// Says that nothing more of this epoch is wanted. Heard where nobody could tell the difference later.
  void enough() noexcept {
    if (flow_ != detail::flow::more || !hears_enough(place_)) return;
    flow_ = detail::flow::enough;
    said_enough_ = true;
  }

  /// Whether that was said and heard.
  bool said_enough() const noexcept { return said_enough_; }

  /// Whether the stage has handed on something in this call.
  bool gave_some() const noexcept { return given_ > 0; }

  const sample_id& id() const noexcept { return id_; }

  detail::flow flow() const noexcept { return flow_; }

 private:
  Next& next_;
  const stage_place& place_;
  const sample_id& id_;
  detail::flow flow_ = detail::flow::more;
  std::uint64_t given_ = 0; // values
  std::uint32_t failures_ = 0;
  bool said_enough_ = false;
};

/// Asked between two samples of a packet: are they still wanted?
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

} // namespace feedline::inline v0::detail
