// SPDX-License-Identifier: MIT
#pragma once
// filter: emits the items for which a predicate holds.
#include <feedline/core/contract.hpp>
#include <feedline/stage/detail/function.hpp>

namespace feedline::inline FEEDLINE_ABI {

namespace detail {

template <class Held>
class filter_stage : public function_stage<Held> {
 public:
  using function_stage<Held>::function_stage;

  static constexpr stage_traits traits{
      .kind = "filter", .stateless = true, .position_from_last_sample = true, .checkpoints_mid_call = true};

  /// For the library's own predicates that have parameters.
  std::uint64_t fingerprint() const
    requires requires(const typename Held::called& f) { f.feedline_fingerprint(); }
  {
    return this->f_.bind().get().feedline_fingerprint();
  }

  template <class In>
  known_bytes bytes_given(known_bytes in) const {
    if constexpr (requires(const Held& f) { f.bytes_given(in); }) return this->f_.bytes_given(in);
    else return in;
  }

  template <class In>
  static consteval fit fits() {
    if constexpr (fit_of_call<Held, const In&>() != fit::yes) return fit_of_call<Held, const In&>();
    else
      return std::convertible_to<call_result_t<typename Held::called, const In&>, bool>
                 ? fit::yes
                 : fit::returns_no_bool;
  }

  template <class In>
  struct running {
    using function = decltype(std::declval<const Held&>().bind());
    using feedline_rows = void;
    using output = In;

    bool keeps(const In& in, context& c) { return call(f.get(), in, c); }

    auto hold_row()
      requires requires(function& own) { own.get().hold_row(); }
    {
      return f.get().hold_row();
    }

    [[gnu::always_inline]] void operator()(sample<In>&& s, auto& emit, context& c) {
      if (keeps(s.value, c)) emit(std::move(s));
    }

    function f;
  };

  template <class In>
    requires(filter_stage::template fits<In>() == fit::yes)
  running<In> bind(const stage_info&) const {
    return {this->f_.bind()};
  }
};

} // namespace detail

/// Emits the items for which a predicate returns true.
///
/// Takes:   any item; the predicate is `p(const item&)` or `p(const item&, context&)`; options as map
/// Gives:   the items for which it returned true, unchanged
/// Order:   kept; with unordered, the order in which they are finished
/// Memory:  as map, of an item that it has looked at
/// Throws:  what the predicate throws, as a failure of its sample
/// Stops:   after the item in hand
/// Example: `source | filter([](const position& p) { return p.plies_left > 4; })`
template <class F, class... Options>
auto filter(F&& predicate, Options... options) {
  return detail::make_function_stage<detail::filter_stage>(std::forward<F>(predicate), std::move(options)...);
}

} // namespace feedline::inline FEEDLINE_ABI
