// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/core/run/build_chain.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE std::vector<stage_place> places_outside_run(const run_context& context,
                                                            std::vector<std::string> names) {
  std::vector<stage_place> places;
  for (std::string& name : names) places.push_back({context, std::move(name), places.size(), false, false});
  places.push_back(places.back());
  return places;
}

} // namespace feedline::inline FEEDLINE_ABI::detail
