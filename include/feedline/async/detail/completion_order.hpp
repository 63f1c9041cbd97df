// SPDX-License-Identifier: MIT
#pragma once
// Puts the tickets of an asynchronous stage in the order in which their operations end.
#include <feedline/async/detail/flight.hpp>
#include <feedline/core/contract.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// Emits each ticket once its operation has ended, and holds up to `limit` others. Epochs don't mix.
class completion_order {
 public:
  using feedline_part = void;
  static constexpr stage_traits traits{.kind = "completion_order",
                                       .one_to_one = true,
                                       .unchanged = true,
                                       .checkpoints_mid_call = true,
                                       .unordered = true};

  explicit completion_order(std::size_t limit) : limit_(limit) {}

  std::size_t items_held() const noexcept { return limit_; }

  template <class Ticket>
  class running {
   public:
    using output = Ticket;

    explicit running(std::size_t limit) : limit_(limit) { clear(); }

    void operator()(sample<Ticket>&& s, auto& emit, const context& c) {
      const auto wait = [&] {
        const auto waiting = c.waiting();
        ended_->wait();
      };
      if (s.id.epoch != epoch_) emit_until(0, emit, wait);
      epoch_ = s.id.epoch;
      hold(std::move(s));
      emit_ended(emit);
      emit_until(limit_ - 1, emit, wait);
    }

    void finish(auto& emit) {
      emit_until(0, emit, [&] { ended_->wait(); });
    }

   private:
    void hold(sample<Ticket>&& s) {
      operation_base& o = *s.value;
      o.place = held_.size();
      held_.push_back(std::move(s));
      o.announce_to(ended_);
    }

    sample<Ticket> take(std::size_t place) {
      sample<Ticket> taken = std::move(held_[place]);
      if (place + 1 != held_.size()) {
        held_[place] = std::move(held_.back());
        held_[place].value->place = place;
      }
      held_.pop_back();
      return taken;
    }

    // Waits until at most `count` tickets are left.
    void emit_until(std::size_t count, auto& emit, const auto& wait) {
      while (held_.size() > count) {
        emit.hand_over();
        wait();
        emit_ended(emit);
      }
    }

    void emit_ended(auto& emit) {
      ended_->take(ready_);
      for (const operation_base* o : ready_)
        if (!emit(take(o->place))) return clear(); // none of the others is wanted
      ready_.clear();
    }

    void clear() {
      ended_ = std::make_shared<completions>(
          limit_); // those that are dropped still announce their end to the old one
      ready_.clear();
      ready_.reserve(limit_);
      held_.clear();
      held_.reserve(limit_);
    }

    std::size_t limit_;
    std::shared_ptr<completions> ended_;
    std::vector<const operation_base*> ready_; // empty between calls
    std::vector<sample<Ticket>> held_;
    std::uint32_t epoch_ = 0;
  };

  template <class Ticket>
  running<Ticket> bind(const stage_info&) const {
    return running<Ticket>(limit_);
  }

 private:
  std::size_t limit_;
};

} // namespace feedline::inline FEEDLINE_ABI::detail
