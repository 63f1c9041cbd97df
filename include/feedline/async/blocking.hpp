// SPDX-License-Identifier: MIT
#pragma once
// blocking: lets a coroutine wait for a function that blocks its thread.
#include <atomic>
#include <cstddef>
#include <exception>
#include <latch>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include <asio/associated_cancellation_slot.hpp>
#include <asio/associated_executor.hpp>
#include <asio/async_result.hpp>
#include <asio/awaitable.hpp>
#include <asio/error.hpp>
#include <asio/post.hpp>
#include <asio/system_error.hpp>
#include <asio/thread_pool.hpp>
#include <asio/use_awaitable.hpp>

#include <feedline/async/async_options.hpp>
#include <feedline/detail/given_size.hpp>

namespace feedline::inline FEEDLINE_ABI {

namespace detail {

/// A function and the threads on which it may block; copies share both.
template <class F>
class blocking_function {
 public:
  blocking_function(F f, std::size_t threads) : shared_(std::make_shared<state>(std::move(f), threads)) {}

  template <class... Arguments>
    requires std::is_invocable_v<const F&, Arguments...>
  asio::awaitable<std::invoke_result_t<const F&, Arguments...>> operator()(Arguments... arguments) const {
    return call(shared_, std::move(arguments)...);
  }

 private:
  struct state {
    state(F function, std::size_t threads) : f(std::move(function)), pool(threads) {}

    F f;
    asio::thread_pool pool; // last: its threads use the function until it is destroyed
  };

  template <class Result>
  struct outcome {
    template <class Call>
    void set(const Call& of) {
      value.emplace(of());
    }

    Result get() { return std::move(*value); }

    std::optional<Result> value{};
  };

  template <class Result>
    requires std::is_void_v<Result>
  struct outcome<Result> {
    template <class Call>
    void set(const Call& of) {
      of();
    }

    void get() {}
  };

  /// What the coroutine and the thread of a call share.
  template <class Result>
  struct job {
    outcome<Result> result;
    std::exception_ptr error;
    std::atomic<bool> is_cancelled{false};
    std::latch has_left{1}; // the thread doesn't use the coroutine's event loop any more
  };

  // A coroutine that shares the function, which may therefore be destroyed first.
  template <class... Arguments>
  static asio::awaitable<std::invoke_result_t<const F&, Arguments...>> call(std::shared_ptr<state> shared,
                                                                            Arguments... arguments) {
    using result_type = std::invoke_result_t<const F&, Arguments...>;
    static_assert(!std::is_reference_v<result_type>,
                  "feedline: the function of blocking returns a reference, which may dangle: return a value");
    const auto work = std::make_shared<job<result_type>>();
    co_await asio::async_initiate<const asio::use_awaitable_t<>, void()>(
        [&](auto&& handler) {
          if (auto slot = asio::get_associated_cancellation_slot(handler); slot.is_connected())
            slot.assign([work](asio::cancellation_type) { work->is_cancelled = true; });
          asio::post(shared->pool, [&shared, &arguments..., work, done = std::move(handler)]() mutable {
            try {
              if (work->is_cancelled) throw asio::system_error(asio::error::operation_aborted);
              work->result.set([&] { return std::as_const(shared->f)(std::move(arguments)...); });
            } catch (...) {
              work->error = std::current_exception();
            }
            const auto executor = asio::get_associated_executor(done);
            asio::post(executor, std::move(done)); // the coroutine goes on there
            work->has_left.count_down();
          });
        },
        asio::use_awaitable);
    work->has_left.wait(); // a moment: after it the event loop may be destroyed
    if (work->error) std::rethrow_exception(std::move(work->error));
    co_return work->result.get();
  }

  std::shared_ptr<state> shared_;
};

} // namespace detail

/// Makes an awaitable function of one that blocks, such as a client of a database. It runs on threads of its own, so
/// that the coroutine that waits for it doesn't block the event loop.
///
///     auto read = blocking(read_row, threads{8});
///     … | async_map([read](std::uint64_t row) { return read(row); }, in_flight{64})
///
/// Takes:   a function, called as const on all threads at once; arguments are copied or moved to it
/// Gives:   a function with the same arguments that returns asio::awaitable of its result. Copies share its threads,
///          which end with the last copy
/// Throws:  std::invalid_argument unless the number of threads is from 1 to 256; what the function throws where the
///          result is awaited
/// Stops:   calls that wait for a thread are cancelled when it is their turn; those that run are waited for
template <class F>
auto blocking(F f, threads t) {
  if (t.count < 1 || t.count > threads::limit)
    throw std::invalid_argument("feedline::blocking: " + detail::size_text(t.count) +
                                " threads requested, but it must be 1 to " + std::to_string(threads::limit));
  return detail::blocking_function<F>(std::move(f), t.count);
}

} // namespace feedline::inline FEEDLINE_ABI
