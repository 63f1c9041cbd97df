// SPDX-License-Identifier: MIT
#pragma once
// The loop of a source's thread: pushes samples into the first segment's chain, epoch after epoch.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>

#include <feedline/core/failure.hpp>
#include <feedline/core/metrics/thread_counters.hpp>
#include <feedline/core/plan/run_options.hpp>
#include <feedline/core/run/emitter.hpp>
#include <feedline/core/run/packer.hpp>
#include <feedline/core/run/progress.hpp>
#include <feedline/core/run/row.hpp>
#include <feedline/core/run/source_reader.hpp>
#include <feedline/core/sample.hpp>
#include <feedline/core/snapshot/known_failures.hpp>
#include <feedline/core/source.hpp>
#include <feedline/core/state.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// The loop as far as it depends on no type.
class source_loop {
 public:
  source_loop(const run_options& options, const run_context& context, const stage_place& place,
              packer_base& sink, source_reader& reader, thread_counters& thread);

  /// Starts at the position in the chain's progress. `rest`: the saved state of the source.
  void run(state_reader rest);

 protected:
  ~source_loop() = default;

  packer_base& sink() const noexcept { return sink_; }

  bool is_stopped() const noexcept { return context_.stopped.load(std::memory_order_relaxed); }

  /// Whether a live source is to end, or the run was stopped.
  bool is_closed() const noexcept { return context_.source_stop.stop_requested(); }

  /// Publishes the metrics of the source.
  void publish_numbers() const noexcept;

  /// Notes the exception being handled, which the source threw.
  [[gnu::cold]] void note_failed(const sample_id& id);

  /// Whether the sample that the source yielded last had failed in the earlier run.
  bool failed_before();

  const run_options& options_;
  const run_context& context_;
  source_place& at_;
  thread_counters& thread_;
  known_failures* known_ = nullptr; // null: none of them is of the source
  failure_ptr failed_;              // not yet pushed
  bool ended_ = false;              // the epoch

 private:
  // Pushes samples until a packet is full, but not many before it returns what is wanted. Stops at a failure.
  virtual flow push_samples() = 0;

  bool begin_epoch(state_reader& rest, bool wants_none);
  bool run_epoch();
  bool ends_as_empty();
  flow push_failure();

  void count_failure() noexcept { add_relaxed(thread_.stages[0].failures, 1); }

  failed_call call_of_source(std::uint64_t given) const noexcept;

  packer_base& sink_;
  const stage_place& place_;
  source_reader& reader_;
  bool is_part_ = false; // its state was added to the segment's
  bool failed_for_good_ = false;
  bool failed_in_earlier_run_ = false;
};

/// The loop of a source of one type that pushes into a chain of one type.
template <source Source, class Chain>
class source_loop_of final : public source_loop {
  using item = source_item_t<Source>;

 public:
  source_loop_of(const run_options& options, const run_context& context, const stage_place& place,
                 Chain& chain, source_reader_of<Source>& reader, thread_counters& thread)
      : source_loop(options, context, place, chain.sink(), reader, thread), reader_(reader), chain_(chain) {}

 private:
  static constexpr bool makes_rows =
      !says_when_ready<Source> && !has_repetition<Source> &&
      (Chain::has_room || (Chain::takes_rows && std::is_trivially_copyable_v<item>));

  // Whether next() returns without waiting.
  bool is_ready() const {
    if constexpr (says_when_ready<Source>) return reader_.source().ready();
    else return true;
  }

  // The next sample; nothing if the epoch has ended or the sample failed.
  [[gnu::always_inline]] std::optional<item> next() {
    try {
      std::optional<item> value = reader_.next();
      if (!value) ended_ = true;
      return value;
    } catch (...) {
      note_failed(reader_.failed_sample());
      return std::nullopt;
    }
  }

  // The same where that waits.
  std::optional<item> next_after_wait() {
    const wait_timer timer(thread_, wait_kind::starved);
    return next();
  }

