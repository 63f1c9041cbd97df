// SPDX-License-Identifier: MIT
#pragma once
// What a source is told before it starts an epoch.
#include <cstdint>
#include <stop_token>

#include <feedline/core/rank.hpp>

namespace feedline::inline v0 {

/// One pass over a data set, as a source's `start_epoch(const epoch&)` sees it.
struct epoch {
  std::uint64_t seed = 0;   ///< the run's seed: key the order by (seed, number)
  std::uint32_t number = 0; ///< counts from 0
  std::stop_token stop{};   ///< of the run: asks a source that waits to give up
  bool shuffled = false; ///< true: give shards in an order of this epoch's own; false: in their listed order
  /// Only so many of the files (or elements) take part, the first ones as listed: the data set has grown since
  /// this epoch began.
  std::uint64_t extent = ~std::uint64_t{0};
  /// Only this rank's part is wanted. Heard by sources that share out their files (`shares_files`) or places
  /// (`shares_places`, from place `first` of the epoch's order on); of others the run takes its part itself.
  feedline::rank rank{};
  std::uint64_t first = 0;
  bool endless = false; ///< the run has no end of its own: it is an infinite one
};

} // namespace feedline::inline v0
