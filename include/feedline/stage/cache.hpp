// SPDX-License-Identifier: MIT
#pragma once
// cache: what the stages in front of it make of each sample is kept, in memory or in a directory.
#include <algorithm>
#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>

#include <feedline/core/pipeline.hpp>
#include <feedline/core/source.hpp>
#include <feedline/core/stage.hpp>
#include <feedline/stage/cache_options.hpp>
#include <feedline/stage/detail/cache_store.hpp>
#include <feedline/stage/detail/cached_stage.hpp>

namespace feedline::inline v0 {

namespace detail {

// The role that a compiler's message names.
template <class T>
struct kept_item;
template <class T>
struct item_in_front;

/// Two lines of a compiler's message say it all, as with fit_check.
template <class In, class Out, class Key, std::size_t Stages>
struct cache_check;

template <class In, class Out, class Key, std::size_t Stages>
struct cache_check<item_in_front<In>, kept_item<Out>, Key, Stages> {
  static constexpr bool has_stages = Stages > 0;
  static constexpr bool can_keep = !has_stages || storable<Out>;
  static constexpr bool can_tell = !has_stages || !std::is_same_v<Key, no_key> || told_by_content<In>;
  static constexpr bool passed = has_stages && can_keep && can_tell;

  static_assert(has_stages,
                "feedline: there is nothing that cache() could keep: right in front of it it needs map, "
                "filter, flat_map or tap");
  static_assert(can_keep, "feedline: cache() can't keep `kept_item`: it keeps numbers, std::arrays, tensors, "
                          "strings, vectors, and pairs, tuples and plain structs of those");
  static_assert(can_tell,
                "feedline: cache() can't tell one `item_in_front` of the stages that it keeps from "
                "another: give it a key, cache(options, [](const auto& item) { return item.name; })");
};

/// How many stages at the end of some segments may run in any order and on any thread, with no queue between.
template <class... Segments, class... Stages>
consteval std::size_t stages_to_keep(const segment_list<Segments...>*, types<Stages...>) {
  using all = segment_list<Segments...>;
  std::size_t count = 0, number = 0;
  const auto look = [&](bool is_stateless) {
    count = is_stateless ? count + 1 : 0;
    ++number;
    const std::size_t i = all::segment_of(number - 1);
    if (number == all::first_stage[i + 1] && all::traits[i].has_queue) count = 0;
  };
  (look(stateless<Stages>), ...);
  return count;
}

/// The first N elements of a list.
template <std::size_t N, class List>
auto first_of(const List& list) {
  if constexpr (N == List::size) return list;
  else return first_of<N>(list.front);
}

template <segment_traits Traits, class List, class... Stages>
auto segment_with(List stages, types<Stages...>) {
  return segment<Traits, Stages...>{std::move(stages)};
}

/// A list of segments without their last `Count` stages, which are all of a parallel one or none.
template <std::size_t Count, class Front, segment_traits Traits, class... Stages>
auto without_last(const longer_list<Front, segment<Traits, Stages...>>& list) {
  if constexpr (Count == 0) {
    return list;
  } else if constexpr (Count < sizeof...(Stages) || Front::size == 0) {
    auto stages = first_of<sizeof...(Stages) - Count>(list.last.stages);
    return listed(list.front, segment_with<Traits>(stages, typename elements_of<decltype(stages)>::type()));
  } else {
    return without_last<Count - sizeof...(Stages)>(list.front);
  }
}

/// What stands behind a pipeline and has its last stages kept. Copies share what they keep.
template <class Key>
class cache_part {
 public:
  using feedline_part = void;
  using feedline_changes_source = void;

  cache_part(cache_options options, Key key)
      : key_(std::move(key)), store_(std::make_shared<cache_store>(std::move(options))) {}

  cache_stats stats() const noexcept { return store_->stats(); }

  template <class Source, class... Segments>
  auto changed(const pipeline<Source, Segments...>& p) const {
    using segments = segment_list<Segments...>;
    using stages = typename segments::stage_types;
    constexpr std::size_t count = stages_to_keep(static_cast<const segments*>(nullptr), stages());
    constexpr std::size_t first = segments::stage_count - count;
    using in = typename stages::template output_of_first<first, source_item_t<Source>>;
    using out = typename pipeline<Source, Segments...>::item;
    if constexpr (cache_check<item_in_front<in>, kept_item<out>, Key, count>::passed)
      return append(pipeline_of(p.source(), as_segments(without_last<count>(p.stages().all))),
                    keep<Source, first>(p.source(), p.stages(), std::make_index_sequence<count>()));
    else return refused_pipeline();
  }

