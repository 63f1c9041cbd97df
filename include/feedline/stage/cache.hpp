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

namespace feedline {

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

/// Stages that may run in any order and on any thread.
template <class S>
inline constexpr bool runs_anywhere = stateless<S> || is_parallel<S>;

template <class... Stages>
consteval std::size_t stages_to_keep() {
  std::size_t count = 0;
  ((count = runs_anywhere<Stages> ? count + 1 : 0), ...);
  return count;
}

/// A stage as workers may run it.
template <class S>
auto for_workers(const S& stage) {
  if constexpr (is_parallel<S>) return stage;
  else return one_at_a_time<S>(stage);
}

template <class S>
worker_range workers_of(const S& stage) {
  if constexpr (is_parallel<S>) return stage.workers;
  else return {1, 1, false};
}

template <class S>
inline constexpr bool keeps_order = true;
template <class... Inner>
inline constexpr bool keeps_order<parallel_stages<false, Inner...>> = false;

template <class List>
List listed(List list) {
  return list;
}

template <class List, class S, class... Rest>
auto listed(List list, S stage, Rest... rest) {
  return listed(longer_list<List, S>{std::move(list), std::move(stage)}, std::move(rest)...);
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

  template <class Source, class... Stages>
  auto changed(pipeline<Source, Stages...> p) const {
    constexpr std::size_t count = stages_to_keep<Stages...>();
    constexpr std::size_t first = sizeof...(Stages) - count;
    using in = typename output_after_first<first, source_item_t<Source>, Stages...>::type;
    using out = typename pipeline<Source, Stages...>::item;
    if constexpr (cache_check<item_in_front<in>, kept_item<out>, Key, count>::passed)
      return changed(p, std::make_index_sequence<first>(), std::make_index_sequence<count>());
    else return refused_pipeline();
  }

 private:
  template <class Source, class... Stages, std::size_t... Front, std::size_t... Kept>
  auto changed(const pipeline<Source, Stages...>& p, std::index_sequence<Front...>,
               std::index_sequence<Kept...>) const {
    const auto& stages = p.stages();
    auto kept = keep<names_files<Source>>(index_of_data(p.source()),
                                          stages.template get<sizeof...(Front) + Kept>()...);
    using result =
        pipeline<Source, std::remove_cvref_t<decltype(stages.template get<Front>())>..., decltype(kept)>;
    return result(p.source(), listed(no_stages(), stages.template get<Front>()..., std::move(kept)));
  }

  template <bool NamesFiles, class Index, class... Stages>
  auto keep(const Index& index, const Stages&... stages) const {
    const auto one = [&](auto... inner) {
      return cached_stage<Key, NamesFiles, Index, decltype(inner)...>(
          listed(no_stages(), std::move(inner)...), key_, index, store_->next_pipeline(), store_);
    };
    if constexpr ((is_parallel<Stages> || ...)) {
      auto stage = one(for_workers(stages)...);
      return parallel_stages<(keeps_order<Stages> && ...), decltype(stage)>{
          listed(no_stages(), std::move(stage)),
          std::max({workers_of(stages)...}, [](const auto& a, const auto& b) { return a.most < b.most; })};
    } else {
      return one(stages...);
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

} // namespace feedline
