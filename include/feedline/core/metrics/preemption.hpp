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

#ifndef FEEDLINE_COMPILED
#include <feedline/core/metrics/preemption.ipp>
#endif
