// SPDX-License-Identifier: MIT
#pragma once
// Stages of one segment as nested inlined calls: node → node → … → packer.
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>

#include <feedline/core/failure.hpp>
#include <feedline/core/metrics/thread_counters.hpp>
#include <feedline/core/run/emitter.hpp>
#include <feedline/core/run/node_base.hpp>
#include <feedline/core/run/progress.hpp>
#include <feedline/core/sample.hpp>
#include <feedline/core/snapshot/known_failures.hpp>
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

/// A thread's copy of a stage. Throws pipeline_error if it can't be made.
template <class In, class Stage>
bound_t<Stage, In> started(const void* described, const stage_place& place) {
  const Stage& stage = *static_cast<const Stage*>(described);
  try {
    if constexpr (binds_to<Stage, In>)
      return stage.template bind<In>(
          stage_info{place.random_key(), place.run.stop, place.items_in_flight, place.run.first_epoch});
    else return stage;
  } catch (...) {
    throw_not_started(place);
  }
}

/// Runs one stage: calls it, counts, and catches what it throws. Downstream nodes catch their own exceptions.
///
/// Samples arrive one at a time, or as a row where that costs less than passing on each: the values then go
/// directly into space that the next stage lends.
///
/// `Stage` is the stage as composed. The next node's stage is `Step` further on.
template <class Stage, class In, class Next, std::size_t Step>
class node final : public node_base {
  using running = bound_t<Stage, In>;
  using output = typename running::output;

  static constexpr node_traits Traits{
      .is_stateless = stateless<Stage>,
      .position_from_last_sample = traits_of<Stage>().position_from_last_sample,
      .keeps_over_epochs = feedline::detail::keeps_over_epochs<Stage>,
      .checkpoints_mid_call = traits_of<Stage>().checkpoints_mid_call,
      .can_fail_again =
          stateless<Stage> && traits_of<Stage>().position_from_last_sample && !runs_stages_inside<running>};

  static constexpr bool emits_once = traits_of<Stage>().one_to_one || traits_of<Stage>().unchanged;
  using emitter_type = emitter<output, Next, !Traits.checkpoints_mid_call, Next::is_measured && !emits_once>;

  static_assert(!Traits.is_stateless || !has_state<running>,
                "feedline: `Stage` is declared stateless but has a state: remove one of the two");

 public:
  static constexpr bool is_measured = Next::is_measured;
  static constexpr bool has_room = lends_room<running, In>;
  static constexpr bool takes_rows = has_room || (converts<running, In> && Next::has_room);

  /// Builds the chain in its place: nothing of it is ever moved.
  template <class Sink>
  explicit node(const chain_parts<Sink>& parts)
      : node_base(*parts.places, parts.thread.stages[parts.counter], calls_to<running>, finisher(), Traits),
        next_(parts.behind(Step)),
        stage_(started<In, Stage>(parts.stages->get(), *parts.places)) {
    join(next_.sink(), &stage_);
  }

