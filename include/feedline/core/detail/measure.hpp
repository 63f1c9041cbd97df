// SPDX-License-Identifier: MIT
#pragma once
// What a pipeline's items take in each place, and which queues fit into a budget.
#include <algorithm>
#include <array>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <feedline/core/detail/item_bytes.hpp>
#include <feedline/core/detail/plan.hpp>
#include <feedline/core/detail/stage_list.hpp>
#include <feedline/core/memory_plan.hpp>
#include <feedline/core/source.hpp>

namespace feedline::detail {

/// A segment as a memory plan sees it.
struct segment_size {
  std::string name;                      // its last stage's
  known_bytes bytes;                     // of an item behind it
  known_bytes between{0};                // of one item in front of each of its stages
  std::vector<memory_plan::part> held{}; // by its stages
};

/// What each item behind stages of a list takes, from number I on.
template <class In, std::size_t I, class List>
known_bytes bytes_behind(const List& list, known_bytes in) {
  if constexpr (I == List::size) {
    return in;
  } else {
    const auto& stage = list.template get<I>();
    using S = std::remove_cvref_t<decltype(stage)>;
    known_bytes out;
    if constexpr (is_parallel<S>) out = bytes_behind<In, 0>(stage.stages, in);
    else out = bytes_given<In>(stage, in);
    return bytes_behind<typename output_after<In, S>::type, I + 1>(list, out);
  }
}

/// Finds the sizes of all segments of a pipeline.
template <source Source, class... Stages>
class measurement {
  static constexpr auto plan = make_plan<Stages...>();

 public:
  using sizes = std::array<segment_size, plan.count>;

  static sizes of(const Source& source, const stage_list<Stages...>& stages) {
    sizes all;
    all[0] = {stage_name(source), largest_item_of(source)};
    walk<source_item_t<Source>, 0>(stages, all[0].bytes, all);
    return all;
  }

 private:
  static constexpr std::size_t segment_of(std::size_t stage) {
    std::size_t i = plan.count - 1;
    while (i > 0 && (plan.segments[i].count == 0 || plan.segments[i].first > stage)) --i;
    return i;
  }

  template <class In, std::size_t I, class List>
  static void walk(const List& list, known_bytes in, sizes& all) {
    if constexpr (I < List::size) {
      const auto& stage = list.template get<I>();
      using S = std::remove_cvref_t<decltype(stage)>;
      if constexpr (std::is_same_v<S, queue_place>) {
        walk<In, I + 1>(list, in, all);
      } else {
        segment_size& here = all[segment_of(I)];
        if constexpr (is_parallel<S>) in = inside<In, 0>(stage.stages, in, here);
        else in = step<In>(stage, in, here);
        walk<typename output_after<In, S>::type, I + 1>(list, in, all);
      }
    }
  }

  template <class In, std::size_t I, class List>
  static known_bytes inside(const List& list, known_bytes in, segment_size& here) {
    if constexpr (I == List::size) {
      return in;
    } else {
      const auto& stage = list.template get<I>();
      const known_bytes out = step<In>(stage, in, here);
      return inside<stage_output_t<std::remove_cvref_t<decltype(stage)>, In>, I + 1>(list, out, here);
    }
  }

  template <class In, class S>
  static known_bytes step(const S& stage, known_bytes in, segment_size& here) {
    const known_bytes out = bytes_given<In>(stage, in);
    here.between = sum_of(here.between, in);
    here.name = stage_name(stage);
    here.bytes = out;
    if (const std::size_t held = items_held(stage))
      here.held.push_back({"held by " + here.name, held, sum_of(in, sizeof(sample_id))});
    if constexpr (requires { stage.bytes_kept(); })
      if (const std::size_t kept = stage.bytes_kept()) here.held.push_back({"kept by " + here.name, 1, kept});
    if (const std::size_t begun = items_begun(stage))
      here.held.push_back({"begun by " + here.name, begun, out});
    return out;
  }
};

/// The longest queues with which a run stays within its budget: `plan_for(capacity)` is what it then holds.
/// Throws std::invalid_argument, in a sentence, if there are none or that can't be known.
template <class PlanFor>
std::size_t fitting_capacity(std::size_t budget, std::size_t capacity, const PlanFor& plan_for) {
  if (budget == 0) return capacity;
  memory_plan plan = plan_for(capacity);
  for (const memory_plan::part& p : plan.parts)
    if (!p.bytes)
      throw std::invalid_argument(
          "feedline: no memory_budget can be kept, as nobody knows how much each item of " + p.name +
          " takes: tell it by largest_item{bytes} behind the function that makes them, or by the source's "
          "largest_item()");
  std::size_t longest = 1;
  for (const memory_plan::part& p : plan.parts) longest = std::max(longest, p.items);
  while (plan.bytes().value_or(budget + 1) > budget && capacity != 1) {
    capacity = std::max<std::size_t>(1, std::min(capacity ? capacity : longest, longest) * 3 / 4);
    plan = plan_for(capacity);
  }
  if (plan.bytes().value_or(budget + 1) <= budget) return capacity;
  const auto largest =
      std::max_element(plan.parts.begin(), plan.parts.end(), [](const auto& a, const auto& b) {
        return a.items * a.bytes.value_or(0) < b.items * b.bytes.value_or(0);
      });
  throw std::invalid_argument("feedline: a memory_budget of " + bytes_text(budget) +
                              " is too small: with the shortest queues this run holds up to " +
                              bytes_text(plan.bytes().value_or(~std::size_t{0})) + ", most of it " +
                              largest->name + ": " + std::to_string(largest->items) + " of " +
                              bytes_text(*largest->bytes));
}

} // namespace feedline::detail
