// SPDX-License-Identifier: MIT
#pragma once
// The loop of a source's thread: pushes samples into the first segment's chain, epoch after epoch.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include <feedline/core/failure.hpp>
#include <feedline/core/metrics/thread_counters.hpp>
#include <feedline/core/options.hpp>
#include <feedline/core/run/emitter.hpp>
#include <feedline/core/run/progress.hpp>
#include <feedline/core/run/source_reader.hpp>
#include <feedline/core/sample.hpp>
#include <feedline/core/snapshot/known_failures.hpp>
#include <feedline/core/source.hpp>
#include <feedline/core/state.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

template <source Source, class Chain>
class source_loop {
 public:
  source_loop(const Source& described, const run_options& options, const run_context& context,
              const stage_place& place, Chain& chain, thread_counters& thread)
      : options_(options),
        context_(context),
        place_(place),
        chain_(chain),
        thread_(thread),
        at_(chain.progress().source),
        reader_(described, options, context.stop, at_, context.outcomes) {
    if (context.known && reader_.can_repeat() && context.known->has_some_of(0)) known_ = context.known;
  }

  /// Starts at the position in the chain's progress. `rest`: the saved state of the source.
  void run(state_reader rest) {
    while (reader_.has_epoch()) {
      const auto number = static_cast<std::uint32_t>(at_.epoch);
      // The resumed run may not need the rest of the current epoch.
      const bool wants_none = chain_.progress().ending != 0 || chain_.progress().enough;
      if (!wants_none || reader_.needs_begun_epoch()) {
        if (!begin_epoch(rest, wants_none)) {
          failed_->ends_at_once = chain_.progress().is_resumed;
          if (chain_.fail(std::move(failed_)) == flow::stop) return;
        } else if (!wants_none && (!run_epoch() || ends_as_empty())) {
          return;
        }
      }
      reader_.end_epoch(context_.may_end_epochs);
      if (chain_.end_epoch({number, at_.given}, context_.drain) == flow::stop) return;
      reader_.go_to_next_epoch();
      chain_.publish();
    }
  }

 private:
  /// False if the source failed.
  bool begin_epoch(state_reader& rest, bool wants_none) {
    ended_ = failed_for_good_ = false;
    try {
      reader_.begin_epoch();
      if (!wants_none) reader_.take_up(rest);
    } catch (...) {
      failed_ = current_source_failure(no_sample());
      return false;
    }
    if constexpr (has_state<Source>)
      if (!std::exchange(is_part_, true)) chain_.progress().add(reader_, 0, true);
    return true;
  }

  /// Pushes the samples of one epoch. False if nothing more is wanted.
  bool run_epoch() {
    std::atomic<std::uint64_t>& counter = thread_.stages[0].given;
    const std::uint64_t given_before = counter.load(std::memory_order_relaxed) - at_.given;
    for (flow wanted = flow::more; wanted == flow::more && !ended_;) {
      if (is_stopped()) return false;
      if constexpr (Chain::has_room && !has_index<Source> && !has_state<Source> && !says_when_ready<Source>)
        wanted = options_.rank.is_alone() ? push_row() : push_each();
      else wanted = push_each();
      // Stages that let few samples through must neither hide that no more are wanted, nor delay those few.
      if (wanted == flow::more) wanted = chain_.sink().wanted();
      // The source has already passed the failure: no snapshot may be taken before the failure is pushed.
      if (failed_ && wanted == flow::more) wanted = push_failure();
      if (wanted == flow::more) wanted = chain_.sink().hand_over_if_late();
      if (wanted == flow::stop) return false;
      counter.store(given_before + at_.given, std::memory_order_relaxed);
      publish_numbers();
      chain_.publish();
    }
    failed_.reset();
    return true;
  }

  /// Pushes one sample at a time until a packet is full, but at most 256 before it checks what is wanted.
  flow push_each() {
    const auto& sink = chain_.sink();
    const std::uint64_t pushes = sink.pushes();
    for (int left = 256; left > 0 && !is_stopped() && pushes == sink.pushes(); --left) {
      std::optional<wait_timer> wait;
      if constexpr (says_when_ready<Source>)
        if (!reader_.get().ready()) {
          publish_numbers();
          const flow wanted = chain_.sink().hand_over();
          if (wanted != flow::more || left < 256) return wanted;
          wait.emplace(thread_, wait_kind::starved);
        }
      auto value = next();
      wait.reset();
      if (!value) {
        ended_ = !failed_;
        break;
      }
      sample_id id;
      if (!may_push(id)) break;
      chain_.progress().timed_stages.is_timed = left == 256;
      const flow wanted = chain_.push(sample<source_item_t<Source>>{std::move(*value), id});
      if (wanted != flow::more) return wanted;
    }
    return flow::more;
  }

