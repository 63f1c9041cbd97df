// SPDX-License-Identifier: MIT
#pragma once
// How many processors this process may use, and which a thread does.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

#include <feedline/version.hpp>

namespace feedline::inline FEEDLINE_ABI {

namespace detail {

/// A set of processors, by their numbers in the system.
class cpu_list {
 public:
  static constexpr int limit = 1024; ///< the largest number + 1

  /// False: there can be no such processor.
  constexpr bool add(int number) noexcept {
    if (number < 0 || number >= limit) return false;
    words_[static_cast<std::size_t>(number) / 64] |= std::uint64_t{1} << (number % 64);
    return true;
  }

  /// Those of another list, too.
  constexpr void add(const cpu_list& other) noexcept {
    for (std::size_t i = 0; i < words_.size(); ++i) words_[i] |= other.words_[i];
  }

  constexpr bool is_empty() const noexcept { return words_ == std::array<std::uint64_t, limit / 64>{}; }

  /// Lets the calling thread run on these only. Throws std::system_error if it may use none of them.
  void pin_thread() const;

 private:
  std::array<std::uint64_t, limit / 64> words_{};
};

/// The beginning of a small kernel file; nothing if it can't be read.
std::optional<std::string> read_small_file(const std::string& path);

/// The quota divided by the period, in any unit; nothing if there is no valid quota.
std::optional<double> quota_of(std::string_view quota, std::string_view period);

/// How many processors the control group in `folder` may keep busy.
std::optional<double> group_quota(const std::string& folder);

/// The smallest quota of a process's control group and the groups around it. `membership`: the contents of
/// /proc/self/cgroup, a line "number:controllers:/path" for each hierarchy, whose folders are below `root`;
/// version 2 names no controllers and is in `root` itself. Inside a container the folders of the groups
/// around it may be missing.
std::optional<double> processor_quota(std::string_view membership, const std::string& root);

/// How many of `available` processors a quota can keep busy, rounded up; at least 1.
std::size_t processors_within(std::optional<double> quota, std::size_t available);

} // namespace detail

/// How many processors this process may keep busy, at least 1: the processors of its affinity mask (as set by
/// taskset or a batch system), but no more than the quotas of its control groups allow (as a container has
/// them), rounded up. Each call reads the current values.
std::size_t processors();

} // namespace feedline::inline FEEDLINE_ABI

#ifndef FEEDLINE_COMPILED
#include <feedline/core/processors.ipp>
#endif
