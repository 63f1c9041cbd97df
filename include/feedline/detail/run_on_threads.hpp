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

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_DETAIL)
#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE void run_on_threads(std::size_t count, function_ref<void()> work) {
  std::mutex mutex;
  std::exception_ptr failed;
  const auto one = [&] {
    try {
      work();
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!failed) failed = std::current_exception();
    }
  };
  std::vector<std::jthread> others;
  others.reserve(count);
  try {
    while (others.size() + 1 < count) others.emplace_back(one);
  } catch (const std::exception&) { // then fewer threads must do
  }
  one();
  others.clear();
  if (failed) std::rethrow_exception(failed);
}

FEEDLINE_INLINE void run_each_on_threads(std::size_t count, std::size_t most,
                                         function_ref<void(std::size_t)> work) {
  std::atomic<std::size_t> next{0};
  run_on_threads(std::min(count, most), [&] {
    try {
      for (std::size_t i; (i = next.fetch_add(1)) < count;) work(i);
    } catch (...) {
      next = count;
      throw;
    }
  });
}

} // namespace feedline::inline FEEDLINE_ABI::detail
#endif
