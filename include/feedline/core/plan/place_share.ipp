// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/core/plan/place_share.hpp>

#include <feedline/core/rank.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE place_share::place_share(std::uint64_t all_places, const epoch& e)
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