  // Finds the identity of the sample that next() returned. False if that failed, or if the sample had failed in
  // the earlier run.
  [[gnu::always_inline]] bool may_push(sample_id& id) {
    try {
      id = reader_.id();
      if (!known_ || !failed_before()) [[likely]]
        return true;
    } catch (...) {
      --at_.given;
      note_failed(reader_.failed_sample());
    }
    return false;
  }

  flow push_samples() override {
    if constexpr (makes_rows)
      if (!known_) return push_row();
    return push_each();
  }

  flow push_each() {
    const std::uint64_t pushes = sink().pushes();
    for (int left = 256; left > 0 && !is_stopped() && pushes == sink().pushes(); --left) {
      const bool ready = is_ready();
      if (!ready) {
        publish_numbers();
        const flow wanted = sink().hand_over();
        if (wanted != flow::more || left < 256) return wanted;
      }
      thread_.at.enter(0);
      std::optional<item> value = ready ? next() : next_after_wait();
      if (!value) break;
      sample_id id;
      if (!may_push(id)) break;
      thread_.at.begin_sample(id.index);
      sink().progress().timed_stages.is_timed = left == 256;
      const flow wanted = chain_.push(carry<item>([&]() -> item&& { return *std::move(value); }, id));
      if (wanted != flow::more) return wanted;
    }
    return flow::more;
  }

  // Pushes as many samples at once as fit into the space at the end of the chain. So its stages are at rest at most behind
  // the last one, where a snapshot has the state of the source.
  flow push_row()
    requires makes_rows
  {
    std::span<item> target;
    if constexpr (Chain::has_room) {
      if (const flow wanted = chain_.room(target); wanted != flow::more) return wanted;
    } else {
      target = row_.memory();
      target = target.first(std::min(target.size(), chain_.room_left()));
    }
    std::span<std::uint64_t> indices; // if they may not count up
    if (has_index<Source> || !options_.rank.is_alone()) {
      indices = indices_.memory();
      target = target.first(std::min(target.size(), indices.size()));
    }
    if (target.empty()) return push_each();
    const row_ids ids(fill(target, indices));
    segment_progress& progress = sink().progress();
    progress.timed_stages.is_timed = true;
    if constexpr (Chain::has_room) {
      return chain_.commit(ids);
    } else {
      const watch wanted = sink().wanted_in(context_);
      std::size_t taken = 0;
      ++progress.calls;
      const flow result = chain_.push_row(target.first(ids.size()), {ids, wanted, taken, filled_at_});
      --progress.calls;
      // The source has already passed a failure that isn't pushed yet: no snapshot may be taken before it is.
      if (result == flow::stop || failed_) return result;
      const flow settled = sink().settle();
      return settled == flow::more ? result : settled;
    }
  }

  // Reads values until the target is full, the epoch ends or a sample fails.
  sample_ids fill(std::span<item> target, std::span<std::uint64_t> indices) {
    thread_.at.enter(0);
    const std::uint64_t began = now_ns();
    const sample_ids ids = indices.empty() ? fill_counted(target) : fill_listed(target, indices);
    filled_at_ = now_ns();
    row_.adapt(ids.size(), filled_at_ - began);
    indices_.adapt(ids.size(), filled_at_ - began);
    return ids;
  }

  // Whether the source copies many values at once.
  static constexpr bool gives_rows = requires(Source& s, std::span<item> target) {
    typename Source::feedline_rows;
    s.next_row(target);
  };

