// SPDX-License-Identifier: MIT
#pragma once
// Divides a pipeline into segments at compile time: neighbouring stages that share threads, with a queue after
// each segment.
#include <array>
#include <cstddef>
#include <utility>

#include <feedline/core/stage.hpp>
#include <feedline/queue/overflow.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

struct empty_list {
  static constexpr std::size_t size = 0;
};

/// Like a tuple, but nested to the left: a list contains the list that is shorter by one element. So a pipeline
/// of n stages costs the compiler n small classes, not n tuples of up to n members.
template <class Front, class Last>
struct longer_list {
  static constexpr std::size_t size = Front::size + 1;

  template <std::size_t I>
  const auto& get() const {
    if constexpr (I + 1 == size) return last;
    else return front.template get<I>();
  }

  Front front;
  Last last;
};

template <class List, class... Elements>
struct append_to {
  using type = List;
};

template <class List, class E, class... Rest>
struct append_to<List, E, Rest...> : append_to<longer_list<List, E>, Rest...> {};

template <class... Elements>
using list_of = typename append_to<empty_list, Elements...>::type;

template <class List>
List listed(List list) {
  return list;
}

/// The list with more elements appended.
template <class List, class E, class... Rest>
auto listed(List list, E element, Rest... rest) {
  return listed(longer_list<List, E>{std::move(list), std::move(element)}, std::move(rest)...);
}

/// Calls f with each element in order.
template <class F>
void for_each_in(const empty_list&, F&) {}

template <class Front, class Last, class F>
void for_each_in(const longer_list<Front, Last>& list, F& f) {
  for_each_in(list.front, f);
  f(list.last);
}

/// `front` with the elements of another list appended.
template <class Front>
Front joined(Front front, const empty_list&) {
  return front;
}

template <class Front, class Before, class Last>
auto joined(Front front, const longer_list<Before, Last>& after) {
  if constexpr (Before::size == 0) {
    return longer_list<Front, Last>{std::move(front), after.last};
  } else {
    auto all = joined(std::move(front), after.front);
    return longer_list<decltype(all), Last>{std::move(all), after.last};
  }
}

/// The fewest and the most threads of a segment.
struct worker_range {
  std::size_t least;
  std::size_t most;
  bool io_bound; ///< the work waits for I/O: there may be more threads than processors

  bool is_fixed() const noexcept { return least == most; }

  /// The range on a machine with this many processors.
  worker_range on(std::size_t processors) const noexcept {
    if (is_fixed() || io_bound) return *this;
    const std::size_t top = most < processors ? most : processors;
    return {least < top ? least : top, top, io_bound};
  }
};

struct segment_traits {
  bool parallel = false;                         ///< its stages run on workers
  bool ordered = true;                           ///< the workers' items are put back in order
  bool has_queue = false;                        ///< the user has added a queue after it
  feedline::overflow overflow = overflow::block; ///< of that queue

  constexpr bool drops() const { return overflow != feedline::overflow::block; }
};

/// Stages that share threads.
template <segment_traits Traits, class... Stages>
struct segment {
  static constexpr segment_traits traits = Traits;
  static constexpr std::size_t size = sizeof...(Stages);
  /// Whether stages may be added to it.
  static constexpr bool is_open = !Traits.parallel && !Traits.has_queue;

  list_of<Stages...> stages{};
  worker_range workers{1, 1, false};
  std::size_t capacity = 0; ///< of the user's queue, in items
};

/// The output type of consecutive stages whose first receives items of type In.
template <class In, class... Stages>
struct output_of {
  using type = In;
};

template <class In, class S, class... Rest>
struct output_of<In, S, Rest...> : output_of<stage_output_t<S, In>, Rest...> {};

/// The same for the first N stages.
template <std::size_t N, class In, class... Stages>
struct output_of_first {
  using type = In;
};

template <std::size_t N, class In, class S, class... Rest>
  requires(N > 0)
struct output_of_first<N, In, S, Rest...> : output_of_first<N - 1, stage_output_t<S, In>, Rest...> {};

/// A list of types, as a value from which functions deduce them.
template <class... T>
struct types {
  static constexpr std::size_t size = sizeof...(T);

  template <class In>
  using output = typename output_of<In, T...>::type;

