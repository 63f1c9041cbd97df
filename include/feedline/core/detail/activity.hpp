// SPDX-License-Identifier: MIT
#pragma once
// What a thread of a run notes of its time and its items, written by that thread alone, read by any.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace feedline::detail {

inline std::uint64_t now_ns() noexcept {
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch() /
                                    std::chrono::nanoseconds(1));
}

/// Adds to a counter that has one writer: no read-modify-write instruction is needed.
inline void add_relaxed(std::atomic<std::uint64_t>& counter, std::uint64_t amount) noexcept {
  counter.store(counter.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
}

struct stage_counters {
  std::atomic<std::uint64_t> received{0};
  std::atomic<std::uint64_t> given{0};
  std::atomic<std::uint64_t> failures{0};
};

enum class wait_kind : std::uint32_t { none, starved, blocked, parked };

/// One thread's account. Time that is neither waiting for input, nor for room, nor to be needed counts as
/// busy.
struct alignas(64) activity {
  explicit activity(std::size_t stage_count, std::size_t number_among_workers = 0)
      : number(number_among_workers), stages(std::make_unique<stage_counters[]>(stage_count)) {}

  const std::size_t number;

  std::atomic<std::uint64_t> began{0};
  std::atomic<std::uint64_t> ended{0};
  std::atomic<std::uint64_t> starved{0};
  std::atomic<std::uint64_t> blocked{0};
  std::atomic<std::uint64_t> parked{0};
  // A wait that is still going on: its beginning in ns, with its kind in the two lowest bits; 0: none.
  std::atomic<std::uint64_t> waiting{0};
  std::unique_ptr<stage_counters[]> stages;
};

/// Times a wait.
class wait_timer {
 public:
  wait_timer(activity& who, wait_kind kind) noexcept : who_(who), kind_(kind), begin_(now_ns()) {
    who_.waiting.store((begin_ << 2) | static_cast<std::uint64_t>(kind), std::memory_order_relaxed);
  }

  wait_timer(const wait_timer&) = delete;

  ~wait_timer() {
    who_.waiting.store(0, std::memory_order_relaxed);
    add_relaxed(kind_ == wait_kind::starved   ? who_.starved
                : kind_ == wait_kind::blocked ? who_.blocked
                                              : who_.parked,
                now_ns() - begin_);
  }

 private:
  activity& who_;
  wait_kind kind_;
  std::uint64_t begin_;
};

/// An account read at some moment, a wait that is going on included; in ns.
struct worker_times {
  std::uint64_t alive = 0; ///< but for being parked
  std::uint64_t starved = 0;
  std::uint64_t blocked = 0;

  std::uint64_t busy() const noexcept { return alive - std::min(alive, starved + blocked); }
};

inline worker_times read_times(const activity& a, std::uint64_t now) noexcept {
  const std::uint64_t began = a.began.load(std::memory_order_relaxed);
  const std::uint64_t ended = a.ended.load(std::memory_order_relaxed);
  if (began == 0) return {};
  worker_times t{std::max(ended ? ended : now, began) - began, a.starved.load(std::memory_order_relaxed),
                 a.blocked.load(std::memory_order_relaxed)};
  std::uint64_t parked = a.parked.load(std::memory_order_relaxed);
  const std::uint64_t waiting = a.waiting.load(std::memory_order_relaxed);
  const std::uint64_t since = now > waiting >> 2 ? now - (waiting >> 2) : 0;
  if (static_cast<wait_kind>(waiting & 3) == wait_kind::starved) t.starved += since;
  if (static_cast<wait_kind>(waiting & 3) == wait_kind::blocked) t.blocked += since;
  if (static_cast<wait_kind>(waiting & 3) == wait_kind::parked) parked += since;
  t.alive -= std::min(t.alive, parked);
  return t;
}

} // namespace feedline::detail