 private:
  /// Those stages as one, in a row of its own.
  template <class Source, std::size_t First, class... Segments, std::size_t... Kept>
  auto keep(const Source& source, const segment_list<Segments...>& segments,
            std::index_sequence<Kept...>) const {
    using all = segment_list<Segments...>;
    constexpr auto is_parallel = [](std::size_t stage) {
      return all::traits[all::segment_of(stage)].parallel;
    };
    constexpr bool any_parallel = (is_parallel(First + Kept) || ...);
    const auto index = index_of_data(source);
    const auto one = [&](auto... inner) {
      return cached_stage<Key, names_files<Source>, std::remove_const_t<decltype(index)>, decltype(inner)...>(
          listed(empty_list(), std::move(inner)...), key_, index, store_->next_pipeline(), store_);
    };
    if constexpr (any_parallel) {
      // A stage that stood on one thread is called by one worker at a time.
      auto stage = one([&] {
        const auto& s = segments.template stage<First + Kept>();
        if constexpr (is_parallel(First + Kept)) return s;
        else return one_at_a_time<std::remove_cvref_t<decltype(s)>>(s);
      }()...);
      constexpr bool ordered = (all::traits[all::segment_of(First + Kept)].ordered && ...);
      using parallel = segment<segment_traits{.parallel = true, .ordered = ordered}, decltype(stage)>;
      const auto fewer = [](const worker_range& a, const worker_range& b) { return a.most < b.most; };
      return as_row(
          parallel{listed(empty_list(), std::move(stage)),
                   std::max({segments.template get<all::segment_of(First + Kept)>().workers...}, fewer)});
    } else {
      return as_row(one(segments.template stage<First + Kept>()...));
    }
  }

  Key key_;
  std::shared_ptr<cache_store> store_;
};

} // namespace detail

/// Keeps what the stages in front of it make of each sample: from the second epoch on nothing of it is computed
/// again. Those are all map, filter, flat_map and tap that stand there in a row; they run together, with the
/// workers that the busiest of them was given, and one that was given none is called by one worker at a time.
///
/// What they make must be a matter of the sample alone: whatever the run's seed and the epoch, they see those of
/// epoch 0, and random numbers keyed by the sample. Put what is to differ from epoch to epoch, augmentation, behind
/// the cache. A function that looks at anything else, such as files whose names come from elsewhere than files(),
/// needs a key that tells of it.
///
///     const auto kept = cache({.directory = "/scratch/photos", .bytes = 200'000'000'000});
///     const auto train = tar_samples("train-*.tar") | shuffled() | map(decode, workers{8}) | kept
///                        | map(augment, workers{8}) | batch(64);
///     … kept.stats().hits …
///
/// A sample is told by its index and by the item in front of those stages: its content where that is a number, a
/// text, a vector or a plain struct of those; a tar_sample's shard (name, size, time) and place in it; for files()
/// their size and time as well. So changed data isn't mixed up with what it was. Any other item needs a key.
///
/// Takes:   the options, and perhaps a function of an item that gives its key: a text or a whole number, which
///          alone then tells the sample, and stands for its index in the cached functions' context. What they make
///          must be numbers, std::arrays, tensors, texts, vectors, or pairs, tuples and plain structs of those
/// Gives:   what those stages would. When it is full it keeps nothing more, and what it has stays
/// Order:   kept, unless one of those stages is unordered
/// Throws:  std::invalid_argument unless there is either memory or a directory with bytes. Failures of the stages,
///          under their names; they aren't kept. A directory that can't be used is a failure when a run begins; a
///          disk that is full later is told to on_trouble, and nothing more is kept
/// Stops:   as those stages do
/// Example: `files("train", "*.jpg") | map(read_file, workers{8}) | map(decode, workers{8})
///          | cache({.memory = 8'000'000'000}) | map(augment, workers{8}) | batch(64)`
///
/// A directory serves later runs and other processes, also at once, as long as stages, types and `version` stay the
/// same. Files of other pipelines in it are removed when room is needed, unless they are in use.
inline auto cache(cache_options options) {
  return detail::cache_part<detail::no_key>(std::move(options), {});
}

template <class Key>
auto cache(cache_options options, Key key) {
  return detail::cache_part<Key>(std::move(options), std::move(key));
}

} // namespace feedline::inline v0
