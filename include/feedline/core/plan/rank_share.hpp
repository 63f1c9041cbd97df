// SPDX-License-Identifier: MIT
#pragma once
// The positions in an epoch's order that belong to one rank.
#include <cstdint>

#include <feedline/core/epoch.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// One rank's share: every step-th position of an epoch, from the epoch's `first` on. So the ranks together
/// take consecutive parts of the order as their global batches, whatever the world size.
struct rank_share {
  rank_share() = default;

  rank_share(std::uint64_t all_places, const epoch& e);

  /// The position of number i of this rank's samples.
  std::uint64_t place_of(std::uint64_t i) const noexcept {
    const std::uint64_t place = first + i * step;
    return place < places ? place : place % places; // wraps around
  }

  /// The position of a sample of this rank, before it wrapped around, from the one in the epoch's order.
  std::uint64_t before_wrap(std::uint64_t place) const noexcept {
    return place >= first && (place - first) % step == 0 ? place : first + (size - 1) * step;
  }

  /// The first position in the next epoch's order, so that ranks continue without a gap.
  std::uint64_t next_first() const noexcept { return first + size * step - places; }

  std::uint64_t places = 0;
  std::uint64_t first = 0;
  std::uint64_t step = 1;
  std::uint64_t size = 0; ///< how many belong to this rank
};

} // namespace feedline::inline FEEDLINE_ABI::detail

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_CORE)
#include <feedline/core/rank.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE rank_share::rank_share(std::uint64_t all_places, const epoch& e)
    : places(all_places), first(e.first), step(e.rank.world_size) {
  const std::uint64_t group =
      e.first >= e.rank.number ? e.first - e.rank.number : 0; // where all ranks continue
  const std::uint64_t of_all = places > group ? places - group : 0;
  switch (e.rank.remainder) {
  case remainder::drop:
    size = of_all / step;
    break;
  case remainder::wrap:
    size = (of_all + step - 1) / step;
    break;
  case remainder::keep:
    size = places > first ? (places - first + step - 1) / step : 0;
    break;
  }
}

} // namespace feedline::inline FEEDLINE_ABI::detail
#endif
