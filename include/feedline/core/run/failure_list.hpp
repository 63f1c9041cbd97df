// SPDX-License-Identifier: MIT
#pragma once
// The failures of a run as its consumer has met them: the last ones, how many of each kind, and how many are too many.
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
  /// `limits`: of single stages. `endless`: not all can be kept.
  failure_list(const std::vector<stage_failure_limit>& limits, bool endless) : endless_(endless) {
    for (const stage_failure_limit& l : limits) limits_.push_back({l, {}});
  }

  /// All of them or, in a run without end, the last ones, at least 1,000.
  const std::vector<failure>& last() const noexcept { return last_; }

  const std::vector<failure_count>& counts() const noexcept { return counts_; }

  /// Adds one that was met after so many samples, those that failed included. Returns why it is one too many, or nothing.
  std::string add(failure f, std::uint64_t samples) {
    count(f);
    std::string why;
    for (limited& l : limits_) {
      if (!concerns(l.limit, f.stage)) continue;
      l.at.push_back(samples);
      while (l.limit.of_last > 0 && samples - l.at.front() >= l.limit.of_last) l.at.pop_front();
      if (why.empty() && l.at.size() > l.limit.most)
        why = " (more failures of this stage than its limit of " + std::to_string(l.limit.most) +
              (l.limit.of_last > 0 ? " in the last " + std::to_string(l.limit.of_last) + " samples)" : ")");
    }
    if (endless_ && last_.size() == 2 * kept) last_.erase(last_.begin(), last_.begin() + kept);
    last_.push_back(std::move(f));
    return why;
  }

 private:
  static constexpr std::ptrdiff_t kept = 1000;

  struct limited {
    stage_failure_limit limit;
    std::deque<std::uint64_t> at; // samples that had come
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
