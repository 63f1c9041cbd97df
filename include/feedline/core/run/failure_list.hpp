// SPDX-License-Identifier: MIT
#pragma once
// The failures that a run's consumer has received: the last ones, the count of each kind, and the limits.
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include <feedline/core/checkpoint.hpp>
#include <feedline/core/failure.hpp>
#include <feedline/core/plan/run_options.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// Counts the samples that failed: each once, however often it fails. A failure of a source that had no index yet counts
/// as one more sample.
class failed_samples {
 public:
  /// Whether it counts: it hadn't failed before.
  bool add(std::uint64_t index) {
    if (index != sample_id::no_index) return indices_.insert(index).second;
    ++unknown_;
    return true;
  }

  /// Takes back the last add(), which returned true.
  void take_back(std::uint64_t index) {
    if (index == sample_id::no_index) --unknown_;
    else indices_.erase(index);
  }

  std::uint64_t count() const noexcept { return indices_.size() + unknown_; }

  /// For a checkpoint.
  failed_before state() const { return {{indices_.begin(), indices_.end()}, unknown_}; }

  void resume(const failed_before& earlier) {
    indices_.insert(earlier.indices.begin(), earlier.indices.end());
    unknown_ = earlier.unknown;
  }

 private:
  std::set<std::uint64_t> indices_;
  std::uint64_t unknown_ = 0;
};

class failure_list {
 public:
  explicit failure_list(const run_options& options);

  ~failure_list();

  /// Continues the count of the failed samples of the whole run.
  void resume(const failed_before& earlier) { samples_.resume(earlier); }

  /// The failed samples of the whole run; without a limit only their number.
  failed_before samples() const { return samples_.state(); }

  /// All failures or, in an infinite run, the last ones, at least 1,000.
  const std::vector<failure>& last() const noexcept { return last_; }

  const std::vector<failure_count>& counts() const noexcept { return counts_; }

  /// For any thread.
  std::vector<failure_count> copy_counts() const;

  /// Adds a failure that arrived after this many samples, including failed ones. Returns which limit it
  /// exceeds, or an empty text.
  std::string add(failure f, std::uint64_t samples);

  /// Whether a limit is that of a stage with this name.
  static bool concerns(const stage_failure_limit& limit, const std::string& stage);

 private:
  static constexpr std::ptrdiff_t kept = 1000;

  struct limited {
    stage_failure_limit limit;
    std::deque<std::uint64_t> at; // with a window: numbers of samples before the failures
    failed_samples samples;       // without one
  };

  void count(const failure& f);

  // How the failure exceeds the limit; empty if it doesn't.
  std::string exceeds(limited& l, const failure& f, std::uint64_t samples);

  bool endless_;
  std::size_t limit_;
  failed_samples samples_;
  std::vector<failure> last_;
  std::vector<failure_count> counts_;
  mutable std::mutex mutex_; // held while they change
  std::vector<limited> limits_;
};

} // namespace feedline::inline FEEDLINE_ABI::detail

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_CORE_RUN)
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
#endif
