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

#include <feedline/core/detail/edge.hpp>
#include <feedline/core/failure.hpp>
#include <feedline/core/options.hpp>
#include <feedline/core/random.hpp>
#include <feedline/core/sample.hpp>

namespace feedline::detail {

/// What is wanted of whoever pushes.
enum class flow : unsigned char {
  more,
  enough, ///< no more of this epoch
  stop,   ///< no more at all
};

using failure_ptr = std::unique_ptr<failure>;

/// What all threads of a run share.
struct run_context {
  std::uint64_t seed;
  feedline::on_error on_error;
  bool drain; // finite mode: stages give what they hold at the end of each epoch
  std::stop_token stop;
  std::atomic<bool> stopped{false};   // as `stop`, but read in one instruction
  std::atomic<bool> attention{false}; // the run was stopped, or some stage wanted no more of an epoch
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

/// What a running stage calls to hand on a value.
template <class Out, class Next>
class emitter {
 public:
  emitter(Next& next, const stage_place& place, const sample_id& id) noexcept
      : next_(next), place_(place), id_(id) {}

  /// Hands on a value that belongs to the sample in hand. False: nobody wants more.
  template <class V>
    requires std::constructible_from<Out, V>
  bool operator()(V&& value) {
    return (*this)(sample<Out>{Out(std::forward<V>(value)), id_});
  }

  /// Hands on a value with an identity of its own.
  bool operator()(sample<Out>&& s) {
    // Whoever calls the stage looks for a stop between items; a stage that makes many of one must look
    // itself.
    if (emitted_ && place_.run.attention.load(std::memory_order_relaxed) &&
        place_.run.stopped.load(std::memory_order_relaxed))
      flow_ = detail::flow::stop;
    emitted_ = true;
    if (flow_ == detail::flow::more) flow_ = next_.push(std::move(s));
    return flow_ == detail::flow::more;
  }

  /// Hands on a failure of the sample in hand that the stage has caught itself, of stages inside it. False:
  /// nobody wants more.
  bool failed(failure_ptr f) {
    auto& progress = next_.progress();
    // If it was one that is needed, that will be noticed.
    if (progress.refills != 0 && progress.refills != progress.for_replay) return true;
    if (flow_ != detail::flow::more) return false;
    emitted_ = true;
    ++failures_;
    if (place_.run.on_error == on_error::skip) {
      flow_ = next_.skipped(std::move(f));
    } else {
      progress.failed = true;
      flow_ = next_.fail(std::move(f)) == detail::flow::stop ? detail::flow::stop : detail::flow::enough;
    }
    return flow_ == detail::flow::more;
  }

  /// How many such there were.
  std::uint64_t failures() const noexcept { return failures_; }

  /// Says that nothing more of this epoch is wanted. Heard where nobody could tell the difference later.
  void enough() noexcept {
    if (flow_ == detail::flow::more && (place_.run.drain || !place_.behind_state))
      flow_ = detail::flow::enough;
  }

  const sample_id& id() const noexcept { return id_; }

  detail::flow flow() const noexcept { return flow_; }

 private:
  Next& next_;
  const stage_place& place_;
  sample_id id_;
  detail::flow flow_ = detail::flow::more;
  bool emitted_ = false;
  std::uint32_t failures_ = 0;
};

/// Asked between two samples of a packet: are they still wanted?
struct watch {
  const run_context& run;
  const edge_base& from;
  std::uint64_t generation;

  flow operator()() const noexcept {
    if (!run.attention.load(std::memory_order_relaxed)) [[likely]]
      return flow::more;
    if (run.stopped.load(std::memory_order_relaxed)) return flow::stop;
    return from.is_abandoned(generation) ? flow::enough : flow::more;
  }
};

} // namespace feedline::detail
