// SPDX-License-Identifier: MIT
#pragma once
// cache: stores the results of the stages upstream of it, in memory or in a directory.
#include <feedline/cache/cache_options.hpp>
#include <feedline/cache/detail/cache_store.hpp>
#include <feedline/cache/detail/cached_stage.hpp>
#include <feedline/cache/detail/one_at_a_time.hpp>
#include <feedline/core/contract.hpp>
#include <feedline/core/pipeline.hpp>
#include <feedline/detail/share.hpp>

namespace feedline::inline FEEDLINE_ABI {

namespace detail {

// The roles that a compiler's message names.
template <class T>
struct cached_item;
template <class T>
struct input_item;

template <class In, class Out, class Key, std::size_t Stages>
struct cache_fit {
  static constexpr bool has_stages = Stages > 0;
  static constexpr bool can_store = !has_stages || storable<Out>;
  static constexpr bool can_identify =
      !has_stages || !std::is_same_v<Key, no_key> || identified_by_content<In>;
};

/// Keeps the compiler's message to two lines, as fit_check does, and is used only to show it, as that is.
template <class In, class Out, class Fit>
struct cache_check;

template <class In, class Out, class Fit>
struct cache_check<input_item<In>, cached_item<Out>, Fit> {
  static_assert(
      Fit::has_stages,
      "feedline: cache() has no stage to cache: put it directly after map, filter, flat_map or tap");
  static_assert(Fit::can_store,
                "feedline: cache() can't store `cached_item`: it stores numbers, std::arrays, tensors, "
                "strings, vectors, and pairs, tuples and plain structs of those (at most 64 fields; give a "
                "class with a constructor or a base class a "
                "function fields() that returns std::tie(a, b))");
  static_assert(Fit::can_identify,
                "feedline: cache() can't identify `input_item`, the input of the stages that it caches: "
                "give it a key, cache(options, [](const auto& item) { return item.name; })");
};

/// The number of stages at the end of the segments that may run in any order and on any thread, with no queue
/// between them.
template <class... Segments>
consteval std::size_t stages_to_cache(const segment_list<Segments...>*) {
  std::size_t count = 0;
  const auto look = [&]<segment_traits Traits, class... Of>(const segment<Traits, Of...>*) {
    ((count = stateless<Of> && !traits_of<Of>().belongs_to_source ? count + 1 : 0), ...);
    if (Traits.has_queue) count = 0;
  };
  (look(static_cast<const Segments*>(nullptr)), ...);
  return count;
}

template <segment_traits Traits, class Stages, std::size_t... N>
segment<Traits, typename Stages::template element<N>...> first_stages(std::index_sequence<N...>);

/// The type of the first `Count` stages and the queue after them, as composed_stages::first() returns them.
template <std::size_t Count, class Done, class... Segments>
struct first_segments;

template <std::size_t Count, class... Done, class... Segments>
struct first_segments<Count, types<Done...>, Segments...> {
  using type = types<Done...>;
};

template <std::size_t Count, class... Done, segment_traits Traits, class... Stages, class... Rest>
  requires(Count > 0 || sizeof...(Stages) == 0 || sizeof...(Done) == 0)
struct first_segments<Count, types<Done...>, segment<Traits, Stages...>, Rest...> {
  static constexpr std::size_t kept = std::min(Count, sizeof...(Stages));
  using cut = decltype(first_stages<Traits, types<Stages...>>(std::make_index_sequence<kept>()));
  using type = typename first_segments<Count - kept, types<Done..., cut>, Rest...>::type;
};

/// Replaces the last stages of the pipeline upstream by one that stores their results. Copies share the
/// stored results.
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
    constexpr std::size_t count = stages_to_cache(static_cast<const segments*>(nullptr));
    constexpr std::size_t first = segments::stage_count - count;
    using in = typename stages::template output_of_first<first, source_item_t<Source>>;
    using out = typename pipeline<Source, Segments...>::item;
    using fit = cache_fit<in, out, Key, count>;
    if constexpr (fit::has_stages && fit::can_store && fit::can_identify) {
      return detail::append(pipeline_of<Source>(p.described().source(),
                                                typename first_segments<first, types<>, Segments...>::type(),
                                                p.composed().first(first)),
                            cached<Source, first, segments>(p.composed(), std::make_index_sequence<count>()));
    } else {
      static_cast<void>(sizeof(cache_check<input_item<in>, cached_item<out>, fit>));
      return refused_pipeline();
    }
  }

