// SPDX-License-Identifier: MIT
#pragma once
// async_source: a source whose samples a coroutine yields.
#include <feedline/async/async_context.hpp>
#include <feedline/async/async_generator.hpp>
#include <feedline/async/async_options.hpp>
#include <feedline/async/detail/async_stage.hpp>
#include <feedline/async/detail/event_loops.hpp>
#include <feedline/async/detail/flight.hpp>
#include <feedline/async/detail/operation.hpp>
#include <feedline/async/detail/stream.hpp>
#include <feedline/core/contract.hpp>
#include <feedline/core/pipeline.hpp>
#include <feedline/stage/detail/function.hpp>

namespace feedline::inline FEEDLINE_ABI {

namespace detail {

template <class F>
class coroutine_source {
  using values = stream<F, epoch>;

 public:
  static constexpr source_traits traits{.kind = "async_source"};

  coroutine_source(F f, const async_stage_options& options)
      : loops_(std::make_shared<event_loops>(options.threads)),
        f_(std::make_shared<const F>(std::move(f))),
        options_(options) {}

  coroutine_source(const coroutine_source& described)
      : loops_(described.loops_), f_(described.f_), options_(described.options_) {}

  coroutine_source(coroutine_source&&) noexcept = default;

  coroutine_source& operator=(coroutine_source&& other) noexcept {
    std::swap(loops_, other.loops_);
    std::swap(f_, other.f_);
    std::swap(options_, other.options_);
    std::swap(stop_, other.stop_);
    std::swap(session_, other.session_);
    running_.swap(other.running_);
    return *this;
  }

  void start_epoch(const epoch& e) {
    end();
    stop_ = e.stop;
    session_ = std::make_unique<flight_session>(loops_, 1, e.stop);
    const context c = make_context({.epoch = e.number}, key(e.seed), stop_);
    running_.reset(new values(session_->operations(), session_->next_loop(), *f_, epoch(e), c, options_));
    session_->operations()->start(*running_, c, [] {});
  }

  auto next() -> std::optional<typename values::output> {
    auto value = running_->next();
    if (value) check_largest(*value, options_.limit);
    return value;
  }

  bool ready() const { return running_->is_ready(); }

  std::optional<std::size_t> max_item_bytes() const noexcept {
    return options_.limit.bytes > 0 ? std::optional(options_.limit.bytes) : std::nullopt;
  }

  /// The values that wait to be taken.
  std::size_t items_held() const noexcept { return options_.ahead; }

  ~coroutine_source() { end(); }

 private:
  void end() {
    running_.reset(); // cancels it
    session_.reset(); // waits for its end
  }

  std::shared_ptr<event_loops> loops_; // before the function, which may keep sockets of theirs
  std::shared_ptr<const F> f_;
  async_stage_options options_;
  std::stop_token stop_;
  std::unique_ptr<flight_session> session_;
  ticket<values> running_;
};

} // namespace detail

/// Yields the values of a coroutine that runs on an event loop of its own, up to `ahead` values ahead.
///
///     async_source([](const epoch& e, async_context& c) -> async_generator<row> { … co_yield row; … })
///
/// Takes:   a function `f(epoch)` or `f(epoch, async_context&)` that returns async_generator<T> and yields the same
///          values for the same epoch; it is called for each epoch. Options: ahead{16}, max_item_bytes{bytes}
/// Gives:   the values; a sample's index is its position
/// Order:   that in which they are yielded
/// Throws:  what the coroutine throws, after the values before it; the epoch then ends
/// Stops:   when the coroutine ends: a stop cancels what it waits for, or destroys it at its co_yield
///
/// A resumed run reads the epoch again from its beginning.
template <class F, class... Options>
auto async_source(F f, Options... options) {
  constexpr bool are_options = (detail::has_option<Options, ahead, max_item_bytes> && ...);
  constexpr bool is_coroutine = [] {
    if constexpr (detail::async_callable<const F, epoch&>)
      return detail::is_generator<detail::async_result_t<const F, epoch&>>;
    else return false;
  }();
  static_assert(are_options,
                "feedline: after its function async_source takes ahead{…} and max_item_bytes{…}");
  static_assert(detail::each_once<Options...>,
                "feedline: one of the `Options` of async_source is given twice");
  static_assert(is_coroutine, "feedline: the function of async_source is f(epoch) or f(epoch, "
                              "async_context&), callable as const, and "
                              "returns a feedline::async_generator, as a coroutine with co_yield does");
  if constexpr (!are_options || !is_coroutine || !detail::each_once<Options...>)
    return detail::refused_pipeline();
  else
    return detail::as_pipeline(
        detail::coroutine_source<F>(std::move(f), detail::async_options_of(options...)));
}

} // namespace feedline::inline FEEDLINE_ABI
