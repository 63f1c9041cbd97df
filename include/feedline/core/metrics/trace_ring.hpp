// SPDX-License-Identifier: MIT
#pragma once
// The last events of one thread of a run, for a trace.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

#include <feedline/version.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// What a thread did.
struct trace_event {
  enum class kind : std::uint32_t { wait, packet, pushed, took };

  std::uint64_t begin = 0; ///< ns
  std::uint64_t end = 0;   ///< ns
  std::uint64_t id = 0;    ///< when the packet was pushed into its queue, in ns; of a wait its wait_kind
  std::uint64_t items = 0; ///< samples in the packet
  std::uint64_t fill = 0;  ///< samples in the queue that it was taken from or pushed into, afterwards
  kind what = kind::wait;
};

/// A bounded list with one writer. It overwrites the oldest events.
class trace_ring {
 public:
  /// Throws std::bad_alloc. Memory is used only for events that were added.
  explicit trace_ring(std::size_t capacity);

  void add(const trace_event& e) noexcept {
    const std::uint64_t number = added_.load(std::memory_order_relaxed);
    std::uint64_t* const s = slots_.get() + words * (number % capacity_);
    // These pair with the acquires in read(): whoever sees one of them also sees `added_` from before it.
    const auto store = [s](std::size_t i, std::uint64_t value) {
      std::atomic_ref(s[i]).store(value, std::memory_order_release);
    };
    store(0, e.begin);
    store(1, e.end);
    store(2, e.id);
    store(3, e.items);
    store(4, e.fill);
    store(5, static_cast<std::uint64_t>(e.what));
    added_.store(number + 1, std::memory_order_release);
  }

  /// The events from the oldest that is left, for any thread. `lost`: how many were overwritten.
  std::vector<trace_event> read(std::uint64_t& lost) const;

 private:
  static constexpr std::size_t words = 6; // of an event

  struct release {
    void operator()(std::uint64_t* memory) const noexcept { std::free(memory); }
  };

  std::size_t capacity_;
  std::unique_ptr<std::uint64_t[], release> slots_;
  std::atomic<std::uint64_t> added_{0};
};

} // namespace feedline::inline FEEDLINE_ABI::detail

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_CORE)
#include <algorithm>
#include <new>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE trace_ring::trace_ring(std::size_t capacity)
    : capacity_(capacity),
      slots_(static_cast<std::uint64_t*>(std::calloc(capacity, words * sizeof(std::uint64_t)))) {
  if (!slots_) throw std::bad_alloc();
}

FEEDLINE_INLINE std::vector<trace_event> trace_ring::read(std::uint64_t& lost) const {
  const std::uint64_t end = added_.load(std::memory_order_acquire);
  std::uint64_t first = end - std::min<std::uint64_t>(end, capacity_);
  std::vector<trace_event> all;
  for (std::uint64_t i = first; i < end; ++i) {
    std::uint64_t* const s = slots_.get() + words * (i % capacity_);
    const auto load = [s](std::size_t word) {
      return std::atomic_ref(s[word]).load(std::memory_order_acquire);
    };
    all.push_back({load(0), load(1), load(2), load(3), load(4), static_cast<trace_event::kind>(load(5))});
  }
  // Meanwhile the thread may have overwritten the first of them, and may be writing one more.
  const std::uint64_t now = added_.load(std::memory_order_relaxed);
  const std::uint64_t whole = now >= capacity_ ? now - capacity_ + 1 : 0;
  const std::uint64_t overwritten = whole > first ? std::min(whole - first, end - first) : 0;
  all.erase(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(overwritten));
  lost = first + overwritten;
  return all;
}

} // namespace feedline::inline FEEDLINE_ABI::detail
#endif
