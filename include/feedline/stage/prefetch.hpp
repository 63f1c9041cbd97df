// SPDX-License-Identifier: MIT
#pragma once
// prefetch: items made ready ahead.
#include <cstddef>
#include <stdexcept>

#include <feedline/core/pipeline.hpp>
#include <feedline/core/plan/segments.hpp>
#include <feedline/detail/given_size.hpp>
#include <feedline/queue/overflow.hpp>

namespace feedline::inline v0 {

/// Puts a queue of its own at this place: what stands before it works ahead by up to so many items.
///
///     … ─▶ batch ─▶ [queue] ─▶ consumer
///
/// Behind the last stage it sets how many batches lie ready for the consumer (else 4, or more where a batch
/// takes microseconds); between two stages that would share a thread it gives each side a thread of its own.
///
/// A live feed must not wait for a slow consumer: `prefetch<overflow::drop_oldest>(n)` and
/// `prefetch<overflow::drop_newest>(n)` drop samples where n lie ready already, and count them in the queue's metrics.
/// (Of more than 1,024 some neighbours are dropped together.) Failures and ends of epochs are never dropped, and wait for
/// room if they must. Such a run can't be resumed: the compiler refuses its checkpoint().
///
/// Takes:   any item
/// Gives:   every item, unchanged, that isn't dropped
/// Order:   kept
/// Throws:  std::invalid_argument for 0 or a number that was negative
/// Stops:   at once
/// Example: `… | batch(256) | prefetch(8)`
template <overflow Overflow = overflow::block>
auto prefetch(std::size_t items) {
  if (items == 0) throw std::invalid_argument("feedline::prefetch: a queue needs room for at least one item");
  detail::refuse_negative(items, "feedline::prefetch: the number of items");
  constexpr detail::segment_traits traits{.has_queue = true, .overflow = Overflow};
  return detail::as_row(detail::segment<traits>{.capacity = items});
}

} // namespace feedline::inline v0
