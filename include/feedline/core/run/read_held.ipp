// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/core/run/read_held.hpp>

#include <exception>
#include <system_error>
#include <thread>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE void run_on_threads(std::size_t count, function_ref<void()> work) {
  std::mutex mutex;
  std::exception_ptr failed;
  const auto one = [&] {
    try {
      work();
    } catch (...) {
      const std::lock_guard lock(mutex);
      failed = std::current_exception();
    }
  };
  std::vector<std::jthread> others;
  others.reserve(count);
  try {
    while (others.size() + 1 < count) others.emplace_back(one);
  } catch (const std::system_error&) { // then fewer threads must do
  }
  one();
  others.clear();
  if (failed) std::rethrow_exception(failed);
}

} // namespace feedline::inline FEEDLINE_ABI::detail
