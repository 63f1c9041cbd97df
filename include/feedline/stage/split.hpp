// SPDX-License-Identifier: MIT
#pragma once
// split: items for which a predicate holds pass through some stages, the others through other stages.
//
//              ┌─▶ stages if true ──┐
//    items ────┤                    ├───▶ items, in the same order
//              └─▶ stages if false ─┘
#include <feedline/core/contract.hpp>
#include <feedline/core/pipeline.hpp>
#include <feedline/stage/detail/branches.hpp>
#include <feedline/stage/detail/function.hpp>

namespace feedline::inline FEEDLINE_ABI {

namespace detail {

/// Whether a row has only stages that the workers of a split can run.
template <class Row>
inline constexpr bool is_branch = false;
template <class... Stages>
inline constexpr bool is_branch<stage_row<segment<segment_traits{}, Stages...>>> = (stateless<Stages> && ...);

/// The predicate of a split and its branches, whose stages have these types.
template <class Held, class True, class False>
struct split_parts : Held {
  using true_stages = True;
  using false_stages = False;

  composed_stages on_true, on_false;
};

template <class Held, class True, class False>
struct held_function<split_parts<Held, True, False>> {
  using type = split_parts<Held, True, False>;
};

template <class Parts>
class split_stage : public function_stage<Parts> {
  using true_stages = typename Parts::true_stages;
  using false_stages = typename Parts::false_stages;
  using all_stages = decltype(true_stages() + false_stages());

  template <bool stage_traits::*Fact, class... Stages>
  static consteval bool all_have(types<Stages...>) {
    return ((traits_of<Stages>().*Fact) && ...);
  }

  static constexpr auto from_one = &stage_traits::position_from_last_sample;
  static constexpr bool at_most_one = all_have<from_one>(all_stages());

 public:
  using function_stage<Parts>::function_stage;

  static constexpr stage_traits traits{.kind = "split",
                                       .stateless = true,
                                       .one_to_one = all_have<&stage_traits::one_to_one>(all_stages()),
                                       .position_from_last_sample = at_most_one,
                                       .checkpoints_mid_call = true};

  template <class In>
  static consteval fit fits() {
    if constexpr (fit_of_call<Parts, const In&>() != fit::yes) return fit_of_call<Parts, const In&>();
    else if constexpr (!std::convertible_to<call_result_t<typename Parts::called, const In&>, bool>)
      return fit::returns_no_bool;
    else if constexpr (!fit_in_order<In>(true_stages()) || !fit_in_order<In>(false_stages()))
      return fit::refused;
    else
      return std::is_same_v<typename true_stages::template output<In>,
                            typename false_stages::template output<In>>
                 ? fit::yes
                 : fit::refused;
  }

  /// See fit::refused.
  template <class Before, class In>
  using check_inside = typename std::conditional_t<
      !fit_in_order<In>(true_stages()), stages_check_of<Before, In, true_stages>,
      std::conditional_t<!fit_in_order<In>(false_stages()), stages_check_of<Before, In, false_stages>,
                         branches_check_of<In, true_stages, false_stages>>>::type;

  std::uint64_t fingerprint() const {
    std::uint64_t hash = true_stages::size;
    const auto add = [&](const auto& stage) { hash = key_with_stage(hash, stage); };
    true_stages::visit(this->f_.on_true, add);
    false_stages::visit(this->f_.on_false, add);
    return hash;
  }

  template <class In>
  known_bytes bytes_given(known_bytes in) const {
    return most_bytes<In>(in, [&](const std::vector<stage_facts>& stages) {
      return stages.empty() ? in : stages.back().size.emitted;
    });
  }

  std::size_t bytes_held() const {
    return sum_of(bytes_held_by(true_stages(), this->f_.on_true),
                  bytes_held_by(false_stages(), this->f_.on_false))
        .value_or(~std::size_t{0});
  }

  /// The bytes that a worker keeps of a sample inside the branches.
  template <class In>
  known_bytes bytes_gathered(known_bytes in) const {
    return most_bytes<In>(in, bytes_inside);
  }

  /// Explains why that isn't known.
  std::string unknown() const {
    return "how much memory an item takes between the stages of " + stage_name(*this) +
           ": pass max_item_bytes{bytes} to each map and flat_map in its branches";
  }

  template <class In>
  class running : public std::conditional_t<at_most_one, throws_failures, passes_failures> {
    using true_branch = decltype(running_branch_of<In>(true_stages()));
    using false_branch = decltype(running_branch_of<In>(false_stages()));

    static constexpr bool converts_all = true_branch::converts_all && false_branch::converts_all;

   public:
    using feedline_rows = void;
    using output = typename true_stages::template output<In>;

    running(const split_stage& split, const stage_info& info)
        : split_(split),
          f_(split.f_.bind()),
          on_true_(split.f_.on_true.stages.data(), info, 1),
          on_false_(split.f_.on_false.stages.data(), info, 0) {}

