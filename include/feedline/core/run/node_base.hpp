// SPDX-License-Identifier: MIT
#pragma once
// One stage of a chain, and the chain's end, as far as they don't depend on types.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <feedline/core/failure.hpp>
#include <feedline/core/metrics/thread_counters.hpp>
#include <feedline/core/run/emitter.hpp>
#include <feedline/core/run/progress.hpp>
#include <feedline/core/snapshot/known_failures.hpp>
#include <feedline/core/state.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// What a stage is asked for between its samples. Null: it doesn't have that.
struct stage_calls {
  void (*save)(const void* stage, state_writer& writer) = nullptr;
  void (*load)(void* stage, state_reader& reader) = nullptr;
  bool (*at_rest)(const void* stage) = nullptr; // its state is known only while it is
  bool (*has_enough)(void* stage) = nullptr;
  void (*end_epoch)(void* stage) = nullptr;
  void (*begin_packet)(void* stage, std::uint64_t first_place) = nullptr;
  void (*report)(void* stage, reported_numbers& out) = nullptr;
};

template <class Stage>
consteval stage_calls calls_of() {
  stage_calls calls;
  if constexpr (has_state<Stage>) {
    calls.save = &save_state<Stage>;
    calls.load = [](void* stage, state_reader& reader) { read_state(*static_cast<Stage*>(stage), reader); };
  }
  if constexpr (requires(const Stage& stage) { stage.at_rest(); })
    calls.at_rest = [](const void* stage) -> bool { return static_cast<const Stage*>(stage)->at_rest(); };
  if constexpr (requires(Stage& stage) { stage.has_enough(); })
    calls.has_enough = [](void* stage) -> bool { return static_cast<Stage*>(stage)->has_enough(); };
  if constexpr (requires(Stage& stage) { stage.end_epoch(); })
    calls.end_epoch = [](void* stage) { static_cast<Stage*>(stage)->end_epoch(); };
  if constexpr (requires(Stage& stage, std::uint64_t place) { stage.begin_packet(place); })
    calls.begin_packet = [](void* stage, std::uint64_t place) {
      static_cast<Stage*>(stage)->begin_packet(place);
    };
  if constexpr (requires(Stage& stage, reported_numbers out) { stage.metrics(out); })
    calls.report = [](void* stage, reported_numbers& out) { static_cast<Stage*>(stage)->metrics(out); };
  return calls;
}

template <class Stage>
inline constexpr stage_calls calls_to = calls_of<Stage>();

/// Times a stage's share of the work on one item, if this item is timed, without the time of the stages
/// downstream.
class stage_timing {
 public:
  explicit stage_timing(timed_item& item) noexcept : item_(item) {
    if (item.is_timed) [[unlikely]]
      begin();
  }

  void end(stage_counters& counters) noexcept {
    if (began_ != 0) [[unlikely]]
      note(counters);
  }

 private:
  [[gnu::noinline]] void begin() noexcept {
    downstream_ = std::exchange(item_.downstream_ns, 0);
    began_ = now_ns();
  }

  [[gnu::noinline]] void note(stage_counters& counters) noexcept {
    const std::uint64_t all = now_ns() - began_;
    counters.add_time(all - std::min(all, item_.downstream_ns));
    item_.downstream_ns = downstream_ + all;
  }

  timed_item& item_;
  std::uint64_t began_ = 0;
  std::uint64_t downstream_ = 0; // saved for the previous stage: time of its downstream stages so far, in ns
};

/// The facts that a node needs about its stage.
struct node_traits {
  bool is_stateless;
  bool keeps_over_epochs;    // it may emit samples in a later epoch than it received them
  bool checkpoints_mid_call; // see stage_traits
  bool can_fail_again;       // a sample that failed in the earlier run produced nothing else
};

/// Throws the error being handled, which prevents that a thread gets its copy of the stage.
[[noreturn]] void throw_not_started(const stage_place& place);

/// Stages, their places and their thread, from which a chain is built. `Sink`: what its end is built from.
template <class Sink>
struct chain_parts {
  const std::shared_ptr<const void>* stages;
  const stage_place* places;
  thread_counters& thread;
  std::size_t counter; // of the first stage
  const Sink& sink;

  chain_parts behind(std::size_t count) const noexcept {
    return {stages + count, places + count, thread, counter + count, sink};
  }
};

class node_base;

/// The end of a chain of stages, which knows the chain's nodes.
class chain_end {
 public:
  explicit chain_end(segment_progress& progress) noexcept : progress_(progress) {}

