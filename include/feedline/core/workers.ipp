// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/core/workers.hpp>

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
