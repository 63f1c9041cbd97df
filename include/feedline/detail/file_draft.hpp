// SPDX-License-Identifier: MIT
#pragma once
// Files that are written whole or not at all.
#include <cstddef>
#include <initializer_list>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <utility>

#include <feedline/detail/open_file.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// The right to write a file, which one thread of one process has: a lock on another file, its draft, which gets the name of
/// that file in the end. The lock ends with the process; where the file system has no locks, everyone has the right.
class file_draft {
 public:
  /// The right to write to the draft with that path. If another one has it, returns nothing, or waits for it. Throws
  /// std::system_error that names the draft if it can't be made.
  static std::optional<file_draft> begin(const std::string& path, bool wait = false);

  /// Removes a draft that was found at that path, if nobody writes it.
  static void remove_if_abandoned(const open_file& found, const std::string& path) noexcept;

  file_draft(file_draft&& other) noexcept;

  file_draft& operator=(file_draft&& other) noexcept {
    std::swap(path_, other.path_);
    std::swap(file_, other.file_);
    return *this;
  }

  /// Removes it, unless it was kept.
  ~file_draft();

  /// Waits until the thread that has the right now has finished. False after a stop. Throws std::system_error if the
  /// system has no means to wait.
  static bool wait(const std::string& path, const std::stop_token& stop);

  /// Writes these bytes, one span after another, and gives the file that name. With `on_disk`, the bytes are on the disk
  /// before. Returns 0 or an errno value.
  int keep(const std::string& as, std::initializer_list<std::span<const std::byte>> bytes,
           bool on_disk = false);

 private:
  file_draft(std::string path, open_file file);

  static bool is_at(const open_file& file, const std::string& path) noexcept;

  std::string path_; // empty: it was kept
  open_file file_;
};

/// Replaces the file with that name, which stays until the new one is on the disk. Its draft is `PATH.draft`. Throws
/// std::system_error that names the file.
void replace_file(const std::string& path, std::span<const std::byte> bytes);

} // namespace feedline::inline FEEDLINE_ABI::detail

#ifndef FEEDLINE_COMPILED
#include <feedline/detail/file_draft.ipp>
#endif
