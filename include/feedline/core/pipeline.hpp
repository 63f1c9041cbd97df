// SPDX-License-Identifier: MIT
#pragma once
// Composition: source | stage | stage … gives a pipeline, a value that describes the work and starts nothing.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include <feedline/core/failure.hpp>
#include <feedline/core/loader.hpp>
#include <feedline/core/options.hpp>
#include <feedline/core/plan/epoch_size.hpp>
#include <feedline/core/plan/segments.hpp>
#include <feedline/core/run/replay.hpp>
#include <feedline/core/run/run.hpp>
#include <feedline/core/source.hpp>
#include <feedline/core/stage.hpp>

namespace feedline::inline v0 {

namespace detail {

/// What `operator|` looks at is one of the library's own; a user's plain class may stand on its other side.
template <class T>
concept part = requires { typename T::feedline_part; };

// The roles in a composition: they stand in a compiler's message as its sentence names them.
template <class S>
struct stage_before;
template <class T>
struct item;
template <class S>
struct stage;
template <class Type, auto Name>
struct field;

/// Two lines of a compiler's message say it all: the stages and the item in one, the sentence in the other.
template <class Before, class Item, class Stage, class... Field>
struct fit_check;

template <class Before, class Item, class Stage, class... Field>
struct fit_check<stage_before<Before>, item<Item>, stage<Stage>, Field...> {
  static constexpr fit f = fit_of<Stage, Item>();

  static_assert(f != fit::wrong_argument,
                "feedline: `stage` can't be called with `item`, which is what `stage_before` gives");
  static_assert(
      f != fit::not_const,
      "feedline: the function of `stage` changes itself when called (a mutable lambda?), but it may "
      "be shared by workers: make it const, or give each worker one of its own with "
      "per_worker(factory)");
  static_assert(
      f != fit::returns_void,
      "feedline: the function of `stage` returns nothing: use tap to look at items without changing "
      "them");
  static_assert(f != fit::returns_reference,
                "feedline: the function of `stage` returns a reference, which would dangle as soon as its "
                "`item` is gone: return a value");
  static_assert(f != fit::returns_no_bool, "feedline: the function of `stage` must return a bool");
  static_assert(f != fit::returns_no_range,
                "feedline: the function of `stage` must return something to iterate over: a range with "
                "begin() and end()");
  static_assert(
      sizeof...(Field) == 0,
      "feedline: the `field` of `item` can't be stacked, so `stage` can't make tensors of it: let it "
      "be a number, an array of numbers, a tensor, a string, a vector of numbers or a plain struct "
      "of those, or ask for batches of whole items with as_list");
  static_assert(f != fit::no_shape || sizeof...(Field) > 0,
                "feedline: `item` has no shape, so `stage` can't make tensors of it: give it numbers, "
                "arrays, tensors, strings, vectors or a plain struct of those, or ask for batches of "
                "whole items with as_list");
  static_assert(
      f != fit::no_length,
      "feedline: `stage` can't tell how long `item` is: give it a function of the item that returns "
      "an unsigned whole number; without one it asks item.size()");
  static_assert(
      f != fit::item_cannot_move,
      "feedline: the items that `stage` gives can't be moved without throwing, so no queue can hand "
      "them on");
};

template <class Before, class Item, class Stage>
struct fit_check_of {
  using type = fit_check<stage_before<Before>, item<Item>, stage<Stage>>;
};

template <class Before, class Item, class Stage>
  requires requires { Stage::template unfit_field<Item>(); }
struct fit_check_of<Before, Item, Stage> {
  using type = fit_check<stage_before<Before>, item<Item>, stage<Stage>,
                         typename decltype(Stage::template unfit_field<Item>())::type>;
};

/// Goes through stages in order; false at the first that doesn't fit.
template <class Before, class Item, class... Stages>
struct composition {
  using last = Before;
  using item = Item;
  static constexpr bool fits = true;
};

// Nothing is asked of a stage that doesn't fit: that would be a second message.
template <bool Fits, class Item, class S, class... Rest>
inline constexpr bool rest_fits = false;
template <class Item, class S, class... Rest>
inline constexpr bool rest_fits<true, Item, S, Rest...> =
    composition<S, stage_output_t<S, Item>, Rest...>::fits;

template <class Before, class Item, class S, class... Rest>
struct composition<Before, Item, S, Rest...> : fit_check_of<Before, Item, S>::type {
  static constexpr bool fits = rest_fits<fit_of<S, Item>() == fit::yes, Item, S, Rest...>;
};

/// The same of a list of stages. (A variable in its place would be a second message.)
template <class Before, class Item, class Stages>
struct composition_of;

template <class Before, class Item, class... Stages>
struct composition_of<Before, Item, types<Stages...>> {
  using type = composition<Before, Item, Stages...>;
};

/// Stands for a pipeline that was refused, and for its loader, its batches and whatever else is made of it, so
/// that one mistake gives one message.
struct refused_pipeline {
  using feedline_part = void;

