// SPDX-License-Identifier: MIT
#pragma once
// What a source's thread does: epoch after epoch, samples into the first segment's chain.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
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
#include <feedline/core/epoch.hpp>
#include <feedline/core/failure.hpp>
#include <feedline/core/options.hpp>
#include <feedline/core/source.hpp>

namespace feedline::detail {

template <source Source, class Chain>
class source_loop {
 public:
  source_loop(const Source& described, const run_options& options, const run_context& context,
              const stage_place& place, Chain& chain, activity& who)
      : described_(described),
        options_(options),
        context_(context),
        place_(place),
        chain_(chain),
        who_(who),
        at_(chain.progress().source) {}

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
          if (for_ever) find_next_first();
        } else {
          may_be_empty = true;
          if (chain_.fail(std::move(failed_)) == flow::stop) return;
        }
        if (!may_be_empty && !failed_for_good_ && is_empty()) {
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
  static constexpr std::uint64_t no_more = ~std::uint64_t{0};
  // Else this loop passes over the samples of other ranks.
  static constexpr bool knows_ranks = shares_places<Source> || shares_files<Source>;

  void start(Source& source, std::uint32_t number) const {
    start_source(source, make_epoch(options_, number, context_.stop, at_.first));
  }

  // Where this rank goes on in the next epoch of an infinite run.
  void find_next_first() {
    if constexpr (shares_places<Source>) at_.next_first = source_->next_first();
    else if constexpr (!shares_files<Source>) at_.next_first = at_.first;
  }

  // Whether there are no samples at all; a rank may well have an epoch of empty files.
  bool is_empty() {
    if constexpr (shares_places<Source>) return source_->places() == 0;
    else return at_.given == 0 && ++empty_epochs_ >= (shares_files<Source> ? options_.rank.of : 1);
  }

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
      source_.emplace(described_);
      start(*source_, static_cast<std::uint32_t>(at_.epoch));
      if (at_.calls > 0) go_on(rest);
    } catch (...) {
      failed_ = current_source_failure();
      return false;
    }
    if constexpr (has_state<Source>)
      if (!std::exchange(is_part_, true)) chain_.progress().add(*source_, 0, true);
    return true;
  }

  // To where the source was when the run was left.
  void go_on(state_reader& rest) {
    if constexpr (has_state<Source>) read_state(*source_, rest);
    else skip_samples(*source_, at_.calls, context_.stop);
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
    const std::uint64_t pushes = chain_.sink().pushes();
    const std::uint64_t most = at_.given + 256;
    flow wanted = flow::more;
    while (wanted == flow::more && at_.given != most && !is_stopped() && pushes == chain_.sink().pushes()) {
      auto value = next();
      if (!value) {
        ended_ = !failed_;
        break;
      }
      const sample_id id{index_, 0, static_cast<std::uint32_t>(at_.epoch)};
      ++at_.given;
      wanted = chain_.push(sample<source_item_t<Source>>{std::move(*value), id});
    }
    return wanted;
  }

  /// The next sample and its index. Nothing: the epoch has ended, or that sample failed.
  auto next() -> decltype(std::declval<Source&>().next()) {
    try {
      if (!knows_ranks && !options_.rank.is_alone()) return next_of_rank();
      ++at_.calls;
      auto value = source_->next();
      if (value) index_ = index_of(*source_, at_.given);
      return value;
    } catch (...) {
      failed_ = current_source_failure();
      return std::nullopt;
    }
  }

  /// Passes over samples of other ranks, however they fare.
  auto next_of_rank() -> decltype(std::declval<Source&>().next()) {
    const rank& r = options_.rank;
    if (at_.first == no_more) return std::nullopt;
    for (; at_.first > 0; --at_.first)
      if (!pass_over()) return wrapped(r.number - std::min<std::uint64_t>(at_.first, r.number));
    at_.first = r.of - 1;
    ++at_.calls;
    std::exception_ptr error;
    auto value = [&]() -> decltype(source_->next()) {
      try {
        return source_->next();
      } catch (...) {
        error = std::current_exception();
        return std::nullopt;
      }
    }();
    if (!value && !error) {
      at_.first = 0; // the next one there is
      return wrapped(r.number);
    }
    if (value) index_ = index_of(*source_, at_.given);
    if (options_.epochs != run_options::for_ever && r.rest != uneven::keep) {
      // Does every rank get one?
      at_.first = r.number;
      for (std::uint32_t other = r.number + 1; other < r.of; ++other)
        if (!pass_over() && r.rest == uneven::drop) return std::nullopt;
    }
    if (error) std::rethrow_exception(error);
    return value;
  }

  // False: there are no more.
  bool pass_over() {
    ++at_.calls;
    try {
      if (!source_->next()) return false;
      ++at_.given;
    } catch (...) { // is told by the rank whose it is
    }
    return true;
  }

  /// The epoch has ended after so many ranks had got their next sample.
  auto wrapped(std::uint64_t ranks) -> decltype(std::declval<Source&>().next()) {
    const rank& r = options_.rank;
    if (ranks == 0 || r.rest != uneven::wrap || options_.epochs == run_options::for_ever || at_.given == 0)
      return std::nullopt;
    at_.first = no_more;
    Source again(described_);
    start(again, static_cast<std::uint32_t>(at_.epoch));
    const std::uint64_t number = (r.number - ranks) % at_.given;
    for (std::uint64_t given = 0;;) {
      try {
        auto value = again.next();
        index_ = value ? index_of(again, given) : 0;
        if (!value || given++ == number) return value;
      } catch (...) { // was told before
      }
    }
  }

  /// As many as go straight to where the next stage has room.
  flow give_row() {
    std::span<source_item_t<Source>> target;
    if (const flow wanted = chain_.room(target); wanted != flow::more) return wanted;
    if (target.empty()) return give_each();
    std::size_t count = 0;
    try {
      while (count < target.size() && !is_stopped()) {
        ++at_.calls;
        auto value = source_->next();
        ended_ = !value;
        if (!value) break;
        std::construct_at(&target[count], std::move(*value));
        ++count;
      }
    } catch (...) {
      failed_ = current_source_failure();
      --at_.calls; // it counts behind those that are given now
      uncounted_calls_ = 1;
    }
    const sample_id first{at_.given, 0, static_cast<std::uint32_t>(at_.epoch)};
    at_.given += count;
    return chain_.commit(count, {first});
  }

  flow give_failure() {
    at_.calls += std::exchange(uncounted_calls_, 0);
    if (context_.on_error == on_error::skip) return chain_.skipped(std::move(failed_));
    failed_for_good_ = true;
    return chain_.fail(std::move(failed_)) == flow::stop ? flow::stop : flow::enough;
  }

  /// Gives those samples of an epoch that some stage held. One that can't be had is not given: that stage will
  /// miss it. False: no more is wanted.
  bool give_again(std::uint32_t number, const std::vector<wanted_index>& wanted) {
    flow result = flow::more;
    try {
      Source source(described_);
      start(source, number);
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

  const Source& described_;
  const run_options& options_;
  const run_context& context_;
  const stage_place& place_;
  Chain& chain_;
  activity& who_;
  source_place& at_;
  std::optional<Source> source_; // of this epoch
  bool is_part_ = false;         // its state belongs to the segment's
  std::uint64_t uncounted_calls_ = 0;
  bool ended_ = false;
  std::uint32_t empty_epochs_ = 0;
  bool failed_for_good_ = false;
  std::uint64_t index_ = 0; // of the sample that next() gave last
  failure_ptr failed_;
};

} // namespace feedline::detail
