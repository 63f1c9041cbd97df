// SPDX-License-Identifier: MIT
#pragma once
// Divides a pipeline into segments at compile time: neighbouring stages that share threads, with a queue after
// each segment.
#include <array>
#include <cstddef>
#include <initializer_list>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include <feedline/core/processors.hpp>
#include <feedline/core/stage.hpp>
#include <feedline/detail/share.hpp>
#include <feedline/queue/overflow.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

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

/// Stages that share threads, as a type.
template <segment_traits Traits, class... Stages>
struct segment {
  static constexpr segment_traits traits = Traits;
  static constexpr std::size_t size = sizeof...(Stages);
};

/// Whether segment `b` joins the one before it. Serial stages join serial ones. A queue without stages belongs to
/// the segment before it, unless the queue drops items and the segment is parallel, as one thread fills such a
/// queue.
constexpr bool joins(const segment_traits& a, const segment_traits& b, std::size_t stages_of_b) {
  if (b.parallel) return false;
  const bool is_open = !a.parallel && !a.has_queue;
  const bool is_queue = stages_of_b == 0 && !a.drops() && !(a.parallel && b.drops());
  return is_open || is_queue;
}

/// The traits of two segments that have joined.
constexpr segment_traits joined(const segment_traits& a, const segment_traits& b) {
  return {a.parallel, a.ordered, a.has_queue || b.has_queue, b.overflow};
}

/// What the type of a segment doesn't say, and what code without types must know.
struct segment_description {
  segment_traits traits;
  std::size_t stages;
  worker_range workers;
  std::size_t capacity; ///< of the user's queue, in items
  cpu_list cpus{};      ///< on which its workers run; empty: on any
};

/// Stages and segments as described, without their types. Copies share the stages.
class composed_stages {
 public:
  composed_stages();
  composed_stages(const composed_stages&);
  composed_stages(composed_stages&&) noexcept;
  composed_stages& operator=(const composed_stages&);
  composed_stages& operator=(composed_stages&&) noexcept;
  ~composed_stages();

  /// A segment.
  composed_stages(segment_traits traits, std::initializer_list<std::shared_ptr<const void>> all,
                  std::size_t capacity = 0);

  /// The first `count` of the stages, with the queue after them.
  composed_stages first(std::size_t count) const;

  std::vector<std::shared_ptr<const void>> stages;
  std::vector<segment_description> segments;
};

/// Both in order. Neighbours that can join become one segment.
composed_stages joined(const composed_stages& before, const composed_stages& after);

/// Serial stages.
template <class... Stages>
composed_stages serial(Stages... stages) {
  return {segment_traits(), {detail::share(std::move(stages))...}};
}

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

  template <std::size_t N>
  using element = std::tuple_element_t<N, std::tuple<T...>>;

  template <class In>
  using output = typename output_of<In, T...>::type;

  template <std::size_t N, class In>
  using output_of_first = typename detail::output_of_first<N, In, T...>::type;

  /// Calls `f` with each of the stages, which must have these types.
  template <class F>
  static void visit(const composed_stages& all, [[maybe_unused]] F f) {
    const std::shared_ptr<const void>* at = all.stages.data();
    (f(*static_cast<const T*>((at++)->get())), ...);
  }

  /// The first N types.
  template <std::size_t N>
  using first = decltype([]<std::size_t... I>(std::index_sequence<I...>) {
    return types<element<I>...>();
  }(std::make_index_sequence<N>()));
};

template <class... A, class... B>
types<A..., B...> operator+(types<A...>, types<B...>) {
  return {};
}

template <segment_traits Traits, class... Stages>
types<Stages...> stages_of(const segment<Traits, Stages...>*);

/// The segments of a pipeline, as types. The first one shares the source's thread and may have no stages.
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
};

/// The types of segments after those that can have joined. `Done` have their final types.
template <class Done, class... Segments>
struct joined_segments;

template <class... Done, class Last>
struct joined_segments<types<Done...>, Last> {
  using type = types<Done..., Last>;
};

template <class... Done, segment_traits A, class... Before, segment_traits B, class... After, class... Rest>
  requires(joins(A, B, sizeof...(After)))
struct joined_segments<types<Done...>, segment<A, Before...>, segment<B, After...>, Rest...>
    : joined_segments<types<Done...>, segment<joined(A, B), Before..., After...>, Rest...> {};

template <class... Done, segment_traits A, class... Before, segment_traits B, class... After, class... Rest>
  requires(!joins(A, B, sizeof...(After)))
struct joined_segments<types<Done...>, segment<A, Before...>, segment<B, After...>, Rest...>
    : joined_segments<types<Done..., segment<A, Before...>>, segment<B, After...>, Rest...> {};

} // namespace feedline::inline FEEDLINE_ABI::detail

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_CORE)
namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE composed_stages::composed_stages() = default;
FEEDLINE_INLINE composed_stages::composed_stages(const composed_stages&) = default;
FEEDLINE_INLINE composed_stages::composed_stages(composed_stages&&) noexcept = default;
FEEDLINE_INLINE composed_stages& composed_stages::operator=(const composed_stages&) = default;
FEEDLINE_INLINE composed_stages& composed_stages::operator=(composed_stages&&) noexcept = default;
FEEDLINE_INLINE composed_stages::~composed_stages() = default;

FEEDLINE_INLINE composed_stages::composed_stages(segment_traits traits,
                                                 std::initializer_list<std::shared_ptr<const void>> all,
                                                 std::size_t capacity)
    : stages(all), segments{{traits, stages.size(), {1, 1, false}, capacity}} {}

FEEDLINE_INLINE composed_stages joined(const composed_stages& before, const composed_stages& after) {
  composed_stages all = before;
  all.stages.insert(all.stages.end(), after.stages.begin(), after.stages.end());
  for (const segment_description& next : after.segments) {
    if (!joins(all.segments.back().traits, next.traits, next.stages)) {
      all.segments.push_back(next);
      continue;
    }
    segment_description& last = all.segments.back();
    last.traits = joined(last.traits, next.traits);
    last.stages += next.stages;
    if (next.traits.has_queue) last.capacity = next.capacity;
  }
  return all;
}

FEEDLINE_INLINE composed_stages composed_stages::first(std::size_t count) const {
  composed_stages result;
  result.stages.assign(stages.begin(), stages.begin() + static_cast<std::ptrdiff_t>(count));
  for (const segment_description& s : segments) {
    if (count == 0 && s.stages > 0 && !result.segments.empty()) break; // else it is the queue after them
    result.segments.push_back(s);
    result.segments.back().stages = count < s.stages ? count : s.stages;
    count -= result.segments.back().stages;
  }
  return result;
}

} // namespace feedline::inline FEEDLINE_ABI::detail
#endif
