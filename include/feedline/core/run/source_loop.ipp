// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/core/run/source_loop.hpp>

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
