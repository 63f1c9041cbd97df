// SPDX-License-Identifier: MIT
#pragma once
// One call of an asynchronous function that gives one result.
#include <cstddef>
#include <exception>
#include <memory>
#include <optional>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include <asio/awaitable.hpp>
#include <asio/bind_cancellation_slot.hpp>
#include <asio/co_spawn.hpp>

#include <feedline/async/async_context.hpp>
#include <feedline/async/detail/async_stage.hpp>
#include <feedline/async/detail/event_loops.hpp>
#include <feedline/async/detail/flight.hpp>
#include <feedline/core/sample.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

template <class F, class In>
concept async_callable_with_item = std::is_invocable_v<F&, In>;

template <class F, class In>
concept async_callable = async_callable_with_item<F, In> || std::is_invocable_v<F&, In, async_context&>;

/// Calls f(item) or f(item, context).
template <class F, class In>
decltype(auto) call_async(F& f, In&& in, async_context& c) {
  if constexpr (async_callable_with_item<F, In>) return f(std::forward<In>(in));
  else return f(std::forward<In>(in), c);
}

template <class F, class In>
using async_result_t =
    decltype(call_async(std::declval<F&>(), std::declval<In>(), std::declval<async_context&>()));

/// Calls f(item) or f(item, context) and returns its coroutine. Throws std::logic_error if there is none.
template <class F, class In>
auto coroutine_of(F& f, In&& item, async_context& c) {
  auto made = call_async(f, std::forward<In>(item), c);
  if (!made.valid())
    throw std::logic_error("the function returned no coroutine: what it returned had been moved from");
  return made;
}

template <class T>
struct awaited;

template <class T>
struct awaited<asio::awaitable<T>> {
  using type = T;
};

template <class T>
concept is_awaitable = requires { typename awaited<T>::type; };

/// What a coroutine gives that was returned by a call of F with an item.
template <class F, class In>
using awaited_t = typename awaited<async_result_t<F, In>>::type;

template <class F, class In>
class operation final : public operation_base {
 public:
  using output = awaited_t<const F, In>;

  operation(std::shared_ptr<flight> all, event_loop& loop, const F& f, In&& item, const context& c,
            const async_stage_options&)
      : operation_base(all, loop),
        f_(f),
        item_(std::move(item)),
        context_(c, loop.executor(), all->stop_token()) {}

  static std::size_t most_ready(const async_stage_options&) noexcept { return 1; }

  /// The result, once it is done. Throws what the function threw.
  output take() {
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
    return std::move(*result_);
  }

 private:
  void launch() noexcept override {
    std::exception_ptr failed;
    try {
      throw_if_stopped();
      if constexpr (std::is_nothrow_default_constructible_v<output>) { // co_spawn makes one if the call fails
        spawn(coroutine_of(f_, std::move(item_), context_), [this](std::exception_ptr error, output result) {
          if (!error) result_.emplace(std::move(result));
          end(std::move(error));
        });
      } else {
        spawn(work(), [this](std::exception_ptr error) { end(std::move(error)); });
      }
    } catch (...) {
      failed = std::current_exception();
    }
    if (failed)
      end(std::move(failed)); // its catch clause has ended: the thread that takes it is its only owner
  }

  template <class Coroutine, class Handler>
  void spawn(Coroutine coroutine, Handler handler) {
    asio::co_spawn(loop().executor(), std::move(coroutine),
                   asio::bind_cancellation_slot(slot(), std::move(handler)));
  }

  asio::awaitable<void> work() { result_.emplace(co_await coroutine_of(f_, std::move(item_), context_)); }

  void end(std::exception_ptr error) noexcept {
    error_ = std::move(error);
    finish();
  }

  const F& f_;
  In item_;
  async_context context_;
  std::optional<output> result_;
  std::exception_ptr error_;
};

} // namespace feedline::inline FEEDLINE_ABI::detail
