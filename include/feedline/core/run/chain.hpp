// SPDX-License-Identifier: MIT
#pragma once
// Stages of one segment as nested inlined calls: node → node → … → packer.
#include <algorithm>
#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <feedline/core/failure.hpp>
#include <feedline/core/metrics/thread_counters.hpp>
#include <feedline/core/run/emitter.hpp>
#include <feedline/core/run/progress.hpp>
#include <feedline/core/sample.hpp>
#include <feedline/core/snapshot/held.hpp>
#include <feedline/core/snapshot/known_failures.hpp>
#include <feedline/core/source.hpp>
#include <feedline/core/stage.hpp>
#include <feedline/core/state.hpp>
#include <feedline/core/transport/packet.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// A running stage of the library that accepts rows of samples: it makes one value from each, as map does, …
template <class Stage, class In>
concept converts = requires(Stage& stage, In&& in, context& c) {
  typename Stage::feedline_rows;
  { stage.convert(std::move(in), c) } -> std::same_as<typename Stage::output>;
};

/// … or lends the space for its next values, so that the producer writes them directly into it.
template <class Stage, class In>
concept lends_room = requires(Stage& stage) {
  typename Stage::feedline_rows;
  { stage.room() } -> std::same_as<std::span<In>>;
};

/// A stage that runs others inside it and passes on their failures.
template <class Stage>
concept runs_stages_inside = requires { typename Stage::feedline_runs_stages; };

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
  bool position_from_last_sample; // see stage_traits
  bool keeps_over_epochs;         // it may emit samples in a later epoch than it received them
  bool checkpoints_mid_call;      // see stage_traits
};

/// Runs one stage: calls it, counts, and catches what it throws. Downstream nodes catch their own exceptions.
///
/// Samples arrive one at a time, or as a row where that costs less than passing on each: the values then go
/// directly into space that the next stage lends.
template <class Stage, class In, class Next, node_traits Traits>
class node {
  using output = typename Stage::output;
  using emitter_type = emitter<output, Next, !Traits.checkpoints_mid_call>;

  // A sample that failed here in the earlier run need not be tried again, as it produced nothing else.
  static constexpr bool can_fail_again =
      Traits.is_stateless && Traits.position_from_last_sample && !runs_stages_inside<Stage>;

  static_assert(!Traits.is_stateless || !has_state<Stage>,
                "feedline: `Stage` is declared stateless but has a state: remove one of the two");

  // Its state is known only while it is at rest.
  static constexpr bool has_rest = requires(const Stage& s) { s.at_rest(); };

 public:
  static constexpr bool is_measured = Next::is_measured;
  static constexpr bool has_room = lends_room<Stage, In>;
  static constexpr bool takes_rows = has_room || (converts<Stage, In> && Next::has_room);

  node(Stage&& stage, const stage_place& place, stage_counters& counters, Next&& next)
      : next_(std::move(next)),
        stage_(std::move(stage)),
        place_(place),
        key_(place.random_key()),
        counters_(counters) {
    if (can_fail_again && place.run.known && place.run.known->has_some_of(place.number))
      known_ = place.run.known;
  }

  // Always inlined: otherwise two pipelines of a program with the same end might share one function.
  [[gnu::always_inline]] flow push(sample<In>&& s) {
    if constexpr (is_measured) ++received_;
    if constexpr (can_fail_again)
      if (known_ && known_->take({place_.number, s.id})) [[unlikely]]
        return next_.skipped(place_.note_again(s.id));
    if constexpr (!is_measured) {
      return call_or_push_own(std::move(s));
    } else {
      stage_timing timing(progress().timed_stages);
      const flow wanted = call_or_push_own(std::move(s));
      timing.end(counters_);
      return wanted;
    }
  }

