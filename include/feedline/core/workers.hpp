// SPDX-License-Identifier: MIT
#pragma once
// Which stages run on several threads.
#include <concepts>
#include <cstddef>
#include <initializer_list>
#include <span>
#include <utility>

#include <feedline/core/pipeline.hpp>
#include <feedline/core/plan/segments.hpp>
#include <feedline/core/processors.hpp>
#include <feedline/core/stage.hpp>

namespace feedline::inline FEEDLINE_ABI {

namespace detail {

/// A number of workers, given as any integer; a negative one becomes a large one, which is refused.
struct worker_count {
  template <std::integral Number>
  constexpr worker_count(Number n) noexcept : number(static_cast<std::size_t>(n)) {}

  constexpr operator std::size_t() const noexcept { return number; }

  std::size_t number;
};

} // namespace detail

/// The number of threads of a stage: 1 to 256. The order of the items is kept, and results don't depend on
/// the number.
///
///     workers{8}                                        always 8
///     workers::automatic                                adapts to the load
///     workers{.count = 2, .max = 8}                     the same, within bounds
///     workers{.count = 1, .max = 64, .io_bound = true}  for a stage that waits for a disk or a network
///     workers{4}.on({0, 1, 2, 3})                       on these processors only
///
/// An automatic number grows while all of the stage's workers are busy and the threads downstream wait for
/// its items, and shrinks when workers wait for input or for room. It never exceeds the processors that the
/// process may use (see processors()), unless the stage is `io_bound`. `loader.metrics()` shows how many are
/// active.
struct workers {
  static constexpr std::size_t limit = 256; ///< the most workers of a stage
  static const workers automatic;           ///< adapts to the load

  detail::worker_count count;   ///< how many, or with `max` the least number, if there are as many processors
  detail::worker_count max = 0; ///< the largest number; 0: the number is fixed
  bool io_bound = false;        ///< waits more than it computes: more workers than processors may help
  detail::cpu_list cpus{};      ///< see on()

  /// The same on processors with these numbers only, as taskset(1) shows them. A run fails if it may use none of them.
  /// Throws std::invalid_argument for an empty list or a number that no processor can have.
  workers on(std::span<const int> processors) const;

  /// The same, for `workers{4}.on({0, 1})`.
  workers on(std::initializer_list<int> processors) const {
    return on(std::span(processors.begin(), processors.size()));
  }
};

inline constexpr workers workers::automatic{.count = 1, .max = workers::limit};

struct unordered_t {};

/// Items may leave a parallel stage in the order in which they are finished. Epochs still don't mix.
inline constexpr unordered_t unordered{};

namespace detail {

/// The stages of a row of one segment, on workers. Throws std::invalid_argument for an invalid number of them.
composed_stages on_workers(const workers& w, const segment_traits& traits, composed_stages&& row);

template <segment_traits Traits, class... Stages>
stage_row<segment<Traits, Stages...>> parallel_row(types<Stages...>, composed_stages&& composed) {
  static_assert((stateless<Stages> && ...),
                "feedline: only stateless stages (map, filter, flat_map, tap) can "
                "run on several workers");
  return {std::move(composed)};
}

/// Puts the stages of a row on workers.
template <bool Ordered, class Row>
auto make_parallel(const workers& w, Row row) {
  static_assert(Row::segments::size == 1 && Row::segments::traits[0].ordered &&
                    !Row::segments::traits[0].parallel && !Row::segments::traits[0].has_queue,
                "feedline: stages that share workers can't have separate workers or queues between them");
  constexpr segment_traits traits{.parallel = true, .ordered = Ordered};
  return parallel_row<traits>(typename Row::segments::stage_types(),
                              on_workers(w, traits, std::move(row.composed)));
}

} // namespace detail

/// Runs stages one after another on the same workers: an item stays with its worker through all of them.
///
/// Takes:   workers, and `map(…) | filter(…) | flat_map(…) | tap(…)` in any number and order
/// Order:   kept; with `unordered`, the order in which they are finished
/// Throws:  std::invalid_argument unless the number of workers is from 1 to 256
/// Example: `source | parallel(workers{8}, map(decode) | filter(large) | map(crop)) | batch(64)`
template <class Row>
auto parallel(workers w, Row row) {
  return detail::make_parallel<true>(w, detail::as_row(std::move(row)));
}

/// The same, but items leave in the order in which they are finished.
template <class Row>
auto parallel(workers w, Row row, unordered_t) {
  return detail::make_parallel<false>(w, detail::as_row(std::move(row)));
}

} // namespace feedline::inline FEEDLINE_ABI

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_CORE)
#include <stdexcept>
#include <string>

#include <feedline/detail/given_size.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE composed_stages on_workers(const workers& w, const segment_traits& traits,
                                           composed_stages&& row) {
  const std::size_t max = w.max == 0 ? w.count : w.max;
  if (w.count < 1 || max < w.count || max > workers::limit)
    throw std::invalid_argument("feedline::workers: " + size_text(w.count.number) +
                                (w.max == 0 ? "" : " to " + size_text(w.max.number)) +
                                " requested, but it must be 1 to " + std::to_string(workers::limit));
  segment_description& segment = row.segments.front();
  segment.traits = traits;
  segment.workers = {w.count, max, w.io_bound};
  segment.cpus = w.cpus;
  return std::move(row);
}

} // namespace feedline::inline FEEDLINE_ABI::detail

namespace feedline::inline FEEDLINE_ABI {

FEEDLINE_INLINE workers workers::on(std::span<const int> processors) const {
  workers pinned = *this;
  pinned.cpus = {};
  if (processors.empty())
    throw std::invalid_argument("feedline::workers::on: the list of processors is empty");
  for (const int number : processors)
    if (!pinned.cpus.add(number))
      throw std::invalid_argument("feedline::workers::on: there is no processor " + std::to_string(number));
  return pinned;
}

} // namespace feedline::inline FEEDLINE_ABI
#endif
