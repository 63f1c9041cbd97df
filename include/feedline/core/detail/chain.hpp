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

#include <feedline/core/detail/activity.hpp>
#include <feedline/core/detail/edge.hpp>
#include <feedline/core/detail/emitter.hpp>
#include <feedline/core/detail/packet.hpp>
#include <feedline/core/failure.hpp>
#include <feedline/core/stage.hpp>

namespace feedline::detail {

/// A running stage of the library's that can be given rows of samples: it makes one value of each, as map
/// does, …
template <class Stage, class In>
concept converts = requires(Stage& stage, In&& in, context& c) {
  typename Stage::feedline_rows;
  { stage.convert(std::move(in), c) } -> std::same_as<typename Stage::output>;
};

/// … or lends the place where its next values go, so that whoever makes them needs no other.
template <class Stage, class In>
concept lends_room = requires(Stage& stage) {
  typename Stage::feedline_rows;
  { stage.room() } -> std::same_as<std::span<In>>;
};

/// A stage in its place: calls it, counts, and catches what it throws. What comes behind catches its own.
///
/// Samples come one at a time, or as a row of neighbours where that saves the work of handing on each: into
/// room that the next stage lends.
template <class Stage, class In, class Next>
class node {
  using output = typename Stage::output;

 public:
  static constexpr bool is_measured = Next::is_measured;
  static constexpr bool has_room = lends_room<Stage, In>;
  static constexpr bool takes_rows = has_room || (converts<Stage, In> && Next::has_room);

  node(Stage&& stage, const stage_place& place, stage_counters& counters, Next&& next)
      : next_(std::move(next)),
        stage_(std::move(stage)),
        place_(place),
        key_(place.random_key()),
        counters_(counters) {}

  flow push(sample<In>&& s) {
    if constexpr (is_measured) ++received_;
    emitter<output, Next> emit(next_, place_, s.id);
    try {
      if constexpr (takes_value_and_context<Stage, In>) {
        context c = make_context(s.id, key_, place_.run.stop);
        stage_(std::move(s.value), emit, c);
      } else if constexpr (takes_value<Stage, In>) {
        stage_(std::move(s.value), emit);
      } else if constexpr (takes_sample<Stage, In>) {
        stage_(std::move(s), emit);
      } else {
        context c = make_context(s.id, key_, place_.run.stop);
        stage_(std::move(s), emit, c);
      }
    } catch (...) {
      return caught(emit.id(), true);
    }
    return emit.flow();
  }

  /// The same for a row of samples.
  flow push_row(std::span<In> values, id_row ids, const watch& wanted)
    requires takes_rows
  {
    while (!values.empty()) {
      if (const flow result = wanted(); result != flow::more) return result;
      row_taken taken;
      if constexpr (has_room) taken = move_row(values, ids);
      else taken = convert_row(values, ids, wanted);
      if (taken.result != flow::more) return taken.result;
      values = values.subspan(taken.count);
      ids = ids.from(taken.count);
    }
    return flow::more;
  }

  /// Lends room for values that are there once they are committed; none if it can't be had: a push will say
  /// why.
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
    received_ += is_measured ? count : 0;
    emitter<output, Next> emit(next_, place_, ids[count - 1]);
    try {
      stage_.commit(count, ids, emit);
    } catch (...) {
      return caught(emit.id(), true);
    }
    return emit.flow();
  }

  flow skipped(failure_ptr f) { return next_.skipped(std::move(f)); }

  /// Finite mode drains what stages hold back, infinite mode doesn't.
  flow end_epoch(std::uint32_t epoch, bool drain) {
    if (drain && finish(epoch) == flow::stop) return flow::stop;
    if constexpr (requires { stage_.end_epoch(); }) {
      try {
        stage_.end_epoch();
      } catch (...) {
        if (caught({.epoch = epoch}) == flow::stop) return flow::stop;
      }
    }
    return next_.end_epoch(epoch, drain);
  }

  /// Delivers what was accepted before the failure, then the failure.
  flow fail(failure_ptr f) {
    if (finish(f->epoch) == flow::stop) return flow::stop;
    return next_.fail(std::move(f));
  }

  auto& sink() noexcept { return next_.sink(); }

  /// Makes the counts visible to other threads.
  void publish() noexcept {
    counters_.received.store(received_, std::memory_order_relaxed);
    next_.publish();
  }

 private:
  struct row_taken {
    flow result;
    std::size_t count; // of samples, those that failed among them
  };

  row_taken push_first(std::span<In> values, const id_row& ids) {
    return {push(sample<In>{std::move(values.front()), ids[0]}), 1};
  }

  // Moves as many of the values into this stage's own room as it has.
  row_taken move_row(std::span<In> values, const id_row& ids) {
    std::span<In> target;
    if (const flow result = room(target); result != flow::more) return {result, 0};
    if (target.empty()) return push_first(values, ids);
    const std::size_t count = std::min(values.size(), target.size());
    std::uninitialized_move_n(values.begin(), count, target.begin());
    return {commit(count, ids), count};
  }