  /// Pushes a row of samples; updates `taken` before it passes them on.
  flow push_row(std::span<In> values, id_row ids, const watch& wanted, std::size_t& taken)
    requires takes_rows
  {
    while (!values.empty()) {
      if (const flow result = wanted(); result != flow::more) return result;
      const std::size_t before = taken;
      flow result = flow::more;
      if constexpr (has_room) result = move_row(values, ids, taken);
      else result = convert_row(values, ids, wanted, taken);
      if (result != flow::more) return result;
      values = values.subspan(taken - before);
      ids = ids.from(taken - before);
    }
    return flow::more;
  }

  /// Lends space for values, which exist once they are committed. Lends none if it can't be allocated: a push
  /// then reports why.
  flow room(std::span<In>& lent)
    requires has_room
  {
    try {
      lent = stage_.room();
    } catch (...) {
      lent = {};
    }
    return flow::more;
  }

  flow commit(std::size_t count, const id_row& ids)
    requires has_room
  {
    if (count == 0) return flow::more;
    if constexpr (Traits.keeps_over_epochs) received_some_ = true;
    received_ += is_measured ? count : 0;
    const sample_id last = ids[count - 1];
    emitter_type emit(next_, place_, last);
    failure_ptr failed;
    try {
      stage_.commit(count, ids, emit);
    } catch (...) {
      failed = place_.note(emit.id());
    }
    if (failed) [[unlikely]]
      return caught(std::move(failed));
    if constexpr (Traits.keeps_over_epochs) calls_that_emitted_ += emit.emitted_some();
    return emit.flow();
  }

  flow skipped(failure_ptr f) { return next_.skipped(std::move(f)); }

  /// Finite mode drains the stages at the end of an epoch, infinite mode doesn't.
  flow end_epoch(const epoch_end& e, bool drain) {
    const std::uint32_t epoch = e.epoch;
    // A run that was resumed at the end of an epoch may have passed this stage already.
    if (place_.number < progress().ending) return next_.end_epoch(e, drain);
    progress().ending = place_.number;
    if (drain && finish(epoch) == flow::stop) return flow::stop;
    if constexpr (Traits.keeps_over_epochs)
      if (!drain && shows_empty_run(e) && fail_as_empty(epoch) == flow::stop) return flow::stop;
    if constexpr (requires { stage_.end_epoch(); }) {
      failure_ptr failed;
      try {
        stage_.end_epoch();
      } catch (...) {
        failed = place_.note({.epoch = epoch});
      }
      if (failed && caught(std::move(failed)) == flow::stop) return flow::stop;
    }
    has_enough_ = false;
    if constexpr (Traits.keeps_over_epochs)
      return next_.end_epoch({epoch, std::exchange(calls_that_emitted_, 0)}, drain);
    else return next_.end_epoch(e, drain);
  }

  /// Passes a failure on as one thread would throw it: what the stage holds isn't delivered.
  flow fail(failure_ptr f) { return next_.fail(std::move(f)); }

  auto& sink() noexcept { return next_.sink(); }

  /// See stage_place.
  bool is_after_state() const noexcept { return place_.after_state; }

  segment_progress& progress() noexcept { return next_.progress(); }

  /// Adds the states of the stages to their segment's. Call it when the chain has its final address.
  void attach() {
    constexpr bool has_parts = has_state<Stage> || has_rest;
    if constexpr (has_parts) progress().add(stage_, place_.number, !place_.after_opaque);
    else if constexpr (!Traits.is_stateless) progress().cannot_save();
    next_.attach();
  }