    [[gnu::always_inline]] void operator()(sample<In>&& s, auto& emit, context& c) {
      if constexpr (converts_all) {
        emit(convert(std::move(s.value), c));
      } else {
        branch_end<split_stage, std::remove_reference_t<decltype(emit)>, at_most_one> end{split_, emit};
        if (is_true(s.value, c)) pass<true_stages>(on_true_, std::move(s), end, c);
        else pass<false_stages>(on_false_, std::move(s), end, c);
        if (end.failure) throw failure_inside(std::move(*end.failure));
      }
    }

    output convert(In&& in, context& c)
      requires converts_all
    {
      return is_true(in, c) ? on_true_.convert(std::move(in), c) : on_false_.convert(std::move(in), c);
    }

    /// Whether it has emitted all items of its last sample.
    bool at_rest() const noexcept
      requires(!at_most_one)
    {
      return !is_at_work_;
    }

    void metrics(auto& out) const {
      out.total("true", static_cast<double>(taken_[true]));
      out.total("false", static_cast<double>(taken_[false]));
    }

   private:
    bool is_true(const In& item, context& c) {
      const bool is = call(f_.get(), item, c);
      ++taken_[is];
      return is;
    }

    template <class Stages>
    void pass(auto& branch, sample<In>&& s, auto& end, const context& c) {
      is_at_work_ = !all_have<from_one>(Stages());
      branch.push(std::move(s), end, c);
      is_at_work_ = false;
    }

    const split_stage& split_;
    decltype(std::declval<const Parts&>().bind()) f_;
    true_branch on_true_;
    false_branch on_false_;
    std::array<std::uint64_t, 2> taken_{}; // samples, by the value of the predicate
    bool is_at_work_ = false;              // on a sample of which it may make several items
  };

  template <class In>
    requires(split_stage::template fits<In>() == fit::yes)
  running<In> bind(const stage_info& info) const {
    return running<In>(*this, info);
  }

 private:
  template <class In>
  known_bytes most_bytes(known_bytes in, auto bytes_of) const {
    const known_bytes a = bytes_of(facts_of<In>(true_stages(), this->f_.on_true, in));
    const known_bytes b = bytes_of(facts_of<In>(false_stages(), this->f_.on_false, in));
    return a && b ? std::max(a, b) : std::nullopt;
  }
};

} // namespace detail

/// Passes the items for which a predicate returns true through some stages, and the others through other stages. Their
/// results continue as one stream.
///
/// An `if` in the function of a map may do. In addition to it, branches can leave out items (filter) or make several
/// (flat_map), each stage in them has its own random numbers, a failure names it, "map `crop` in split `large`", and metrics
/// count the items of each branch, as "true" and "false".
///
/// Takes:   any item; the predicate is `p(const item&)` or `p(const item&, context&)`; the stages for items for which it
///          returns true; those for the others, or none, which leaves these unchanged. The stages are stateless, also
///          several, as in `map(…) | filter(…)`, or another split, and have no workers of their own. Options as filter;
///          the workers run the stages too
/// Gives:   the items of both branches, which must have the same type
/// Order:   kept; with unordered, the order in which they are finished
/// Throws:  what the predicate or a stage throws, as a failure of its sample
/// Stops:   after the item in hand
/// Example: `source | split(has_caption, map(tokenize), map(describe) | filter(clear), workers{8}) | batch(64)`
template <class F, class True, class False, class... Options>
  requires(!detail::has_option<False, name, workers, unordered_t>)
auto split(F&& predicate, True on_true, False on_false, Options... options) {
  auto true_row = detail::as_row(std::move(on_true));
  auto false_row = detail::as_row(std::move(on_false));
  using true_type = decltype(true_row);
  using false_type = decltype(false_row);
  constexpr bool fits = detail::is_branch<true_type> && detail::is_branch<false_type>;
  static_assert(
      fits, "feedline: a branch of split, `True` or `False`, may have only stateless stages (map, filter, "
            "flat_map, tap, split) without workers or queues: pass workers{…} to split, and put cache, "
            "shuffle, batch and the like after it");
  if constexpr (fits && !detail::refused<F>) {
    using held = detail::held_function_t<F>;
    using split_parts = detail::split_parts<held, typename true_type::segments::stage_types,
                                            typename false_type::segments::stage_types>;
    return detail::make_function_stage<detail::split_stage>(split_parts{held(std::forward<F>(predicate)),
                                                                        std::move(true_row.composed),
                                                                        std::move(false_row.composed)},
                                                            std::move(options)...);
  } else {
    return detail::refused_pipeline();
  }
}

/// The same, with the other items unchanged.
template <class F, class True, class... Options>
  requires(detail::has_option<Options, name, workers, unordered_t> && ...)
auto split(F&& predicate, True on_true, Options... options) {
  return split(std::forward<F>(predicate), std::move(on_true),
               stage_row<detail::segment<detail::segment_traits{}>>{detail::serial()}, std::move(options)...);
}

} // namespace feedline::inline FEEDLINE_ABI
