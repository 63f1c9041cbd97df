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
#include <feedline/core/options.hpp>

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

#ifndef FEEDLINE_COMPILED
#include <feedline/core/run/failure_list.ipp>
#endif
