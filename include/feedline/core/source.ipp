// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/core/source.hpp>

#include <exception>
#include <stdexcept>

#include <feedline/core/failure.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE void skip_calls(std::uint64_t calls, std::uint64_t failures, const std::stop_token& stop,
                                function_ref<bool()> next) {
  constexpr const char* lost = "the run can't return to the checkpoint's position: ";
  std::uint64_t failed = 0;
  std::string last;
  for (; calls > 0 && !stop.stop_requested(); --calls) {
    bool has_next = true;
    try {
      has_next = next();
    } catch (const std::exception& error) {
      if (is_outage(std::current_exception())) throw;
      ++failed;
      last = error.what();
    } catch (...) {
      ++failed;
    }
    if (!has_next)
      throw std::runtime_error(lost + ("the epoch ended " + std::to_string(calls)) + " samples before it");
  }
  if (failed != failures && !stop.stop_requested())
    throw std::runtime_error(lost + std::to_string(failed) + " samples before it failed now, " +
                             std::to_string(failures) + " when the checkpoint was taken" +
                             (last.empty() ? last : "; the last error is: " + last));
}

} // namespace feedline::inline FEEDLINE_ABI::detail