 private:
  /// Those stages as one stage, in a separate row.
  template <class Source, std::size_t First, class All, std::size_t... Cached>
  auto cached(const composed_stages& described, std::index_sequence<Cached...>) const {
    constexpr auto is_parallel = [](std::size_t stage) {
      return All::traits[All::segment_of(stage)].parallel;
    };
    constexpr bool any_parallel = (is_parallel(First + Cached) || ...);
    const auto stage_at = [&]<std::size_t N>() -> const auto& {
      return *static_cast<const typename All::stage_types::template element<N>*>(described.stages[N].get());
    };
    const auto one = [&](auto... inner) {
      return cached_stage<Key, yields_file_names<Source>, decltype(inner)...>(
          detail::serial(std::move(inner)...), key_, store_->next_pipeline(), store_);
    };
    if constexpr (any_parallel) {
      // One worker at a time calls a stage that had no workers.
      auto stage = one([&] {
        const auto& s = stage_at.template operator()<First + Cached>();
        if constexpr (is_parallel(First + Cached)) return s;
        else return one_at_a_time<std::remove_cvref_t<decltype(s)>>(s);
      }()...);
      constexpr bool ordered = (All::traits[All::segment_of(First + Cached)].ordered && ...);
      constexpr segment_traits traits{.parallel = true, .ordered = ordered};
      const auto fewer = [](const worker_range& a, const worker_range& b) { return a.most < b.most; };
      const worker_range range =
          std::max({described.segments[All::segment_of(First + Cached)].workers...}, fewer);
      composed_stages composed = serial(std::move(stage));
      composed.segments.front() = {traits, 1, range, 0};
      return row_of(types<segment<traits, decltype(stage)>>(), std::move(composed));
    } else {
      return as_row(one(stage_at.template operator()<First + Cached>()...));
    }
  }

  Key key_;
  std::shared_ptr<cache_store> store_;
};

} // namespace detail

/// Stores the results of the stages upstream of it, so that from the second epoch on they aren't computed
/// again. It caches all map, filter, flat_map and tap stages directly upstream of it. They run together, with
/// the largest number of workers that any of them was given; one worker at a time calls a stage that was
/// given none.
///
/// The results must depend on the sample alone. Whatever the run's seed and epoch, these stages see epoch 0,
/// and random numbers keyed by the sample. Put augmentation, and whatever differs from epoch to epoch, after
/// the cache. A function that depends on anything else, such as files whose names don't come from files(),
/// needs a key that covers it.
///
///     const auto kept = cache({.directory = "/scratch/photos", .directory_bytes = 200'000'000'000});
///     const auto train = tar_samples("train-*.tar") | global_shuffle() | map(decode, workers{8}) | kept
///                        | map(augment, workers{8}) | batch(64);
///     … kept.stats().hits …
///
/// The cache identifies a sample by its index and by the item that the cached stages receive: by its content
/// if it is a number, a text, a vector or a plain struct of those; for a tar_sample by its shard (name, size,
/// time) and position in it; for files() also by the file's size and time. So changed data isn't confused
/// with the data before. Any other item needs a key.
///
/// Takes:   the options; optionally a function that returns an item's key: a text or a whole number. The key
///          alone then identifies the sample and replaces its index in the context of the cached functions.
///          The results must be numbers, std::arrays, tensors, texts, vectors, or pairs, tuples and plain
///          structs of those
/// Gives:   what those stages would emit. A full cache stores nothing more and keeps what it has
/// Order:   kept, unless one of those stages is unordered
/// Throws:  std::invalid_argument unless the options set either memory_bytes, or directory and
///          directory_bytes. Failures of the stages keep the stages' names and aren't stored. A directory
///          that can't be used is a failure at the start of a run; if a disk is full later, on_notice is
///          called and nothing more is stored
/// Stops:   as those stages do
/// Example: `files("train", "*.jpg") | map(read_file, workers{8}) | map(decode, workers{8})
///          | cache({.memory_bytes = 8'000'000'000}) | map(augment, workers{8}) | batch(64)`
///
/// A directory serves later runs and other processes, also at the same time, as long as stages, types and
/// `version` stay the same. To make room the cache removes files of other pipelines in it, unless they are in
/// use.
inline auto cache(cache_options options) {
  return detail::cache_part<detail::no_key>(std::move(options), {});
}

/// The same, with a function that returns an item's key.
template <class Key>
auto cache(cache_options options, Key key) {
  return detail::cache_part<Key>(std::move(options), std::move(key));
}

} // namespace feedline::inline FEEDLINE_ABI
