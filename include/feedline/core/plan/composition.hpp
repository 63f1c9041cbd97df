// SPDX-License-Identifier: MIT
#pragma once
// Checks at compile time that a stage fits behind what it receives, and says what is wrong.
#include <cstddef>
#include <type_traits>

#include <feedline/core/options.hpp>
#include <feedline/core/plan/segments.hpp>
#include <feedline/core/stage.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

// The roles in a composition: compiler messages show these names, and the sentences refer to them.
template <class S>
struct stage_before;
template <class T>
struct item;
template <class S>
struct stage;
template <class Type, auto Name>
struct field;

/// A mistake shows in two lines of a compiler's message: one has the stages and the item, the other the
/// sentence.
template <class Before, class Item, class Stage, class... Field>
struct fit_check;

template <class Before, class Item, class Stage, class... Field>
struct fit_check<stage_before<Before>, item<Item>, stage<Stage>, Field...> {
  static constexpr fit f = fit_of<Stage, Item>();

  static_assert(f != fit::cannot_copy, "feedline: `stage` can't be copied, but each thread has its own copy: "
                                       "give it a copy constructor");
  static_assert(
      f != fit::no_output,
      "feedline: `stage` doesn't name the type of the items that it emits: add `using output = …;` to a "
      "class of your own, or pass a function to map or flat_map");
  static_assert(f != fit::wrong_argument,
                "feedline: `stage` can't be called with `item`, which is the output of `stage_before`");
  static_assert(
      f != fit::not_const,
      "feedline: the function of `stage` changes itself when called (a mutable lambda?), but workers may "
      "share it: make it const, or make a separate function for each worker with "
      "per_worker(factory)");
  static_assert(
      f != fit::returns_void,
      "feedline: the function of `stage` returns nothing: use tap to look at items without changing "
      "them");
  static_assert(f != fit::returns_reference,
                "feedline: the function of `stage` returns a reference, which would dangle as soon as its "
                "`item` is destroyed: return a value");
  static_assert(
      f != fit::returns_view,
      "feedline: the function of `stage` returns a view of its `item`, which would dangle: return a "
      "std::string or a std::vector");
  static_assert(f != fit::returns_no_bool, "feedline: the function of `stage` must return a bool");
  static_assert(f != fit::returns_no_range,
                "feedline: the function of `stage` must return a range with begin() and end()");
  static_assert(
      sizeof...(Field) == 0,
      "feedline: the `field` of `item` can't be stacked, so `stage` can't make tensors of it: make it a "
      "number, an array of numbers, a tensor, a string, or a vector or a plain struct of those (at most "
      "64 fields; give a class with a constructor or a base class a function fields() that returns "
      "std::tie(a, b)), or "
      "collect whole items with as_list");
  static_assert(
      f != fit::no_shape || sizeof...(Field) > 0,
      "feedline: `item` has no shape, so `stage` can't make tensors of it: use numbers, arrays, tensors, "
      "strings, or vectors or a plain struct of those (at most 64 fields; give a class with a "
      "constructor or a base class a function fields() that returns std::tie(a, b)), or collect whole items "
      "with as_list");
  static_assert(
      f != fit::no_length,
      "feedline: `stage` doesn't know the length of `item`: pass a function of the item that returns "
      "an unsigned integer; without one it calls item.size()");
  static_assert(f != fit::item_cannot_move,
                "feedline: the items that `stage` emits can't be moved without throwing, so a queue can't "
                "pass them on: declare their move constructor noexcept");
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

/// A stage with stages inside it names the check of those.
template <class Before, class Item, class Stage>
  requires(fit_of<Stage, Item>() == fit::refused)
struct fit_check_of<Before, Item, Stage> {
  using type = typename Stage::template check_inside<Before, Item>;
};

/// Whether stages fit in order; and if not, as `check`, the class of the first that doesn't, which says why. Only its use
/// instantiates that class: compilers complain a second time about what depends on a class with a failed assertion.
template <class Before, class Item, class... Stages>
struct composition {
  static constexpr bool fits = true;
};

template <bool Fits, class Before, class Item, class S, class... Rest>
struct composition_from {
  static constexpr bool fits = false;
  using check = typename fit_check_of<Before, Item, S>::type;
};

template <class Before, class Item, class S, class... Rest>
struct composition_from<true, Before, Item, S, Rest...> : composition<S, stage_output_t<S, Item>, Rest...> {};

template <class Before, class Item, class S, class... Rest>
struct composition<Before, Item, S, Rest...>
    : composition_from<fit_of<S, Item>() == fit::yes, Before, Item, S, Rest...> {};

/// The same for a list of stages.
template <class Before, class Item, class Stages>
struct composition_of;

template <class Before, class Item, class... Stages>
struct composition_of<Before, Item, types<Stages...>> {
  using type = composition<Before, Item, Stages...>;
};

/// Stands in for a refused pipeline, its loader, its batches and everything else made from it, so that one
/// mistake causes one message.
struct refused_pipeline {
  using feedline_part = void;

  refused_pipeline finite(const finite_options& = {}) const;
  refused_pipeline infinite(const infinite_options& = {}) const;
  refused_pipeline memory(const infinite_options& = {}) const;
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

/// What a loop over a pipeline gets. It lacks what iterators have, so that no concept of a range looks into
/// pipeline::begin(), which explains the mistake.
struct refused_iterator {
  refused_pipeline& operator*() const;
  void operator++();
  bool operator!=(const refused_iterator&) const;
};

template <class T>
concept refused = std::is_same_v<std::remove_cvref_t<T>, refused_pipeline>;

} // namespace feedline::inline FEEDLINE_ABI::detail
