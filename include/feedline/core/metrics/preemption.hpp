// SPDX-License-Identifier: MIT
#pragma once
// How long threads of a run are ready to run but have no processor, as the system counts it.
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <optional>

#include <unistd.h>

#include <feedline/core/metrics/thread_counters.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// How long a thread of this process has waited on run queues, in ns. Nothing: it has ended, or the system doesn't say.
std::optional<std::uint64_t> run_queue_ns(int thread_id) noexcept;

/// While it lives, read_preempted() asks the system about the calling thread. The thread itself asks only at the end, so
/// its work isn't slowed down.
class preemption_watch {
 public:
  explicit preemption_watch(thread_counters& thread) noexcept : thread_(thread) {
    thread_.id.store(::gettid(), std::memory_order_relaxed);
  }

  preemption_watch(const preemption_watch&) = delete;

  ~preemption_watch();

 private:
  thread_counters& thread_;
};

/// In ns; 0 if the system doesn't say.
std::uint64_t read_preempted(const thread_counters& thread) noexcept;

} // namespace feedline::inline FEEDLINE_ABI::detail

#ifndef FEEDLINE_COMPILED
#include <feedline/core/metrics/preemption.ipp>
#endif
