// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/core/processors.hpp>

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
