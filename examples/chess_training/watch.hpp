// SPDX-License-Identifier: MIT
#pragma once
// How each stage of a run does, once a second: a table redrawn in its place on a terminal, lines elsewhere.
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>

#include <feedline/feedline.hpp>
#include <unistd.h>

namespace chess {

/// "map `chunk loader`" is the chunk loader; the library's own shuffle buffer is the frame sampler here.
inline std::string stage_label(const std::string& name) {
  if (name == "shuffle") return "shuffling frame sampler";
  const std::size_t begin = name.find('`'), end = name.rfind('`');
  return begin < end && end != std::string::npos ? name.substr(begin + 1, end - begin - 1) : name;
}

/// A row for each stage and queue: items of the last second and since the start, how full it is, and what was counted.
inline std::string to_table(const feedline::metrics& m) {
  std::string text;
  const auto row = [&](const std::string& name, double recent, std::uint64_t total, const std::string& more) {
    char line[200];
    std::snprintf(line, sizeof line, "%-28s %12.0f /s %14llu  ", name.c_str(), recent,
                  static_cast<unsigned long long>(total));
    text += line + more + "\n";
  };
  const auto per_second = [&](std::uint64_t count) {
    return m.recent.seconds > 0 ? static_cast<double>(count) / m.recent.seconds : 0;
  };
  const auto numbers = [](const feedline::stage_metrics& s) {
    std::string all;
    for (const feedline::user_metric& number : s.numbers)
      all += (all.empty() ? "" : ", ") + number.name + " " +
             std::to_string(static_cast<std::uint64_t>(number.value));
    return all;
  };
  for (std::size_t i = 0; i < m.total.stages.size(); ++i) {
    const feedline::stage_metrics& s = m.total.stages[i];
    std::string more;
    if (s.capacity > 0) more = std::to_string(s.held) + " of " + std::to_string(s.capacity) + " held";
    const auto add = [&more](const std::string& what) { more += (more.empty() ? "" : ", ") + what; };
    if (s.failures > 0) add(std::to_string(s.failures) + " bad");
    if (s.numbers.empty()) {
    } else if (i == 0) { // of the pool, beside its failures
      add(numbers(s));
    } else if (s.failures > 0) { // by cause
      more += ": " + numbers(s);
      if (i < m.recent.stages.size() && m.recent.stages[i].failures > 0)
        more += " (last second: " + numbers(m.recent.stages[i]) + ")";
    }
    row(stage_label(s.name), i < m.recent.stages.size() ? per_second(m.recent.stages[i].given) : 0, s.given,
        more);
  }
  for (std::size_t i = 0; i < m.total.queues.size(); ++i) {
    const feedline::queue_metrics& q = m.total.queues[i];
    const bool is_known = i < m.recent.queues.size();
    char fill[80];
    std::snprintf(fill, sizeof fill, "%.0f of %llu", is_known ? m.recent.queues[i].mean_fill : 0,
                  static_cast<unsigned long long>(q.capacity));
    row("queue " + std::to_string(i + 1), is_known ? per_second(m.recent.queues[i].taken) : 0, q.taken, fill);
  }
  return text;
}

/// Shows a run once a second, also while it waits for games, on a thread of its own. Between two calls of its `metrics()`
/// lies what they show.
class watch_view {
 public:
  template <class Loader>
  explicit watch_view(Loader& loader)
      : thread_([this, &loader](const std::stop_token& stop) {
          std::unique_lock lock(mutex_);
          do {
            const std::string headline = headline_;
            lock.unlock();
            draw(headline + "\n" + to_table(loader.metrics()));
            lock.lock();
            changed_.wait_for(lock, stop, std::chrono::seconds(1), [] { return false; });
          } while (!stop.stop_requested());
        }) {}

  /// What stands above the table.
  void set_headline(const std::string& text) {
    const std::lock_guard lock(mutex_);
    headline_ = text;
  }

 private:
  void draw(const std::string& text) {
    std::string output;
    if (is_terminal_ && lines_ > 0) output = "\033[" + std::to_string(lines_) + "A\033[J";
    // A row that is too long for the terminal stays one line of it, so that the next drawing finds its place.
    output += is_terminal_ ? "\033[?7l" + text + "\033[?7h" : text;
    lines_ = 0;
    for (const char c : text) lines_ += c == '\n';
    std::fputs(output.c_str(), stdout);
    std::fflush(stdout);
  }

  bool is_terminal_ = ::isatty(STDOUT_FILENO) != 0;
  std::size_t lines_ = 0; // of the last drawing
  std::mutex mutex_;      // of what follows
  std::string headline_ = "waiting for the first batch";
  std::condition_variable_any changed_;
  std::jthread thread_;
};

} // namespace chess
