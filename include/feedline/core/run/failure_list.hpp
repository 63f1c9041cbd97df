// SPDX-License-Identifier: MIT
#pragma once
// The failures that a run's consumer has received: the last ones, the count of each kind, and the limits.
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include <feedline/core/failure.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

class failure_list {
 public:
  /// `limits`: for single stages. `endless`: the run is infinite, so not all failures can be kept.
  failure_list(const std::vector<stage_failure_limit>& limits, bool endless);

  ~failure_list();

  /// All failures or, in an infinite run, the last ones, at least 1,000.
  const std::vector<failure>& last() const noexcept { return last_; }

  const std::vector<failure_count>& counts() const noexcept { return counts_; }

  /// Adds a failure that arrived after this many samples, including failed ones. Returns which limit it
  /// exceeds, or an empty text.
  std::string add(failure f, std::uint64_t samples);

 private:
  static constexpr std::ptrdiff_t kept = 1000;

  struct limited {
    stage_failure_limit limit;
    std::deque<std::uint64_t> at; // numbers of samples before the failures
  };

  static bool concerns(const stage_failure_limit& limit, const std::string& stage);

  void count(const failure& f);

  bool endless_;
  std::vector<failure> last_;
  std::vector<failure_count> counts_;
  std::vector<limited> limits_;
};

} // namespace feedline::inline FEEDLINE_ABI::detail

#ifndef FEEDLINE_COMPILED
#include <feedline/core/run/failure_list.ipp>
#endif
