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

#ifndef FEEDLINE_COMPILED
#include <feedline/telemetry/live_view.ipp>
#endif
