// SPDX-License-Identifier: MIT
#pragma once
// Measures the memory of a pipeline's items in each part of a run, and finds queues that fit into a memory
// budget.
#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <feedline/core/held_samples.hpp>
#include <feedline/core/item_bytes.hpp>
#include <feedline/core/memory_plan.hpp>
#include <feedline/core/metrics/thread_counters.hpp>
#include <feedline/core/plan/segments.hpp>
#include <feedline/core/source.hpp>
#include <feedline/core/transport/packet.hpp>

namespace feedline::inline v0::detail {

/// The most samples that go into one item that a stage emits. Nothing if that isn't known, as the stage may
/// leave out some.
template <class Stage>
std::optional<std::size_t> samples_in_one(const Stage& stage) {
  if constexpr (part_of_library<Stage> && requires { stage.samples_in_one(); }) return stage.samples_in_one();
  else if constexpr (traits_of<Stage>().data_independent_count) return 1;
  else return std::nullopt;
}

/// Starting at some stage: how many samples may be inside the stages downstream, and how many go into one item
/// after them. Nothing if that isn't known.
struct samples_downstream {
  std::optional<std::size_t> inside = 0;
  std::optional<std::size_t> in_one = 1;

  template <class Stage>
  void pass(const Stage& stage) {
    inside = sum_of(inside, product_of(items_held(stage), in_one));
    in_one = in_one ? product_of(*in_one, samples_in_one(stage)) : in_one;
    inside = sum_of(inside, product_of(1 + items_begun(stage), in_one));
  }
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
  known_bytes between{0};                    // of one input item of each of its stages
  std::vector<memory_plan::part> held{};     // held by its stages
  std::vector<memory_plan::part> gathered{}; // gathered by each of its workers
  std::vector<stage_notes> notes{};
  samples_downstream samples{}; // of its input
  std::size_t stages = 1;       // in the first segment the source counts as one
};

/// The queue after a segment.
struct queue_size {
  std::size_t packets; // all packets, including those that threads are working on
  std::size_t items;   // in each packet
  std::size_t slots;   // for packets
  std::size_t givers;  // threads that push
  std::size_t takers;  // threads that pop
};

/// The bytes of each item after the stages of a list, from number I on.
template <class In, std::size_t I, class List>
known_bytes bytes_behind(const List& list, known_bytes in) {
  if constexpr (I == List::size) {
    return in;
  } else {
    const auto& stage = list.template get<I>();
    using out = stage_output_t<std::remove_cvref_t<decltype(stage)>, In>;
    return bytes_behind<out, I + 1>(list, bytes_given<In>(stage, in));
  }
}

/// The bytes of one input item for each stage of a list, from number I + 1 on.
template <class In, std::size_t I, class List>
known_bytes bytes_between(const List& list, known_bytes in) {
  if constexpr (I == List::size) {
    return 0;
  } else {
    const auto& stage = list.template get<I>();
    using stage_type = std::remove_cvref_t<decltype(stage)>;
    const known_bytes given = bytes_given<In>(stage, in);
    return sum_of(given, bytes_between<stage_output_t<stage_type, In>, I + 1>(list, given));
  }
}

/// Finds the sizes of all segments of a pipeline.
template <source Source, class Segments>
class measurement {
 public:
  using sizes = std::array<segment_size, Segments::size>;

  static sizes of(const Source& source, const Segments& segments) {
    sizes all;
    using item = source_item_t<Source>;
    all[0] = {stage_name(source), max_item_bytes_of(source)};
    if (!bytes_of_type<item>()) all[0].bytes = announced_bytes<item>(all[0].bytes);
    if constexpr (requires { source.items_held(); })
      all[0].held.push_back({"held by " + stage_name(source), source.items_held(), all[0].bytes});
    if (const std::size_t kept = bytes_held_by(source))
      all[0].held.push_back({"kept by " + stage_name(source), 1, kept});
    walk<item, 0>(segments, all[0].bytes, all);
    for (std::size_t i = 1; i < Segments::size; ++i)
      if (Segments::first_stage[i] == Segments::first_stage[i + 1]) // a queue and the thread that fills it
        all[i] = {"prefetch", all[i - 1].bytes};
    return all;
  }