  sample_ids fill_listed(std::span<item> target, std::span<std::uint64_t> indices) {
    sample_id first, id;
    if constexpr (gives_rows) {
      if (reader_.can_repeat()) { // passes over no samples of other ranks
        const std::size_t count = reader_.source().next_row(target);
        at_.given += count;
        if (count > 0 && may_push(first)) {
          first.index -= count - 1;
          return {first, count};
        }
        target = target.first(1);
      }
    }
    bool count_up = true;
    std::size_t count = 0;
    for (; count < target.size() && !is_stopped(); ++count) {
      std::optional<item> value = next();
      if (!value || !may_push(id)) break;
      if (count == 0) first = id;
      count_up &= id.index == first.index + count;
      indices[count] = id.index;
      std::construct_at(&target[count], *std::move(value));
    }
    if (count_up) return {first, count};
    return {first, indices.first(count)};
  }

  // The indices count up, and no other rank takes part: what the reader counts is added up once.
  sample_ids fill_counted(std::span<item> target) {
    const sample_id first{at_.given, 0, static_cast<std::uint32_t>(at_.epoch)};
    std::size_t count = 0;
    bool ended = false;
    try {
      while (count < target.size() && !ended && !is_stopped())
        in_registers(reader_.source(), [&](Source& source) {
          for (const std::size_t end = std::min(target.size(), count + row_.burst(target.size()));
               count < end; ++count) {
            std::optional<item> value = source.next();
            if ((ended = !value)) break;
            std::construct_at(&target[count], *std::move(value));
          }
        });
      at_.given += count;
    } catch (...) {
      at_.given += count;
      note_failed(reader_.failed_sample());
    }
    ended_ = ended;
    return {first, count};
  }

  // Calls f(source). If the source is small and plain memory and yields numbers, f gets a copy for that time: the compiler
  // sees that nobody else refers to it, so its members needn't be stored for each value.
  template <class F>
  static void in_registers(Source& source, F f) {
    if constexpr (sizeof(Source) <= 64 && std::is_trivially_copyable_v<Source> &&
                  std::is_copy_constructible_v<Source> && std::is_copy_assignable_v<Source> &&
                  (std::is_arithmetic_v<item> || std::is_enum_v<item>)) {
      Source copy(std::as_const(source));
      try {
        f(copy);
      } catch (...) {
        source = std::as_const(copy);
        throw;
      }
      source = std::as_const(copy);
    } else {
      f(source);
    }
  }

  source_reader_of<Source>& reader_;
  Chain& chain_;
  std::uint64_t filled_at_ = 0;
  row_memory<std::uint64_t> indices_;
  [[no_unique_address]] row_memory<std::conditional_t<makes_rows && !Chain::has_room, item, void>> row_;
};

} // namespace feedline::inline FEEDLINE_ABI::detail

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_CORE_RUN)
#include <exception>

#include <feedline/core/run/cpu_budget.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE source_loop::source_loop(const run_options& options, const run_context& context,
                                         const stage_place& place, packer_base& sink, source_reader& reader,
                                         thread_counters& thread)
    : options_(options),
      context_(context),
      at_(sink.progress().source),
      thread_(thread),
      sink_(sink),
      place_(place),
      reader_(reader) {
  if (context.known && reader.can_repeat() && context.known->has_some_of(0)) known_ = context.known;
}

FEEDLINE_INLINE void source_loop::run(state_reader rest) {
  const segment_progress& progress = sink().progress();
  while (reader_.has_epoch()) {
    const auto number = static_cast<std::uint32_t>(at_.epoch);
    // The resumed run may not need the rest of the current epoch.
    const bool wants_none = progress.ending != 0 || progress.enough;
    if (!wants_none || reader_.needs_begun_epoch()) {
      if (!begin_epoch(rest, wants_none)) {
        failed_->ends_at_once = progress.is_resumed;
        if (sink().fail(std::move(failed_)) == flow::stop) return;
      } else if (!wants_none && (!run_epoch() || ends_as_empty())) {
        return;
      }
    }
    reader_.end_epoch(context_.may_end_epochs);
    if (sink().end_epoch({number, at_.given}, context_.drain) == flow::stop) return;
    reader_.go_to_next_epoch();
    sink().publish();
  }
}

