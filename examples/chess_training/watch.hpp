// SPDX-License-Identifier: MIT
#pragma once
// A table of each stage and queue of a run, once a second: redrawn in place on a terminal, appended elsewhere.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <feedline/feedline.hpp>
#include <sys/ioctl.h>
#include <unistd.h>

namespace chess {

/// "map `chunk loader`" is the chunk loader; the library's own shuffle buffer is the frame sampler here.
inline std::string stage_label(const std::string& name) {
  if (name == "shuffle") return "shuffling frame sampler";
  const std::size_t begin = name.find('`'), end = name.rfind('`');
  return begin < end && end != std::string::npos ? name.substr(begin + 1, end - begin - 1) : name;
}

/// A number in at most six characters: "7", "12.5", "12345", "123.5k", "67890M".
inline std::string short_number(double value) {
  const char* unit = "";
  for (const char* larger : {"k", "M", "G", "T"}) {
    if (value < 99'999.5) break;
    value /= 1000;
    unit = larger;
  }
  const bool has_decimal = *unit != 0 ? value < 999.5 : value < 99.95 && value != std::floor(value);
  char text[40];
  std::snprintf(text, sizeof text, "%.*f%s", has_decimal ? 1 : 0, value, unit);
  return text;
}

/// A list of items, wrapped to indented lines of at most 80 characters.
inline std::string indented(const std::vector<std::string>& items) {
  constexpr std::size_t width = 80;
  std::string text, line;
  for (const std::string& item : items) {
    if (!line.empty() && line.size() + 2 + item.size() >= width) text += std::exchange(line, {}) + ",\n";
    line += line.empty() ? "    " + item : ", " + item;
  }
  return line.empty() ? text : text + line + "\n";
}

/// The load, items and queues of each stage, in the last second and since the start, in lines of at most 80 characters.
/// A load is the mean number of busy threads; neighbouring stages may share threads.
inline std::string to_table(const feedline::metrics& m) {
  std::string text = "                                last second              since the start\n"
                     "stage                threads  load     items/s    load     items/s         items\n";
  const auto add_row = [&text](const char* format, auto... values) {
    char line[200];
    std::snprintf(line, sizeof line, format, values...);
    text += line;
  };
  const auto per_second = [](double count, const feedline::interval_metrics& in) {
    return in.seconds > 0 ? count / in.seconds : 0;
  };
  const auto count = [](std::uint64_t n) { return short_number(static_cast<double>(n)); };
  const auto value_of = [](const feedline::stage_metrics& s, const std::string& name) {
    for (const feedline::user_metric& number : s.user_metrics)
      if (number.name == name) return number.value;
    return 0.0;
  };
  const auto add_numbers = [](std::vector<std::string>& to, const feedline::stage_metrics& s) {
    for (const feedline::user_metric& number : s.user_metrics)
      if (!number.name.starts_with("indexing ") && !number.name.starts_with("index "))
        to.push_back(number.name + " " + std::to_string(static_cast<std::uint64_t>(number.value)));
  };
  const std::size_t stages = std::min(m.total.stages.size(), m.recent.stages.size());
  for (std::size_t i = 0; i < stages; ++i) {
    const feedline::stage_metrics &s = m.total.stages[i], &now = m.recent.stages[i];
    const std::size_t threads = s.segment < m.total.segments.size() ? m.total.segments[s.segment].active : 0;
    add_row("%-24.24s%4zu%6.2f%12s%8.2f%12s%14llu\n", stage_label(s.name).c_str(), threads,
            per_second(now.busy, m.recent), short_number(per_second(double(now.emitted), m.recent)).c_str(),
            per_second(s.busy, m.total), short_number(per_second(double(s.emitted), m.total)).c_str(),
            static_cast<unsigned long long>(s.emitted));
    if (const double threads_of_pool = value_of(s, "index threads"); threads_of_pool > 0)
      add_row("%-24s%4.0f%6.2f%12s%8.2f%12s%14.0f\n", "  indexing", threads_of_pool,
              per_second(value_of(now, "indexing seconds"), m.recent),
              short_number(per_second(value_of(now, "indexed"), m.recent)).c_str(),
              per_second(value_of(s, "indexing seconds"), m.total),
              short_number(per_second(value_of(s, "indexed"), m.total)).c_str(), value_of(s, "indexed"));
    std::vector<std::string> more;
    if (s.capacity > 0)
      more.push_back(std::to_string(std::llround(s.held.latest)) + " of " + std::to_string(s.capacity) +
                     " held");
    if (s.failures > 0) more.push_back(std::to_string(s.failures) + " bad");
    if (i == 0 || s.failures > 0) add_numbers(more, s); // the pool's metrics, or the causes of failures
    text += indented(more);
    if (i > 0 && now.failures > 0) {
      std::vector<std::string> recent{"last second: " + std::to_string(now.failures) + " bad"};
      add_numbers(recent, now);
      text += indented(recent);
    }
  }
  text += "\n                last second                     since the start\n"
          "queue    room  put/s taken/s dropped/s   fill     put   taken dropped    fill\n";
  const std::size_t queues = std::min(m.total.queues.size(), m.recent.queues.size());
  for (std::size_t i = 0; i < queues; ++i) {
    const feedline::queue_metrics &q = m.total.queues[i], &now = m.recent.queues[i];
    const auto rate = [&](std::uint64_t n) { return short_number(per_second(double(n), m.recent)); };
    add_row("%-6zu%7s%7s%8s%10s%7s%8s%8s%8s%8s\n", i + 1, count(q.capacity).c_str(), rate(now.put).c_str(),
            rate(now.taken).c_str(), rate(now.dropped).c_str(), short_number(now.fill.mean).c_str(),
            count(q.put).c_str(), count(q.taken).c_str(), count(q.dropped).c_str(),
            short_number(q.fill.mean).c_str());
  }
  return text;
}

/// Notices of a run, from any thread. They are printed at once, or above the table while a watch_view draws.
class notices {
 public:
  void say(const std::string& sentence) {
    const std::lock_guard lock(mutex_);
    if (is_drawn_) waiting_ += sentence + "\n";
    else std::puts(sentence.c_str());
  }

 private:
  friend class watch_view;

  void set_drawn(bool is_drawn) {
    const std::lock_guard lock(mutex_);
    is_drawn_ = is_drawn;
  }

  std::string take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(waiting_, {});
  }

  std::mutex mutex_; // protects the members below
  bool is_drawn_ = false;
  std::string waiting_;
};

/// Shows a run once a second from a separate thread, also while the run waits for games. "Last second" is the time
/// since the previous call of the loader's `metrics()`.
class watch_view {
 public:
  template <class Loader>
  watch_view(Loader& loader, notices& said)
      : said_(said), thread_([this, &loader](const std::stop_token& stop) {
          said_.set_drawn(true);
          std::unique_lock lock(mutex_);
          do {
            const std::string headline = headline_;
            lock.unlock();
            draw(said_.take(), headline + "\n" + to_table(loader.metrics()));
            lock.lock();
            changed_.wait_for(lock, stop, std::chrono::seconds(1), [] { return false; });
          } while (!stop.stop_requested());
        }) {}

