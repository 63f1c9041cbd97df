// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/core/run/sample_worker.hpp>

#include <algorithm>
#include <cstddef>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE void number_equal_names(std::vector<stage_place>& places) {
  std::vector<std::string> names;
  for (const stage_place& p : places) names.push_back(p.name);
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto all = std::count(names.begin(), names.end(), names[i]);
    const auto before = std::count(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(i), names[i]);
    if (all > 1) places[i].name += " (" + std::to_string(before + 1) + " of " + std::to_string(all) + ")";
  }
}

FEEDLINE_INLINE std::vector<stage_place> places_outside_run(const run_context& context,
                                                            std::vector<std::string> names,
                                                            std::size_t before,
                                                            std::initializer_list<stage_outside> stages) {
  std::vector<stage_place> places;
  for (std::string& name : names) places.push_back({context, std::move(name), places.size(), false});
  number_equal_names(places);
  std::size_t number = 1 + before, of_source = 0;
  bool of_parts = false;
  for (const stage_outside& stage : stages) {
    places[number].of_source = of_source;
    places[number++].of_parts = of_parts;
    of_source += stage.belongs_to_source;
    of_parts |= stage.makes_parts;
  }
  places.push_back(places.back());
  return places;
}

} // namespace feedline::inline FEEDLINE_ABI::detail
