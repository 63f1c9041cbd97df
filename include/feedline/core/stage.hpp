// SPDX-License-Identifier: MIT
#pragma once
// What a stage is: a plain class that is called with an item and a function that emits the results.
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

namespace feedline::inline FEEDLINE_ABI {

/// What a stage of the library receives when a run begins.
struct stage_info {
  std::uint64_t key;    ///< of the seed and the stage's position: key random decisions by it
  std::stop_token stop; ///< the run's
  /// Of a stage with workers: the most emitted items that the threads downstream haven't taken yet.
  std::size_t items_in_flight = 1;
  std::uint32_t first_epoch = 0; ///< the number of the run's first epoch
  detail::part_names parts = {}; ///< for a stage that may make several items of a sample
};

/// Facts about a stage that hold for every item type: `static constexpr stage_traits traits{…}` in its class.
struct stage_traits {
  /// Its name in messages and checkpoints; by default that of its type, which differs between compilers.
  const char* kind = "";
  /// Its result for an item doesn't depend on earlier items. It may be copied and can run on several workers.
  bool stateless = false;
  /// It emits one item for each that it receives.
  bool one_to_one = false;
  /// The number of items that it emits depends only on how many it receives, not on their content, so that
  /// ranks may use it in finite mode. (Implied by one_to_one.)
  bool data_independent_count = false;
  /// Each item that it emits is made from the samples since the previous one: its position in the stream
  /// follows from the last sample that it emitted.
  bool position_from_last_sample = false;
  /// It emits items unchanged, or not at all.
  bool unchanged = false;
  /// It begins each epoch in its initial state.
  bool resets_each_epoch = false;
  /// It calls `emit.enough()`. (Without this trait an infinite run of several ranks ignores the call, if the
  /// source doesn't know of ranks.)
  bool ends_epochs = false;
  /// Its state is valid whenever it emits, so that a checkpoint may be taken in the middle of a call. If it
  /// makes several items from one sample, it numbers these parts itself.
  bool checkpoints_mid_call = false;
  /// The order in which it emits depends on the seed and the epoch.
  bool random_order = false;
  /// The order in which it emits depends on timing, so that its run can't be resumed.
  bool unordered = false;
  /// It finishes what the source began: the stages downstream have the random numbers that they would have without it.
  bool belongs_to_source = false;
};

/// Why a stage can't follow another one.
enum class fit {
  yes,
  cannot_copy,       ///< it can't be copied
  no_output,         ///< its class doesn't name the type that it emits
  wrong_argument,    ///< it can't be called with the item
  not_const,         ///< its function can be called, but not as const
  returns_void,      ///< its function returns nothing
  returns_reference, ///< its function returns a reference, which may dangle
  returns_view,      ///< its function returns a view of an item that owns its elements
  returns_no_bool,   ///< its predicate doesn't return a bool
  returns_no_range,  ///< its function doesn't return a range
  no_shape,          ///< the item has no shape to batch
  no_length,         ///< its function doesn't return the item's length
  item_cannot_move,  ///< moving the item that it emits may throw
  refused,           ///< its `check_inside<Before, In>` says why
};

namespace detail {

/// Stands in for the emit function of a running stage, to check whether the stage can be called.
template <class Out>
struct emit_probe {
  template <class V>
    requires std::constructible_from<Out, V>
  bool operator()(V&&);
  bool operator()(sample<Out>&&);
  void enough();
  void hand_over();
};

/// A stage whose bind() makes the object that runs for an item type, as the library's generic stages do.
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

/// The class that runs when S receives items of type In: S itself or the result of its bind().
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

/// Calls a running stage with a sample.
template <class In, class R>
[[gnu::always_inline]] inline void call_stage(R& stage, sample<In>&& s, auto& emit, context& c) {
  if constexpr (takes_value_and_context<R, In>) stage(std::move(s.value), emit, c);
  else if constexpr (takes_value<R, In>) stage(std::move(s.value), emit);
  else if constexpr (takes_sample<R, In>) stage(std::move(s), emit);
  else stage(std::move(s), emit, c);
}

/// The traits of a stage.
template <class S>
consteval stage_traits traits_of() {
  stage_traits t;
  if constexpr (requires { S::traits; }) t = S::traits;
  t.data_independent_count |= t.one_to_one;
  return t;
}

/// A stage that may run in parallel.
template <class S>
concept stateless = traits_of<S>().stateless;

/// A stage that may emit in one epoch an item that it received in an earlier one.
template <class S>
concept keeps_over_epochs = !stateless<S> && !traits_of<S>().resets_each_epoch;

/// A stage whose results for a sample can be recomputed from that sample alone.
template <class S>
concept makes_of_one_sample = stateless<S> || traits_of<S>().unchanged;

/// A stage that may make several items of one sample.
template <class S>
concept makes_parts =
    !traits_of<S>().position_from_last_sample && !traits_of<S>().unchanged && !traits_of<S>().one_to_one;

/// A stage whose state may have buffers of samples: one of the library's that plans their notes, or a user's.
template <class S>
concept may_hold_samples =
    !stateless<S> && (
                         !requires { typename S::feedline_part; } || requires(const S& s) { s.notes(); });

template <class T>
concept movable_item = std::is_object_v<T> && std::is_nothrow_move_constructible_v<T>;

template <class S, class In>
consteval fit fit_of() {
  if constexpr (!std::copy_constructible<S>) {
    return fit::cannot_copy;
  } else if constexpr (requires { S::template fits<In>(); }) {
    return S::template fits<In>();
  } else if constexpr (binds_to<S, In>) {
    return fit::yes;
  } else if constexpr (running_stage<S, In>) {
    return movable_item<typename S::output> ? fit::yes : fit::item_cannot_move;
  } else {
    return requires { typename bound_t<S, In>::output; } ? fit::wrong_argument : fit::no_output;
  }
}

/// The kind of a source or a stage, or its type where it names none.
template <class S>
consteval const char* kind_of() {
  if constexpr (requires { requires S::traits.kind[0] != 0; }) return S::traits.kind;
  else return type_name<S>.data();
}

/// "map `decode`", or the kind alone for a stage without a name.
template <class S>
std::string stage_name(const S& stage) {
  if constexpr (requires { stage.whole_name(); }) return stage.whole_name();
  std::string text = kind_of<S>();
  if constexpr (requires { stage.name(); })
    if (!stage.name().empty()) text += " `" + stage.name() + "`";
  return text;
}

/// Adds a stage's name and fingerprint to a hash.
template <class S>
std::uint64_t key_with_stage(std::uint64_t hash, const S& stage) {
  hash = key(hash, stable_hash(stage_name(stage)));
  if constexpr (requires { stage.fingerprint(); }) hash = key(hash, stage.fingerprint());
  return hash;
}

} // namespace detail

/// A stage that can receive items of type In. A user's stage is a class with
/// - `using output = …;` the type of the items that it emits;
/// - `void operator()(In item, auto& emit)`: calls `emit(value)` for each value that it makes from the item:
///   none, one or several. `emit` returns false once no more items are needed; `emit.enough()` says that this
///   stage needs no more items of the epoch. `emit.hand_over()`, before a long wait, passes on at once what was
///   emitted so far, which otherwise waits for its neighbours. Instead it may be `(In item, auto& emit, context&)`
///   or, to hold items back or change their order, `(sample<In>, auto& emit)` with `emit(sample<Out>)`, with or
///   without the context;
///
/// and optionally
/// - `void finish(auto& emit)`: emits the items that it still holds, at the end of each epoch of finite mode;
/// - `void end_epoch()`: called at the end of each epoch in either mode;
/// - `void state(auto& archive)`: calls `archive(x, y, …)` with its whole state between two items: numbers,
///   strings, lists and the other types that state_writer lists. A resumed run restores it. (Without it a
///   resumed run recomputes the stage's state from the beginning of the run.)
/// - `std::size_t items_held() const`: the most input items that it holds back, and
/// - `std::size_t bytes_held() const`: the most bytes that it keeps in addition to those; for the memory
///   plan. Without them it knows only the memory of a stateless or trivially copyable stage.
///   Both are called before a run begins;
/// - `std::size_t items_at_once() const`, of a stateless stage that waits rather than computes: how many of its
///   copies may be called at once, each by a thread of its own, to read the samples again that a stage downstream
///   held at a checkpoint;
/// - `std::size_t max_item_bytes() const`: the most bytes of an item that it emits, where its type doesn't
///   determine it;
/// - `static constexpr stage_traits traits{.kind = "packer", …}`: other facts about it;
/// - `std::uint64_t output_count(std::uint64_t items, bool drains) const`: how many items it emits in an
///   epoch in which it receives `items`, for pipeline.size(), where it isn't one to one; `drains`: it emits
///   the items that it holds at the epoch's end;
/// - `std::uint64_t fingerprint() const`: a hash of its parameters. A pipeline refuses a checkpoint of stages
///   with other names or fingerprints;
/// - `bool has_enough() const`: whether it has called `emit.enough()` in this epoch. If so, a resumed run
///   gives it no more items of the epoch. At the beginning of an epoch, after `end_epoch()`, only a stage
///   that needs no items of any epoch returns true.
///
/// Each thread of a run has its own copy. The copies, and what is asked before a run begins, come from one const stage that
/// all runs of the pipeline and its copies share, unless it has `S for_run() const`: then each run has the stage that it
/// returns. `check_stage` of feedline/testing.hpp tests a stage against this contract.
template <class S, class In>
concept stage_for = detail::fit_of<S, In>() == fit::yes;

/// The type that a stage emits for items of type In.
template <class S, class In>
using stage_output_t = typename detail::bound_t<S, In>::output;

/// The name of a stage, for error messages and metrics.
struct name {
  std::string text; ///< appears in messages as "map `text`"
};

} // namespace feedline::inline FEEDLINE_ABI