  /// Publishes the metrics of the source.
  void publish_numbers() noexcept {
    if constexpr (requires(const Source& source, reported_numbers out) { source.metrics(out); }) {
      try {
        reported_numbers out{thread_.stages[0].numbers};
        reader_.get().metrics(out);
      } catch (...) { // metrics aren't worth a failure
      }
    }
  }

  /// Pushes as many samples as fit into the space that the next stage lends, without a copy.
  flow push_row() {
    if (known_) return push_each();
    std::span<source_item_t<Source>> target;
    if (const flow wanted = chain_.room(target); wanted != flow::more) return wanted;
    if (target.empty()) return push_each();
    const sample_id first{at_.given, 0, static_cast<std::uint32_t>(at_.epoch)};
    std::size_t count = 0;
    for (; count < target.size() && !is_stopped(); ++count) {
      auto value = next();
      if (!value) {
        ended_ = !failed_;
        break;
      }
      std::construct_at(&target[count], std::move(*value));
    }
    return chain_.commit(count, {first});
  }

  /// The next sample; nothing if the epoch has ended or the sample failed.
  std::optional<source_item_t<Source>> next() {
    try {
      return reader_.next();
    } catch (...) {
      failed_ = current_source_failure(failed_sample());
      return std::nullopt;
    }
  }

  /// Finds the identity of the sample that next() returned. False if that failed, or if the sample had failed in
  /// the earlier run.
  bool may_push(sample_id& id) {
    try {
      id = reader_.id();
      if (!known_ || !known_->take(call_of_source(at_.given - 1))) [[likely]]
        return true;
      --at_.given;
      failed_ = note_again(place_.name, failed_sample(), call_of_source(at_.given));
      add_relaxed(thread_.stages[0].failures, 1);
      failed_before_ = true;
    } catch (...) {
      --at_.given;
      failed_ = current_source_failure(failed_sample());
    }
    return false;
  }

  /// Whether the epoch shows that the source never yields a sample, and the failure for that ends the run.
  bool ends_as_empty() {
    if (!reader_.is_endless() || failed_for_good_ || !reader_.is_empty()) return false;
    const bool none_came = left_out_in(reader_.get()) == 0;
    failure_ptr f = source_failure(std::make_exception_ptr(none_came ? empty_epoch() : nothing_left()));
    if (!none_came) f->stage = filters_in(reader_.get()) + " in " + f->stage;
    return chain_.fail(std::move(f)) == flow::stop;
  }

  flow push_failure() {
    if (std::exchange(failed_before_, false) || context_.skips(*failed_)) {
      ++at_.failed;
      return chain_.skipped(std::move(failed_));
    }
    failed_for_good_ = true;
    return chain_.fail(std::move(failed_)) == flow::stop ? flow::stop : flow::enough;
  }

  bool is_stopped() const noexcept { return context_.stopped.load(std::memory_order_relaxed); }

  // The call of next() before which the source had yielded `given` samples.
  failed_call call_of_source(std::uint64_t given) const noexcept {
    return {0, {given + at_.failed, 0, static_cast<std::uint32_t>(at_.epoch)}};
  }

  sample_id no_sample() const noexcept { return {.epoch = static_cast<std::uint32_t>(at_.epoch)}; }

  // The sample for which next() failed, if the source knows it.
  sample_id failed_sample() const noexcept {
    sample_id id = no_sample();
    if constexpr (splits_samples_by_rank<Source>) {
      try {
        id.index = reader_.get().index();
      } catch (...) { // then it is unknown
      }
    }
    return id;
  }

  failure_ptr current_source_failure(const sample_id& id) {
    add_relaxed(thread_.stages[0].failures, 1);
    return note_failure(place_.name, id, call_of_source(at_.given));
  }

  failure_ptr source_failure(const std::exception_ptr& error) {
    add_relaxed(thread_.stages[0].failures, 1);
    return note_failure(place_.name, no_sample(), call_of_source(at_.given), error);
  }

  const run_options& options_;
  const run_context& context_;
  const stage_place& place_;
  Chain& chain_;
  thread_counters& thread_;
  source_place& at_;
  source_reader<Source> reader_;
  bool is_part_ = false; // its state was added to the segment's
  bool ended_ = false;
  bool failed_for_good_ = false;
  failure_ptr failed_;
  bool failed_before_ = false; // in the earlier run
  known_failures* known_ = nullptr;
};

} // namespace feedline::inline FEEDLINE_ABI::detail
