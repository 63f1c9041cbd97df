// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/core/run/sample_finder.hpp>

#include <tuple>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE std::map<std::uint32_t, std::vector<wanted_sample>>
wanted_by_epoch(std::vector<sample_id> ids) {
  const auto by_sample = [](const sample_id& id) {
    return std::tuple(id.epoch, id.index, id.repetition, id.sub_index);
  };
  std::sort(ids.begin(), ids.end(),
            [&](const sample_id& a, const sample_id& b) { return by_sample(a) < by_sample(b); });
  std::map<std::uint32_t, std::vector<wanted_sample>> all;
  std::size_t same = 0;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    same = i > 0 && ids[i] == ids[i - 1] ? same + 1 : 1;
    std::vector<wanted_sample>& of_epoch = all[ids[i].epoch];
    if (of_epoch.empty() || !of_epoch.back().is(ids[i].index, ids[i].repetition))
      of_epoch.push_back({ids[i].index, ids[i].repetition, 0});
    of_epoch.back().often = std::max(of_epoch.back().often, same);
  }
  return all;
}

} // namespace feedline::inline FEEDLINE_ABI::detail
