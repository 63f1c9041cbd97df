// SPDX-License-Identifier: MIT
#pragma once
// What a stage is: a plain class that is called with an item and a function to hand on what it makes of it.
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <stop_token>
#include <string>
#include <type_traits>
#include <utility>

#include <feedline/core/random.hpp>
#include <feedline/core/sample.hpp>
#include <feedline/core/state.hpp>
#include <feedline/detail/type_name.hpp>

namespace feedline::inline v0 {

/// What a stage of the library is told when a run begins.
struct stage_info {
  std::uint64_t key;            ///< of the seed and the stage's place: key random decisions by it
  std::stop_token stop;         ///< of the run
  std::size_t items_behind = 1; ///< that other threads may not have taken yet, where it has workers: at most
};

/// What is known of a stage whatever its items are: `static constexpr stage_traits traits{…}` in its class.
struct stage_traits {
  const char* kind =
      nullptr; ///< its name in messages and checkpoints; else that of its type, which compilers write
               ///< in different ways
  /// It does the same with an item whatever came before, may be copied and can run on several workers.
  bool stateless = false;
  /// It gives one item for each that comes.
  bool one_to_one = false;
  /// How many items it gives follows from how many come, not from what they are: ranks may have it in finite mode.
  /// (So it is also where it is one to one.)
  bool gives_by_count = false;
  /// Each item that it gives is made of the samples since the one before it: where the stage stands follows from the
  /// last sample that it gave.
  bool keeps_place = false;
  /// It gives items just as they came, if it gives them.
  bool unchanged = false;
  /// It begins each epoch as if there had been none before.
  bool begins_anew = false;
  /// It calls `emit.enough()`. (Else this isn't heard in an infinite run of several ranks over a source that knows
  /// nothing of them.)
  bool ends_epochs = false;
  /// Its state is right whenever it emits, so that a checkpoint may be taken in the middle of a call; and of several
  /// items that it makes of one sample it names the parts itself.
  bool saves_in_calls = false;
};

/// Why a stage doesn't fit behind another one.
enum class fit {
  yes,
  wrong_argument,    ///< it can't be called with the item
  not_const,         ///< its function can be called, but not as const
  returns_void,      ///< its function gives nothing
  returns_reference, ///< its function gives a reference to what may be gone
  returns_no_bool,   ///< its predicate gives no bool
  returns_no_range,  ///< its function gives nothing to iterate over
  no_shape,          ///< the item has no shape to batch
  no_length,         ///< its function gives no length of the item
  item_cannot_move,  ///< the item it gives can't be moved without throwing
};

namespace detail {

/// Stands in for the function that a running stage is given, to find out whether it can be called.
template <class Out>
struct emit_probe {
  template <class V>
    requires std::constructible_from<Out, V>
  bool operator()(V&&);
  bool operator()(sample<Out>&&);
  void enough();
};

/// A stage that makes its running form for the item type it meets, as the library's generic ones do.
template <class S, class In>
concept binds_to = requires(const S& s, const stage_info& info) { s.template bind<In>(info); };

template <class S, class In>
struct bound {
  using type = S;
};

template <class S, class In>
  requires binds_to<S, In>
struct bound<S, In> {
  using type = decltype(std::declval<const S&>().template bind<In>(std::declval<const stage_info&>()));
};

/// The class that runs when S meets items of type In: S itself or what its bind makes.
template <class S, class In>
using bound_t = typename bound<S, In>::type;

template <class R, class In>
concept takes_value =
    requires(R& r, In&& in, emit_probe<typename R::output>& emit) { r(std::move(in), emit); };

template <class R, class In>
concept takes_value_and_context =
    requires(R& r, In&& in, emit_probe<typename R::output>& emit, context& c) { r(std::move(in), emit, c); };

template <class R, class In>
concept takes_sample =
    requires(R& r, sample<In>&& in, emit_probe<typename R::output>& emit) { r(std::move(in), emit); };

template <class R, class In>
concept takes_sample_and_context = requires(R& r, sample<In>&& in, emit_probe<typename R::output>& emit,
                                            context& c) { r(std::move(in), emit, c); };

template <class R, class In>
concept running_stage =
    requires { typename R::output; } && (takes_value<R, In> || takes_value_and_context<R, In> ||
                                         takes_sample<R, In> || takes_sample_and_context<R, In>);

/// What the class of a stage says of it.
template <class S>
consteval stage_traits traits_of() {
  stage_traits t;
  if constexpr (requires { S::traits; }) t = S::traits;
  t.gives_by_count |= t.one_to_one;
  return t;
}

/// A stage that may run in parallel.
template <class S>
concept stateless = traits_of<S>().stateless;

/// It may give in one epoch what it got in another.
template <class S>
concept keeps_over_epochs = !stateless<S> && !traits_of<S>().begins_anew;

/// What it makes of a sample can be made again of that one alone.
template <class S>
concept makes_of_one_sample = stateless<S> || traits_of<S>().unchanged;

/// A stage whose state may have buffers of samples: one of the library's that plans their notes, or a user's own.
template <class S>
concept may_hold_samples =
    !stateless<S> && (
                         !requires { typename S::feedline_part; } || requires(const S& s) { s.notes(); });

template <class T>
concept movable_item = std::is_object_v<T> && std::is_nothrow_move_constructible_v<T>;

template <class S, class In>
consteval fit fit_of() {
  if constexpr (requires { S::template fits<In>(); }) {
    return S::template fits<In>();
  } else if constexpr (running_stage<S, In>) {
    return movable_item<typename S::output> ? fit::yes : fit::item_cannot_move;
  } else {
    return fit::wrong_argument;
  }
}

/// What a source or a stage is called: its kind, or its type where it names none.
template <class S>
consteval const char* kind_of() {
  if constexpr (requires { S::traits.kind; }) {
    const char* const given = S::traits.kind;
    if (given) return given;
  }
  return type_name<S>.data();
}

/// "map `decode`", or the kind alone where the user gave no name.
template <class S>
std::string stage_name(const S& stage) {
  if constexpr (requires { stage.whole_name(); }) return stage.whole_name();
  std::string text = kind_of<S>();
  if constexpr (requires { stage.name(); })
    if (!stage.name().empty()) text += " `" + stage.name() + "`";
  return text;
}

/// A hash with what tells a stage from others: its name and its fingerprint.
template <class S>
std::uint64_t key_with_stage(std::uint64_t hash, const S& stage) {
  hash = key(hash, stable_hash(stage_name(stage)));
  if constexpr (requires { stage.fingerprint(); }) hash = key(hash, stage.fingerprint());
  return hash;
}

} // namespace detail

/// A stage that can stand where items of type In come. A stage of a user's own is a class with
/// - `using output = …;` the type it gives;
/// - `void operator()(In item, auto& emit)`: calls `emit(value)` for each value it makes of the item: none,
///   one or several. `emit` returns false once nobody wants more; `emit.enough()` says that this stage wants
///   no more of the epoch. Or `(In item, auto& emit, context&)`; or, to hold items back or change their
///   order, `(sample<In>, auto& emit)` with `emit(sample<Out>)`, and perhaps the context;
///
/// and perhaps
/// - `void finish(auto& emit)`: gives what it still holds, at the end of each epoch of finite mode;
/// - `void end_epoch()`: called at the end of each epoch in either mode;
/// - `void state(auto& archive)`: calls `archive(x, y, …)` with all that is its state between two items: numbers,
///   strings, lists and what state_writer names beside them. A run that is resumed gives it back. (Without it a
///   resumed run works out the state of such a stage from the beginning of the run.)
/// - `std::size_t items_held() const`: the most items of its input that it holds back, and
/// - `std::size_t bytes_kept() const`: the most bytes that it keeps beside those; for the memory plan, which else
///   knows only of a stage that can be copied as bytes that it holds nothing. Both are asked before a run begins;
/// - `std::size_t largest_item() const`: the most bytes of an item that it gives, where its type doesn't tell;
/// - `static constexpr stage_traits traits{.kind = "packer", …}`: what else is to be known of it;
/// - `std::uint64_t items_given(std::uint64_t items, bool drains) const`: how many items it gives in an epoch in which so
///   many come, for pipeline.size(), where it isn't one to one; `drains`: it gives what it holds at the epoch's end;
/// - `std::uint64_t fingerprint() const`: of its parameters. A checkpoint is refused by a pipeline whose stages have
///   other names or fingerprints;
/// - `bool has_enough() const`: whether it has called `emit.enough()` in this epoch, for a run that is resumed: it gets
///   nothing more of the epoch then. At the beginning of an epoch, after `end_epoch()`, only a stage that wants nothing
///   of any epoch says yes.
///
/// Each run has its own copy, called from one thread. `check_stage` of feedline/testing.hpp runs a stage through all that
/// is promised of it.
template <class S, class In>
concept stage_for = detail::fit_of<S, In>() == fit::yes;

/// What a stage gives for items of type In.
template <class S, class In>
using stage_output_t = typename detail::bound_t<S, In>::output;

/// Gives a stage a name for error messages and metrics.
struct name {
  std::string text;
};

} // namespace feedline::inline v0