  template <class... Options>
  refused_pipeline finite(const Options&...) const;
  template <class... Options>
  refused_pipeline infinite(const Options&...) const;
  template <class... Options>
  refused_pipeline finite_without_metrics(const Options&...) const;
  template <class... Options>
  refused_pipeline memory(const Options&...) const;
  template <class... Arguments>
  refused_pipeline replay(const Arguments&...) const;

  refused_pipeline next() const;
  void stop() const;
  refused_pipeline metrics() const;
  refused_pipeline failures() const;
  refused_pipeline checkpoint() const;
  refused_pipeline* begin() const;
  refused_pipeline* end() const;

  template <auto Member>
  refused_pipeline get() const;
  refused_pipeline values() const;
  refused_pipeline ids() const;
  std::size_t size() const;

  refused_pipeline& operator*() const;
  refused_pipeline* operator->() const;
  template <class T>
  operator T() const;
};

} // namespace detail

/// Stages without a source yet: what `map(f) | filter(g)` gives.
template <class... Segments>
struct stage_row {
  using feedline_part = void;
  using segments = detail::segment_list<Segments...>;

  segments stages;
};

/// A source and its stages, by the segments that share threads. An inexpensive value: copies share the functions and
/// the data of the source. It can be run many times, also at once.
template <source Source, class... Segments>
class pipeline {
  static_assert(detail::movable_item<source_item_t<Source>>,
                "feedline: the items that this Source gives can't be moved without throwing, so no queue can "
                "hand them on");

 public:
  using feedline_part = void;
  using segments = detail::segment_list<Segments...>;
  using item = typename segments::stage_types::template output<source_item_t<Source>>;

  pipeline(Source source, segments stages) : source_(std::move(source)), stages_(std::move(stages)) {}

  /// Starts a run over all of the data, `epochs` times: each sample exactly once per epoch, in an order of
  /// each epoch's own if there are several; what stages hold back is given at each epoch's end.
  auto finite(const finite_options& o = {}) const { return start<true>(detail::as_run_options(o)); }

  /// Starts a run that never ends by itself: epoch after epoch, each in an order of its own, without a seam.
  auto infinite(const infinite_options& o = {}) const { return start<true>(detail::as_run_options(o)); }

  /// As finite(), but without counters: all that its metrics() tell is times. It shows what counters cost.
  auto finite_without_metrics(const finite_options& o = {}) const {
    return start<false>(detail::as_run_options(o));
  }

  /// What a run with these options would hold at most, a finite one as well. Throws what starting it would.
  memory_plan memory(const infinite_options& o = {}) const {
    return detail::run<true, Source, Segments...>(source_, stages_, detail::as_run_options(o)).memory();
  }

  /// How many items an epoch of a run with these options gives, if nothing fails. Nothing: that can't be known without
  /// running, as a source doesn't know how many samples it has, or a stage leaves out some. May read a data set's index;
  /// throws what starting a run would.
  std::optional<std::uint64_t> size(const finite_options& o = {}) const {
    return detail::items_in_epoch(source_, stages_, detail::as_run_options(o));
  }

  /// The same on average, as batches run on from one epoch to the next, rounded down.
  std::optional<std::uint64_t> size(const infinite_options& o) const {
    return detail::items_in_epoch(source_, stages_, detail::as_run_options(o));
  }

