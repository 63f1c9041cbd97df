// SPDX-License-Identifier: MIT
#pragma once
// Measures the memory of a pipeline's items in each part of a run, and finds queues that fit into a memory
// budget.
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include <feedline/core/held_samples.hpp>
#include <feedline/core/item_bytes.hpp>
#include <feedline/core/memory_plan.hpp>
#include <feedline/core/sample.hpp>
#include <feedline/core/slot.hpp>
#include <feedline/core/source.hpp>
#include <feedline/core/stage.hpp>
#include <feedline/core/state.hpp>
#include <feedline/detail/function_ref.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// The most samples that go into one item that a stage emits. Nothing if that isn't known, as the stage may
/// leave out some.
template <class Stage>
std::optional<std::size_t> samples_in_one(const Stage& stage) {
  if constexpr (part_of_library<Stage> && requires { stage.samples_in_one(); }) return stage.samples_in_one();
  else if constexpr (traits_of<Stage>().data_independent_count) return 1;
  else return std::nullopt;
}

/// What a memory plan needs to know of a stage.
struct stage_size {
  std::string name;
  std::size_t sample_bytes;                  // of a sample that it receives, without its item
  std::size_t queued_bytes;                  // the same for one that it emits into a queue
  std::size_t slot_bytes;                    // see shared_slot_bytes(), of an item that it emits
  known_bytes emitted;                       // of an item that it emits
  std::optional<std::size_t> samples_in_one; // emitted item, at most
  std::size_t held = 0;                      // input samples, at most
  known_bytes kept = 0;                      // besides those
  std::size_t begun = 0;                     // items
  std::optional<memory_plan::part> gathered{};
  std::optional<note_size> notes{};
};

/// Starting at some stage: how many samples may be inside the stages downstream, and how many go into one item
/// after them. Nothing if that isn't known.
struct samples_downstream {
  std::optional<std::size_t> inside = 0;
  std::optional<std::size_t> in_one = 1;

  void pass(const stage_size& stage);
};

/// A segment as a memory plan sees it.
struct segment_size {
  struct stage_notes {
    std::string stage;
    note_size each;
    samples_downstream downstream{}; // up to the segment's end
  };

  std::string name;                          // the name of its last stage
  known_bytes bytes;                         // of an item that it emits
  std::size_t queued_bytes;                  // of a sample in the queue, without its item
  known_bytes between{0};                    // of one input item of each of its stages
  std::vector<memory_plan::part> held{};     // held by its stages
  std::vector<memory_plan::part> gathered{}; // gathered by each of its workers
  std::vector<stage_notes> notes{};
  std::vector<std::size_t> slots{}; // sizes of shared slots for what its source or stages emit
  samples_downstream samples{};     // of its input
  std::size_t stages = 1;           // in the first segment the source counts as one

  /// Adds its next stage, whose input items have `in` bytes.
  void add(const stage_size& stage, known_bytes in);
};

/// The queue after a segment.
struct queue_size {
  std::size_t packets; // all packets, including those that threads are working on
  std::size_t items;   // in each packet
  std::size_t slots;   // for packets
  std::size_t givers;  // threads that push
  std::size_t takers;  // threads that pop
};

/// The size of a stage that receives items of type In with `in` bytes.
template <class In, class S>
stage_size size_of_stage(const S& stage, known_bytes in) {
  stage_size size{.name = stage_name(stage),
                  .sample_bytes =
                      sizeof(sample<carried<In>>) - sizeof(carried<In>) + bytes_besides_value<In>(),
                  .queued_bytes = sizeof(sample_id) + bytes_besides_value<stage_output_t<S, In>>(),
                  .slot_bytes = shared_slot_bytes<stage_output_t<S, In>>(),
                  .emitted = bytes_given<In>(stage, in),
                  .samples_in_one = samples_in_one(stage),
                  .held = items_held(stage),
                  .kept = bytes_held<In>(stage),
                  .begun = items_begun<In>(stage)};
  if constexpr (part_of_library<S> && requires { stage.template bytes_gathered<In>(in); })
    size.gathered = {"gathered by " + size.name, 1, stage.template bytes_gathered<In>(in), stage.unknown()};
  if constexpr (part_of_library<S> && requires { stage.notes(); }) size.notes = stage.notes();
  else if constexpr (part_of_library<S> && requires { stage.state_bytes(); })
    size.notes = {stage.state_bytes(), 1}; // each packet downstream has its state
  else if constexpr (!part_of_library<S> && has_state<bound_t<S, In>> && requires { stage.items_held(); })
    size.notes = notes_of_buffer(stage.items_held()); // if it holds them in held_samples
  return size;
}