  // Makes of as many values as the next stage has room for, or as come before a failure, what goes there.
  row_taken convert_row(std::span<In> values, const id_row& ids, const watch& wanted) {
    std::span<output> target;
    if (const flow result = next_.room(target); result != flow::more) return {result, 0};
    if (target.empty()) return push_first(values, ids);
    const std::size_t count = std::min(values.size(), target.size());
    std::size_t made = 0;
    flow result = flow::more;
    bool failed = false;
    try {
      for (; made < count && (result = wanted()) == flow::more; ++made) {
        context c = make_context(ids[made], key_, place_.run.stop);
        std::construct_at(&target[made], stage_.convert(std::move(values[made]), c));
      }
    } catch (...) {
      failed = true;
      result = next_.commit(made, ids);
      if (result == flow::more) result = caught(ids[made], true);
    }
    if (!failed)
      if (const flow committed = next_.commit(made, ids); committed != flow::more) result = committed;
    received_ += is_measured ? made + failed : 0;
    return {result, made + failed};
  }

  // A failure ends the epoch here. Whether it ends the run is for those behind to say: one thread would never
  // have met it, if they had enough of the epoch before.
  [[gnu::noinline, gnu::cold]] flow caught(sample_id id, bool holds_earlier_ones = false) {
    add_relaxed(counters_.failures, 1);
    auto f = std::make_unique<failure>(current_failure(place_.name, id));
    if (place_.run.on_error == on_error::skip) return next_.skipped(std::move(f));
    if constexpr (requires(emitter<output, Next>& emit) { stage_.finish(emit); }) {
      emitter<output, Next> emit(next_, place_, {.epoch = id.epoch});
      try {
        if (holds_earlier_ones) stage_.finish(emit);
      } catch (...) { // the first error is the one that counts
      }
    }
    return next_.fail(std::move(f)) == flow::stop ? flow::stop : flow::enough;
  }

  flow finish(std::uint32_t epoch) {
    const sample_id id{.epoch = epoch};
    emitter<output, Next> emit(next_, place_, id);
    if constexpr (requires { stage_.finish(emit); }) {
      try {
        stage_.finish(emit);
      } catch (...) {
        return caught(id);
      }
    }
    return emit.flow();
  }

  [[no_unique_address]] Next next_;
  [[no_unique_address]] Stage stage_;
  const stage_place& place_;
  std::uint64_t key_;
  std::uint64_t received_ = 0;
  stage_counters& counters_;
};

/// Pushes some of a packet's samples, of type In, through a segment's chain.
template <class In, class Chain>
flow feed_samples(Chain& chain, packet& p, std::size_t begin, std::size_t end, const watch& wanted) {
  In* const values = p.values<In>();
  const id_row ids = p.ids();
  if constexpr (Chain::takes_rows) {
    return chain.push_row({values + begin, values + end}, ids.from(begin), wanted);
  } else {
    for (std::size_t i = begin; i < end; ++i) {
      flow result = wanted();
      if (result == flow::more) [[likely]]
        result = chain.push(sample<In>{std::move(values[i]), ids[i]});
      if (result != flow::more) [[unlikely]]
        return result;
    }
    return flow::more;
  }
}

/// Pushes a packet's samples, of type In, and events through a segment's chain.
template <class In, class Chain>
flow feed(Chain& chain, packet& p, edge_base& from, const run_context& run) {
  flow wanted = flow::more; // of this packet's samples: they are all of one epoch
  // What a worker has enough of, others may still be at work on: earlier samples of the same epoch.
  const auto want = [&](flow result) {
    wanted = result;
    if (wanted == flow::enough && !chain.sink().is_worker()) from.abandon(p.generation);
  };
  std::size_t i = 0;
  for (event& e : p.events()) {
    if (wanted == flow::more) want(feed_samples<In>(chain, p, i, e.position, {run, from, p.generation}));
    if (wanted == flow::stop) return flow::stop;
    i = e.position;
    flow result = flow::more;
    if (e.kind == event_kind::epoch_end) {
      result = chain.end_epoch(e.epoch, run.drain);
    } else if (wanted == flow::more &&
               !from.is_abandoned(p.generation)) { // else one thread would never have come so far
      if (e.kind == event_kind::skipped) {
        result = chain.skipped(std::move(e.cause));
      } else {
        result = chain.fail(std::move(e.cause));
        if (result != flow::stop) want(flow::enough);
      }
    }
    if (result == flow::stop) return flow::stop;
  }
  if (wanted == flow::more) want(feed_samples<In>(chain, p, i, p.size(), {run, from, p.generation}));
  return wanted == flow::stop ? flow::stop : flow::more;
}

} // namespace feedline::detail
