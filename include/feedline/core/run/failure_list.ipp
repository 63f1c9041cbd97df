// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/core/run/failure_list.hpp>

#include <algorithm>
#include <utility>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE failure_list::failure_list(const std::vector<stage_failure_limit>& limits, bool endless)
    : endless_(endless) {
  for (const stage_failure_limit& l : limits) limits_.push_back({l, {}});
}

FEEDLINE_INLINE failure_list::~failure_list() = default;

FEEDLINE_INLINE std::string failure_list::add(failure f, std::uint64_t samples) {
  count(f);
  std::string why;
  for (limited& l : limits_) {
    if (!concerns(l.limit, f.stage)) continue;
    l.at.push_back(samples);
    while (l.limit.window > 0 && samples - l.at.front() >= l.limit.window) l.at.pop_front();
    if (why.empty() && l.at.size() > l.limit.max_failures)
      why = " (more failures of this stage than its limit of " + std::to_string(l.limit.max_failures) +
            (l.limit.window > 0 ? " in the last " + std::to_string(l.limit.window) + " samples)" : ")");
  }
  if (endless_ && last_.size() == 2 * kept) last_.erase(last_.begin(), last_.begin() + kept);
  last_.push_back(std::move(f));
  return why;
}

FEEDLINE_INLINE bool failure_list::concerns(const stage_failure_limit& limit, const std::string& stage) {
  return stage == limit.stage || stage.ends_with(" `" + limit.stage + "`");
}

FEEDLINE_INLINE void failure_list::count(const failure& f) {
  const auto find = [&](const std::string& message) {
    return std::find_if(counts_.begin(), counts_.end(),
                        [&](const failure_count& c) { return c.stage == f.stage && c.message == message; });
  };
  std::string message = f.message;
  auto same = find(message);
  if (same == counts_.end() && counts_.size() >= kept) {
    message = "…";
    same = find(message);
  }
  if (same == counts_.end()) counts_.push_back({f.stage, std::move(message), 1});
  else ++same->count;
}

} // namespace feedline::inline FEEDLINE_ABI::detail
