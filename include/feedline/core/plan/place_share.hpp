// SPDX-License-Identifier: MIT
#pragma once
// The places in an epoch's order that are one rank's.
#include <cstdint>

#include <feedline/core/epoch.hpp>

namespace feedline::inline v0::detail {

/// Every so many of an epoch's places, from the first one on that the epoch names. The global batch that ranks
/// take together so is a stretch of the order, however many they are.
struct place_share {
  place_share() = default;

  place_share(std::uint64_t all_places, const epoch& e)
      : places(all_places), first(e.first), step(e.rank.of) {
    const std::uint64_t group =
        e.first >= e.rank.number ? e.first - e.rank.number : 0; // where all ranks go on
    const std::uint64_t of_all = places > group ? places - group : 0;
    switch (e.rank.rest) {
    case uneven::drop:
      size = of_all / step;
      break;
    case uneven::wrap:
      size = (of_all + step - 1) / step;
      break;
    case uneven::keep:
      size = places > first ? (places - first + step - 1) / step : 0;
      break;
    }
  }

  /// Number i of this rank's.
  std::uint64_t place_of(std::uint64_t i) const noexcept {
    const std::uint64_t place = first + i * step;
    return place < places ? place : place % places; // wrapped round
  }

  /// The first place in the next epoch's order, where ranks go on without a seam.
  std::uint64_t next_first() const noexcept { return first + size * step - places; }

  std::uint64_t places = 0;
  std::uint64_t first = 0;
  std::uint64_t step = 1;
  std::uint64_t size = 0; ///< how many are this rank's
};

} // namespace feedline::inline v0::detail
