// SPDX-License-Identifier: MIT
#pragma once
// How long threads of a run are ready to run but have no processor, as the system counts it.
#include <cstdint>
#include <optional>

#include <feedline/core/metrics/thread_counters.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// How long a thread of this process has waited on run queues, in ns. Nothing: it has ended, or the system doesn't say.
std::optional<std::uint64_t> run_queue_ns(int thread_id) noexcept;

/// Called by a thread that set its `id` when it began: stores how long it has waited so far. Until then read_preempted()
/// asks the system, so that the thread's work isn't slowed down.
void store_preempted(thread_counters& thread) noexcept;

/// In ns; 0 if the system doesn't say.
std::uint64_t read_preempted(const thread_counters& thread) noexcept;

} // namespace feedline::inline FEEDLINE_ABI::detail

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_CORE)
#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdio>
#include <system_error>

#include <fcntl.h>

#include <feedline/detail/open_file.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE std::optional<std::uint64_t> run_queue_ns(int thread_id) noexcept {
  char path[48];
  std::snprintf(path, sizeof path, "/proc/self/task/%d/schedstat", thread_id);
  const open_file file(::open(path, O_RDONLY | O_CLOEXEC));
  char text[80]; // "<ns on a processor> <ns on a run queue> <time slices>"
  const char* const end = text + file.read(text, sizeof text, 0);
  const char* const space = std::find<const char*>(text, end, ' ');
  std::uint64_t ns = 0;
  if (space == end || std::from_chars(space + 1, end, ns).ec != std::errc()) return std::nullopt;
  return ns;
}

FEEDLINE_INLINE void store_preempted(thread_counters& thread) noexcept {
  if (const std::optional<std::uint64_t> ns = run_queue_ns(thread.id.load(std::memory_order_relaxed)))
    thread.preempted_ns.store(*ns, std::memory_order_relaxed);
  thread.id.store(0, std::memory_order_release); // pairs with the acquire in read_preempted
}

FEEDLINE_INLINE std::uint64_t read_preempted(const thread_counters& thread) noexcept {
  if (const int id = thread.id.load(std::memory_order_acquire); id != 0)
    if (const std::optional<std::uint64_t> ns = run_queue_ns(id)) return *ns;
  return thread.preempted_ns.load(std::memory_order_relaxed);
}

} // namespace feedline::inline FEEDLINE_ABI::detail
#endif
