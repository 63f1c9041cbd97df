// SPDX-License-Identifier: MIT
#pragma once
// The stages in the branches of split: whether they fit, how they run as nested inlined calls, and their memory.
#include <feedline/core/contract.hpp>
#include <feedline/core/pipeline.hpp>
#include <feedline/core/plan/facts.hpp>
#include <feedline/core/run/chain.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

// The roles that a compiler's message names.
template <class T>
struct if_true;
template <class T>
struct if_false;

/// Keeps the compiler's message to two lines, as fit_check does.
template <class True, class False>
struct branches_check {
  static_assert(
      !std::is_same_v<True, True>,
      "feedline: the branches of split emit different types, `if_true` and `if_false`: add a map to one "
      "that makes the type of the other, or to both that makes a std::variant");
};

template <class In, class True, class False>
struct branches_check_of {
  using type = branches_check<if_true<typename True::template output<In>>,
                              if_false<typename False::template output<In>>>;
};

template <class Before, class In, class Stages>
struct stages_check_of {
  using type = typename composition_of<Before, In, Stages>::type::check;
};

template <class In>
consteval bool fit_in_order(types<>) {
  return true;
}

template <class In, class S, class... Rest>
consteval bool fit_in_order(types<S, Rest...>) {
  if constexpr (fit_of<S, In>() != fit::yes) return false;
  else return fit_in_order<stage_output_t<S, In>>(types<Rest...>());
}

/// Where a branch ends. `AtMostOne`: a sample becomes one item, or none, or it fails.
template <class Split, class Emit, bool AtMostOne>
struct branch_end {
  /// Returns whether more items are wanted.
  bool failed(failure_ptr f) {
    if constexpr (AtMostOne) {
      failure = std::move(f);
      return false;
    } else {
      f->stage += " in " + stage_name(split);
      return emit.failed(std::move(f));
    }
  }

  const Split& split;
  Emit& emit;
  failure_ptr failure{}; // to be thrown when the stages have returned
};

/// A stage of a branch calls it to emit a value. `NamesParts`: as the library's stages do, it gives the parts of a sample
/// their identities.
template <class Out, class Next, class End, bool NamesParts>
struct branch_emitter {
  template <class V>
    requires std::constructible_from<Out, V>
  bool operator()(V&& value) {
    return (*this)({Out(std::forward<V>(value)), NamesParts ? id : parts.part_of(id, given)});
  }

  bool operator()(sample<Out>&& s) {
    // If a later stage lets nothing through, the end doesn't notice a stop.
    if (given++ > 0 && about.stop.stop_requested()) is_wanted = false;
    if (is_wanted) is_wanted = next.push(std::move(s), end, about);
    return is_wanted;
  }

  bool failed(failure_ptr f) {
    if (is_wanted) is_wanted = end.failed(std::move(f));
    return is_wanted;
  }

  void enough() const noexcept {} // the other branch may need more

  void hand_over() { end.emit.hand_over(); }

  Next& next;
  End& end;
  const context& about; // the sample, for the split
  const sample_id& id;
  const part_names& parts;
  std::uint64_t given = 0; // values
  bool is_wanted = true;
};

template <class In, class... Stages>
class running_branch {
 public:
  running_branch(const std::shared_ptr<const void>*, const stage_info& split, std::uint64_t, bool = false)
      : parts_(split.parts) {}

  static constexpr bool converts_all = true;

  bool push(sample<In>&& s, auto& end, const context& about) {
    s.id = parts_.made_inside(about.id(), s.id);
    return end.emit(std::move(s));
  }

  In convert(In&& in, const context&) { return std::move(in); }

 private:
  part_names parts_; // of the split
};

template <class In, class S, class... Rest>
class running_branch<In, S, Rest...> {
  using running = bound_t<S, In>;
  using made = typename running::output;
  using next = running_branch<made, Rest...>;

 public:
  /// `number`: of the branch among the two. `of_parts`: see part_names. Throws failure_inside if a stage can't begin.
  running_branch(const std::shared_ptr<const void>* stages, const stage_info& split, std::uint64_t number,
                 bool of_parts = false)
      : described_(*static_cast<const S*>(stages->get())),
        key_(key(split.key, number)),
        parts_{key(split.parts.place, number), of_parts},
        stage_(begun(described_, {key_, split.stop, split.items_in_flight, split.first_epoch, parts_})),
        next_(stages + 1, split, number + 2, of_parts || makes_parts<S>) {}

  /// Whether each of its stages makes one value from each. Not for large ones: the stack has room for few of them.
  static constexpr bool converts_all = converts<running, In> && sizeof(made) <= 4096 && next::converts_all;

  /// Passes a sample on; failures go to the end. Returns whether more items are wanted.
  template <class End>
  bool push(sample<In>&& s, End& end, const context& about) {
    const sample_id id = s.id;
    branch_emitter<made, next, End, traits_of<S>().checkpoints_mid_call> emit{next_, end, about, id, parts_};
    try {
      context c = make_context(id, key_, about.stop, about.counters);
      call_stage(stage_, std::move(s), emit, c);
    } catch (...) {
      return end.failed(note_failure(stage_name(described_), id, {}));
    }
    return emit.is_wanted;
  }

  /// What the stages make of a value. Throws failure_inside.
  auto convert(In&& in, const context& about) {
    return next_.convert(convert_here(std::move(in), about), about);
  }

 private:
  made convert_here(In&& in, const context& about) {
    try {
      context c = make_context(about.id(), key_, about.stop, about.counters);
      return stage_.convert(std::move(in), c);
    } catch (...) {
      throw failure_inside(current_failure(stage_name(described_), about.id()));
    }
  }

  static running begun(const S& stage, const stage_info& info) {
    try {
      if constexpr (binds_to<S, In>) return stage.template bind<In>(info);
      else return stage;
    } catch (...) {
      throw failure_inside(current_failure(stage_name(stage), {}));
    }
  }

  const S& described_;
  std::uint64_t key_;
  part_names parts_;
  running stage_;
  next next_;
};

template <class In, class... Stages>
running_branch<In, Stages...> running_branch_of(types<Stages...>);

/// The running stage of a split has one of these as its base: how a failure inside a branch leaves it.
struct throws_failures {};

struct passes_failures {
  using feedline_runs_stages = void;
};

} // namespace feedline::inline FEEDLINE_ABI::detail
