// SPDX-License-Identifier: MIT
#pragma once
// Plans the threads, queues and memory of a run.
#include <cstddef>
#include <string>
#include <vector>

#include <feedline/core/memory_plan.hpp>
#include <feedline/core/plan/facts.hpp>
#include <feedline/core/plan/measure.hpp>
#include <feedline/core/plan/run_options.hpp>
#include <feedline/core/plan/segments.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// The capacity of a queue: packets, and samples in each.
struct packet_plan {
  std::size_t packets;
  std::size_t items;
};

class run_plan {
 public:
  /// A queue_capacity of 0 is chosen to suit the workers and, if the source `is_live`, small, so that items don't wait long
  /// there. Throws std::invalid_argument if no queues fit into the memory_budget.
  run_plan(segment_size source, std::vector<stage_facts> stages, std::vector<segment_facts> segments,
           bool is_live, const run_options& options);

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

  /// The same with queues of another capacity.
  memory_plan memory(std::size_t capacity) const;

  /// The number of threads on which the first `count` stages may run outside of the run: one if a stage among them that
  /// changes samples is serial in the run; otherwise `most`, or as many samples as wait in a stage at once.
  std::size_t threads_for(std::size_t count, std::size_t most) const;

 private:
  bool gives_one_for_each(std::size_t segment) const; // of its input items
  packet_plan packets(std::size_t segment, std::size_t capacity) const;
  queue_size queue_after(std::size_t segment, std::size_t capacity) const;

  std::vector<stage_facts> stages_;
  std::vector<segment_facts> segments_;
  std::vector<segment_size> sizes_;
  bool is_live_;
  std::size_t capacity_;
};

} // namespace feedline::inline FEEDLINE_ABI::detail

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_CORE)
#include <algorithm>
#include <utility>

#include <feedline/core/sample.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE run_plan::run_plan(segment_size source, std::vector<stage_facts> stages,
                                   std::vector<segment_facts> segments, bool is_live,
                                   const run_options& options)
    : stages_(std::move(stages)),
      segments_(std::move(segments)),
      is_live_(is_live),
      capacity_(options.queue_capacity) {
  known_bytes in = source.bytes;
  sizes_.push_back(std::move(source));
  for (std::size_t i = 0; i < segments_.size(); ++i) {
    const segment_facts& s = segments_[i];
    // Without stages it is a queue and the thread that fills it.
    if (i > 0)
      sizes_.push_back(s.stages > 0 ? segment_size{}
                                    : segment_size{"prefetch", in, sizes_.back().queued_bytes});
    for (std::size_t n = s.first_stage; n < s.first_stage + s.stages; ++n) {
      sizes_.back().add(stages_[n].size, in);
      in = stages_[n].size.emitted;
    }
  }
  if (const auto within = options.memory_budget.function())
    capacity_ = within(*this, options.memory_budget.value(), capacity_);
}

FEEDLINE_INLINE std::size_t capacity_within(const run_plan& plan, std::size_t budget, std::size_t capacity) {
  return fitting_capacity(budget, capacity, [&](std::size_t tried) { return plan.memory(tried); });
}

FEEDLINE_INLINE std::size_t run_plan::segment_of(std::size_t stage) const {
  std::size_t i = 0;
  while (stage >= segments_[i].first_stage + segments_[i].stages) ++i;
  return i;
}

FEEDLINE_INLINE std::size_t run_plan::takers(std::size_t segment) const {
  return segment + 1 < segments_.size() ? segments_[segment + 1].workers.most : 1;
}

FEEDLINE_INLINE std::size_t run_plan::items_in_flight(std::size_t segment) const {
  const queue_size q = queue_after(segment, capacity_);
  return q.packets * q.items;
}

FEEDLINE_INLINE std::size_t run_plan::threads_for(std::size_t count, std::size_t most) const {
  constexpr std::size_t most_waiting = 64;
  for (std::size_t n = 0; n < count; ++n) {
    const stage_facts& s = stages_[n];
    if (s.items_at_once) most = std::max(most, std::min(*s.items_at_once, most_waiting));
    else if (!s.traits.unchanged && !is_parallel(segment_of(n))) return 1;
  }
  return most;
}

FEEDLINE_INLINE bool run_plan::gives_one_for_each(std::size_t segment) const {
  const auto first = stages_.begin() + static_cast<std::ptrdiff_t>(segments_[segment].first_stage);
  return std::all_of(first, first + static_cast<std::ptrdiff_t>(segments_[segment].stages),
                     [](const stage_facts& s) { return s.traits.one_to_one; });
}

// A packet carries one large sample, or as many small ones as share the cost of a hand-over well. The whole queue holds
// no more than 8 MB, unless one sample per packet already exceeds that.
FEEDLINE_INLINE packet_plan run_plan::packets(std::size_t segment, std::size_t capacity) const {
  constexpr std::size_t queue_bytes = std::size_t{8} << 20;
  const segment_facts& s = segments_[segment];
  if (s.capacity > 0) { // even if each sample takes so long that it is sent alone
    const std::size_t packets = std::min<std::size_t>(s.capacity, 1024);
    return {packets, s.capacity / packets + (s.capacity % packets != 0)};
  }
  // Workers need several packets to choose from, and room for finished ones while an earlier one takes long.
  std::size_t packets = std::max(4 * s.workers.most, 2 * takers(segment)) + 2;
  const known_bytes bytes = sizes_[segment].bytes;
  const std::size_t bytes_each = std::max(bytes.value_or(0), s.item_size) + sizeof(sample_id);
  std::size_t items = std::clamp<std::size_t>(queue_bytes / packets / bytes_each, 1, 32768);
  if (s.emits_batches) {
    // Batches hold far more than their own size. Several of them share a packet only if they are produced
    // faster than a queue hands them over.
    packets = 4;
    items = bytes ? std::clamp<std::size_t>(queue_bytes / packets / bytes_each, 1, 8) : 8;
  }
  // A worker sends what it makes of a packet under its number, and waits with a second packet of it until that is due. So
  // that all of them work, and fill the queue behind them, it should fit into one, where the number is known.
  if (is_parallel(segment + 1) && gives_one_for_each(segment + 1)) {
    const std::size_t fitting = this->packets(segment + 1, capacity).items;
    if (items > fitting) {
      packets = std::clamp(packets * items / fitting, packets, std::max<std::size_t>(packets, 64));
      items = fitting;
    }
  }
  constexpr std::size_t most_live = 256;
  if (is_live_ && capacity == 0) items = std::clamp<std::size_t>(most_live / packets, 1, items);
  if (capacity > 0) {
    packets = std::min(capacity, std::max(packets, capacity / items));
    items = std::clamp<std::size_t>(capacity / packets, 1, items);
  }
  return {packets, items};
}

// Each thread on both sides of a queue may hold a packet.
FEEDLINE_INLINE queue_size run_plan::queue_after(std::size_t segment, std::size_t capacity) const {
  const packet_plan p = packets(segment, capacity);
  const std::size_t givers = segments_[segment].workers.most, taking = takers(segment);
  if (!segments_[segment].body) return {taking, p.items, taking, givers, taking};
  return {p.packets + givers + taking, p.items, p.packets, givers, taking};
}

FEEDLINE_INLINE memory_plan run_plan::memory(std::size_t capacity) const {
  std::vector<queue_size> queues;
  for (std::size_t i = 0; i < segments_.size(); ++i) queues.push_back(queue_after(i, capacity));
  return plan_of(sizes_, queues);
}

} // namespace feedline::inline FEEDLINE_ABI::detail
#endif
