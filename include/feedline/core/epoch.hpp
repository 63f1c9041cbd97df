// SPDX-License-Identifier: MIT
#pragma once
// What a source is told before it starts an epoch.
#include <cstdint>
#include <stop_token>

namespace feedline {

/// One pass over a data set, as a source's `start_epoch(const epoch&)` sees it.
struct epoch {
  std::uint64_t seed = 0;   ///< the run's seed: key the order by (seed, number)
  std::uint32_t number = 0; ///< counts from 0
  std::stop_token stop{};   ///< of the run: asks a source that waits to give up
  bool shuffled = false; ///< true: give shards in an order of this epoch's own; false: in their listed order
};

} // namespace feedline
