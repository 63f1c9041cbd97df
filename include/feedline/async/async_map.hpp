// SPDX-License-Identifier: MIT
#pragma once
// async_map: emits one item for each item, made by a coroutine. Many coroutines wait at once on few threads.
#include <feedline/async/async_context.hpp>
#include <feedline/async/async_options.hpp>
#include <feedline/async/deadline.hpp>
#include <feedline/async/detail/async_stage.hpp>
#include <feedline/async/detail/completion_order.hpp>
#include <feedline/async/detail/flight.hpp>
#include <feedline/async/detail/operation.hpp>
#include <feedline/async/detail/retrying.hpp>
#include <feedline/core/contract.hpp>
#include <feedline/core/pipeline.hpp>
#include <feedline/core/retry.hpp>
#include <feedline/core/workers.hpp>
#include <feedline/stage/detail/function.hpp>

namespace feedline::inline FEEDLINE_ABI {

namespace detail {

/// Stages whose operations have one result.
struct one_result {
  static constexpr stage_traits traits{.kind = "async_map",
                                       .stateless = true,
                                       .one_to_one = true,
                                       .position_from_last_sample = true,
                                       .checkpoints_mid_call = true};

  template <class F, class In>
  using operation = detail::operation<F, In>;

  template <class F, class In>
  static consteval fit fits() {
    if constexpr (!async_callable<const F, In>) {
      return async_callable<F, In> ? fit::not_const : fit::wrong_argument;
    } else {
      if constexpr (is_awaitable<async_result_t<const F, In>>) {
        using result = awaited_t<const F, In>;
        if constexpr (std::is_void_v<result>) return fit::returns_void;
        else if constexpr (std::is_reference_v<result>) return fit::returns_reference;
        else return movable_item<result> ? fit::yes : fit::item_cannot_move;
      } else {
        return fit::refused;
      }
    }
  }

  template <class F>
  struct coroutine_check {
    static_assert(std::is_void_v<F>,
                  "feedline: the function of async_map must return an asio::awaitable, as a coroutine does");
  };

  /// Waits for the operation of each ticket and emits its result.
  template <class Started>
  class running {
   public:
    using output = typename Started::output;

    explicit running(max_item_bytes limit) : limit_(limit) {}

    void operator()(ticket<Started>&& claim, auto& emit, const context& c) {
      report_.see(*claim);
      if (!claim->is_done()) {
        emit.hand_over();
        const auto waiting = c.waiting();
        claim->wait();
      }
      output made = claim->take();
      check_largest(made, limit_);
      emit(std::move(made));
    }

    void end_epoch() { report_.is_due(); }

    void metrics(auto& out) { report_(out); }

   private:
    max_item_bytes limit_;
    flight_report report_;
  };
};

template <class F>
F with_options(F f) {
  return f;
}

/// The function with its retries and deadlines, in the order of the options.
template <class F, class Option, class... Rest>
auto with_options(F f, const Option& option, const Rest&... rest) {
  if constexpr (requires { with_option(std::move(f), option); })
    return with_options(with_option(std::move(f), option), rest...);
  else return with_options(std::move(f), rest...);
}

template <class Option>
inline constexpr bool is_async_option =
    has_option<Option, name, in_flight, threads, unordered_t, max_item_bytes, retry, feedline::deadline>;

/// Whether each option that isn't a retry or a deadline is given once.
template <class... Options>
inline constexpr bool async_options_once = (((std::is_same_v<name, Options> + ... + 0) <= 1) &&
                                            ((std::is_same_v<in_flight, Options> + ... + 0) <= 1) &&
                                            ((std::is_same_v<threads, Options> + ... + 0) <= 1) &&
                                            ((std::is_same_v<unordered_t, Options> + ... + 0) <= 1) &&
                                            ((std::is_same_v<max_item_bytes, Options> + ... + 0) <= 1));

} // namespace detail

/// Calls a coroutine with each item and emits what it returns. Up to `in_flight` of them wait at once, on a few
/// threads: for a network, a database or another service.
///
///     start ─▶ [queue] ─▶ await          the stages: one starts coroutines, the other waits for them in order
///       └─▶ event loops ─▶┘
///
/// Takes:   any item; the function is a coroutine `f(item)` or `f(item, async_context&)` that returns
///          asio::awaitable<T>. All threads call it at once, as const. The item and the context exist until the
///          coroutine ends, so it may take references to them. Options: in_flight{256}, threads{1}, unordered,
///          retry{…}, deadline{…}, name{…}, max_item_bytes{bytes}
/// Gives:   one item for each, a T
/// Order:   kept; with unordered, the order in which the coroutines end, epoch by epoch: a result that is ready then
///          goes on when the next item arrives, or at once while `in_flight` of them run
/// Throws:  std::invalid_argument for options out of range; what the coroutine throws, as a failure of its sample
/// Stops:   when the coroutines end: a stop cancels what they wait for through Asio's cancellation. A coroutine
///          that catches asio::error::operation_aborted must return soon. A take() directly downstream cancels the rest
///          at once; one after workers or another queue, when the coroutine that is waited for has ended
/// Example: `urls | async_map([](std::string url, async_context& c) { return fetch(std::move(url), c.executor); },
///          in_flight{256}, retry{.attempts = 5}) | map(decode, workers{8})`
///
/// The coroutine must not block its thread, which serves all others: see blocking(). What it starts without
/// waiting for it must not use the item or the context, and goes on while runs of the pipeline exist. What the
/// function keeps with the executor, such as open connections, stays valid between runs. metrics() show the stage as
/// two: `start` waits while enough coroutines are in flight, `async_map` waits for the next one and reports how many
/// were in flight and how long they took. An eighth more items than `in_flight` are ready to begin when one ends.
template <class F, class... Options>
auto async_map(F&& f, Options... options) {
  static_assert((detail::is_async_option<Options> && ...),
                "feedline: after its function async_map takes in_flight{…}, threads{…}, unordered, retry{…}, "
                "deadline{…}, name{…} and max_item_bytes{…}");
  static_assert(detail::async_options_once<Options...>,
                "feedline: one of the `Options` of async_map is given twice; only retry and deadline may be");
  if constexpr (!(detail::is_async_option<Options> && ...) || !detail::async_options_once<Options...>) {
    return detail::refused_pipeline();
  } else {
    const detail::async_stage_options given = detail::async_options_of(options...);
    auto whole = detail::with_options(std::decay_t<F>(std::forward<F>(f)), options...);
    const auto tickets = detail::tickets(given);
    if constexpr (detail::has_option<unordered_t, Options...>)
      return detail::asynchronous<detail::one_result>(std::move(whole), given,
                                                      tickets | detail::completion_order(given.in_flight));
    else return detail::asynchronous<detail::one_result>(std::move(whole), given, tickets);
  }
}

} // namespace feedline::inline FEEDLINE_ABI
