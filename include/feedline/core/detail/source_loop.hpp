// SPDX-License-Identifier: MIT
#pragma once
// What a source's thread does: epoch after epoch, samples into the first segment's chain.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <feedline/core/detail/activity.hpp>
#include <feedline/core/detail/cut.hpp>
#include <feedline/core/detail/emitter.hpp>
#include <feedline/core/detail/find_samples.hpp>
#include <feedline/core/detail/packet.hpp>
#include <feedline/core/detail/progress.hpp>
#include <feedline/core/detail/ranked_source.hpp>
#include <feedline/core/failure.hpp>
#include <feedline/core/options.hpp>
#include <feedline/core/source.hpp>

namespace feedline::detail {

template <source Source, class Chain>
class source_loop {
 public:
  source_loop(const Source& described, const run_options& options, const run_context& context,
              const stage_place& place, Chain& chain, activity& who)
      : options_(options),
        context_(context),
        place_(place),
        chain_(chain),
        who_(who),
        at_(chain.progress().source),
        source_(described, options, context.stop, at_) {}

  /// From where the chain's progress says, after giving again what stages held there. `rest`: what was put
  /// down of the source's own state.
  void run(const std::vector<held>& all_held, state_reader rest) {
    const bool for_ever = options_.epochs == run_options::for_ever;
    // The source is taken up first: its state belongs to what is put down from now on.
    bool has_begun = chain_.progress().ending == 0 && (for_ever || at_.epoch < options_.epochs);
    bool began = has_begun && begin_epoch(rest);
    if (!refill(all_held)) return;
    while (for_ever || at_.epoch < options_.epochs) {
      const auto number = static_cast<std::uint32_t>(at_.epoch);
      bool may_be_empty = !for_ever;
      at_.next_first = for_ever ? 0 : options_.rank.number;
      if (chain_.progress().ending == 0) {
        if (!std::exchange(has_begun, false)) began = begin_epoch(rest);
        if (began) {
          if (!run_epoch()) return;
          if (for_ever) source_.find_next_first();
        } else {
          may_be_empty = true;
          if (chain_.fail(std::move(failed_)) == flow::stop) return;
        }
        if (!may_be_empty && !failed_for_good_ && source_.is_empty()) {
          try {
            throw empty_epoch();
          } catch (...) {
            if (chain_.fail(current_source_failure()) == flow::stop) return;
          }
        }
      }
      if (chain_.end_epoch(number, context_.drain) == flow::stop) return;
      at_ = {at_.epoch + 1, 0, 0, at_.next_first};
      chain_.publish();
    }
  }

 private:
  /// Gives what stages held. False: no more is wanted.
  bool refill(const std::vector<held>& all_held) {
    for (const held& h : in_order_of_refill(all_held)) {
      if (chain_.begin_refill(h.place) == flow::stop) return false;
      for (const auto& [epoch, indices] : indices_of(h.log->at(h.moment).ids))
        if (!give_again(epoch, indices)) return false;
      if (chain_.end_refill() == flow::stop) return false;
      chain_.publish();
    }
    return true;
  }

  /// False: it failed.
  bool begin_epoch(state_reader& rest) {
    ended_ = failed_for_good_ = false;
    try {
      source_.begin_epoch(rest);
    } catch (...) {
      failed_ = current_source_failure();
      return false;
    }
    if constexpr (has_state<Source>)
      if (!std::exchange(is_part_, true)) chain_.progress().add(source_.get(), 0, true);
    return true;
  }

  /// Gives the samples of one epoch. False: no more is wanted.
  bool run_epoch() {
    std::atomic<std::uint64_t>& counter = who_.stages[0].given;
    const std::uint64_t given_before = counter.load(std::memory_order_relaxed) - at_.given;
    for (flow wanted = flow::more; wanted == flow::more && !ended_;) {
      if (is_stopped()) return false;
      if constexpr (Chain::has_room && !has_index<Source> && !has_state<Source>)
        wanted = options_.rank.is_alone() ? give_row() : give_each();
      else wanted = give_each();
      // Stages that let little through must not hide that nobody wants more, nor hold back what they let.
      if (wanted == flow::more) wanted = chain_.sink().wanted();
      // The source is beyond the failure already: no cut may come between.
      if (failed_ && wanted == flow::more) wanted = give_failure();
      if (wanted == flow::more) wanted = chain_.sink().hand_over_if_late();
      if (wanted == flow::stop) return false;
      counter.store(given_before + at_.given, std::memory_order_relaxed);
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
      auto value = next();
      if (!value) {
        ended_ = !failed_;
        break;
      }
      const flow wanted =
          chain_.push(sample<source_item_t<Source>>{std::move(*value), {source_.index(), 0, epoch}});
      if (wanted != flow::more) return wanted;
    }
    return flow::more;
  }

  /// As many as go straight to where the next stage has room.
  flow give_row() {
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
      return source_.next();
    } catch (...) {
      failed_ = current_source_failure();
      return std::nullopt;
    }
  }

  flow give_failure() {
    ++at_.failed;
    if (context_.on_error == on_error::skip) return chain_.skipped(std::move(failed_));
    failed_for_good_ = true;
    return chain_.fail(std::move(failed_)) == flow::stop ? flow::stop : flow::enough;
  }

  /// Gives those samples of an epoch that some stage held. One that can't be had is not given: that stage will
  /// miss it. False: no more is wanted.
  bool give_again(std::uint32_t number, const std::vector<wanted_index>& wanted) {
    flow result = flow::more;
    try {
      Source source = source_.another(number);
      find_samples(source, wanted, context_.stopped, [&](source_item_t<Source>&& value, std::uint64_t index) {
        result = chain_.push(sample<source_item_t<Source>>{std::move(value), {index, 0, number}});
        return result != flow::stop;
      });
    } catch (...) { // nothing of this epoch can be had
    }
    return result != flow::stop && !is_stopped();
  }

  bool is_stopped() const noexcept { return context_.stopped.load(std::memory_order_relaxed); }

  failure_ptr current_source_failure() {
    add_relaxed(who_.stages[0].failures, 1);
    return std::make_unique<failure>(
        current_failure(place_.name, {.epoch = static_cast<std::uint32_t>(at_.epoch)}));
  }

  const run_options& options_;
  const run_context& context_;
  const stage_place& place_;
  Chain& chain_;
  activity& who_;
  source_place& at_;
  ranked_source<Source> source_;
  bool is_part_ = false; // its state belongs to the segment's
  bool ended_ = false;
  bool failed_for_good_ = false;
  failure_ptr failed_;
};

} // namespace feedline::detail
