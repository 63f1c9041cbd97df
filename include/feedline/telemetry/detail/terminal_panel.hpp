// SPDX-License-Identifier: MIT
#pragma once
// The bottom rows of a terminal.
#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <ctime>
#include <string>
#include <string_view>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <feedline/version.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// Replaces the default action of a signal, and no other.
inline void handle_if_default(int signal, void (*handler)(int)) {
  struct sigaction former {};

  struct sigaction ours {};

  const auto is_default = [&] { return (former.sa_flags & SA_SIGINFO) == 0 && former.sa_handler == SIG_DFL; };
  if (::sigaction(signal, nullptr, &former) != 0 || !is_default()) return;
  ours.sa_handler = handler;
  ours.sa_flags = SA_RESTART;
  ::sigfillset(&ours.sa_mask);
  // The program may have set its own meanwhile.
  if (::sigaction(signal, &ours, &former) == 0 && !is_default()) ::sigaction(signal, &former, nullptr);
}

inline void set_default(int signal) {
  struct sigaction as_usual {};

  as_usual.sa_handler = SIG_DFL;
  ::sigaction(signal, &as_usual, nullptr);
}

inline void unhandle(int signal, void (*handler)(int)) {
  struct sigaction current {};

  if (::sigaction(signal, nullptr, &current) == 0 && (current.sa_flags & SA_SIGINFO) == 0 &&
      current.sa_handler == handler)
    set_default(signal);
}

/// Rows at the bottom of a terminal, below a scroll region for the program's own output. The region is undone by the
/// destructor, at std::exit, and by a signal that would end or stop the process, unless the program handles it. One thread uses
/// a panel; only one in a process draws.
class terminal_panel {
 public:
  explicit terminal_panel(int descriptor) : descriptor_(descriptor), own_descriptor_(descriptor) {
    const char* kind = std::getenv("TERM");
    if (::isatty(descriptor) == 0 || kind == nullptr || *kind == 0 || std::string_view(kind) == "dumb")
      return;
    // A child of fork() may take over from its parent's panel, which it doesn't have.
    const int self = ::getpid();
    int owner = owner_.load();
    while (owner != self && !owner_.compare_exchange_weak(owner, self)) {
    }
    if (owner == self) return;
    static const int registered = std::atexit(&at_exit) + ::at_quick_exit(&at_exit);
    static_cast<void>(registered);
    is_terminal_ = true;
    const std::string path = "/proc/self/fd/" + std::to_string(descriptor);
    const int own = ::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (own >= 0) own_descriptor_ = own;
    top_ = 0;
    is_writing_ = must_not_write_ = false;
    shared_descriptor_ = own_descriptor_;
    handle_signals();
  }

  terminal_panel(const terminal_panel&) = delete;

  ~terminal_panel() {
    if (!is_terminal_ || owner_.load() != ::getpid()) return;
    leave();
    for (const int signal : ending_signals_) unhandle(signal, &on_end);
    unhandle(SIGTSTP, &on_stop);
    owner_ = 0;
    if (own_descriptor_ != descriptor_) ::close(own_descriptor_);
  }

  /// Whether this is a terminal that the panel may use.
  bool is_terminal() const { return is_terminal_; }

  /// Reads the terminal's size, 0 if it is unknown or the terminal has gone.
  void measure() {
    ::winsize size{};
    if (::ioctl(descriptor_, TIOCGWINSZ, &size) != 0) size = {};
    columns_ = size.ws_col;
    rows_ = size.ws_row;
  }

  std::size_t columns() const { return columns_; }

  std::size_t rows() const { return rows_; }

  /// Whether the process runs in the background of a shell, which has the terminal then.
  bool is_in_background() const {
    const ::pid_t group = ::tcgetpgrp(descriptor_);
    return group > 0 && group != ::getpgrp();
  }

  /// Whether what was drawn is still there, at this size.
  bool is_drawn() const { return is_drawn_at(top_.load()); }

