// SPDX-License-Identifier: MIT
#pragma once
// What a source's thread does: epoch after epoch, samples into the first segment's chain.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <utility>

#include <feedline/core/failure.hpp>
#include <feedline/core/metrics/thread_counters.hpp>
#include <feedline/core/options.hpp>
#include <feedline/core/run/emitter.hpp>
#include <feedline/core/run/progress.hpp>
#include <feedline/core/run/source_reader.hpp>
#include <feedline/core/snapshot/snapshot.hpp>
#include <feedline/core/source.hpp>
#include <feedline/core/transport/packet.hpp>

namespace feedline::inline v0::detail {

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
        reader_(described, options, context.stop, at_) {
    chain.progress().can_repeat = reader_.can_repeat();
    if (context.known && reader_.can_repeat() && context.known->has_some_of(0)) known_ = context.known;
  }

  /// From where the chain's progress says. `rest`: what was put down of the source's own state.
  void run(state_reader rest) {
    while (reader_.has_epoch()) {
      const auto number = static_cast<std::uint32_t>(at_.epoch);
      // The rest of the epoch in hand may be of no use to the run that is resumed.
      const bool wants_none = chain_.progress().ending != 0 || chain_.progress().enough;
      if (!wants_none || reader_.tells_next_first()) {
        if (!begin_epoch(rest, wants_none)) {
          failed_->ends_at_once = chain_.progress().is_resumed;
          if (fail(std::move(failed_), false) == flow::stop) return;
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
  /// False: it failed.
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

  /// Gives the samples of one epoch. False: no more is wanted.
  bool run_epoch() {
    std::atomic<std::uint64_t>& counter = thread_.stages[0].given;
    const std::uint64_t given_before = counter.load(std::memory_order_relaxed) - at_.given;
    for (flow wanted = flow::more; wanted == flow::more && !ended_;) {
      if (is_stopped()) return false;
      if constexpr (Chain::has_room && !has_index<Source> && !has_state<Source> && !says_when_ready<Source>)
        wanted = options_.rank.is_alone() ? give_row() : give_each();
      else wanted = give_each();
      // Stages that let little through must not hide that nobody wants more, nor hold back what they let.
      if (wanted == flow::more) wanted = chain_.sink().wanted();
      // The source is beyond the failure already: no snapshot may come between.
      if (failed_ && wanted == flow::more) wanted = give_failure();
      if (wanted == flow::more) wanted = chain_.sink().hand_over_if_late();
      if (wanted == flow::stop) return false;
      counter.store(given_before + at_.given, std::memory_order_relaxed);
      publish_numbers();
      chain_.publish();
    }
    failed_.reset();
    return true;
  }

  /// Gives one sample at a time until a packet is full, but not too many without a look around.
  flow give_each() {
    const auto& sink = chain_.sink();
    const std::uint64_t pushes = sink.pushes();
    const auto epoch = static_cast<std::uint32_t>(at_.epoch);
    for (int left = 256; left > 0 && !is_stopped() && pushes == sink.pushes(); --left) {
      if constexpr (says_when_ready<Source>)
        if (!reader_.get().ready()) {
          publish_numbers();
          if (const flow wanted = chain_.sink().hand_over(); wanted != flow::more || left < 256)
            return wanted;
        }
      auto value = next();
      if (!value) {
        ended_ = !failed_;
        break;
      }
      std::uint64_t index = 0;
      if (!may_give(index)) break;
      chain_.progress().timed_stages.is_timed = left == 256;
      const flow wanted = chain_.push(sample<source_item_t<Source>>{std::move(*value), {index, 0, epoch}});
      if (wanted != flow::more) return wanted;
    }
    return flow::more;
  }

  /// What the source reports of itself.
  void publish_numbers() noexcept {
    if constexpr (requires(const Source& source, reported_numbers out) { source.metrics(out); }) {
      try {
        reported_numbers out{thread_.stages[0].numbers};
        reader_.get().metrics(out);
      } catch (...) { // they aren't worth a failure
      }
    }
  }

  /// As many as go straight to where the next stage has room.
  flow give_row() {
    if (known_) return give_each();
    std::span<source_item_t<Source>> target;
    if (const flow wanted = chain_.room(target); wanted != flow::more) return wanted;
    if (target.empty()) return give_each();
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

  /// Nothing: the epoch has ended, or that sample failed.
  std::optional<source_item_t<Source>> next() {
    try {
      return reader_.next();
    } catch (...) {
      failed_ = current_source_failure(failed_sample());
      return std::nullopt;
    }
  }

  /// Finds the index of the sample that next() gave. False: that failed, or the sample had failed in the run that is
  /// resumed.
  bool may_give(std::uint64_t& index) {
    try {
      index = reader_.index();
      if (!known_ || !known_->take(call_of_source(at_.given - 1))) [[likely]]
        return true;
      --at_.given;
      failed_ = source_failure(std::runtime_error("it failed in the run that is resumed"), failed_sample());
      failed_before_ = true;
    } catch (...) {
      --at_.given;
      failed_ = current_source_failure(failed_sample());
    }
    return false;
  }

  /// Whether the epoch shows that no sample will ever come, and nobody wants to hear more.
  bool ends_as_empty() {
    return reader_.is_endless() && !failed_for_good_ && reader_.is_empty() &&
           fail(source_failure(empty_epoch(), no_sample()), false) == flow::stop;
  }

  flow give_failure() {
    segment_progress& progress = chain_.progress();
    const bool skips = std::exchange(failed_before_, false) || context_.skips(failed_->call);
    if (skips && progress.skip_one(context_.failure_limit)) {
      ++at_.failed;
      return chain_.skipped(std::move(failed_));
    }
    failed_->over_limit = context_.on_error == on_error::skip;
    failed_for_good_ = true;
    return fail(std::move(failed_), true) == flow::stop ? flow::stop : flow::enough;
  }

  flow fail(failure_ptr f, bool can_go_back) {
    chain_.sink().begin_failure(0, can_go_back, *f);
    return chain_.fail(std::move(f));
  }

  bool is_stopped() const noexcept { return context_.stopped.load(std::memory_order_relaxed); }

  // The call of next() before which the source had given so many samples.
  failed_call call_of_source(std::uint64_t given) const noexcept {
    return {0, {given + at_.failed, 0, static_cast<std::uint32_t>(at_.epoch)}};
  }

  sample_id no_sample() const noexcept { return {.epoch = static_cast<std::uint32_t>(at_.epoch)}; }

  // The sample that next() could not give, where the source knows which one that was.
  sample_id failed_sample() const noexcept {
    sample_id id = no_sample();
    if constexpr (shares_places<Source>) {
      try {
        id.index = reader_.get().index();
      } catch (...) { // then nothing tells
      }
    }
    return id;
  }

  failure_ptr current_source_failure(const sample_id& id) {
    add_relaxed(thread_.stages[0].failures, 1);
    return note_failure(place_.name, id, call_of_source(at_.given));
  }

  template <class Error>
  failure_ptr source_failure(Error error, const sample_id& id) {
    add_relaxed(thread_.stages[0].failures, 1);
    return note_failure(place_.name, id, call_of_source(at_.given), std::move(error));
  }

  const run_options& options_;
  const run_context& context_;
  const stage_place& place_;
  Chain& chain_;
  thread_counters& thread_;
  source_place& at_;
  source_reader<Source> reader_;
  bool is_part_ = false; // its state belongs to the segment's
  bool ended_ = false;
  bool failed_for_good_ = false;
  failure_ptr failed_;
  bool failed_before_ = false; // in the run that is resumed
  known_failures* known_ = nullptr;
};

} // namespace feedline::inline v0::detail
