// SPDX-License-Identifier: MIT
#pragma once
// Which stages run on several threads.
#include <cstddef>
#include <stdexcept>
#include <string>
#include <utility>

#include <feedline/core/pipeline.hpp>
#include <feedline/core/plan/segments.hpp>
#include <feedline/detail/given_size.hpp>

namespace feedline::inline v0 {

/// How many threads a stage has: 1 to 256. The order of the items is kept, and results don't depend on it.
///
///     workers{8}                                        always 8
///     workers::automatic                                as many as pay
///     workers{.count = 2, .up_to = 8}                   the same, within bounds
///     workers{.count = 1, .up_to = 64, .waits = true}   for a stage that waits for a disk or a network
///
/// An automatic number grows while all of the stage's workers are busy and those behind it wait for what it
/// gives, and shrinks when workers wait for input or for room; it never exceeds the processors that the
/// process may use (see processors()), unless the stage `waits`. `loader.metrics()` tells how many are
/// active.
struct workers {
  static constexpr std::size_t limit = 256;
  static const workers automatic;

  std::size_t count;     ///< how many, or with `up_to` at least how many, where there are so many processors
  std::size_t up_to = 0; ///< at most so many; 0: the number is fixed
  bool waits = false;    ///< rather than compute: more of them than processors may pay
};

inline constexpr workers workers::automatic{.count = 1, .up_to = workers::limit};

struct unordered_t {};

/// Items may leave a parallel stage in whichever order they are done. Epochs still don't mix.
inline constexpr unordered_t unordered{};

namespace detail {

template <bool Ordered, class... Stages>
auto make_parallel(workers w, list_of<Stages...> stages, types<Stages...>) {
  static_assert((stateless<Stages> && ...), "feedline: only stages without a state of their own (map, "
                                            "filter, flat_map, tap) can run on several workers");
  const std::size_t most = w.up_to == 0 ? w.count : w.up_to;
  if (w.count < 1 || most < w.count || most > workers::limit)
    throw std::invalid_argument("feedline::workers: " + size_text(w.count) +
                                (w.up_to == 0 ? "" : " to " + size_text(w.up_to)) + " asked for, 1 to " +
                                std::to_string(workers::limit) + " are possible");
  using parallel = segment<segment_traits{.parallel = true, .ordered = Ordered}, Stages...>;
  return as_row(parallel{std::move(stages), {w.count, most, w.waits}});
}

/// Stages that stand in one row on one thread, for workers.
template <bool Ordered, class Row>
auto make_parallel(workers w, const Row& row) {
  static_assert(
      Row::segments::size == 1 && Row::segments::traits[0].ordered && !Row::segments::traits[0].parallel &&
          !Row::segments::traits[0].has_queue,
      "feedline: stages that share workers stand side by side: without workers or queues of their own");
  return make_parallel<Ordered>(w, row.stages.template get<0>().stages,
                                typename Row::segments::stage_types());
}

} // namespace detail

/// Runs stages one after another on the same workers: an item stays with its worker through all of them.
///
/// Takes:   workers, and `map(…) | filter(…) | flat_map(…) | tap(…)` in any number and order
/// Order:   kept; with `unordered`, as the items are done
/// Throws:  std::invalid_argument for a number of workers that can't be had
/// Example: `source | parallel(workers{8}, map(decode) | filter(large) | map(crop)) | batch(64)`
template <class Row>
auto parallel(workers w, Row row) {
  return detail::make_parallel<true>(w, detail::as_row(std::move(row)));
}

template <class Row>
auto parallel(workers w, Row row, unordered_t) {
  return detail::make_parallel<false>(w, detail::as_row(std::move(row)));
}

} // namespace feedline::inline v0