  chain_end(chain_end&&) = delete;

  segment_progress& progress() const noexcept { return progress_; }

  /// A sample was left out because of a failure.
  virtual flow skipped(failure_ptr f) = 0;

  /// Passes a failure on as one thread would throw it: what the stages hold isn't delivered.
  virtual flow fail(failure_ptr f) = 0;

  /// Null: the chain has no stages.
  node_base* first_node() const noexcept { return first_node_; }

  /// Called from the last node to the first.
  void add_first(node_base& n) noexcept;

  /// Called before a worker's packet with the position of its first item in the stream.
  void begin_packet(std::uint64_t first_place);

 protected:
  ~chain_end() = default;

 private:
  segment_progress& progress_;
  node_base* first_node_ = nullptr;
};

/// The part of a node that runs between the samples of a packet, and when a stage fails.
class node_base {
 public:
  /// `finish` lets the stage emit the items that it holds; null: it holds none.
  node_base(const stage_place& place, stage_counters& counters, const stage_calls& calls,
            flow (*finish)(node_base&, std::uint32_t epoch), node_traits traits) noexcept;

  node_base(node_base&&) = delete;

  /// The node downstream; null for the last one.
  node_base* next_node() const noexcept { return next_node_; }

  /// Finite mode drains the stages at the end of an epoch, infinite mode doesn't. Sets `e` for the stages downstream.
  flow end_epoch(epoch_end& e, bool drain);

  /// See stage_place.
  bool is_after_state() const noexcept { return place_.after_state; }

  /// Adds the state of the stage to its segment's.
  void attach();

  /// Restores that state from a checkpoint.
  void load(state_reader& reader, const resumption& from);

  void begin_packet(std::uint64_t first_place) {
    if (calls_.begin_packet) calls_.begin_packet(stage_object_, first_place);
  }

  /// Makes the counts visible to other threads.
  void publish() noexcept;

 protected:
  ~node_base() = default;

  // Called when the node is complete.
  void join(chain_end& end, void* stage) noexcept;

  // Called when the catch clause has ended: the thread that receives the failure is then the exception's only owner. A
  // failure ends the epoch for this stage. The stages downstream decide whether it ends the run: if they had
  // enough of the epoch before it, a run on one thread would never have reached it.
  [[gnu::cold]] flow caught(failure_ptr f);

  // A sample had failed here in the earlier run.
  [[gnu::cold]] flow fail_again(const sample_id& id);

  const stage_place& place_;
  const std::uint64_t key_;
  std::uint64_t received_ = 0;
  stage_counters& counters_;
  work_in_hand& at_;
  known_failures* known_ = nullptr;      // null: none of them is of this stage
  bool received_some_ = false;           // that didn't fail here, in this epoch
  bool has_enough_ = false;              // of this epoch, as the stage declared
  std::uint64_t calls_that_emitted_ = 0; // in this epoch

 private:
  friend class chain_end;

  void publish_held() noexcept;
  bool shows_empty_run(const epoch_end& e) noexcept;

  const stage_calls& calls_;
  flow (*const finish_)(node_base&, std::uint32_t);
  const node_traits traits_;
  bool has_buffers_; // whether its state has buffers, as far as is known
  void* stage_object_ = nullptr;
  chain_end* end_ = nullptr;
  node_base* next_node_ = nullptr;
  std::vector<std::uint64_t> words_; // scratch space of publish_held()
  empty_run_watch empty_run_;
};

} // namespace feedline::inline FEEDLINE_ABI::detail

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_CORE_RUN)
#include <atomic>
#include <exception>
#include <stdexcept>
#include <string>

#include <feedline/core/snapshot/held.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE void throw_not_started(const stage_place& place) {
  throw pipeline_error(current_failure(place.name, {}));
}

FEEDLINE_INLINE void chain_end::add_first(node_base& n) noexcept {
  n.next_node_ = first_node_;
  first_node_ = &n;
}

FEEDLINE_INLINE void chain_end::begin_packet(std::uint64_t first_place) {
  for (node_base* n = first_node_; n; n = n->next_node()) n->begin_packet(first_place);
}

