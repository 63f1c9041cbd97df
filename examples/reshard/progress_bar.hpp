// SPDX-License-Identifier: MIT
#pragma once
// Shows the progress of a long job: on a terminal as a bar that is redrawn, elsewhere as a line for every
// tenth of the job.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>

#include <unistd.h>

class progress_bar {
 public:
  /// `done`: of the total, by an earlier run.
  progress_bar(std::uint64_t total, std::uint64_t done)
      : total_(std::max<std::uint64_t>(total, 1)), shown_tenth_(static_cast<int>(10 * part(done))) {}

  progress_bar(const progress_bar&) = delete;
  progress_bar& operator=(const progress_bar&) = delete;

  /// Leaves the last state on the terminal.
  ~progress_bar() {
    if (is_terminal_ && drawn_) std::fputs("\n", stdout);
  }

  /// Shows that `done` of the total is done, unless the last update is too recent; `details()` returns the
  /// text next to the bar.
  template <class Details>
  void show(std::uint64_t done, Details details) {
    if (is_terminal_) {
      const auto now = std::chrono::steady_clock::now();
      if (drawn_ && done < total_ && now - drawn_at_ < std::chrono::milliseconds(100)) return;
      drawn_at_ = now;
      const auto filled = static_cast<std::size_t>(width * part(done));
      std::printf("\r[%s%s] ", std::string(filled, '#').c_str(), std::string(width - filled, '.').c_str());
    } else {
      const int tenth = static_cast<int>(10 * part(done));
      if (tenth == shown_tenth_) return;
      shown_tenth_ = tenth;
    }
    drawn_ = true;
    std::printf("%3.0f %%  %s%s", 100 * part(done), details().c_str(), is_terminal_ ? "\033[K" : "\n");
    std::fflush(stdout);
  }

 private:
  static constexpr std::size_t width = 24;

  double part(std::uint64_t done) const {
    return static_cast<double>(std::min(done, total_)) / static_cast<double>(total_);
  }

  std::uint64_t total_;
  bool is_terminal_ = ::isatty(STDOUT_FILENO) != 0;
  bool drawn_ = false;
  int shown_tenth_;
  std::chrono::steady_clock::time_point drawn_at_;
};