  /// Draws these lines, with fewer columns than the terminal has. Returns false if the terminal has gone.
  bool draw(const std::vector<std::string>& lines) {
    const auto moved_to = [](std::size_t row) { return "\033[" + std::to_string(row) + ";1H"; };
    std::string text;
    int former_top = top_.load();
    const bool was_drawn = is_drawn_at(former_top);
    const std::size_t height = was_drawn ? std::max(lines.size(), height_) : lines.size();
    const std::size_t top = rows_ - height + 1;
    if (!was_drawn || height != height_) {
      // Without a region, clear the lines below the cursor, where an older panel may be, and make room by scrolling.
      text = "\0337\033[r\0338\033D\033[A\0337\033[B\r\033[J\0338";
      for (std::size_t i = 0; i < height; ++i) text += "\033D";
      text += "\033[" + std::to_string(height) + "A\0337\033[1;" + std::to_string(top - 1) + "r\0338";
    }
    text += "\0337\033[0m";
    for (std::size_t i = 0; i < height; ++i)
      text += moved_to(top + i) + (i < lines.size() ? lines[i] : std::string()) + "\033[K";
    text += "\0338";
    ::pollfd ready{descriptor_, POLLOUT, 0};
    if (::poll(&ready, 1, 0) == 0) return true; // its output is suspended, as by Ctrl-S
    is_writing_ = true; // pairs with at_exit(): it sees this, or this thread sees must_not_write_
    bool is_there = true;
    // A signal may have stopped the process after the load above, and given the rows back: then this text comes too late.
    if (!must_not_write_ && top_.compare_exchange_strong(former_top, static_cast<int>(top))) {
      height_ = height;
      drawn_columns_ = columns_;
      drawn_rows_ = rows_;
      is_there = write_all(text);
    }
    is_writing_ = false;
    return is_there;
  }

  /// Prints text. Returns false if nobody can read it any more. It is left out if it would have to wait.
  bool print(const std::string& text) {
    ::pollfd ready{descriptor_, POLLOUT, 0};
    return ::poll(&ready, 1, 0) == 0 || write_all(text);
  }

  /// Gives the rows back to the program.
  void leave() {
    if (is_terminal_) restore();
  }

  /// Handles the signals that would end the process as things are now.
  void handle_signals() {
    if (!is_terminal_) return;
    for (const int signal : ending_signals_) handle_if_default(signal, &on_end);
    handle_if_default(SIGTSTP, &on_stop);
  }

 private:
  // For handlers: they only use what POSIX allows there.
  static void restore() {
    const int top = top_.exchange(0);
    if (top == 0 || owner_.load() != ::getpid()) return;
    char text[64] = "\0337\033[r\033[", *end = text + 7;
    int unit = 1;
    while (top / unit >= 10) unit *= 10;
    for (; unit > 0; unit /= 10) *end++ = static_cast<char>('0' + top / unit % 10);
    for (const char c : {';', '1', 'H', '\033', '[', 'J', '\033', '8'}) *end++ = c;
    for (const char* at = text; at < end;) {
      const ::ssize_t n = ::write(shared_descriptor_.load(), at, static_cast<std::size_t>(end - at));
      if (n > 0) at += n;
      else if (n == 0 || (errno != EINTR && errno != EAGAIN)) return;
      else if (::pollfd ready{shared_descriptor_.load(), POLLOUT, 0};
               errno == EAGAIN && ::poll(&ready, 1, 100) <= 0)
        return;
    }
  }

  static void on_end(int signal) {
    const int error = errno;
    at_exit();
    set_default(signal);
    ::raise(signal); // arrives when this function returns
    errno = error;
  }

  static void on_stop(int signal) {
    const int error = errno;
    at_exit();
    set_default(signal);
    ::raise(signal);
    ::sigset_t only;
    ::sigemptyset(&only);
    ::sigaddset(&only, signal);
    ::pthread_sigmask(SIG_UNBLOCK, &only, nullptr); // the process stops here
    ::pthread_sigmask(SIG_BLOCK, &only, nullptr);
    must_not_write_ = false;
    errno = error; // the panel handles the signal again when it draws
  }

  static void at_exit() {
    if (owner_.load() != ::getpid()) return;
    must_not_write_ = true;
    for (int i = 0; i < 200 && is_writing_; ++i) { // a terminal may be stuck: not for ever
      const ::timespec millisecond{0, 1'000'000};
      ::nanosleep(&millisecond, nullptr);
    }
    restore();
  }

  bool is_drawn_at(int top) const { return top != 0 && drawn_columns_ == columns_ && drawn_rows_ == rows_; }

  bool write_all(const std::string& text) {
    for (std::size_t done = 0; done < text.size();) {
      const ::ssize_t n = ::write(own_descriptor_, text.data() + done, text.size() - done);
      if (n > 0) done += static_cast<std::size_t>(n);
      else if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
        ::pollfd ready{own_descriptor_, POLLOUT, 0};
        if (::poll(&ready, 1, 500) > 0) continue;
        drawn_rows_ = 0; // what is on the screen is not known
        return true;
      } else if (n == 0 || errno != EINTR) return false;
    }
    return true;
  }

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