FEEDLINE_INLINE node_base::node_base(const stage_place& place, stage_counters& counters,
                                     const stage_calls& calls, flow (*finish)(node_base&, std::uint32_t),
                                     node_traits traits) noexcept
    : place_(place),
      key_(place.random_key()),
      counters_(counters),
      at_(counters.thread->at),
      calls_(calls),
      finish_(finish),
      traits_(traits),
      has_buffers_(calls.save != nullptr) {
  if (traits.can_fail_again && place.run.known && place.run.known->has_some_of(place.number))
    known_ = place.run.known;
}

FEEDLINE_INLINE void node_base::join(chain_end& end, void* stage) noexcept {
  end_ = &end;
  stage_object_ = stage;
  end.add_first(*this);
}

FEEDLINE_INLINE flow node_base::caught(failure_ptr f) {
  add_relaxed(counters_.failures, 1);
  if (place_.run.skips(*f)) return end_->skipped(std::move(f));
  return end_->fail(std::move(f)) == flow::stop ? flow::stop : flow::enough;
}

FEEDLINE_INLINE flow node_base::fail_again(const sample_id& id) {
  return end_->skipped(note_again(place_.name, id, {place_.number, id}));
}

FEEDLINE_INLINE flow node_base::end_epoch(epoch_end& e, bool drain) {
  const sample_id id{.epoch = e.epoch};
  segment_progress& progress = end_->progress();
  // A run that was resumed at the end of an epoch may have passed this stage already.
  if (place_.number < progress.ending) return flow::more;
  progress.ending = place_.number;
  if (drain && finish_ && finish_(*this, e.epoch) == flow::stop) return flow::stop;
  if (traits_.keeps_over_epochs && !drain && shows_empty_run(e) &&
      end_->fail(note_empty_run(place_.name, place_.filters, id, {place_.number, id})) == flow::stop)
    return flow::stop;
  if (calls_.end_epoch) {
    failure_ptr failed;
    try {
      calls_.end_epoch(stage_object_);
    } catch (...) {
      failed = place_.note(id);
    }
    if (failed && caught(std::move(failed)) == flow::stop) return flow::stop;
  }
  has_enough_ = false;
  if (traits_.keeps_over_epochs) e.samples = std::exchange(calls_that_emitted_, 0);
  return flow::more;
}

FEEDLINE_INLINE bool node_base::shows_empty_run(const epoch_end& e) noexcept {
  const bool some_came = std::exchange(received_some_, false) || end_->progress().is_resumed;
  return empty_run_.sees_end(e, some_came, place_.after_state, place_.run.empty_epochs);
}

FEEDLINE_INLINE void node_base::attach() {
  if (calls_.save || calls_.at_rest)
    end_->progress().add({stage_object_, place_.number, !place_.after_opaque, calls_.at_rest, calls_.save});
  else if (!traits_.is_stateless) end_->progress().cannot_save();
}

FEEDLINE_INLINE void node_base::load(state_reader& reader, const resumption& from) {
  if (calls_.load) {
    read_again* const found = from.samples_of(place_.number);
    reader.begin_stage(from.held(), place_.number, found);
    try {
      calls_.load(stage_object_, reader);
    } catch (const std::exception& error) {
      if (!found || found->why_lost.empty()) throw;
      throw std::runtime_error(std::string(error.what()) +
                               "; the first failure while reading such samples again: " + found->why_lost);
    }
    if (found) found->clear();
    if (reader.loaded_buffers() != from.buffers_of(place_.number))
      throw std::invalid_argument("feedline: the checkpoint holds samples of a buffer that " + place_.name +
                                  " doesn't have: its state must name the same buffers each time");
  }
  if (calls_.has_enough && calls_.has_enough(stage_object_) && may_cut_epoch_short(place_))
    end_->progress().enough = has_enough_ = true;
}

FEEDLINE_INLINE void node_base::publish() noexcept {
  counters_.received.store(received_, std::memory_order_relaxed);
  if (has_buffers_) publish_held();
  if (!calls_.report) return;
  try {
    reported_numbers out{counters_.numbers};
    calls_.report(stage_object_, out);
  } catch (...) { // metrics aren't worth a failure
  }
}

FEEDLINE_INLINE void node_base::publish_held() noexcept {
  try {
    words_.clear();
    state_writer writer(words_);
    calls_.save(stage_object_, writer);
    has_buffers_ = writer.capacity() > 0;
    counters_.held.set(static_cast<double>(writer.held()));
    counters_.capacity.store(writer.capacity(), std::memory_order_relaxed);
  } catch (...) { // metrics aren't worth a failure
  }
}

} // namespace feedline::inline FEEDLINE_ABI::detail
#endif
