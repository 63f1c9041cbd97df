// SPDX-License-Identifier: MIT
#pragma once
// deadline: the longest time of an asynchronous call.
#include <chrono>
#include <exception>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>

#include <asio/associated_cancellation_slot.hpp>
#include <asio/async_result.hpp>
#include <asio/awaitable.hpp>
#include <asio/bind_cancellation_slot.hpp>
#include <asio/cancellation_signal.hpp>
#include <asio/co_spawn.hpp>
#include <asio/steady_timer.hpp>
#include <asio/use_awaitable.hpp>

#include <feedline/async/async_context.hpp>
#include <feedline/async/detail/operation.hpp>
#include <feedline/core/retry.hpp>
#include <feedline/detail/readable_text.hpp>

namespace feedline::inline FEEDLINE_ABI {

/// An option of asynchronous stages: cancels what a call waits for when it has taken that long. If it fails then, it
/// fails with deadline_error; a call that gives a result nevertheless succeeds. For the order of several options see
/// retry.
struct deadline {
  std::chrono::nanoseconds limit; ///< of one call
};

/// A call took longer than its deadline; nests the error with which it ended (std::rethrow_if_nested).
struct deadline_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

namespace detail {

inline void check_option(const feedline::deadline& d) {
  if (d.limit.count() <= 0) throw std::invalid_argument("feedline::deadline: the limit must be positive");
}

/// An asynchronous function with a deadline.
template <class F>
class with_deadline {
 public:
  with_deadline(F f, const feedline::deadline& d) : f_(std::move(f)), limit_(d.limit) { check_option(d); }

  template <class In>
    requires async_callable<const F, In>
  asio::awaitable<awaited_t<const F, In>> operator()(In&& item, async_context& c) const {
    using output = awaited_t<const F, In>;
    // The timer's function may run after this coroutine has ended.
    const auto call = std::make_shared<call_state>(c.executor, limit_);
    std::optional<output> result;
    // A coroutine of its own, so that only it is cancelled. It ends before this one continues.
    const auto work = [&]() -> asio::awaitable<void> {
      result.emplace(co_await coroutine_of(f_, std::forward<In>(item), c));
    };
    std::exception_ptr error;
    try {
      co_await asio::async_initiate<const asio::use_awaitable_t<>, void(std::exception_ptr)>(
          [&](auto&& handler) {
            if (auto slot = asio::get_associated_cancellation_slot(handler); slot.is_connected())
              slot.assign([call](asio::cancellation_type type) { call->cancel.emit(type); });
            call->timer.async_wait([call](const asio::error_code& stopped) {
              if (stopped || call->has_ended) return;
              call->has_passed = true;
              call->cancel.emit(asio::cancellation_type::terminal);
            });
            asio::co_spawn(c.executor, work(),
                           asio::bind_cancellation_slot(call->cancel.slot(), std::move(handler)));
          },
          asio::use_awaitable);
    } catch (...) {
      error = std::current_exception();
    }
    call->has_ended = true;
    call->timer.cancel();
    if (result) co_return std::move(*result);
    if (!call->has_passed || c.stop.stop_requested()) std::rethrow_exception(error);
    try {
      std::rethrow_exception(error);
    } catch (const permanent_error&) {
      throw;
    } catch (...) {
      std::throw_with_nested(deadline_error("it took longer than " + duration_text(limit_)));
    }
  }

 private:
  struct call_state {
    call_state(const async_context::executor_type& executor, std::chrono::nanoseconds limit)
        : timer(executor, std::chrono::duration_cast<asio::steady_timer::duration>(limit)) {}

    asio::steady_timer timer;
    asio::cancellation_signal cancel;
    bool has_ended = false;
    bool has_passed = false;
  };

  F f_;
  std::chrono::nanoseconds limit_;
};

template <class F>
with_deadline<F> with_option(F f, const feedline::deadline& d) {
  return {std::move(f), d};
}

} // namespace detail

} // namespace feedline::inline FEEDLINE_ABI
