// SPDX-License-Identifier: MIT
#pragma once
// async_generator: a coroutine that yields several values and may wait in between.
#include <concepts>
#include <coroutine>
#include <exception>
#include <optional>
#include <type_traits>
#include <utility>

#include <asio/awaitable.hpp>
#include <asio/bind_cancellation_slot.hpp>
#include <asio/cancellation_signal.hpp>
#include <asio/co_spawn.hpp>
#include <asio/error.hpp>
#include <asio/system_error.hpp>

#include <feedline/async/async_context.hpp>

namespace feedline::inline FEEDLINE_ABI {

template <class T>
class async_generator;

namespace detail {

/// Who runs a generator.
template <class T>
class generator_owner {
 public:
  generator_owner(const generator_owner&) = delete;

  /// Takes a value. False: the generator is to pause until the owner resumes it.
  virtual bool take(T&& value) = 0;

  /// The generator has ended. The owner may destroy it.
  virtual void ended(std::exception_ptr error) noexcept = 0;

  virtual async_context::executor_type executor() noexcept = 0;
  virtual asio::cancellation_slot slot() noexcept = 0;
  virtual bool is_cancelled() const noexcept = 0;

 protected:
  generator_owner() = default;
  ~generator_owner() = default;
};

/// A wait of a generator for what an awaitable gives.
template <class T, class Owner>
class generator_wait {
  static constexpr bool gives_value = !std::is_void_v<T>;

 public:
  generator_wait(asio::awaitable<T> what, Owner& owner) : what_(std::move(what)), owner_(owner) {}

  bool await_ready() const {
    if (owner_.is_cancelled()) throw asio::system_error(asio::error::operation_aborted);
    return false;
  }

  void await_suspend(std::coroutine_handle<> generator) {
    asio::co_spawn(owner_.executor(), wait(),
                   asio::bind_cancellation_slot(owner_.slot(), [this, generator](std::exception_ptr error) {
                     error_ = std::move(error);
                     generator.resume();
                   }));
  }

  T await_resume() {
    if (error_) std::rethrow_exception(std::move(error_));
    if constexpr (gives_value) return std::move(*result_);
  }

 private:
  asio::awaitable<void> wait() {
    if constexpr (gives_value) result_.emplace(co_await std::move(what_));
    else co_await std::move(what_);
  }

  asio::awaitable<T> what_;
  Owner& owner_;
  std::optional<std::conditional_t<gives_value, T, char>> result_;
  std::exception_ptr error_;
};

template <class T>
class generator_promise {
  using handle = std::coroutine_handle<generator_promise>;

  struct pause {
    bool continues;

    bool await_ready() const noexcept { return continues; }

    void await_suspend(std::coroutine_handle<>) const noexcept {}

    void await_resume() const noexcept {}
  };

  struct end {
    bool await_ready() const noexcept { return false; }

    void await_suspend(handle generator) const noexcept {
      generator_promise& p = generator.promise();
      p.owner->ended(std::move(p.error_));
    }

    void await_resume() const noexcept {}
  };

 public:
  async_generator<T> get_return_object() { return async_generator<T>(handle::from_promise(*this)); }

  std::suspend_always initial_suspend() const noexcept { return {}; }

  end final_suspend() const noexcept { return {}; }

  void return_void() const noexcept {}

  void unhandled_exception() noexcept { error_ = std::current_exception(); }

  pause yield_value(T&& value) {
    if (owner->is_cancelled()) throw asio::system_error(asio::error::operation_aborted);
    return {owner->take(std::move(value))};
  }

  pause yield_value(const T& value)
    requires std::copy_constructible<T>
  {
    return yield_value(T(value));
  }

  template <class Result, class Executor>
  auto await_transform(asio::awaitable<Result, Executor> what) {
    return generator_wait<Result, generator_owner<T>>(std::move(what), *owner);
  }

  generator_owner<T>* owner = nullptr; // set before it starts

 private:
  std::exception_ptr error_;
};

} // namespace detail

/// What a coroutine returns that yields values of type T with co_yield, for async_flat_map() and async_source(). In
/// between it may `co_await` everything that gives an asio::awaitable, such as operations with asio::use_awaitable.
/// It pauses at a co_yield while enough values wait to be taken. When nobody wants more, what it waits for is
/// cancelled, or it is destroyed at its co_yield. For its executor it uses that of the context.
///
///     fl::async_generator<row> rows(std::string query, fl::async_context& c) {
///       connection db = co_await connect(c.executor);
///       for (auto cursor = co_await db.run(query); auto r = co_await cursor.next();) co_yield std::move(*r);
///     }
template <class T>
class async_generator {
 public:
  using value_type = T;
  using promise_type = detail::generator_promise<T>; ///< what the compiler asks for

  /// The other one is left without a coroutine.
  async_generator(async_generator&& other) noexcept : coroutine_(std::exchange(other.coroutine_, nullptr)) {}

  /// Swaps the two coroutines.
  async_generator& operator=(async_generator&& other) noexcept {
    std::swap(coroutine_, other.coroutine_);
    return *this;
  }

  ~async_generator() {
    if (coroutine_) coroutine_.destroy();
  }

  /// Whether it has a coroutine: not if it was moved from.
  bool valid() const noexcept { return coroutine_ != nullptr; }

  /// For the library: runs it until its first pause or its end.
  void start(detail::generator_owner<T>& owner) {
    coroutine_.promise().owner = &owner;
    coroutine_.resume();
  }

  /// For the library: runs it from one pause to the next one or its end.
  void resume() { coroutine_.resume(); }

 private:
  friend promise_type;

  explicit async_generator(std::coroutine_handle<promise_type> coroutine) : coroutine_(coroutine) {}

  std::coroutine_handle<promise_type> coroutine_;
};

} // namespace feedline::inline FEEDLINE_ABI
