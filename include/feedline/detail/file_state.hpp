// SPDX-License-Identifier: MIT
#pragma once
// What identifies a file and its version.
#include <compare>
#include <cstdint>

#include <sys/stat.h>

#include <feedline/detail/kernel.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// Identifies a file and its version.
struct file_state {
  explicit file_state(const struct stat& status) noexcept
      : device(status.st_dev),
        number(status.st_ino),
        size(static_cast<std::uint64_t>(status.st_size)),
        modified_ns(modified_ns_of(status)) {}

  friend auto operator<=>(const file_state&, const file_state&) = default;

  ::dev_t device;
  ::ino_t number;
  std::uint64_t size;
  std::int64_t modified_ns;
};

/// Whether all users in the process share a file's bytes in memory, or this user has its own.
enum class sharing { all, alone };

} // namespace feedline::inline FEEDLINE_ABI::detail