/// The size of the first segment before its stages are added.
template <source Source>
segment_size size_of_source(const Source& source) {
  using item = source_item_t<Source>;
  segment_size size{stage_name(source), max_item_bytes_of(source),
                    sizeof(sample_id) + bytes_besides_value<item>()};
  if (constexpr std::size_t shared = shared_slot_bytes<item>(); shared > 0) size.slots.push_back(shared);
  if (!bytes_of_type<item>()) size.bytes = announced_bytes<item>(size.bytes);
  if constexpr (requires { source.items_held(); })
    size.held.push_back({"held by " + size.name, source.items_held(), size.bytes});
  if (const std::size_t kept = bytes_held_by(source)) size.held.push_back({"kept by " + size.name, 1, kept});
  return size;
}

/// The most notes of a stage that exist at once: those that it writes, and those of samples in flight. Each
/// packet, and each thread that takes packets, keeps at most one.
std::size_t notes_of(const segment_size::stage_notes& notes, std::span<const segment_size> segments,
                     std::span<const queue_size> queues);

/// The bytes of packets, queues and threads apart from the items, from the sizes of their parts.
std::size_t bytes_besides_items(std::span<const segment_size> segments, std::span<const queue_size> queues);

/// The most memory that a run of these segments and the queues after them holds.
memory_plan plan_of(std::span<const segment_size> segments, std::span<const queue_size> queues);

/// Finds the largest queue capacity with which a run stays within its budget. `plan_for`: what a run with that capacity
/// holds. Throws std::invalid_argument if no capacity fits, or if the memory isn't known.
std::size_t fitting_capacity(std::size_t budget, std::size_t capacity,
                             function_ref<memory_plan(std::size_t capacity)> plan_for);

} // namespace feedline::inline FEEDLINE_ABI::detail

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_CORE)
#include <algorithm>
#include <set>
#include <stdexcept>
#include <utility>

#include <feedline/core/metrics/thread_counters.hpp>
#include <feedline/core/transport/packet.hpp>
#include <feedline/detail/kernel.hpp>
#include <feedline/detail/slot_pool.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE void samples_downstream::pass(const stage_size& stage) {
  inside = sum_of(inside, product_of(stage.held, in_one));
  in_one = in_one ? product_of(*in_one, stage.samples_in_one) : in_one;
  inside = sum_of(inside, product_of(1 + stage.begun, in_one));
}

FEEDLINE_INLINE void segment_size::add(const stage_size& stage, known_bytes in) {
  name = stage.name;
  between = sum_of(between, in);
  ++stages;
  bytes = stage.emitted;
  queued_bytes = stage.queued_bytes;
  if (stage.slot_bytes > 0) slots.push_back(stage.slot_bytes);
  samples.pass(stage);
  for (stage_notes& n : notes) n.downstream.pass(stage);
  if (stage.held > 0) held.push_back({"held by " + name, stage.held, sum_of(in, stage.sample_bytes)});
  if (!stage.kept)
    held.push_back({"held by " + name, 1, stage.kept,
                    "how much memory the stage " + name +
                        " uses: add `std::size_t items_held() const` to it, the most input items that "
                        "it keeps, or `std::size_t bytes_held() const`, the most bytes"});
  else if (*stage.kept > 0) held.push_back({"kept by " + name, 1, stage.kept});
  if (stage.begun > 0) held.push_back({"begun by " + name, stage.begun, stage.emitted});
  if (stage.gathered) gathered.push_back(*stage.gathered);
  if (stage.notes) notes.push_back({name, *stage.notes});
}

FEEDLINE_INLINE std::size_t notes_of(const segment_size::stage_notes& notes,
                                     std::span<const segment_size> segments,
                                     std::span<const queue_size> queues) {
  samples_downstream downstream = notes.downstream;
  std::optional<std::size_t> samples = downstream.inside;
  std::size_t packets = 0;
  for (std::size_t i = 0; i < queues.size(); ++i) {
    if (i > 0) {
      samples = sum_of(samples, downstream.in_one ? product_of(*downstream.in_one, segments[i].samples.inside)
                                                  : std::nullopt);
      downstream.in_one =
          downstream.in_one ? product_of(*downstream.in_one, segments[i].samples.in_one) : downstream.in_one;
    }
    packets += queues[i].packets + queues[i].takers;
    samples = sum_of(samples, product_of(queues[i].packets * queues[i].items, downstream.in_one));
  }
  // Each sample has up to four notes: one more sample arrived, it left, an epoch ended, and one filled the next
  // epoch's buffer.
  const std::optional<std::size_t> noted = product_of(4, samples);
  return 2 + std::min(packets, noted ? *noted / notes.each.samples + 1 : packets);
}

