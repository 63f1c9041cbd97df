// SPDX-License-Identifier: MIT
#pragma once
// Where a pipeline falls into segments, and the type of the items at each place: all of it known to the
// compiler.
#include <array>
#include <cstddef>
#include <type_traits>

#include <feedline/core/detail/crew.hpp>
#include <feedline/core/detail/edge.hpp>
#include <feedline/core/detail/stage_list.hpp>
#include <feedline/core/source.hpp>
#include <feedline/core/stage.hpp>

namespace feedline::detail {

/// What comes out of it comes of one sample, of which nothing more will come.
template <class S>
concept one_to_one = requires { requires S::keeps_one_to_one; };

/// It takes state from one epoch to the next in infinite mode.
template <class S>
concept keeps_over_epochs = !stateless<S> && !requires { S::begins_anew; };

/// It gives something of every sample, so that ranks that gave equally much have taken equally many.
template <class S>
concept keeps_ranks_equal = one_to_one<S> && !requires { requires S::leaves_out; };

/// How many items it gives follows from how many it gets, whatever they are, so that ranks that get equally many
/// give equally many.
template <class S>
concept gives_by_count = keeps_ranks_equal<S> || requires { requires S::gives_by_count; };

/// Stages that run together on the same workers.
template <bool Ordered, class... Stages>
struct parallel_stages {
  using feedline_part = void;
  static constexpr bool is_ordered = Ordered;
  static constexpr bool keeps_one_to_one = (one_to_one<Stages> && ...);
  static constexpr bool leaves_out = !(keeps_ranks_equal<Stages> && ...);

  stage_list<Stages...> stages;
  worker_range workers;
};

/// A place for a queue, put there by the user.
struct queue_place {
  using feedline_part = void;
  static constexpr bool keeps_one_to_one = true;

  std::size_t capacity;
};

template <class S>
inline constexpr bool is_parallel = false;
template <bool Ordered, class... Stages>
inline constexpr bool is_parallel<parallel_stages<Ordered, Stages...>> = true;

template <class S>
inline constexpr std::size_t stages_in = 1;
template <>
inline constexpr std::size_t stages_in<queue_place> = 0;
template <bool Ordered, class... Stages>
inline constexpr std::size_t stages_in<parallel_stages<Ordered, Stages...>> = sizeof...(Stages);

/// What comes out of a row of stages that items of type In go into.
template <class In, class... Stages>
struct output_after {
  using type = In;
};

template <class In, class S, class... Rest>
struct output_after<In, S, Rest...> : output_after<stage_output_t<S, In>, Rest...> {};

template <class In, class... Rest>
struct output_after<In, queue_place, Rest...> : output_after<In, Rest...> {};

template <class In, bool Ordered, class... Inner, class... Rest>
struct output_after<In, parallel_stages<Ordered, Inner...>, Rest...>
    : output_after<typename output_after<In, Inner...>::type, Rest...> {};

/// What comes out of the first N of them.
template <std::size_t N, class In, class... Stages>
struct output_after_first {
  using type = In;
};

template <std::size_t N, class In, class S, class... Rest>
  requires(N > 0)
struct output_after_first<N, In, S, Rest...>
    : output_after_first<N - 1, typename output_after<In, S>::type, Rest...> {};

/// A run of stages that share threads. The first one begins with the source.
struct segment_plan {
  static constexpr std::size_t none = ~std::size_t{0};

  bool parallel = false;
  bool ordered = true;
  std::size_t first = 0;             // number of its first stage
  std::size_t count = 0;             // of stages; one, a parallel_stages, if parallel
  std::size_t capacity_given = none; // number of the queue_place behind it
};

template <std::size_t Stages>
struct pipeline_plan {
  std::array<segment_plan, Stages + 1> segments{};
  std::size_t count = 1;
};

template <class... Stages>
consteval auto make_plan() {
  pipeline_plan<sizeof...(Stages)> plan;
  std::size_t number = 0;
  const auto place = [&](bool parallel, bool ordered, bool queue) {
    const segment_plan& last = plan.segments[plan.count - 1];
    if (queue) {
      plan.segments[plan.count - 1].capacity_given = number;
    } else {
      if (parallel || last.parallel || last.capacity_given != segment_plan::none)
        plan.segments[plan.count++] = {.parallel = parallel, .ordered = ordered, .first = number};
      ++plan.segments[plan.count - 1].count;
    }
    ++number;
  };
  (place(
       is_parallel<Stages>,
       [] {
         if constexpr (is_parallel<Stages>) return Stages::is_ordered;
         return true;
       }(),
       std::is_same_v<Stages, queue_place>),
   ...);
  return plan;
}

/// The queue behind a segment, given what follows.
constexpr transport transport_between(const segment_plan& from, bool to_workers) {
  if (!from.parallel) return to_workers ? transport::spread : transport::serial;
  return to_workers ? transport::ordered_spread : transport::ordered;
}

} // namespace feedline::detail
