// SPDX-License-Identifier: MIT
#pragma once
// Shows the progress of a long job: on a terminal as a bar that is redrawn, elsewhere as a line for every
// tenth of the job.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>

#include <unistd.h>

class progress_bar {
 public:
  progress_bar(std::string title, std::uint64_t total)
      : title_(std::move(title)), total_(std::max<std::uint64_t>(total, 1)) {}

  progress_bar(const progress_bar&) = delete;
  progress_bar& operator=(const progress_bar&) = delete;

  /// Leaves the last state on the terminal.
  ~progress_bar() {
    if (is_terminal_ && drawn_) std::fputs("\n", stdout);
  }

  /// Prints a line above the bar.
  void say(const std::string& line) {
    std::printf("%s%s\n", is_terminal_ && drawn_ ? "\r\033[K" : "", line.c_str());
    std::fflush(stdout);
  }

  /// Shows that `done` of the total is done, unless the last update is too recent; `details()` returns the
  /// text next to the bar.
  template <class Details>
  void show(std::uint64_t done, Details details) {
    if (is_terminal_) {
      const auto now = std::chrono::steady_clock::now();
      if (drawn_ && done < total_ && now - drawn_at_ < std::chrono::milliseconds(100)) return;
      drawn_at_ = now;
      const auto filled = static_cast<std::size_t>(width * std::min(done, total_) / total_);
      std::printf("\r%s [%s%s] ", title_.c_str(), std::string(filled, '#').c_str(),
                  std::string(width - filled, '.').c_str());
    } else {
      const std::uint64_t tenth = 10 * done / total_;
      if (tenth == shown_tenth_) return;
      shown_tenth_ = tenth;
      std::printf("%s ", title_.c_str());
    }
    drawn_ = true;
    std::printf("%llu/%llu  %s%s", static_cast<unsigned long long>(done),
                static_cast<unsigned long long>(total_), details().c_str(), is_terminal_ ? "\033[K" : "\n");
    std::fflush(stdout);
  }

 private:
  static constexpr std::size_t width = 16;

  std::string title_;
  std::uint64_t total_;
  bool is_terminal_ = ::isatty(STDOUT_FILENO) != 0;
  bool drawn_ = false;
  std::uint64_t shown_tenth_ = 0;
  std::chrono::steady_clock::time_point drawn_at_;
};
