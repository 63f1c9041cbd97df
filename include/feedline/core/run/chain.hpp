// SPDX-License-Identifier: MIT
#pragma once
// Stages of one segment as nested inlined calls: node → node → … → packer.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>

#include <feedline/core/failure.hpp>
#include <feedline/core/item_bytes.hpp>
#include <feedline/core/metrics/thread_counters.hpp>
#include <feedline/core/run/emitter.hpp>
#include <feedline/core/run/node_base.hpp>
#include <feedline/core/run/progress.hpp>
#include <feedline/core/run/row.hpp>
#include <feedline/core/sample.hpp>
#include <feedline/core/slot.hpp>
#include <feedline/core/snapshot/known_failures.hpp>
#include <feedline/core/stage.hpp>
#include <feedline/core/state.hpp>
#include <feedline/core/transport/packet.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// A stage that runs others inside it and passes on their failures.
template <class Stage>
concept runs_stages_inside = requires { typename Stage::feedline_runs_stages; };

/// A thread's copy of a stage. Throws pipeline_error if it can't be made.
template <class In, class Stage>
bound_t<Stage, In> started(const void* described, const stage_place& place) {
  const Stage& stage = *static_cast<const Stage*>(described);
  try {
    if constexpr (binds_to<Stage, In>)
      return stage.template bind<In>(stage_info{place.random_key(), place.run.stop, place.items_in_flight,
                                                place.run.first_epoch, place.parts()});
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
template <class Stage, class Item, class Next, std::size_t Step>
class node final : public node_base {
  // What its stage receives: a stage that only passes items on receives large ones where they are.
  static constexpr bool passes_slots =
      is_large_item<Item> && part_of_library<Stage> && traits_of<Stage>().unchanged;
  using In = std::conditional_t<passes_slots, slot<Item>, Item>;

  using running = bound_t<Stage, In>;
  using output = typename running::output;

  static constexpr node_traits Traits{.is_stateless = stateless<Stage>,
                                      .keeps_over_epochs = feedline::detail::keeps_over_epochs<Stage>,
                                      .checkpoints_mid_call = traits_of<Stage>().checkpoints_mid_call,
                                      .can_fail_again = stateless<Stage> &&
                                                        traits_of<Stage>().position_from_last_sample &&
                                                        !runs_stages_inside<running>};

  static constexpr bool emits_once = traits_of<Stage>().one_to_one || traits_of<Stage>().unchanged;
  using emitter_type = emitter<output, Next, !Traits.checkpoints_mid_call, Next::is_measured && !emits_once>;

  static_assert(!Traits.is_stateless || !has_state<running>,
                "feedline: `Stage` is declared stateless but has a state: remove one of the two");

 public:
  static constexpr bool is_measured = Next::is_measured;
  static constexpr bool has_room = lends_room<running, In>;
  static constexpr bool takes_rows =
      has_room ||
      (converts<running, In> &&
       (Next::has_room || (Next::takes_rows && std::is_trivially_copyable_v<output>))) ||
      (selects<running, In> && Next::takes_rows);

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

  flow push(sample<slot<Item>>&& s)
    requires(is_large_item<Item> && !passes_slots)
  {
    return push(std::move(s.value.named(s.id)));
  }

  flow push(sample<Item>&& s)
    requires passes_slots
  {
    return push(carry(std::move(s)));
  }

  /// Pushes a row of samples, which it may change.
  flow push_row(std::span<In> values, const row_origin& from)
    requires takes_rows
  {
    return push_in_parts(values, from, [&](std::span<In> left, const row_origin& of_left, flow& result) {
      if constexpr (has_room) return move_row(*this, left, of_left, result);
      else if constexpr (selects<running, In>) return select_row(left, of_left, result);
      else if constexpr (Next::has_room) return convert_row(left, of_left, result);
      else return convert_row_here(left, of_left, result);
    });
  }

  /// How many values the end of the chain has space for without a packet or a batch being passed on. 0: that isn't known.
  std::size_t room_left()
    requires takes_rows
  {
    if constexpr (has_room) return room_left_in<In>(*this);
    else return next_.room_left();
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

  flow commit(const row_ids& ids)
    requires has_room
  {
    if (ids.size() == 0) return flow::more;
    if constexpr (Traits.keeps_over_epochs) received_some_ = true;
    received_ += is_measured ? ids.size() : 0;
    const sample_id last = ids[ids.size() - 1];
    emitter_type emit(next_, place_, last, at_);
    failure_ptr failed;
    try {
      stage_.commit(ids, emit);
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
      context c = make_context(s.id, key_, place_.run.stop, &counters_);
      call_stage(stage_, std::move(s), emit, c);
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

  // The functions below push the first of the values, set `result` and return how many.

  std::size_t push_first(std::span<In> values, const row_origin& from, flow& result) {
    from.take(1);
    from.made_at = 0;
    result = push(sample<In>{std::move(values.front()), from.ids[0]});
    return 1;
  }

  struct used_row {
    std::size_t count = 0; // of the values that were used
    failure_ptr failed{};  // of the next one

    std::size_t size() const noexcept { return count + (failed ? 1 : 0); }
  };

  // Calls `use` with the number of each value until it throws, or no more are wanted.
  template <class Use>
  [[gnu::always_inline]] used_row use_row(std::size_t count, const row_origin& from, flow& result, Use use) {
    // Copies, as the compiler must assume that a store through a reference changes what others refer to.
    const run_context& run = place_.run;
    const row_ids ids = from.ids;
    work_in_hand& at = at_;
    if constexpr (is_measured) at.enter(place_.number);
    const std::uint64_t began = is_measured ? from.begin_work() : 0;
    std::uint64_t ended = began;
    const std::size_t burst = row_.burst(count);
    used_row row;
    std::size_t used = 0;
    try {
      [[maybe_unused]] const auto held = hold_row_of(stage_);
      while (used < count) {
        if (run.attention.load(std::memory_order_relaxed)) [[unlikely]]
          if (result = from.wanted(); result != flow::more) break;
        const std::size_t end = used + std::min(count - used, burst);
        if constexpr (is_measured) at.begin_samples(ids[used].index, end - used);
        for (; used < end; ++used) {
          context c = make_context(ids[used], key_, run.stop, &counters_);
          use(used, c);
        }
      }
      if constexpr (is_measured) ended = now_ns();
    } catch (...) {
      row.failed = place_.note(ids[used]);
      if constexpr (is_measured) ended = now_ns();
    }
    row.count = used;
    if constexpr (is_measured) at.others.store(0, std::memory_order_relaxed);
    from.made_at = ended;
    if (is_measured && row.size() > 0) {
      received_ += row.size();
      counters_.add_time((ended - began) / row.size());
      row_.adapt(row.size(), ended - began);
    }
    return row;
  }

  // Called when what was made of the row was passed on.
  std::size_t finish_row(used_row&& row, const row_origin& from, flow passed, flow& result) {
    const std::size_t size = row.size();
    from.made_at = 0;
    if (passed != flow::more) {
      result = passed;
    } else if (size > 0) {
      from.take(size); // also the failed one, and those that were left out
      if (row.failed) result = caught(std::move(row.failed));
    }
    return size;
  }

  bool has_failures_to_repeat() const noexcept {
    if constexpr (Traits.can_fail_again) return known_ && !known_->is_empty();
    else return false;
  }

  // Converts as many values as the next stage has space for.
  std::size_t convert_row(std::span<In> values, const row_origin& from, flow& result) {
    std::span<output> target;
    from.made_at = 0; // asking for room may wait, which counts for no stage
    result = has_failures_to_repeat() ? flow::more : next_.room(target);
    if (result != flow::more) return 0;
    if (target.empty()) return push_first(values, from, result);
    used_row row = convert_into(target, values, from, result);
    if (row.count > 0) from.take(row.count);
    const flow passed = next_.commit(from.ids.part(0, row.count));
    return finish_row(std::move(row), from, passed, result);
  }

  // Converts values in memory of its own, as the stage downstream takes a row but has no space for it.
  std::size_t convert_row_here(std::span<In> values, const row_origin& from, flow& result) {
    const std::span<output> target = has_failures_to_repeat() ? std::span<output>() : row_.memory();
    if (target.empty()) return push_first(values, from, result);
    used_row row = convert_into(target, values, from, result);
    const flow passed = next_.push_row(target.first(row.count), from.part(0, row.count));
    return finish_row(std::move(row), from, passed, result);
  }

  [[gnu::always_inline]] used_row convert_into(std::span<output> target, std::span<In> values,
                                               const row_origin& from, flow& result) {
    return use_row(std::min(values.size(), target.size()), from, result, [&](std::size_t i, context& c) {
      std::construct_at(&target[i], stage_.convert(std::move(values[i]), c));
    });
  }

  // Moves the values that it keeps to the front.
  std::size_t select_row(std::span<In> values, const row_origin& from, flow& result) {
    const std::span<std::uint32_t> places =
        has_failures_to_repeat() ? std::span<std::uint32_t>() : row_.memory();
    if (places.empty()) return push_first(values, from, result);
    std::size_t kept = 0;
    const std::size_t count = std::min(values.size(), places.size());
    const row_ids ids = from.ids;
    used_row row = use_row(count, from, result, [&](std::size_t i, context& c) {
      const bool keeps = stage_.keeps(std::as_const(values[i]), c);
      places[kept] = static_cast<std::uint32_t>(ids.place(i));
      if constexpr (std::is_trivially_copyable_v<In> && std::is_copy_constructible_v<In>) {
        const In value = values[i]; // without a branch
        std::construct_at(&values[kept], value);
      } else if (keeps && kept != i) {
        std::destroy_at(&values[kept]);
        std::construct_at(&values[kept], std::move(values[i]));
      }
      kept += keeps;
    });
    flow passed = flow::more;
    if (kept > 0 && kept == row.count) passed = next_.push_row(values.first(kept), from.part(0, kept));
    else if (kept > 0) passed = next_.push_row(values.first(kept), from.selected(places.first(kept)));
    return finish_row(std::move(row), from, passed, result);
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

  // What it writes down of a row.
  using noted_in_row =
      std::conditional_t<!takes_rows || has_room, void,
                         std::conditional_t<selects<running, In>, std::uint32_t,
                                            std::conditional_t<Next::has_room, void, output>>>;

  Next next_;
  running stage_;
  [[no_unique_address]] row_memory<noted_in_row> row_;
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
