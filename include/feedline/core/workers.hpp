// SPDX-License-Identifier: MIT
#pragma once
// Which stages run on several threads.
#include <cstddef>
#include <stdexcept>
#include <string>
#include <utility>

#include <feedline/core/detail/plan.hpp>
#include <feedline/core/pipeline.hpp>

namespace feedline {

/// So many threads for a stage: 1 to 256. The order of the items is kept.
struct workers {
  static constexpr std::size_t most = 256;

  std::size_t count;
};

struct unordered_t {};

/// Items may leave a parallel stage in whichever order they are done. Epochs still don't mix.
inline constexpr unordered_t unordered{};

namespace detail {

template <bool Ordered, class... Stages>
auto make_parallel(workers w, stage_row<Stages...> row) {
  static_assert((stateless<Stages> && ...), "feedline: only stages without a state of their own (map, "
                                            "filter, flat_map, tap) can run on several workers");
  if (w.count < 1 || w.count > workers::most)
    throw std::invalid_argument("feedline::workers: " + std::to_string(w.count) + " asked for, 1 to " +
                                std::to_string(workers::most) + " are possible");
  return parallel_stages<Ordered, Stages...>{std::move(row.stages), w.count};
}

} // namespace detail

/// Runs stages one after another on the same workers: an item stays with its worker through all of them.
///
/// Takes:   workers, and `map(…) | filter(…) | flat_map(…) | tap(…)` in any number and order
/// Order:   kept; with `unordered`, as the items are done
/// Throws:  std::invalid_argument unless there are 1 to 256 workers
/// Example: `source | parallel(workers{8}, map(decode) | filter(large) | map(crop)) | batch(64)`
template <class Row>
auto parallel(workers w, Row row) {
  return detail::make_parallel<true>(w, detail::as_row(std::move(row)));
}

template <class Row>
auto parallel(workers w, Row row, unordered_t) {
  return detail::make_parallel<false>(w, detail::as_row(std::move(row)));
}

} // namespace feedline
