// SPDX-License-Identifier: MIT
#pragma once
// How long threads of a run are ready to run but have no processor, as the system counts it.
#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <system_error>

#include <fcntl.h>
#include <unistd.h>

#include <feedline/core/metrics/thread_counters.hpp>
#include <feedline/detail/open_file.hpp>

namespace feedline::inline v0::detail {

/// How long a thread of this process has waited on run queues, in ns. Nothing: it has ended, or the system doesn't say.
inline std::optional<std::uint64_t> run_queue_ns(int thread_id) noexcept {
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

/// While it lives, read_preempted() asks the system about the calling thread. The thread itself asks only at the end, so
/// its work isn't slowed down.
class preemption_watch {
 public:
  explicit preemption_watch(thread_counters& thread) noexcept : thread_(thread) {
    thread_.id.store(::gettid(), std::memory_order_relaxed);
  }

  preemption_watch(const preemption_watch&) = delete;

  ~preemption_watch() {
    if (const std::optional<std::uint64_t> ns = run_queue_ns(::gettid()))
      thread_.preempted_ns.store(*ns, std::memory_order_relaxed);
    thread_.id.store(0, std::memory_order_release); // pairs with the acquire in read_preempted
  }

 private:
  thread_counters& thread_;
};

/// In ns; 0 if the system doesn't say.
inline std::uint64_t read_preempted(const thread_counters& thread) noexcept {
  if (const int id = thread.id.load(std::memory_order_acquire); id != 0)
    if (const std::optional<std::uint64_t> ns = run_queue_ns(id)) return *ns;
  return thread.preempted_ns.load(std::memory_order_relaxed);
}

} // namespace feedline::inline v0::detail
