// SPDX-License-Identifier: MIT
#pragma once
// Waiting for a part of an object that another thread or process reads.
#include <cerrno>
#include <stop_token>
#include <string>
#include <system_error>

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <feedline/detail/open_file.hpp>
#include <feedline/detail/readable_text.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// Waits until the thread that has the right to write the draft with that path (see file_draft) has finished. False after
/// a stop. Throws std::system_error if the system has no means to wait.
inline bool wait_for_draft(const std::string& path, const std::stop_token& stop) {
  const open_file file(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  if (!file) return true;
  const open_file closings(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC)), stops(::eventfd(0, EFD_CLOEXEC));
  if (!closings || !stops || ::inotify_add_watch(closings.number(), path.c_str(), IN_CLOSE) < 0) {
    if (errno == ENOENT) return true;
    throw std::system_error(errno, std::generic_category(), readable(path));
  }
  const auto wake = [&] { ::eventfd_write(stops.number(), 1); };
  const std::stop_callback<decltype(wake)> at_stop(stop, wake);
  while (!file.lock(false)) {
    ::pollfd both[] = {{closings.number(), POLLIN, 0}, {stops.number(), POLLIN, 0}};
    ::poll(both, 2, -1);
    if (stop.stop_requested()) return false;
    char events[4096];
    while (::read(closings.number(), events, sizeof events) > 0) continue;
    // The system reports that a process which ends closes its file, and only then releases the lock.
    // No event tells of the release, and a wait for the lock itself couldn't be stopped.
    for (int attempt = 0; attempt < 100 && !file.lock(false); ++attempt)
      if (::poll(&both[1], 1, 1) > 0) return false;
  }
  file.unlock();
  return true;
}

} // namespace feedline::inline FEEDLINE_ABI::detail
