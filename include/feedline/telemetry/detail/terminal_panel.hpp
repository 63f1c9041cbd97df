// SPDX-License-Identifier: MIT
#pragma once
// The bottom rows of a terminal.
#include <array>
#include <atomic>
#include <csignal>
#include <cstddef>
#include <string>
#include <vector>

#include <feedline/version.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// Rows at the bottom of a terminal, below a scroll region for the program's own output. The region is undone by the
/// destructor, at std::exit, and by a signal that would end or stop the process, unless the program handles it. One thread uses
/// a panel; only one in a process draws.
class terminal_panel {
 public:
  explicit terminal_panel(int descriptor);

  terminal_panel(const terminal_panel&) = delete;

  ~terminal_panel();

  /// Whether this is a terminal that the panel may use.
  bool is_terminal() const { return is_terminal_; }

  /// Reads the terminal's size, 0 if it is unknown or the terminal has gone.
  void measure();

  std::size_t columns() const { return columns_; }

  std::size_t rows() const { return rows_; }

  /// Whether the process runs in the background of a shell, which has the terminal then.
  bool is_in_background() const;

  /// Whether what was drawn is still there, at this size.
  bool is_drawn() const { return is_drawn_at(top_.load()); }

  /// Draws these lines, with fewer columns than the terminal has. Returns false if the terminal has gone.
  bool draw(const std::vector<std::string>& lines);

  /// Prints text. Returns false if nobody can read it any more. It is left out if it would have to wait.
  bool print(const std::string& text);

  /// Gives the rows back to the program.
  void leave();

  /// Handles the signals that would end the process as things are now.
  void handle_signals();

 private:
  // For handlers: they only use what POSIX allows there.
  static void restore();
  static void on_end(int signal);
  static void on_stop(int signal);
  static void at_exit();

  bool is_drawn_at(int top) const { return top != 0 && drawn_columns_ == columns_ && drawn_rows_ == rows_; }

  bool write_all(const std::string& text);

  static constexpr std::array ending_signals_{SIGHUP,  SIGINT,  SIGQUIT, SIGTERM, SIGABRT, SIGPIPE, SIGSEGV,
                                              SIGBUS,  SIGFPE,  SIGILL,  SIGSYS,  SIGTRAP, SIGALRM, SIGVTALRM,
                                              SIGPROF, SIGUSR1, SIGUSR2, SIGIO,   SIGXCPU, SIGXFSZ};

  // Visible, so that they exist once in a program that hides its symbols and links feedline as a shared library.
  // The process whose panel draws, and its terminal; 0: none.
  [[gnu::visibility("default")]] static inline std::atomic<int> owner_{0};
  [[gnu::visibility("default")]] static inline std::atomic<int> shared_descriptor_{-1};
  // The first row of the panel; 0: nothing is drawn.
  [[gnu::visibility("default")]] static inline std::atomic<int> top_{0};
  // By the panel's thread.
  [[gnu::visibility("default")]] static inline std::atomic<bool> is_writing_{false};
  // While the process ends or is stopped.
  [[gnu::visibility("default")]] static inline std::atomic<bool> must_not_write_{false};

  const int descriptor_;
  // The terminal opened once more, so that writing to it never waits for ever: it may be suspended. Otherwise descriptor_.
  int own_descriptor_;
  bool is_terminal_ = false;
  std::size_t columns_ = 0, rows_ = 0, drawn_columns_ = 0, drawn_rows_ = 0;
  std::size_t height_ = 0; // of the panel
};

} // namespace feedline::inline FEEDLINE_ABI::detail

#ifndef FEEDLINE_COMPILED
#include <feedline/telemetry/detail/terminal_panel.ipp>
#endif