  /// One sample as a run with that seed saw it in that epoch, random numbers and all; `part`: which of the items
  /// that a flat_map made of it. It passes through the stages up to the first that makes something of several
  /// samples, as batch does. Nothing: it was filtered out, the source can't give one of that index, or a stop was
  /// requested of the options' token. Throws pipeline_error for what a stage of the run would have failed with, and
  /// std::runtime_error where a source, which may never end, has given 100 million other samples or has failed 100,000
  /// times in a row.
  auto replay(std::uint64_t seed, std::uint32_t epoch, std::uint64_t index, std::uint64_t part = 0) const {
    if constexpr (requires { Source::traits; })
      static_assert(
          !Source::traits.pairs_by_order,
          "feedline: which samples a zip of files pairs depends on the run's mode: give replay() the "
          "options of the run in place of its seed");
    infinite_options options;
    options.seed = seed;
    return replay(options, epoch, index, part);
  }

  /// The same for a run with these options: files come in another order, and so a `zip` of them gives other pairs, in a
  /// finite run of one epoch than in any other.
  auto replay(const infinite_options& options, std::uint32_t epoch, std::uint64_t index,
              std::uint64_t part = 0) const {
    return detail::replay(source_, stages_, detail::as_run_options(options), epoch, index, part);
  }

  auto replay(const finite_options& options, std::uint32_t epoch, std::uint64_t index,
              std::uint64_t part = 0) const {
    return detail::replay(source_, stages_, detail::as_run_options(options), epoch, index, part);
  }

  /// There is nothing to iterate over before the pipeline runs.
  template <class Iterating = void>
  detail::refused_pipeline* begin() const {
    static_assert(
        !std::is_void_v<Iterating>,
        "feedline: a pipeline only describes the work: iterate over what its finite() or infinite() "
        "gives");
    return nullptr;
  }

  detail::refused_pipeline* end() const { return nullptr; }

  const Source& source() const& { return source_; }

  Source&& source() && { return std::move(source_); }

  const segments& stages() const& { return stages_; }

  segments&& stages() && { return std::move(stages_); }

 private:
  template <bool Measured>
  [[gnu::cold]] auto start(const detail::run_options& options) const {
    static_assert(segments::stage_count > 0 || segments::traits[0].has_queue,
                  "feedline: nothing stands behind the source: a pipeline needs a stage, such as "
                  "batch(256), or prefetch(1000) for the samples as they are");
    using run = detail::run<Measured, Source, Segments...>;
    try {
      return loader<run>(std::make_unique<run>(source_, stages_, options));
    } catch (const std::bad_alloc&) {
      throw pipeline_error(detail::current_failure("the start of the run", {}));
    }
  }

  Source source_;
  segments stages_;
};

/// What `pipeline.infinite()` and `pipeline.finite()` return, for a member or a parameter.
template <class Pipeline>
using loader_of = decltype(std::declval<const Pipeline&>().finite());

namespace detail {

template <class T>
inline constexpr bool is_pipeline = false;
template <class Source, class... Segments>
inline constexpr bool is_pipeline<pipeline<Source, Segments...>> = true;

template <class T>
concept starts_pipeline = is_pipeline<T> || source<T> || only_indexed<T>;

/// Whether the order of samples doesn't matter to any of the stages, so that they may stand behind what changes it.
template <class... Stages>
consteval bool keep_any_order(types<Stages...>) {
  return ((stateless<Stages> && traits_of<Stages>().keeps_place) && ...);
}

/// The pipeline with another source in place of its own.
template <class NewSource, class Source, class... Segments>
pipeline<NewSource, Segments...> with_source(NewSource source, const pipeline<Source, Segments...>& p) {
  return {std::move(source), p.stages()};
}

/// The source, or the last of the stages behind it.
template <class Last, class... Rest>
struct last_of {
  using type = Last;
};

template <class Before, class S, class... Rest>
struct last_of<Before, S, Rest...> : last_of<S, Rest...> {};

template <class Source, class... Stages>
std::type_identity<typename last_of<Source, Stages...>::type> last_behind(types<Stages...>);

template <class... Segments>
stage_row<Segments...> row_of(segment_list<Segments...> segments) {
  return {std::move(segments)};
}

template <segment_traits Traits, class... Stages>
auto as_row(segment<Traits, Stages...> s) {
  return row_of(as_segments(listed(empty_list(), std::move(s))));
}

template <class... Segments>
stage_row<Segments...> as_row(stage_row<Segments...> row) {
  return row;
}

template <class S>
auto as_row(S stage) {
  return as_row(segment<segment_traits{}, S>{listed(empty_list(), std::move(stage))});
}

template <class... Before, class... Behind>
auto append(stage_row<Before...> before, const stage_row<Behind...>& behind) {
  return row_of(as_segments(with_segments(std::move(before.stages.all), behind.stages.all)));
}

template <class Source, class... Segments>
pipeline<Source, Segments...> pipeline_of(Source source, segment_list<Segments...> segments) {
  return {std::move(source), std::move(segments)};
}

template <class Source, class... Before, class... Behind>
auto append(pipeline<Source, Before...> p, const stage_row<Behind...>& behind) {
  using before = pipeline<Source, Before...>;
  using last = typename decltype(last_behind<Source>(typename before::segments::stage_types()))::type;
  using stages = typename stage_row<Behind...>::segments::stage_types;
  if constexpr (composition_of<last, typename before::item, stages>::type::fits)
    return pipeline_of(std::move(p).source(),
                       as_segments(with_segments(std::move(p).stages().all, behind.stages.all)));
  else return refused_pipeline();
}

/// No stage, but something that makes another pipeline of the one it stands behind.
template <class T>
concept changes_source = requires { typename T::feedline_changes_source; };

/// A row of which at least one part is no stage: it is put together once there is a pipeline in front of it.
template <class Left, class Right>
struct row_with_change {
  using feedline_part = void;
  using feedline_changes_source = void;

