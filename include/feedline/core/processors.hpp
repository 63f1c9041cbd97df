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

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_CORE)
#include <algorithm>
#include <system_error>
#include <thread>

#include <fcntl.h>

#include <feedline/detail/kernel.hpp>
#include <feedline/detail/open_file.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE void cpu_list::pin_thread() const {
  if (const int error = detail::pin_thread(words_.data(), sizeof(words_)); error != 0)
    throw std::system_error(error, std::generic_category(),
                            "can't run on the processors that workers::on() names");
}

FEEDLINE_INLINE std::optional<std::string> read_small_file(const std::string& path) {
  const open_file file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return std::nullopt;
  std::string text(16 << 10, '\0');
  text.resize(file.read(text.data(), text.size(), 0));
  return text;
}

FEEDLINE_INLINE std::optional<double> quota_of(std::string_view quota, std::string_view period) {
  const auto number = [](std::string_view text) { return std::strtod(std::string(text).c_str(), nullptr); };
  const double q = number(quota), p = number(period);
  if (!(q > 0 && p > 0)) return std::nullopt; // "max", or -1
  return q / p;
}

FEEDLINE_INLINE std::optional<double> group_quota(const std::string& folder) {
  if (const auto both = read_small_file(folder + "/cpu.max")) {
    const std::size_t space = std::min(both->find(' '), both->size() - 1);
    return quota_of(std::string_view(*both).substr(0, space), std::string_view(*both).substr(space + 1));
  }
  const auto quota = read_small_file(folder + "/cpu.cfs_quota_us");
  const auto period = read_small_file(folder + "/cpu.cfs_period_us");
  return quota && period ? quota_of(*quota, *period) : std::nullopt;
}

FEEDLINE_INLINE std::optional<double> processor_quota(std::string_view membership, const std::string& root) {
  std::optional<double> least;
  while (!membership.empty()) {
    const std::string_view line = membership.substr(0, membership.find('\n'));
    membership.remove_prefix(std::min(line.size() + 1, membership.size()));
    const std::size_t first = line.find(':');
    const std::size_t second = first == line.npos ? line.npos : line.find(':', first + 1);
    if (second == line.npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    const std::string listed = std::string(",").append(controllers).append(","); // g++ 12 warns of operator+
    const bool has_processors = controllers.empty() || listed.find(",cpu,") != std::string::npos;
    if (!has_processors) continue;
    std::string hierarchy = root;
    if (!controllers.empty()) hierarchy.append("/").append(controllers);
    for (std::string path(line.substr(second + 1));; path.resize(path.rfind('/'))) {
      if (path == "/") path.clear();
      if (const auto quota = group_quota(hierarchy + path); quota && !(least && *least <= *quota))
        least = quota;
      if (path.rfind('/') == path.npos) break;
    }
  }
  return least;
}

FEEDLINE_INLINE std::size_t processors_within(std::optional<double> quota, std::size_t available) {
  if (!quota || *quota >= static_cast<double>(available)) return available;
  const auto whole = static_cast<std::size_t>(*quota);
  return std::max<std::size_t>(1, whole + (static_cast<double>(whole) < *quota));
}

} // namespace feedline::inline FEEDLINE_ABI::detail

namespace feedline::inline FEEDLINE_ABI {

FEEDLINE_INLINE std::size_t processors() {
  std::size_t count = detail::allowed_processors();
  if (count == 0) count = std::max(1u, std::thread::hardware_concurrency());
  const auto membership = detail::read_small_file("/proc/self/cgroup");
  const auto quota = membership ? detail::processor_quota(*membership, "/sys/fs/cgroup") : std::nullopt;
  return detail::processors_within(quota, count);
}

} // namespace feedline::inline FEEDLINE_ABI
#endif
