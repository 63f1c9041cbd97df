// SPDX-License-Identifier: MIT
#pragma once
// The failures that a run's consumer has received: the last ones, the count of each kind, and the limits.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include <feedline/core/failure.hpp>

namespace feedline::inline v0::detail {

class failure_list {
 public:
  /// `limits`: for single stages. `endless`: the run is infinite, so not all failures can be kept.
  failure_list(const std::vector<stage_failure_limit>& limits, bool endless) : endless_(endless) {
    for (const stage_failure_limit& l : limits) limits_.push_back({l, {}});
  }

  /// All failures or, in an infinite run, the last ones, at least 1,000.
  const std::vector<failure>& last() const noexcept { return last_; }

  const std::vector<failure_count>& counts() const noexcept { return counts_; }

  /// Adds a failure that arrived after this many samples, including failed ones. Returns which limit it
  /// exceeds, or an empty text.
  std::string add(failure f, std::uint64_t samples) {
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

 private:
  static constexpr std::ptrdiff_t kept = 1000;

  struct limited {
    stage_failure_limit limit;
    std::deque<std::uint64_t> at; // numbers of samples before the failures
  };

  static bool concerns(const stage_failure_limit& limit, const std::string& stage) {
    return stage == limit.stage || stage.ends_with(" `" + limit.stage + "`");
  }

  void count(const failure& f) {
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

  bool endless_;
  std::vector<failure> last_;
  std::vector<failure_count> counts_;
  std::vector<limited> limits_;
};

} // namespace feedline::inline v0::detail
