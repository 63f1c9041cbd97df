// SPDX-License-Identifier: MIT
#pragma once
// tap: shows items to a function without changing them.
#include <feedline/core/contract.hpp>
#include <feedline/stage/detail/function.hpp>

namespace feedline::inline FEEDLINE_ABI {

namespace detail {

template <class Held>
class tap_stage : public function_stage<Held> {
 public:
  using function_stage<Held>::function_stage;

  static constexpr stage_traits traits{.kind = "tap",
                                       .stateless = true,
                                       .one_to_one = true,
                                       .position_from_last_sample = true,
                                       .checkpoints_mid_call = true};

  template <class In>
  static consteval fit fits() {
    return fit_of_call<Held, const In&>();
  }

  template <class In>
  struct running {
    using feedline_rows = void;
    using function = decltype(std::declval<const Held&>().bind());
    using output = In;

    In convert(In&& in, context& c) {
      static_cast<void>(call(f.get(), std::as_const(in), c));
      return std::move(in);
    }

    void operator()(In&& in, auto& emit, context& c) { emit(convert(std::move(in), c)); }

    function f;
  };

  template <class In>
    requires(tap_stage::template fits<In>() == fit::yes)
  running<In> bind(const stage_info&) const {
    return {this->f_.bind()};
  }
};

} // namespace detail

/// Calls a function with each item and emits the item unchanged.
///
/// Takes:   any item; the function is `f(const item&)` or `f(const item&, context&)`; options as map
/// Gives:   every item, unchanged
/// Order:   kept; with unordered, the order in which they are finished
/// Throws:  what the function throws, as a failure of its sample, which is then not emitted
/// Stops:   after the item in hand
/// Example: `source | tap([&](const image& i) { seen.fetch_add(1); })`
template <class F, class... Options>
auto tap(F&& f, Options... options) {
  return detail::make_function_stage<detail::tap_stage>(std::forward<F>(f), std::move(options)...);
}

} // namespace feedline::inline FEEDLINE_ABI