  template <std::size_t N, class In>
  using output_of_first = typename detail::output_of_first<N, In, T...>::type;
};

template <class... A, class... B>
types<A..., B...> operator+(types<A...>, types<B...>) {
  return {};
}

template <segment_traits Traits, class... Stages>
types<Stages...> stages_of(const segment<Traits, Stages...>*);

/// The segments of a pipeline. The first one shares the source's thread and may have no stages.
template <class... Segments>
struct segment_list {
  /// The types of all their stages, in order.
  using stage_types = decltype((types<>() + ... + stages_of(static_cast<const Segments*>(nullptr))));

  static constexpr std::size_t size = sizeof...(Segments);
  static constexpr std::array<segment_traits, size> traits{Segments::traits...};
  static constexpr std::size_t stage_count = stage_types::size;
  /// Whether some queue may drop samples.
  static constexpr bool drops = (Segments::traits.drops() || ...);

  /// The number of stages before each segment, then the number of all.
  static constexpr std::array<std::size_t, size + 1> first_stage = [] {
    std::array<std::size_t, size + 1> first{};
    std::size_t segment = 0;
    ((first[segment + 1] = first[segment] + Segments::size, ++segment), ...);
    return first;
  }();

  static constexpr std::size_t segment_of(std::size_t stage) {
    std::size_t i = 0;
    while (first_stage[i + 1] <= stage) ++i;
    return i;
  }

  template <std::size_t I>
  const auto& get() const {
    return all.template get<I>();
  }

  /// The stage with that number, counted through all segments.
  template <std::size_t N>
  const auto& stage() const {
    constexpr std::size_t i = segment_of(N);
    return get<i>().stages.template get<N - first_stage[i]>();
  }

  template <class F>
  void for_each_stage(F& f) const {
    [&]<std::size_t... N>(std::index_sequence<N...>) {
      (f(stage<N>()), ...);
    }(std::make_index_sequence<stage_count>());
  }

  list_of<Segments...> all;
};

/// The types of a list's elements.
template <class List>
struct elements_of;

template <>
struct elements_of<empty_list> {
  using type = types<>;
};

template <class Front, class Last>
struct elements_of<longer_list<Front, Last>> {
  using type = decltype(typename elements_of<Front>::type() + types<Last>());
};

template <class... Segments>
segment_list<Segments...> segments_of(types<Segments...>);

/// The segment_list with the segments of a list.
template <class List>
using segments_in = decltype(segments_of(typename elements_of<List>::type()));

template <class List>
segments_in<List> as_segments(List list) {
  return {std::move(list)};
}

/// Appends a segment. Its stages join the last segment if that is open and they are serial. A queue without
/// stages belongs to the segment before it, unless the queue drops items and the segment is parallel, as one
/// thread fills such a queue.
template <class Front, segment_traits A, class... Before, segment_traits B, class... After>
auto with_segment(const longer_list<Front, segment<A, Before...>>& list, const segment<B, After...>& next) {
  constexpr bool joins = !B.parallel && segment<A, Before...>::is_open;
  constexpr bool is_queue = !B.parallel && sizeof...(After) == 0 && !A.drops() && !(A.parallel && B.drops());
  if constexpr (joins || is_queue) {
    constexpr segment_traits traits{A.parallel, A.ordered, A.has_queue || B.has_queue, B.overflow};
    using both = segment<traits, Before..., After...>;
    return longer_list<Front, both>{list.front,
                                    {joined(list.last.stages, next.stages), list.last.workers,
                                     B.has_queue ? next.capacity : list.last.capacity}};
  } else {
    return longer_list<longer_list<Front, segment<A, Before...>>, segment<B, After...>>{list, next};
  }
}

template <segment_traits B, class... After>
longer_list<empty_list, segment<B, After...>> with_segment(const empty_list&,
                                                           const segment<B, After...>& next) {
  return {{}, next};
}

template <class List, class Front, class Last>
auto with_segments(const List& list, const longer_list<Front, Last>& more) {
  if constexpr (Front::size == 0) return with_segment(list, more.last);
  else return with_segment(with_segments(list, more.front), more.last);
}

} // namespace feedline::inline FEEDLINE_ABI::detail
