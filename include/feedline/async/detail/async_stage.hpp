// SPDX-License-Identifier: MIT
#pragma once
// An asynchronous stage as two stages: one starts an operation for each item, the other waits for their results.
#include <feedline/async/async_options.hpp>
#include <feedline/async/detail/event_loops.hpp>
#include <feedline/async/detail/flight.hpp>
#include <feedline/core/contract.hpp>
#include <feedline/detail/given_size.hpp>
#include <feedline/stage/detail/function.hpp>
#include <feedline/stage/prefetch.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

struct async_stage_options {
  std::string name{};
  std::size_t in_flight = 256;
  std::size_t threads = 1;
  std::size_t ahead = 16;
  max_item_bytes limit{};
};

template <class... Options>
async_stage_options async_options_of(const Options&... given) {
  const auto check = [](std::size_t count, std::size_t limit, const char* what) {
    if (count < 1 || count > limit)
      throw std::invalid_argument("feedline::" + (what + (": " + size_text(count))) +
                                  " requested, but it must be 1 to " + std::to_string(limit));
  };
  async_stage_options all;
  all.in_flight = option_or(in_flight{all.in_flight}, given...).count;
  all.threads = option_or(threads{all.threads}, given...).count;
  all.ahead = option_or(ahead{all.ahead}, given...).count;
  all.name = option_or(feedline::name{}, given...).text;
  all.limit = option_or(max_item_bytes{}, given...);
  check(all.in_flight, in_flight::limit, "in_flight");
  check(all.threads, threads::limit, "threads");
  check(all.ahead, ahead::limit, "ahead");
  refuse_negative(all.limit.bytes, "feedline: the max_item_bytes");
  return all;
}

/// Ends the claim to an operation's results.
struct give_up {
  template <class Operation>
  void operator()(Operation* of) const noexcept {
    of->drop();
    of->release();
  }
};

/// Claims the results of one operation.
template <class Operation>
using ticket = std::unique_ptr<Operation, give_up>;

/// Starts an operation for each item and emits its ticket. `Kind` names the operation, and which functions make it:
/// `Kind::operation<F, In>`, `Kind::fits<F, In>()` and `Kind::coroutine_check<F>`.
template <class F, class Kind>
class start_stage {
  template <class In>
  using operation_for = typename Kind::template operation<F, In>;

 public:
  using feedline_part = void;
  static constexpr stage_traits traits{.kind = "start",
                                       .stateless = true,
                                       .one_to_one = true,
                                       .position_from_last_sample = true,
                                       .checkpoints_mid_call = true};

  start_stage(F f, const async_stage_options& options)
      : loops_(std::make_shared<event_loops>(options.threads)),
        f_(std::make_shared<const F>(std::move(f))),
        options_(options) {}

  const std::string& name() const { return options_.name; }

  template <class In>
  static consteval fit fits() {
    return Kind::template fits<F, In>();
  }

  /// See fit::refused.
  template <class Before, class In>
  using check_inside = typename Kind::template coroutine_check<F>;

  std::size_t items_at_once() const noexcept { return options_.in_flight; }

  /// The item, the results that are ready, and what belongs to the operation.
  template <class In>
  known_bytes bytes_given(known_bytes in) const {
    using started = operation_for<In>;
    const known_bytes result = options_.limit.bytes > 0 ? known_bytes(options_.limit.bytes)
                                                        : bytes_of_type<typename started::output>();
    return sum_of(sum_of(in, product_of(started::most_ready(options_), result)), sizeof(started));
  }

  template <class In>
  class running {
    using started = operation_for<In>;

   public:
    using output = ticket<started>;

    void operator()(In&& in, auto& emit, context& c) {
      output claim(
          new started(session_->operations(), session_->next_loop(), *f_, std::move(in), c, options_));
      session_->operations()->start(*claim, c, [&] { emit.hand_over(); });
      emit(std::move(claim));
    }

   private:
    friend start_stage;

    running(std::shared_ptr<const F> f, std::unique_ptr<flight_session> session,
            const async_stage_options& options)
        : f_(std::move(f)), session_(std::move(session)), options_(options) {}

    std::shared_ptr<const F> f_;
    std::unique_ptr<flight_session> session_;
    async_stage_options options_;
  };

  template <class In>
    requires(start_stage::template fits<In>() == fit::yes)
  running<In> bind(const stage_info& info) const {
    return {f_, std::make_unique<flight_session>(loops_, options_.in_flight, info.stop), options_};
  }

 private:
  std::shared_ptr<event_loops> loops_; // before the function, which may keep sockets of theirs
  std::shared_ptr<const F> f_;         // one function for all copies of the stage; it may be move-only
  async_stage_options options_;
};

/// Waits for the operations and emits their results: `Kind::running<Started>` does, with the traits of `Kind`.
template <class Kind>
class await_stage {
 public:
  using feedline_part = void;
  static constexpr stage_traits traits = Kind::traits;

  explicit await_stage(const async_stage_options& options) : options_(options) {}

  const std::string& name() const { return options_.name; }

  std::size_t items_at_once() const noexcept { return options_.in_flight; }

  template <class Ticket>
  known_bytes bytes_given(known_bytes) const {
    if (options_.limit.bytes > 0) return options_.limit.bytes;
    return bytes_of_type<stage_output_t<await_stage, Ticket>>();
  }

  template <class Ticket>
  auto bind(const stage_info&) const {
    return typename Kind::template running<typename Ticket::element_type>(options_.limit);
  }

 private:
  async_stage_options options_;
};

/// The queue of tickets: has room for those in flight and those that are due.
inline auto tickets(const async_stage_options& options) {
  return prefetch(options.in_flight + flight::most_due(options.in_flight));
}

/// Two stages and the queue between them are one asynchronous stage:
///
///     start ─▶ [queue of tickets] ─▶ … ─▶ await
///       └─▶ event loops ──▶ results ──────▶┘
///
/// The queue keeps the order and bounds what is ready. All else that a run promises follows from what it does for any
/// two stages. Before one of them waits it hands over what it has, so that nothing that is ready waits for the next
/// item, which may take long. `between`: what follows the queue.
template <class Kind, class F, class Between>
auto asynchronous(F f, const async_stage_options& options, const Between& between) {
  return start_stage<F, Kind>(std::move(f), options) | between | await_stage<Kind>(options);
}

} // namespace feedline::inline FEEDLINE_ABI::detail