 private:
  template <class In, std::size_t N>
  static void walk(const Segments& segments, known_bytes in, sizes& all) {
    if constexpr (N < Segments::stage_count) {
      const auto& stage = segments.template stage<N>();
      in = step<In>(stage, in, all[Segments::segment_of(N)]);
      walk<stage_output_t<std::remove_cvref_t<decltype(stage)>, In>, N + 1>(segments, in, all);
    }
  }

  template <class In, class S>
  static known_bytes step(const S& stage, known_bytes in, segment_size& here) {
    const known_bytes out = bytes_given<In>(stage, in);
    const std::string name = stage_name(stage);
    here.between = sum_of(here.between, in);
    here.name = name;
    ++here.stages;
    here.bytes = out;
    here.samples.pass(stage);
    for (segment_size::stage_notes& n : here.notes) n.downstream.pass(stage);
    if (const std::size_t held = items_held(stage))
      here.held.push_back({"held by " + name, held, sum_of(in, sizeof(sample<In>) - sizeof(In))});
    const known_bytes kept = bytes_held<In>(stage);
    if (!kept)
      here.held.push_back({"held by " + name, 1, kept,
                           "how much memory the stage " + name +
                               " uses: add `std::size_t items_held() const` to it, the most input items that "
                               "it keeps, or `std::size_t bytes_held() const`, the most bytes"});
    else if (*kept > 0) here.held.push_back({"kept by " + name, 1, kept});
    if (const std::size_t begun = items_begun(stage)) here.held.push_back({"begun by " + name, begun, out});
    if constexpr (part_of_library<S> && requires { stage.template bytes_gathered<In>(in); })
      here.gathered.push_back(
          {"gathered by " + name, 1, stage.template bytes_gathered<In>(in), stage.unknown()});
    if constexpr (part_of_library<S> && requires { stage.notes(); })
      here.notes.push_back({name, stage.notes()});
    else if constexpr (!part_of_library<S> && has_state<bound_t<S, In>> && requires { stage.items_held(); })
      here.notes.push_back({name, notes_of_buffer(stage.items_held())}); // if it holds them in held_samples
    return out;
  }
};

/// The most notes of a stage that exist at once: those that it writes, and those of samples in flight. Each
/// packet, and each thread that takes packets, keeps at most one.
inline std::size_t notes_of(const segment_size::stage_notes& notes, std::span<const segment_size> segments,
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

/// The bytes of packets, queues and threads apart from the items, from the sizes of their parts.
inline std::size_t bytes_besides_items(std::span<const segment_size> segments,
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

/// The most memory that a run of these segments and the queues after them holds.
inline memory_plan plan_of(std::span<const segment_size> segments, std::span<const queue_size> queues) {
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
                         q.packets * q.items, sum_of(s.bytes, sizeof(sample_id))});
  }
  all.parts.push_back({"packets, queues and threads", 1, bytes_besides_items(segments, queues)});
  return all;
}

/// Finds the largest queue capacity with which a run stays within its budget: `plan_for(capacity)` is what the
/// run then holds. Throws std::invalid_argument if no capacity fits, or if the memory isn't known.
template <class PlanFor>
std::size_t fitting_capacity(std::size_t budget, std::size_t capacity, const PlanFor& plan_for) {
  if (budget == 0) return capacity;
  memory_plan plan = plan_for(capacity);
  for (const memory_plan::part& p : plan.parts)
    if (!p.bytes)
      throw std::invalid_argument(
          "feedline: can't keep to a memory_budget, as it isn't known " +
          (p.unknown.empty() ? "how much memory an item takes in \"" + p.name +
                                   "\": add max_item_bytes{bytes} to the function that makes it, or a member "
                                   "max_item_bytes() to the source or stage"
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

} // namespace feedline::inline v0::detail
