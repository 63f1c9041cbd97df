// SPDX-License-Identifier: MIT
#pragma once
// async_flat_map: emits the values that a coroutine yields for each item.
#include <feedline/async/async_context.hpp>
#include <feedline/async/async_generator.hpp>
#include <feedline/async/async_options.hpp>
#include <feedline/async/detail/async_stage.hpp>
#include <feedline/async/detail/flight.hpp>
#include <feedline/async/detail/operation.hpp>
#include <feedline/async/detail/stream.hpp>
#include <feedline/core/contract.hpp>
#include <feedline/core/pipeline.hpp>
#include <feedline/stage/detail/function.hpp>

namespace feedline::inline FEEDLINE_ABI {

namespace detail {

/// Stages whose operations have several results.
struct several_results {
  static constexpr stage_traits traits{
      .kind = "async_flat_map", .stateless = true, .checkpoints_mid_call = true};

  template <class F, class In>
  using operation = stream<F, In>;

  template <class F, class In>
  static consteval fit fits() {
    if constexpr (!async_callable<const F, In&>) {
      return async_callable<F, In&> ? fit::not_const : fit::wrong_argument;
    } else {
      if constexpr (is_generator<async_result_t<const F, In&>>)
        return movable_item<typename stream<F, In>::output> ? fit::yes : fit::item_cannot_move;
      else return fit::refused;
    }
  }

  template <class F>
  struct coroutine_check {
    static_assert(std::is_void_v<F>,
                  "feedline: the function of async_flat_map must return a feedline::async_generator, as a "
                  "coroutine with co_yield does");
  };

  /// Emits the values of each ticket's generator.
  template <class Started>
  class running {
   public:
    using output = typename Started::output;

    explicit running(max_item_bytes limit) : limit_(limit) {}

    void operator()(sample<ticket<Started>>&& s, auto& emit, const context& c) {
      const struct leave {
        bool& is_in_range;

        ~leave() { is_in_range = false; }
      } leave{is_in_range_};

      Started& values = *s.value;
      report_.see(values);
      for (std::uint64_t k = 0;; ++k) {
        std::optional<output> value = next(values, emit, c);
        if (!value) return;
        is_in_range_ = true;
        check_largest(*value, limit_);
        if (!emit(sample<output>{std::move(*value), part_of(s.id, k)})) return;
      }
    }

    /// Whether it is between two generators.
    bool at_rest() const noexcept { return !is_in_range_; }

    void end_epoch() { report_.is_due(); }

    void metrics(auto& out) { report_(out); }

   private:
    static std::optional<output> next(Started& values, auto& emit, const context& c) {
      if (values.is_ready()) return values.next();
      emit.hand_over();
      const auto waiting = c.waiting();
      return values.next();
    }

    max_item_bytes limit_;
    bool is_in_range_ = false;
    flight_report report_;
  };
};

} // namespace detail

/// Calls a coroutine with each item and emits every value that it yields, such as the rows of a remote table. Up to
/// `in_flight` of them run at once on a few threads, each `ahead` values ahead.
///
/// Takes:   any item; the function is a coroutine `f(item&)` or `f(item&, async_context&)` that returns
///          async_generator<T>. The item and the context exist until the coroutine ends. Options: in_flight{256},
///          which includes coroutines that have paused; ahead{16}, threads{1}, name{…},
///          max_item_bytes{bytes}
/// Gives:   the values one by one, possibly none; if a coroutine fails, the values before the failure are emitted
/// Order:   kept
/// Throws:  as async_map
/// Stops:   as async_map; a coroutine that has paused at a co_yield is destroyed there
/// Example: `urls | async_flat_map(records_of_stream, in_flight{8}) | shuffle({.capacity = 100'000})`
template <class F, class... Options>
auto async_flat_map(F&& f, Options... options) {
  constexpr bool are_options =
      (detail::has_option<Options, name, in_flight, ahead, threads, max_item_bytes> && ...);
  static_assert(
      are_options,
      "feedline: after its function async_flat_map takes in_flight{…}, ahead{…}, threads{…}, name{…} and "
      "max_item_bytes{…}");
  static_assert(detail::each_once<Options...>,
                "feedline: one of the `Options` of async_flat_map is given twice");
  if constexpr (!are_options || !detail::each_once<Options...>) {
    return detail::refused_pipeline();
  } else {
    const detail::async_stage_options given = detail::async_options_of(options...);
    return detail::asynchronous<detail::several_results>(std::decay_t<F>(std::forward<F>(f)), given,
                                                         detail::tickets(given));
  }
}

} // namespace feedline::inline FEEDLINE_ABI
