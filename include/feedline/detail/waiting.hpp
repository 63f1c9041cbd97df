// SPDX-License-Identifier: MIT
#pragma once
// How the queues wait: a thread spins briefly, then parks.
#include <atomic>
#include <cstdint>

#include <feedline/detail/kernel.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// Spins before a wait, for about as long as a wake-up would take. After several failures in a row it spins
/// only occasionally. (Without spinning, two threads that pass items to each other would fall into a rhythm in
/// which each always finds the other asleep. Where they share a core, spinning keeps the other thread from
/// running.)
class patience {
 public:
  /// Checks `ready` repeatedly for a while. True once it holds.
  template <class Ready>
  bool spin_until(Ready ready) {
    // Only a heuristic: threads may overwrite each other's count, and a wrong one costs some microseconds.
    const std::uint32_t failures = failures_.load(std::memory_order_relaxed);
    const int max_pauses = failures < 4 || failures % 16 == 0 ? long_spin : first_look;
    // The first check is late, so that several items have arrived or left by then: threads that pass each
    // single item on at once spend their time moving cache lines. It never yields: on a busy machine each yield
    // costs a time slice.
    for (int paused = 0, step = first_look; paused < max_pauses; step = between_looks) {
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
  // Counted in pauses, of 10 to 50 ns each.
  static constexpr int first_look = 16;
  static constexpr int between_looks = 32;
  static constexpr int long_spin = 1024;

  std::atomic<std::uint32_t> failures_{0}; // in a row
};

/// Where threads park until a condition may have become true. To wait:
///
///     room.announce();
///     if (condition()) room.leave(); else room.wait();
///
/// To end a wait: make the condition true, then `if (room.occupied()) room.wake(n)`. Both sides order their two
/// steps sequentially, so one of them sees the other. Each wake-up is a token that exactly one waiter consumes.
/// wake(n) adds tokens until there are n, and makes no system call if there are already: so a woken thread must wake
/// the next one if there is more to do. At most 32,767 threads can wait at once.
class waiting_room {
 public:
  /// Spins for a while. True: `ready` holds. False: the thread should park.
  template <class Ready>
  bool spin_until(Ready ready) {
    return patience_.spin_until(ready);
  }

  /// Counts this thread as waiting. Call it before the last check of the condition.
  void announce() noexcept { state_.fetch_add(one_waiter, std::memory_order_seq_cst); }

  /// Withdraws the announcement.
  void leave() noexcept {
    std::uint32_t state = state_.load(std::memory_order_relaxed);
    std::uint32_t next = 0;
    do {
      // Keeps the tokens from outnumbering the waiters: if all were woken, the thread that leaves takes a token
      // with it.
      next = state - one_waiter - (tokens(state) == waiters(state) ? one_token : 0);
    } while (!state_.compare_exchange_weak(state, next, std::memory_order_relaxed));
  }

  /// Parks until the thread is woken (true) or the deadline has passed (false; the announcement is withdrawn).
  bool wait(deadline until = no_deadline) noexcept {
    std::uint32_t state = state_.load(std::memory_order_relaxed);
    for (bool in_time = true;;) {
      if (tokens(state) != 0) { // also after the deadline: no other thread may be left to take it
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

  /// True if a thread waits, or if alert() was called.
  bool occupied() const noexcept { return word().load(std::memory_order_seq_cst) != 0; }

  /// 0 as long as occupied() is false.
  const std::atomic<std::uint32_t>& word() const noexcept { return state_; }

  /// Wakes waiters until `count` woken ones are on their way, or all.
  void wake(std::uint32_t count) noexcept {
    std::uint32_t state = state_.load(std::memory_order_seq_cst);
    std::uint32_t woken = 0;
    do {
      const std::uint32_t wanted = waiters(state) < count ? waiters(state) : count;
      if (wanted <= tokens(state)) return;
      woken = wanted - tokens(state);
    } while (!state_.compare_exchange_weak(state, state + woken * one_token, std::memory_order_release,
                                           std::memory_order_relaxed));
    unpark(state_, woken);
  }

  /// Wakes every waiter.
  void wake_all() noexcept { wake(waiters(~0U)); }

  /// Makes occupied() permanently true.
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

/// Waits in `room`. True: `ready` holds or the thread was woken, and the caller should check again. False: the
/// deadline has passed. `before_look` runs between the announcement and the last check.
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

} // namespace feedline::inline FEEDLINE_ABI::detail
