// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/core/run/failure_list.hpp>

#include <algorithm>
#include <utility>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE failure_list::failure_list(const run_options& options)
    : endless_(options.endless), limit_(options.failure_limit) {
  for (const stage_failure_limit& l : options.stage_failure_limits) limits_.push_back({l, {}, {}});
}

FEEDLINE_INLINE failure_list::~failure_list() = default;

FEEDLINE_INLINE std::string failure_list::add(failure f, std::uint64_t samples) {
  count(f);
  std::string why;
  const std::uint64_t counted = limit_ == no_failure_limit ? sample_id::no_index : f.index; // needs no memory
  const bool is_new = samples_.add(counted);
  if (samples_.count() > limit_)
    why = " (more failed samples than the limit of " + std::to_string(limit_) + ")";
  for (limited& l : limits_) {
    if (!concerns(l.limit, f.stage)) continue;
    const std::string of_stage = exceeds(l, f, samples);
    if (why.empty()) why = of_stage;
  }
  if (!why.empty() && is_new) samples_.take_back(counted); // the run's last checkpoint is from before it
  if (endless_ && last_.size() == 2 * kept) last_.erase(last_.begin(), last_.begin() + kept);
  last_.push_back(std::move(f));
  return why;
}

FEEDLINE_INLINE std::vector<failure_count> failure_list::copy_counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

FEEDLINE_INLINE std::string failure_list::exceeds(limited& l, const failure& f, std::uint64_t samples) {
  const std::string limit = " of this stage than its limit of " + std::to_string(l.limit.max_failures);
  if (l.limit.window == 0) {
    l.samples.add(f.index);
    return l.samples.count() > l.limit.max_failures ? " (more failed samples" + limit + ")" : std::string();
  }
  l.at.push_back(samples);
  while (samples - l.at.front() >= l.limit.window) l.at.pop_front();
  return l.at.size() > l.limit.max_failures
             ? " (more failures" + limit + " in the last " + std::to_string(l.limit.window) + " samples)"
             : std::string();
}

FEEDLINE_INLINE bool failure_list::concerns(const stage_failure_limit& limit, const std::string& stage) {
  // " (1 of 2)" may follow, for one of several with that name, or " in concat".
  const auto ends = [&](std::size_t at) { return at == stage.size() || stage[at] == ' '; };
  if (stage.starts_with(limit.stage) && ends(limit.stage.size())) return true;
  const std::string quoted = " `" + limit.stage + "`";
  const std::size_t at = stage.find(quoted);
  return at != stage.npos && ends(at + quoted.size());
}

FEEDLINE_INLINE void failure_list::count(const failure& f) {
  const auto find = [&](const std::string& message) {
    return std::find_if(counts_.begin(), counts_.end(),
                        [&](const failure_count& c) { return c.stage == f.stage && c.message == message; });
  };
  const std::lock_guard lock(mutex_);
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