// False if the source failed.
FEEDLINE_INLINE bool source_loop::begin_epoch(state_reader& rest, bool wants_none) {
  ended_ = failed_for_good_ = false;
  thread_.at.take(0, now_ns());
  thread_.at.enter(0);
  try {
    reader_.begin_epoch();
    if (!wants_none) reader_.take_up(rest);
  } catch (...) {
    note_failed({.epoch = static_cast<std::uint32_t>(at_.epoch)});
    return false;
  }
  if (!std::exchange(is_part_, true)) reader_.add_state_to(sink().progress());
  return true;
}

// Pushes the samples of one epoch. False if nothing more is wanted.
FEEDLINE_INLINE bool source_loop::run_epoch() {
  std::atomic<std::uint64_t>& counter = thread_.stages[0].given;
  const std::uint64_t given_before = counter.load(std::memory_order_relaxed) - at_.given;
  for (flow wanted = flow::more; wanted == flow::more && !ended_;) {
    if (is_stopped()) return false;
    if (is_closed()) break;
    thread_.at.take(0, now_ns());
    wanted = push_samples();
    // Stages that let few samples through must neither hide that no more are wanted, nor delay those few.
    if (wanted == flow::more) wanted = sink().wanted();
    // The source has already passed the failure: no snapshot may be taken before the failure is pushed.
    // A source may throw because it is to end.
    if (failed_ && wanted == flow::more && !is_closed()) wanted = push_failure();
    if (wanted == flow::more) wanted = sink().hand_over_if_late();
    if (wanted == flow::stop) return false;
    counter.store(given_before + at_.given, std::memory_order_relaxed);
    publish_numbers();
    sink().publish();
    if (context_.budget) context_.budget->pay(thread_);
  }
  failed_.reset();
  return true;
}

// Whether the epoch shows that the source never yields a sample, and the failure for that ends the run.
FEEDLINE_INLINE bool source_loop::ends_as_empty() {
  if (!reader_.is_endless() || failed_for_good_ || !reader_.is_empty()) return false;
  const bool none_came = reader_.left_out() == 0;
  count_failure();
  failure_ptr f =
      note_failure(place_.name, {.epoch = static_cast<std::uint32_t>(at_.epoch)}, call_of_source(at_.given),
                   std::make_exception_ptr(none_came ? empty_epoch() : nothing_left()));
  if (!none_came) f->stage = reader_.filters() + " in " + f->stage;
  return sink().fail(std::move(f)) == flow::stop;
}

FEEDLINE_INLINE flow source_loop::push_failure() {
  if (std::exchange(failed_in_earlier_run_, false) || context_.skips(*failed_)) {
    ++at_.failed;
    return sink().skipped(std::move(failed_));
  }
  failed_for_good_ = true;
  return sink().fail(std::move(failed_)) == flow::stop ? flow::stop : flow::enough;
}

FEEDLINE_INLINE void source_loop::publish_numbers() const noexcept {
  reader_.publish_numbers(reader_.epoch().get(), thread_.stages[0]);
}

FEEDLINE_INLINE void source_loop::note_failed(const sample_id& id) {
  count_failure();
  failed_ = note_failure(place_.name, id, call_of_source(at_.given));
}

FEEDLINE_INLINE bool source_loop::failed_before() {
  const failed_call call = call_of_source(at_.given - 1);
  if (!known_->take(call)) return false;
  failed_ = note_again(place_.name, reader_.failed_sample(), call);
  failed_in_earlier_run_ = true;
  count_failure();
  --at_.given;
  return true;
}

// The call of next() before which the source had yielded `given` samples.
FEEDLINE_INLINE failed_call source_loop::call_of_source(std::uint64_t given) const noexcept {
  return {0, {given + at_.failed, 0, static_cast<std::uint32_t>(at_.epoch)}};
}

} // namespace feedline::inline FEEDLINE_ABI::detail
#endif