  // Always inlined: otherwise two pipelines of a program with the same end might share one function.
  [[gnu::always_inline]] flow push(sample<In>&& s) {
    if constexpr (is_measured) {
      ++received_;
      at_.enter(place_.number);
    }
    if constexpr (Traits.can_fail_again)
      if (known_ && known_->take({place_.number, s.id})) [[unlikely]]
        return fail_again(s.id);
    if constexpr (!is_measured) {
      return call_or_push_own(std::move(s));
    } else {
      stage_timing timing(sink().progress().timed_stages);
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
    emitter_type emit(next_, place_, last, at_);
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

  auto& sink() noexcept { return next_.sink(); }

 private:
  [[gnu::always_inline]] flow call_or_push_own(sample<In>&& s) {
    if constexpr (Traits.checkpoints_mid_call) return call(std::move(s));
    else return push_own(std::move(s));
  }

  [[gnu::always_inline]] flow call(sample<In>&& s) {
    // A stage that receives the whole sample may replace it.
    constexpr bool takes_id = takes_sample<running, In> || takes_sample_and_context<running, In>;
    const std::conditional_t<takes_id, sample_id, const sample_id&> id = s.id;
    emitter_type emit(next_, place_, id, at_);
    noted_failure* failed = nullptr; // owned, but a destructor would take time for each item
    try {
      if constexpr (takes_value_and_context<running, In>) {
        context c = make_context(s.id, key_, place_.run.stop, &counters_);
        stage_(std::move(s.value), emit, c);
      } else if constexpr (takes_value<running, In>) {
        stage_(std::move(s.value), emit);
      } else if constexpr (takes_sample<running, In>) {
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
    if constexpr (requires(const running& stage) { stage.at_rest(); }) sink().take_owed_snapshot();
    return emit.flow();
  }

  // No state is saved before the call has returned: only the stage's author knows its state in between.
  flow push_own(sample<In>&& s) {
    if (has_enough_) return flow::enough; // a buffer upstream still emits what it holds
    segment_progress& p = sink().progress();
    ++p.calls;
    const flow wanted = call(std::move(s));
    --p.calls;
    if (wanted == flow::stop) return wanted;
    if (wanted == flow::enough) p.enough = true;
    const flow settled = p.calls == 0 ? sink().settle() : flow::more;
    return settled == flow::more ? wanted : settled;
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
    if constexpr (Traits.can_fail_again)
      if (known_ && !known_->is_empty()) [[unlikely]]
        return push_first(values, ids, taken);
    if constexpr (is_measured) at_.enter(place_.number);
    const std::uint64_t began = is_measured ? now_ns() : 0;
    std::uint64_t ended = began;
    try {
      for (; made < count && (result = wanted()) == flow::more; ++made) {
        if constexpr (is_measured) at_.begin_sample(ids[made].index);
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
    if constexpr (runs_stages_inside<running>) add_relaxed(counters_.failures, emit.failures());
  }

  static constexpr auto finisher() noexcept {
    if constexpr (requires(running& stage, emitter_type& emit) { stage.finish(emit); }) return &finish_stage;
    else return nullptr;
  }

  static flow finish_stage(node_base& base, std::uint32_t epoch) {
    node& self = static_cast<node&>(base);
    const sample_id id{.epoch = epoch};
    if constexpr (is_measured) self.at_.enter(self.place_.number);
    emitter_type emit(self.next_, self.place_, id, self.at_);
    segment_progress& p = self.sink().progress();
    p.calls += !Traits.checkpoints_mid_call;
    failure_ptr failed;
    try {
      self.stage_.finish(emit);
    } catch (...) {
      failed = self.place_.note(id);
    }
    const flow result = failed ? self.caught(std::move(failed)) : emit.flow();
    p.calls -= !Traits.checkpoints_mid_call;
    return result;
  }

  Next next_;
  running stage_;
};

/// The chain of these stages, which ends in a sink. `SkipUnchanged`: without stages that only pass samples on.
template <class In, class Sink, bool SkipUnchanged, class... Stages>
struct chain_of {
  using type = Sink;
  static constexpr std::size_t skipped = 0; // at the beginning
};

template <class In, class Sink, bool SkipUnchanged, class Stage, class... Rest>
struct chain_of<In, Sink, SkipUnchanged, Stage, Rest...> {
  using next = chain_of<stage_output_t<Stage, In>, Sink, SkipUnchanged, Rest...>;
  using type = node<Stage, In, typename next::type, 1 + next::skipped>;
  static constexpr std::size_t skipped = 0;
};

template <class In, class Sink, class Stage, class... Rest>
  requires(traits_of<Stage>().unchanged)
struct chain_of<In, Sink, true, Stage, Rest...> {
  using next = chain_of<In, Sink, true, Rest...>;
  using type = typename next::type;
  static constexpr std::size_t skipped = next::skipped + 1;
};

} // namespace feedline::inline FEEDLINE_ABI::detail
