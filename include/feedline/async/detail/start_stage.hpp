// SPDX-License-Identifier: MIT
#pragma once
// The first half of an asynchronous stage: starts an operation for each item.
#include <algorithm>
#include <cstddef>
#include <memory>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include <feedline/async/async_options.hpp>
#include <feedline/async/detail/event_loops.hpp>
#include <feedline/async/detail/flight.hpp>
#include <feedline/core/item_bytes.hpp>
#include <feedline/core/memory_plan.hpp>
#include <feedline/core/pipeline.hpp>
#include <feedline/core/sample.hpp>
#include <feedline/core/stage.hpp>
#include <feedline/detail/given_size.hpp>
#include <feedline/stage/detail/function.hpp>
#include <feedline/stage/prefetch.hpp>

namespace feedline::inline v0::detail {

struct async_stage_options {
  std::string name{};
  std::size_t in_flight = 256;
  std::size_t threads = 1;
  std::size_t ahead = 16;
  max_item_bytes limit{};
};

template <class... Options>
async_stage_options async_options_of(const std::tuple<Options...>& given) {
  const auto check = [](std::size_t count, std::size_t limit, const char* what) {
    if (count < 1 || count > limit)
      throw std::invalid_argument("feedline::" + (what + (": " + size_text(count))) +
                                  " requested, but it must be 1 to " + std::to_string(limit));
  };
  async_stage_options all;
  if constexpr (has_option<in_flight, Options...>) all.in_flight = std::get<in_flight>(given).count;
  if constexpr (has_option<threads, Options...>) all.threads = std::get<threads>(given).count;
  if constexpr (has_option<ahead, Options...>) all.ahead = std::get<ahead>(given).count;
  if constexpr (has_option<name, Options...>) all.name = std::get<name>(given).text;
  if constexpr (has_option<max_item_bytes, Options...>) all.limit = std::get<max_item_bytes>(given);
  check(all.in_flight, in_flight::limit, "in_flight");
  check(all.threads, threads::limit, "threads");
  check(all.ahead, ahead::limit, "ahead");
  refuse_negative(all.limit.bytes, "feedline: the max_item_bytes");
  return all;
}

/// Claims the results of one operation.
template <class Operation>
class ticket {
 public:
  explicit ticket(Operation& of) noexcept : of_(&of) {}

  ticket(ticket&& other) noexcept : of_(std::exchange(other.of_, nullptr)) {}

  ticket& operator=(ticket&& other) noexcept {
    std::swap(of_, other.of_);
    return *this;
  }

  ~ticket() {
    if (!of_) return;
    of_->drop();
    of_->release();
  }

  Operation& operator*() const noexcept { return *of_; }

  Operation* operator->() const noexcept { return of_; }

 private:
  Operation* of_;
};

/// Two stages and the queue between them are one asynchronous stage: the first starts operations, the second waits
/// for their results.
///
///     start ─▶ [queue of tickets] ─▶ await ─▶ [queue of results]
///       └─▶ event loops ──▶ results ──▶┘
///
/// The first queue keeps the order and bounds what is ready. All else that a run promises follows from what it does for
/// any two stages.
///
/// This one starts an operation for each item and emits its ticket. Kind: the operation, and which functions make it.
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
          *new started(session_->operations(), session_->next_loop(), *f_, std::move(in), c, options_));
      session_->operations()->start(*claim, c);
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
    const std::size_t limit = std::max(options_.in_flight, Kind::least_in_flight);
    return {f_, std::make_unique<flight_session>(loops_, limit, info.stop), options_};
  }

 private:
  std::shared_ptr<event_loops> loops_; // before the function, which may keep sockets of theirs
  std::shared_ptr<const F> f_;         // one function for all copies of the stage; it may be move-only
  async_stage_options options_;
};

/// The whole asynchronous stage. Each result crosses the second queue by itself, so that none waits for the next one,
/// which may take long.
template <class Start, class Await>
auto asynchronous(Start start, Await await, const async_stage_options& options) {
  constexpr std::size_t results = 64;
  return std::move(start) | prefetch(options.in_flight) | std::move(await) | prefetch(results);
}

} // namespace feedline::inline v0::detail