  ~watch_view() {
    thread_ = {};
    said_.set_drawn(false);
    std::fputs(said_.take().c_str(), stdout);
  }

  /// Sets the line above the table.
  void set_headline(const std::string& text) {
    const std::lock_guard lock(mutex_);
    headline_ = text;
  }

 private:
  // The lines that fit on the terminal, so that the next drawing can return to the first one.
  static std::string visible(const std::string& text) {
    ::winsize size{};
    if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row < 2) return text;
    std::size_t end = 0;
    for (int line = 1; line < size.ws_row && end < text.size(); ++line) end = text.find('\n', end) + 1;
    return text.substr(0, end);
  }

  // Prints the notices above the table; they stay on the screen.
  void draw(const std::string& said, std::string text) {
    if (is_terminal_) text = visible(text);
    std::string output;
    if (is_terminal_ && lines_ > 0) output = "\033[" + std::to_string(lines_) + "A\033[J";
    output += said;
    // Without line wrap a long row stays one line of the terminal, so that the next drawing returns to the right line.
    output += is_terminal_ ? "\033[?7l" + text + "\033[?7h" : text;
    lines_ = 0;
    for (const char c : text) lines_ += c == '\n';
    std::fputs(output.c_str(), stdout);
    std::fflush(stdout);
  }

  notices& said_;
  bool is_terminal_ = ::isatty(STDOUT_FILENO) != 0;
  std::size_t lines_ = 0; // of the last drawing
  std::mutex mutex_;      // protects headline_
  std::string headline_ = "waiting for the first batch";
  std::condition_variable_any changed_;
  std::jthread thread_;
};

} // namespace chess
