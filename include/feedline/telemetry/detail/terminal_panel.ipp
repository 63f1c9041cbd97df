// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/telemetry/detail/terminal_panel.hpp>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <string_view>

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

namespace feedline::inline FEEDLINE_ABI::detail {

/// Replaces the default action of a signal, and no other.
FEEDLINE_INLINE void handle_if_default(int signal, void (*handler)(int)) {
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

FEEDLINE_INLINE void set_default(int signal) {
  struct sigaction as_usual {};

  as_usual.sa_handler = SIG_DFL;
  ::sigaction(signal, &as_usual, nullptr);
}

FEEDLINE_INLINE void unhandle(int signal, void (*handler)(int)) {
  struct sigaction current {};

  if (::sigaction(signal, nullptr, &current) == 0 && (current.sa_flags & SA_SIGINFO) == 0 &&
      current.sa_handler == handler)
    set_default(signal);
}

FEEDLINE_INLINE terminal_panel::terminal_panel(int descriptor)
    : descriptor_(descriptor), own_descriptor_(descriptor) {
  const char* kind = std::getenv("TERM");
  if (::isatty(descriptor) == 0 || kind == nullptr || *kind == 0 || std::string_view(kind) == "dumb") return;
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

FEEDLINE_INLINE terminal_panel::~terminal_panel() {
  if (!is_terminal_ || owner_.load() != ::getpid()) return;
  leave();
  for (const int signal : ending_signals_) unhandle(signal, &on_end);
  unhandle(SIGTSTP, &on_stop);
  owner_ = 0;
  if (own_descriptor_ != descriptor_) ::close(own_descriptor_);
}

FEEDLINE_INLINE void terminal_panel::handle_signals() {
  if (!is_terminal_) return;
  for (const int signal : ending_signals_) handle_if_default(signal, &on_end);
  handle_if_default(SIGTSTP, &on_stop);
}

FEEDLINE_INLINE void terminal_panel::measure() {
  ::winsize size{};
  if (::ioctl(descriptor_, TIOCGWINSZ, &size) != 0) size = {};
  columns_ = size.ws_col;
  rows_ = size.ws_row;
}

FEEDLINE_INLINE bool terminal_panel::is_in_background() const {
  const ::pid_t group = ::tcgetpgrp(descriptor_);
  return group > 0 && group != ::getpgrp();
}

FEEDLINE_INLINE bool terminal_panel::draw(const std::vector<std::string>& lines) {
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

FEEDLINE_INLINE bool terminal_panel::print(const std::string& text) {
  ::pollfd ready{descriptor_, POLLOUT, 0};
  return ::poll(&ready, 1, 0) == 0 || write_all(text);
}

FEEDLINE_INLINE bool terminal_panel::write_all(const std::string& text) {
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

FEEDLINE_INLINE void terminal_panel::leave() {
  if (is_terminal_) restore();
}

FEEDLINE_INLINE void terminal_panel::restore() {
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

FEEDLINE_INLINE void terminal_panel::at_exit() {
  if (owner_.load() != ::getpid()) return;
  must_not_write_ = true;
  for (int i = 0; i < 200 && is_writing_; ++i) { // a terminal may be stuck: not for ever
    const ::timespec millisecond{0, 1'000'000};
    ::nanosleep(&millisecond, nullptr);
  }
  restore();
}

FEEDLINE_INLINE void terminal_panel::on_end(int signal) {
  const int error = errno;
  at_exit();
  set_default(signal);
  ::raise(signal); // arrives when this function returns
  errno = error;
}

FEEDLINE_INLINE void terminal_panel::on_stop(int signal) {
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

} // namespace feedline::inline FEEDLINE_ABI::detail
