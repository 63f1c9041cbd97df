// SPDX-License-Identifier: MIT
#pragma once
// Plans the threads, queues and memory of a run.
#include <cstddef>
#include <string>
#include <vector>

#include <feedline/core/memory_plan.hpp>
#include <feedline/core/plan/facts.hpp>
#include <feedline/core/plan/measure.hpp>
#include <feedline/core/plan/segments.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// The capacity of a queue: packets, and samples in each.
struct packet_plan {
  std::size_t packets;
  std::size_t items;
};

class run_plan {
 public:
  /// `budget`: the most bytes that the run may hold, or 0. `capacity`: the most items in a queue; 0: chosen to suit the
  /// workers and, if the source `is_live`, few, so that items don't wait long there. Throws std::invalid_argument if no
  /// queues fit into the budget.
  run_plan(segment_size source, std::vector<stage_facts> stages, std::vector<segment_facts> segments,
           bool is_live, std::size_t budget, std::size_t capacity);

  const std::vector<stage_facts>& stages() const { return stages_; }

  const std::vector<segment_facts>& segments() const { return segments_; }

  /// The name of the last stage of a segment.
  const std::string& name(std::size_t segment) const { return sizes_[segment].name; }

  bool is_parallel(std::size_t segment) const {
    return segment < segments_.size() && segments_[segment].traits.parallel;
  }

  /// The number of the segment that a stage belongs to.
  std::size_t segment_of(std::size_t stage) const;

  /// The threads that pop from the queue after a segment.
  std::size_t takers(std::size_t segment) const;

  /// The queue after a segment.
  packet_plan packets(std::size_t segment) const { return packets(segment, capacity_); }

  /// The most items that may be in flight after a segment.
  std::size_t items_in_flight(std::size_t segment) const;

  /// The most memory that the run holds.
  memory_plan memory() const { return memory(capacity_); }

  /// The number of threads on which the first `count` stages may run outside of the run: one if a stage among them that
  /// changes samples is serial in the run; otherwise `most`, or as many samples as wait in a stage at once.
  std::size_t threads_for(std::size_t count, std::size_t most) const;

 private:
  bool gives_one_for_each(std::size_t segment) const; // of its input items
  packet_plan packets(std::size_t segment, std::size_t capacity) const;
  queue_size queue_after(std::size_t segment, std::size_t capacity) const;
  memory_plan memory(std::size_t capacity) const;

  std::vector<stage_facts> stages_;
  std::vector<segment_facts> segments_;
  std::vector<segment_size> sizes_;
  bool is_live_;
  std::size_t capacity_;
};

} // namespace feedline::inline FEEDLINE_ABI::detail

#ifndef FEEDLINE_COMPILED
#include <feedline/core/plan/run_plan.ipp>
#endif
