// SPDX-License-Identifier: MIT
#pragma once
// Shows on a terminal what a run does.
#include <chrono>
#include <memory>

#include <feedline/core/loader.hpp>

namespace feedline::inline FEEDLINE_ABI {

/// Options of a live view.
struct live_view_options {
  int descriptor = 2;                         ///< of the file or terminal; standard error
  std::chrono::milliseconds every{1000};      ///< from one drawing to the next, at least 10 ms
  std::chrono::milliseconds every_line{5000}; ///< from one line to the next where it can't draw; the same
};

/// Shows the metrics of a loader while it exists, from a thread of its own: what limits the pipeline, and for each stage,
/// group of threads, queue and buffer a bar and numbers, of the last second and since the start.
///
///     auto loader = pipeline.infinite({.seed = 1});
///     const fl::live_view view(loader);
///     for (const auto& batch : loader) …              // what it prints appears above the view
///
/// On a terminal it takes the bottom rows, at most three quarters, and follows changes of the size; the rest scrolls. It
/// shows UTF-8 if the locale of LC_ALL, LC_CTYPE or LANG does, and colours unless NO_COLOR is set. Where there is no
/// terminal, a very small one, one with TERM=dumb, or another view that draws, it prints a line now and then.
///
/// The terminal is as before when the view is destroyed, when the process exits, and when a signal ends or stops it: the
/// view handles such signals while their action is the default, and then lets them act. SIGKILL, SIGSTOP, a stack overflow,
/// _exit() and exec leave the rows reserved: `reset` helps.
///
/// It may outlive the loader, and then shows the end of the run. If the terminal goes away it stops drawing. A child of
/// fork() must not use the view, but may destroy it.
class live_view {
 public:
  /// Begins at once. Throws std::invalid_argument if an interval is too short.
  explicit live_view(const run_handle& loader, const live_view_options& options = {});

  live_view(live_view&&) = delete;

  /// Gives the rows back. Where it can't draw, it prints a last line.
  ~live_view();

 private:
  class thread;

  std::unique_ptr<thread> thread_;
};

} // namespace feedline::inline FEEDLINE_ABI

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_TELEMETRY)
#include <algorithm>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <mutex>
#include <new>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include <unistd.h>

#include <feedline/core/run_watch.hpp>
#include <feedline/telemetry/detail/terminal_panel.hpp>
#include <feedline/telemetry/detail/view_lines.hpp>

namespace feedline::inline FEEDLINE_ABI {

namespace detail {

/// The value of an environment variable; empty if there is none.
FEEDLINE_INLINE std::string_view environment_text(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

FEEDLINE_INLINE bool is_utf8_locale() {
  std::string_view locale;
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"})
    if (locale.empty()) locale = environment_text(name);
  for (const std::string_view name : {"UTF-8", "utf-8", "UTF8", "utf8"})
    if (locale.find(name) != locale.npos) return true;
  return false;
}

} // namespace detail

class live_view::thread {
 public:
  thread(const run_handle& loader, const live_view_options& options)
      : watch_(loader),
        every_(std::min<std::chrono::milliseconds>(options.every, most_)),
        every_line_(std::min<std::chrono::milliseconds>(options.every_line, most_)),
        is_utf8_(detail::is_utf8_locale()),
        is_colored_(detail::environment_text("NO_COLOR").empty()),
        panel_(options.descriptor),
        thread_([this](const std::stop_token& stop) {
          ::sigset_t all; // SIGPIPE, and signals that wait for this thread's writing
          ::sigfillset(&all);
          ::pthread_sigmask(SIG_SETMASK, &all, nullptr);
          run(stop);
        }) {}

  bool is_of_this_process() const { return process_ == ::getpid(); }

 private:
  using clock = std::chrono::steady_clock;

  void run(const std::stop_token& stop) {
    std::mutex mutex;
    std::condition_variable stopped; // condition_variable_any allocates, and nobody would catch that here
    const auto wake = [&] {
      const std::lock_guard lock(mutex);
      stopped.notify_one();
    };
    const std::stop_callback<decltype(wake)> at_stop(stop, wake);
    std::unique_lock lock(mutex);
    clock::time_point next = clock::now(), next_line = next + every_line_;
    for (bool is_there = true; is_there;) {
      // Such as of a stop_on_signal whose first signal came: the next one ends the process.
      panel_.handle_signals();
      const bool is_last = stop.stop_requested();
      const clock::time_point now = clock::now();
      const bool is_due = now >= next;
      if (is_due) next = now + every_;
      const bool can_draw = this->can_draw();
      try {
        if (can_draw && !panel_.is_in_background()) {
          if (is_due) update();
          if (!is_last && (is_due || !panel_.is_drawn())) is_there = draw();
        } else if (is_last || (!can_draw && now >= next_line)) {
          next_line = now + every_line_;
          update();
          if (!can_draw) is_there = panel_.print(detail::view_summary(metrics_, is_utf8_, has_ended_) + "\n");
        }
      } catch (const std::bad_alloc&) { // it tries again the next time
      }
      if (is_last) return;
      const clock::time_point then = std::min(next, now + std::chrono::milliseconds(100));
      stopped.wait_until(lock, then, [&] { return stop.stop_requested(); });
    }
  }

  /// Whether there is a terminal that is large enough.
  bool can_draw() {
    if (!panel_.is_terminal()) return false;
    panel_.measure();
    const bool is_large = panel_.columns() >= 20 && panel_.rows() >= 6;
    if (!is_large) panel_.leave();
    return is_large;
  }

  void update() {
    if (has_ended_) return; // the last interval stays visible
    has_ended_ = watch_.has_ended();
    metrics_ = watch_.metrics();
    if (metrics_.recent.consumer.items == 0 && !has_ended_)
      metrics_.recent.bottleneck += "; now: " + watch_.waiting_for();
  }

  bool draw() {
    const std::size_t rows = panel_.rows();
    return panel_.draw(detail::view_lines(metrics_,
                                          {.width = panel_.columns() - 1,
                                           .height = rows - std::max<std::size_t>(rows / 4, 3),
                                           .utf8 = is_utf8_,
                                           .color = is_colored_},
                                          has_ended_));
  }

  const run_watch watch_;
  static constexpr std::chrono::hours most_{24 * 365}; // of a time between drawings

  const std::chrono::milliseconds every_, every_line_;
  const bool is_utf8_, is_colored_;
  const int process_ = ::getpid();
  detail::terminal_panel panel_;
  metrics metrics_;
  bool has_ended_ = false;
  std::jthread thread_; // last: it uses the others
};

FEEDLINE_INLINE live_view::live_view(const run_handle& loader, const live_view_options& options) {
  constexpr std::chrono::milliseconds least(10);
  if (options.every < least || options.every_line < least)
    throw std::invalid_argument("feedline::live_view: an interval must be at least 10 ms long");
  thread_ = std::make_unique<thread>(loader, options);
}

FEEDLINE_INLINE live_view::~live_view() {
  if (!thread_->is_of_this_process())
    static_cast<void>(thread_.release()); // a child of fork() has no such thread
}

} // namespace feedline::inline FEEDLINE_ABI
#endif
