// SPDX-License-Identifier: MIT
#pragma once
// Work that is shared by threads of its own, outside of the threads of a run.
#include <cstddef>

#include <feedline/detail/function_ref.hpp>
#include <feedline/version.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// Calls `work` on `count` threads at once, including the caller's, and returns when all have finished; on fewer if the system
/// gives no more. Rethrows the first error.
void run_on_threads(std::size_t count, function_ref<void()> work);

/// Calls work(0), work(1), … work(count - 1) on up to `most` threads. After an error it begins no more, and rethrows it.
void run_each_on_threads(std::size_t count, std::size_t most, function_ref<void(std::size_t)> work);

} // namespace feedline::inline FEEDLINE_ABI::detail

#ifndef FEEDLINE_COMPILED
#include <feedline/detail/run_on_threads.ipp>
#endif
