// SPDX-License-Identifier: MIT
#pragma once
// What a source receives before it starts an epoch.
#include <cstdint>
#include <stop_token>

#include <feedline/core/rank.hpp>

namespace feedline::inline FEEDLINE_ABI {

/// How samples fare in the stages downstream of a source. A live source that can give the same ones again asks it, so that
/// it doesn't give them without a pause when no stage can use them.
class sample_outcomes {
 public:
  sample_outcomes() = default;
  sample_outcomes(const sample_outcomes&) = delete;

  /// How many samples a stage has failed for since it last let one through: of the stage with the most of them. A sample
  /// that a stage has in hand doesn't count yet. From any thread.
  virtual std::uint64_t failed_in_row() = 0;

 protected:
  ~sample_outcomes() = default;
};

/// One pass over a data set: the parameter of a source's `start_epoch(const epoch&)`.
struct epoch {
  std::uint64_t seed = 0;   ///< the run's seed: key the order by (seed, number)
  std::uint32_t number = 0; ///< counts from 0
  std::stop_token stop{};   ///< the run's: a source that waits must return when it is requested
  bool shuffled = false;    ///< yield shards in this epoch's random order, not in their listed order
  /// Only the first `extent` files (or elements), as listed, take part: the data set has grown since this
  /// epoch began.
  std::uint64_t extent = ~std::uint64_t{0};
  /// Only this rank's share is wanted. For sources that split their files (`splits_files_by_rank`, unless `rank.by_sample`) or
  /// positions (`splits_samples_by_rank`, from position `first` of the epoch's order on); for other sources
  /// the run takes the share itself.
  feedline::rank rank{};
  std::uint64_t first = 0; ///< the position in the epoch's order at which the ranks' shares begin
  bool endless = false;    ///< the run is infinite
  /// How the samples of a live source fare; valid as long as the run. Null: unknown.
  sample_outcomes* outcomes = nullptr;
};

} // namespace feedline::inline FEEDLINE_ABI
