// SPDX-License-Identifier: MIT
#pragma once
// The number of items of an epoch, where it can be known before the run.
#include <cstdint>
#include <optional>

#include <feedline/core/epoch.hpp>
#include <feedline/core/options.hpp>
#include <feedline/core/plan/place_share.hpp>
#include <feedline/core/source.hpp>
#include <feedline/core/stage.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// The number of samples that a source yields in the first epoch; nothing if it isn't known.
template <source Source>
std::optional<std::uint64_t> samples_in_epoch(const Source& described, const run_options& options) {
  const epoch e = make_epoch(options, 0, options.stop, options.rank.number);
  if constexpr (dealt_source<Source>) {
    Source source(described);
    start_source(source, e);
    return source.share().size;
  } else if constexpr (requires { std::uint64_t{described.size()}; } && !live_source<Source>) {
    if (division_of<Source>() == rank_division::by_run) return place_share(described.size(), e).size;
    if (options.rank.is_alone()) return described.size();
  }
  return std::nullopt;
}

/// The number of items that the stages emit for them; nothing if it isn't known.
template <source Source, class Segments>
std::optional<std::uint64_t> items_in_epoch(const Source& described, const Segments& stages,
                                            const run_options& options) {
  const bool drains = options.epochs != run_options::for_ever;
  std::optional<std::uint64_t> items;
  bool are_known = !Segments::drops;
  const auto look = [&]<class S>(const S&) {
    are_known &= traits_of<S>().one_to_one || requires(const S& s) { s.output_count(0, true); };
  };
  stages.for_each_stage(look);
  if (are_known) items = samples_in_epoch(described, options);
  const auto pass = [&]<class S>(const S& stage) {
    if constexpr (requires { stage.output_count(0, true); })
      if (items) items = stage.output_count(*items, drains);
  };
  stages.for_each_stage(pass);
  return items;
}

} // namespace feedline::inline FEEDLINE_ABI::detail
