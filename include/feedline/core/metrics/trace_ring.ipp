// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/core/metrics/trace_ring.hpp>

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
