// SPDX-License-Identifier: MIT
#pragma once
// prefetch: holds items ready before they are needed.
#include <feedline/core/contract.hpp>
#include <feedline/core/pipeline.hpp>
#include <feedline/core/plan/segments.hpp>
#include <feedline/detail/given_size.hpp>
#include <feedline/queue/overflow.hpp>

namespace feedline::inline FEEDLINE_ABI {

/// Adds a queue here: the stages upstream work ahead by up to `items` items.
///
///     … ─▶ batch ─▶ [queue] ─▶ consumer
///
/// After the last stage it sets how many batches are held ready for the consumer (else 4, or more if a batch
/// takes microseconds). `batch(…) | prefetch(n)` has up to n + 2 batches in memory: n in this queue, one that is being filled,
/// and one with the consumer, more if it keeps more. batch_into has as many more as its workers write to; memory() has the
/// limit of its bytes. Between two stages that would share a thread it puts each side on a separate thread.
///
/// A live source must not wait for a slow consumer: `prefetch<overflow::drop_oldest>(n)` and
/// `prefetch<overflow::drop_newest>(n)` drop samples while n are waiting, and count them in the queue's
/// metrics. (If n is above 1,024, some neighbours are dropped together.) Failures and ends of epochs are
/// never dropped; if necessary they wait for room. Such a run can't be resumed: its checkpoint() is a compile
/// error.
///
/// Takes:   any item
/// Gives:   every item that isn't dropped, unchanged
/// Order:   kept
/// Throws:  std::invalid_argument for 0 or a negative number
/// Stops:   at once
/// Example: `… | batch(256) | prefetch(8)`
template <overflow Overflow = overflow::block>
auto prefetch(std::size_t items) {
  if (items == 0) throw std::invalid_argument("feedline::prefetch: a queue needs room for at least one item");
  detail::refuse_negative(items, "feedline::prefetch: the number of items");
  constexpr detail::segment_traits traits{.has_queue = true, .overflow = Overflow};
  return detail::row_of(detail::types<detail::segment<traits>>(), {traits, {}, items});
}

} // namespace feedline::inline FEEDLINE_ABI
