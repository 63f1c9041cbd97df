// SPDX-License-Identifier: MIT
#pragma once
// What a thread of a run notes of its time and its items, written by that thread alone, read by any.
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

enum class wait_kind : std::uint32_t { none, starved, blocked };

/// One thread's account. Time that is neither waiting for input nor for room counts as busy.
struct alignas(64) activity {
  explicit activity(std::size_t stage_count) : stages(std::make_unique<stage_counters[]>(stage_count)) {}

  std::atomic<std::uint64_t> began{0};
  std::atomic<std::uint64_t> ended{0};
  std::atomic<std::uint64_t> starved{0};
  std::atomic<std::uint64_t> blocked{0};
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
    add_relaxed(kind_ == wait_kind::starved ? who_.starved : who_.blocked, now_ns() - begin_);
  }

 private:
  activity& who_;
  wait_kind kind_;
  std::uint64_t begin_;
};

} // namespace feedline::detail