FEEDLINE_INLINE std::size_t bytes_besides_items(std::span<const segment_size> segments,
                                                std::span<const queue_size> queues) {
  constexpr std::size_t of_run = 12'288, of_thread = 1024, of_queue = 6144, of_slot = 64;
  // Each packet stores how far all parts had come: some words for each segment.
  const std::size_t of_packet = sizeof(packet) + 256 + 64 * segments.size();
  std::size_t sum = of_run;
  for (const queue_size& q : queues)
    sum += q.packets * of_packet + q.slots * of_slot + q.givers * of_thread + q.takers * of_thread + of_queue;
  for (std::size_t i = 0; i < segments.size(); ++i)
    sum += queues[i].givers * segments[i].stages * sizeof(stage_counters);
  return sum;
}

FEEDLINE_INLINE memory_plan plan_of(std::span<const segment_size> segments,
                                    std::span<const queue_size> queues) {
  memory_plan all;
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const segment_size& s = segments[i];
    const queue_size& q = queues[i];
    all.parts.insert(all.parts.end(), s.held.begin(), s.held.end());
    for (const segment_size::stage_notes& n : s.notes)
      all.parts.push_back(
          {"notes of " + n.stage, notes_of(n, segments.subspan(i), queues.subspan(i)), n.each.bytes});
    for (memory_plan::part p : s.gathered) {
      p.items = q.givers;
      all.parts.push_back(std::move(p));
    }
    if (s.between != known_bytes(0)) all.parts.push_back({"at work in " + s.name, q.givers, s.between});
    all.parts.push_back({s.name + " -> " + (i + 1 < segments.size() ? segments[i + 1].name : "caller"),
                         q.packets * q.items, sum_of(s.bytes, s.queued_bytes)});
  }
  // Slots of one size come in blocks, of which one may be mostly fresh; it is as large as those before it together.
  const std::size_t fresh =
      std::clamp<std::size_t>(all.bytes().value_or(huge_page), slot_pool::smallest_block, huge_page);
  std::set<std::size_t> sizes;
  for (const segment_size& s : segments) sizes.insert(s.slots.begin(), s.slots.end());
  if (!sizes.empty()) all.parts.push_back({"fresh slots", sizes.size(), fresh});
  all.parts.push_back({"packets, queues and threads", 1, bytes_besides_items(segments, queues)});
  return all;
}

FEEDLINE_INLINE std::size_t fitting_capacity(std::size_t budget, std::size_t capacity,
                                             function_ref<memory_plan(std::size_t)> plan_for) {
  if (budget == 0) return capacity;
  memory_plan plan = plan_for(capacity);
  for (const memory_plan::part& p : plan.parts)
    if (!p.bytes)
      throw std::invalid_argument("feedline: can't keep to a memory_budget, as it isn't known " +
                                  (p.unknown.empty()
                                       ? "how much memory an item takes in \"" + p.name +
                                             "\": set max_item_bytes of the function, source or stage that "
                                             "makes it, or max_line_bytes of lines"
                                       : p.unknown));
  std::size_t longest = 1;
  for (const memory_plan::part& p : plan.parts) longest = std::max(longest, p.items);
  while (plan.bytes().value_or(budget + 1) > budget && capacity != 1) {
    const std::size_t tried = std::min(capacity ? capacity : longest, longest);
    capacity = std::max<std::size_t>(1, tried - tried / 4 - (tried % 4 != 0)); // three quarters
    plan = plan_for(capacity);
  }
  if (plan.bytes().value_or(budget + 1) <= budget) return capacity;
  const auto largest =
      std::max_element(plan.parts.begin(), plan.parts.end(), [](const auto& a, const auto& b) {
        constexpr std::size_t unknown = ~std::size_t{0};
        return bytes_of(a).value_or(unknown) < bytes_of(b).value_or(unknown);
      });
  const known_bytes all = plan.bytes();
  throw std::invalid_argument(
      "feedline: a memory_budget of " + bytes_text(budget) +
      " is too small: even with the shortest queues this run holds up to " +
      (all ? bytes_text(*all) : "more bytes than can be counted") + ", most of it " + largest->name + ": " +
      (largest->items == 1 ? "" : size_text(largest->items) + " of ") + bytes_text(*largest->bytes));
}

} // namespace feedline::inline FEEDLINE_ABI::detail
#endif
