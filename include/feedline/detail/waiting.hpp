// SPDX-License-Identifier: MIT
#pragma once
// How the queues wait: spin briefly, then park.
#include <atomic>
#include <cstdint>

#include <feedline/detail/kernel.hpp>

namespace feedline::inline v0::detail {

/// Spins before a wait, for about as long as it would take to be woken, but after some failures in a row only
/// now and then. (Two threads that hand items to each other would else fall into a rhythm in which each
/// always finds the other asleep; and where they share a core, spinning is what keeps the other from its
/// answer.)
class patience {
 public:
  /// Looks at `ready` for a while. True once it holds.
  template <class Ready>
  bool spin_until(Ready ready) {
    // A guess that threads may overwrite for each other: a wrong one costs some microseconds.
    const std::uint32_t failures = failures_.load(std::memory_order_relaxed);
    const int most = failures < 4 || failures % 16 == 0 ? long_spin : first_look;
    // The first look comes late, so that more than one item has come or gone by then: neighbours that pass
    // each single item on at once spend their time on moving cache lines. No yields: on a busy machine each
    // costs a time slice.
    for (int paused = 0, step = first_look; paused < most; step = between_looks) {
      for (int i = 0; i < step; ++i) spin_pause();
      paused += step;
      if (!ready()) continue;
      if (failures != 0) failures_.store(0, std::memory_order_relaxed);
      return true;
    }
    failures_.store(failures + 1, std::memory_order_relaxed);
    return false;
  }

 private:
  // In pauses, of 10 to 50 ns each.
  static constexpr int first_look = 16;
  static constexpr int between_looks = 32;
  static constexpr int long_spin = 1024;

  std::atomic<std::uint32_t> failures_{0}; // in a row
};

/// Where threads park until a condition may have come true. To wait:
///
///     room.announce();
///     if (condition()) room.leave(); else room.wait();
///
/// and to end a wait: make the condition true, then `if (room.occupied()) room.wake(n)`. Both sides order
/// their two steps sequentially, so that one of them sees the other. Each wake-up is a token that exactly one
/// waiter consumes: waking n threads wakes n, and costs no system call where all have been woken already.
/// At most 32,767 threads wait at once.
class waiting_room {
 public:
  /// Spins until `ready` holds: true; or not: then it is time to park.
  template <class Ready>
  bool spin_until(Ready ready) {
    return patience_.spin_until(ready);
  }

  /// Counts this thread as waiting, before it looks at its condition for the last time.
  void announce() noexcept { state_.fetch_add(one_waiter, std::memory_order_seq_cst); }

  /// Takes the announcement back.
  void leave() noexcept {
    std::uint32_t state = state_.load(std::memory_order_relaxed);
    std::uint32_t next = 0;
    do {
      // Never more tokens than waiters: where all have been woken, who leaves takes one along.
      next = state - one_waiter - (tokens(state) == waiters(state) ? one_token : 0);
    } while (!state_.compare_exchange_weak(state, next, std::memory_order_relaxed));
  }

  /// Parks until woken: true; or until the deadline has passed: false, the announcement taken back.
  bool wait(deadline until = no_deadline) noexcept {
    std::uint32_t state = state_.load(std::memory_order_relaxed);
    for (bool in_time = true;;) {
      if (tokens(state) != 0) { // also after the deadline: nobody else may be left to take it
        if (state_.compare_exchange_weak(state, state - one_waiter - one_token, std::memory_order_acquire,
                                         std::memory_order_relaxed))
          return true;
      } else if (in_time) {
        in_time = park(state_, state, until);
        state = state_.load(std::memory_order_relaxed);
      } else if (state_.compare_exchange_weak(state, state - one_waiter, std::memory_order_relaxed)) {
        return false;
      }
    }
  }

  /// True if some thread waits or alert() was called.
  bool occupied() const noexcept { return word().load(std::memory_order_seq_cst) != 0; }

  /// Is 0 as long as occupied() is false.
  const std::atomic<std::uint32_t>& word() const noexcept { return state_; }

  /// Wakes `count` waiters, or all if there are fewer.
  void wake(std::uint32_t count) noexcept {
    std::uint32_t state = state_.load(std::memory_order_seq_cst);
    std::uint32_t woken = 0;
    do {
      const std::uint32_t asleep = waiters(state) - tokens(state);
      woken = asleep < count ? asleep : count;
      if (woken == 0) return;
    } while (!state_.compare_exchange_weak(state, state + woken * one_token, std::memory_order_release,
                                           std::memory_order_relaxed));
    unpark(state_, woken);
  }

  /// Wakes every waiter.
  void wake_all() noexcept { wake(waiters(~0U)); }

  /// Makes occupied() true for good.
  void alert() noexcept { state_.fetch_or(alerted, std::memory_order_seq_cst); }

 private:
  // From the top: the alert, 15 bits of waiters, 16 bits of tokens.
  static constexpr std::uint32_t alerted = 1U << 31;
  static constexpr std::uint32_t one_waiter = 1U << 16;
  static constexpr std::uint32_t one_token = 1;

  static std::uint32_t waiters(std::uint32_t state) noexcept { return (state & ~alerted) / one_waiter; }

  static std::uint32_t tokens(std::uint32_t state) noexcept { return state % one_waiter; }

  std::atomic<std::uint32_t> state_{0};
  patience patience_;
};

/// Waits in `room` until `ready` holds or a wake-up has come: true, and the caller looks again; or until the
/// deadline has passed: false. `before_look` runs between the announcement and the last look.
template <class Ready, class BeforeLook>
bool wait_in(waiting_room& room, deadline until, Ready ready, BeforeLook before_look) {
  if (room.spin_until(ready)) return true;
  room.announce();
  before_look();
  if (!ready()) return room.wait(until);
  room.leave();
  return true;
}

template <class Ready>
bool wait_in(waiting_room& room, deadline until, Ready ready) {
  return wait_in(room, until, ready, [] {});
}

} // namespace feedline::inline v0::detail