  /// Restores the states of the stages from a checkpoint, in the order of attach().
  void load(state_reader& reader, const resumption& from) {
    if constexpr (has_state<Stage>) {
      read_again* const found = from.samples_of(place_.number);
      reader.begin_stage(from.held(), place_.number, found);
      try {
        read_state(stage_, reader);
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
    if constexpr (requires { stage_.has_enough(); })
      if (stage_.has_enough() && may_cut_epoch_short(place_)) progress().enough = has_enough_ = true;
    next_.load(reader, from);
  }

  /// Called before a worker's packet with the position of its first item in the stream.
  void begin_packet(std::uint64_t first_place) {
    if constexpr (requires { stage_.begin_packet(first_place); }) stage_.begin_packet(first_place);
    next_.begin_packet(first_place);
  }

  /// Makes the counts visible to other threads.
  void publish() noexcept {
    counters_.received.store(received_, std::memory_order_relaxed);
    if constexpr (is_measured && has_state<Stage>)
      if (has_buffers_) publish_held();
    if constexpr (is_measured && requires(reported_numbers out) { stage_.metrics(out); }) {
      try {
        reported_numbers out{counters_.numbers};
        stage_.metrics(out);
      } catch (...) { // metrics aren't worth a failure
      }
    }
    next_.publish();
  }

 private:
  [[gnu::always_inline]] flow call_or_push_own(sample<In>&& s) {
    if constexpr (Traits.checkpoints_mid_call) return call(std::move(s));
    else return push_own(std::move(s));
  }

  [[gnu::always_inline]] flow call(sample<In>&& s) {
    // A stage that receives the whole sample may replace it.
    constexpr bool takes_id = takes_sample<Stage, In> || takes_sample_and_context<Stage, In>;
    const std::conditional_t<takes_id, sample_id, const sample_id&> id = s.id;
    emitter_type emit(next_, place_, id);
    noted_failure* failed = nullptr; // owned, but a destructor would take time for each item
    try {
      if constexpr (takes_value_and_context<Stage, In>) {
        context c = make_context(s.id, key_, place_.run.stop, &counters_);
        stage_(std::move(s.value), emit, c);
      } else if constexpr (takes_value<Stage, In>) {
        stage_(std::move(s.value), emit);
      } else if constexpr (takes_sample<Stage, In>) {
        stage_(std::move(s), emit);
      } else {
        context c = make_context(s.id, key_, place_.run.stop, &counters_);
        stage_(std::move(s), emit, c);
      }
    } catch (...) {
      failed = place_.note(emit.id()).release();
    }
    if (failed) [[unlikely]]
      return caught(failure_ptr(failed));
    count_failures_inside(emit);
    if constexpr (Traits.keeps_over_epochs) {
      received_some_ = true;
      calls_that_emitted_ += emit.emitted_some();
    }
    if constexpr (!Traits.checkpoints_mid_call) has_enough_ |= emit.said_enough();
    if constexpr (has_rest) sink().take_owed_snapshot();
    return emit.flow();
  }

  void publish_held() noexcept {
    try {
      words_.clear();
      state_writer writer(words_);
      stage_.state(writer);
      has_buffers_ = writer.capacity() > 0;
      counters_.held.store(writer.held(), std::memory_order_relaxed);
      counters_.capacity.store(writer.capacity(), std::memory_order_relaxed);
    } catch (...) { // metrics aren't worth a failure
    }
  }

  // No state is saved before the call has returned: only the stage's author knows its state in between.
  flow push_own(sample<In>&& s) {
    if (has_enough_) return flow::enough; // a buffer upstream still emits what it holds
    segment_progress& p = progress();
    ++p.calls;
    const flow wanted = call(std::move(s));
    --p.calls;
    if (wanted == flow::stop) return wanted;
    if (wanted == flow::enough) p.enough = true;
    const flow settled = p.calls == 0 ? sink().settle() : flow::more;
    return settled == flow::more ? wanted : settled;
  }

  bool shows_empty_run(const epoch_end& e) noexcept {
    const bool some_came = std::exchange(received_some_, false) || progress().is_resumed;
    return empty_run_.sees_end(e, some_came, place_.after_state, place_.run.empty_epochs);
  }

  [[gnu::noinline, gnu::cold]] flow fail_as_empty(std::uint32_t epoch) {
    const sample_id id{.epoch = epoch};
    return fail(note_empty_run(place_.name, place_.filters, id, {place_.number, id}));
  }

  flow push_first(std::span<In> values, const id_row& ids, std::size_t& taken) {
    ++taken;
    return push(sample<In>{std::move(values.front()), ids[0]});
  }

  // Moves as many of the values as fit into this stage's space.
  flow move_row(std::span<In> values, const id_row& ids, std::size_t& taken) {
    std::span<In> target;
    if (const flow result = room(target); result != flow::more) return result;
    if (target.empty()) return push_first(values, ids, taken);
    const std::size_t count = std::min(values.size(), target.size());
    std::uninitialized_move_n(values.begin(), count, target.begin());
    taken += count;
    return commit(count, ids);
  }

  // Converts as many values as the next stage has space for, up to the first failure.
  flow convert_row(std::span<In> values, const id_row& ids, const watch& wanted, std::size_t& taken) {
    std::span<output> target;
    if (const flow result = next_.room(target); result != flow::more) return result;
    if (target.empty()) return push_first(values, ids, taken);
    const std::size_t count = std::min(values.size(), target.size());
    std::size_t made = 0;
    flow result = flow::more;
    failure_ptr failed;
    if constexpr (can_fail_again)
      if (known_ && !known_->is_empty()) [[unlikely]]
        return push_first(values, ids, taken);
    const std::uint64_t began = is_measured ? now_ns() : 0;
    std::uint64_t ended = began;
    try {
      for (; made < count && (result = wanted()) == flow::more; ++made) {
        context c = make_context(ids[made], key_, place_.run.stop, &counters_);
        std::construct_at(&target[made], stage_.convert(std::move(values[made]), c));
      }
      if constexpr (is_measured) ended = now_ns();
    } catch (...) {
      failed = place_.note(ids[made]);
      if constexpr (is_measured) ended = now_ns();
    }
    taken += made;
    const flow committed = next_.commit(made, ids);
    const std::size_t used = made + (failed ? 1 : 0);
    taken += used - made;
    if (committed != flow::more) result = committed;
    else if (failed) result = caught(std::move(failed));
    if (is_measured && used > 0) {
      received_ += used;
      counters_.add_time((ended - began) / used);
    }
    return result;
  }

  // Counts the failures that a stage passed on from the stages inside it.
  void count_failures_inside(const emitter_type& emit) noexcept {
    if constexpr (runs_stages_inside<Stage>) add_relaxed(counters_.failures, emit.failures());
  }

  // Called when the catch clause has ended: the thread that receives the failure is then the exception's only owner. A
  // failure ends the epoch for this stage. The stages downstream decide whether it ends the run: if they had
  // enough of the epoch before it, a run on one thread would never have reached it.
  [[gnu::noinline, gnu::cold]] flow caught(failure_ptr f) {
    add_relaxed(counters_.failures, 1);
    if (place_.run.skips(*f)) return next_.skipped(std::move(f));
    return next_.fail(std::move(f)) == flow::stop ? flow::stop : flow::enough;
  }

  flow finish(std::uint32_t epoch) {
    const sample_id id{.epoch = epoch};
    emitter_type emit(next_, place_, id);
    if constexpr (requires { stage_.finish(emit); }) {
      progress().calls += !Traits.checkpoints_mid_call;
      failure_ptr failed;
      try {
        stage_.finish(emit);
      } catch (...) {
        failed = place_.note(id);
      }
      const flow result = failed ? caught(std::move(failed)) : emit.flow();
      progress().calls -= !Traits.checkpoints_mid_call;
      return result;
    }
    return emit.flow();
  }

  [[no_unique_address]] Next next_;
  [[no_unique_address]] Stage stage_;
  const stage_place& place_;
  std::uint64_t key_;
  std::uint64_t received_ = 0;
  stage_counters& counters_;
  known_failures* known_ = nullptr;      // null: none of them is of this stage
  bool received_some_ = false;           // that didn't fail here, in this epoch
  std::uint64_t calls_that_emitted_ = 0; // likewise
  bool has_enough_ = false;              // of this epoch, as the stage declared
  bool has_buffers_ = true;              // whether its state has buffers, as far as is known
  std::vector<std::uint64_t> words_;     // scratch space of publish_held()
  empty_run_watch empty_run_;
};

} // namespace feedline::inline FEEDLINE_ABI::detail