  template <class Source, class... Segments>
  auto changed(const pipeline<Source, Segments...>& p) const {
    return p | left | right;
  }

  Left left;
  Right right;
};

template <class T>
auto as_pipeline(T source) {
  if constexpr (is_pipeline<T>) return source;
  else if constexpr (only_indexed<T>)
    return pipeline<samples_in_order<T>, segment<segment_traits{}>>(samples_in_order<T>(std::move(source)),
                                                                    {});
  else return pipeline<T, segment<segment_traits{}>>(std::move(source), {});
}

template <class T>
concept container = !starts_pipeline<T> && !part<T> && requires(const T& t) { t.begin() != t.end(); };

} // namespace detail

/// Puts a stage behind a source, a pipeline or another stage.
template <class Left, class Right>
  requires detail::part<std::remove_cvref_t<Left>> || detail::part<std::remove_cvref_t<Right>>
[[gnu::cold]] auto operator|(Left&& left, Right&& right) {
  using L = std::remove_cvref_t<Left>;
  using R = std::remove_cvref_t<Right>;
  static_assert(!detail::starts_pipeline<R> || !detail::starts_pipeline<L>,
                "feedline: Right is a second source: a pipeline has one, in front");
  static_assert(!detail::starts_pipeline<R> || detail::starts_pipeline<L>,
                "feedline: Right is a source and must stand in front of Left, which is a stage");
  static_assert(!detail::container<L>,
                "feedline: Left is no source but a container: a pipeline begins with from(container)");
  if constexpr (std::is_same_v<L, detail::refused_pipeline> || std::is_same_v<R, detail::refused_pipeline> ||
                detail::starts_pipeline<R> || detail::container<L>)
    return detail::refused_pipeline();
  else if constexpr (detail::starts_pipeline<L> && detail::changes_source<R>)
    return right.changed(detail::as_pipeline(L(std::forward<Left>(left))));
  else if constexpr (detail::changes_source<L> || detail::changes_source<R>)
    return detail::row_with_change<L, R>{std::forward<Left>(left), std::forward<Right>(right)};
  else if constexpr (detail::starts_pipeline<L>)
    return detail::append(detail::as_pipeline(L(std::forward<Left>(left))),
                          detail::as_row(R(std::forward<Right>(right))));
  else
    return detail::append(detail::as_row(L(std::forward<Left>(left))),
                          detail::as_row(R(std::forward<Right>(right))));
}

namespace detail {

using feedline::operator|; // for a user's own source in front of a stage, whose class is in this namespace

} // namespace detail

} // namespace feedline::inline v0
