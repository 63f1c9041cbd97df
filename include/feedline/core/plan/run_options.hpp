// SPDX-License-Identifier: MIT
#pragma once
// The options of a run after they were checked, of which some need a part of the library that others don't.
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <stop_token>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <feedline/core/callback.hpp>
#include <feedline/core/checkpoint.hpp>
#include <feedline/core/epoch.hpp>
#include <feedline/core/failure.hpp>
#include <feedline/core/rank.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

struct delivery;
class pipeline_run;
class run_plan;

/// The queue capacity at which the run stays within a memory_budget, `capacity` or a smaller one. Throws std::invalid_argument if
/// there is none.
std::size_t capacity_within(const run_plan& plan, std::size_t budget, std::size_t capacity);

/// The sentence for on_starved: what limits the run whose consumer waits.
std::string why_starved(delivery& at);

/// The thread of the watchdog: reports waits of the consumer until the run ends.
void watch_waits(pipeline_run& run);

/// An option that few programs set, and a function that runs only then: the others needn't compile that.
template <class Value, auto* Function>
class rare_option {
 public:
  rare_option() = default;

  rare_option(Value given) : value_(std::move(given)), function_(Function) {}

  /// For numbers the constructor above converts, and compilers warn as for a plain number.
  template <class Given>
    requires(!std::is_same_v<Given, rare_option> && !std::is_same_v<Given, Value> &&
             !std::is_arithmetic_v<Value> && std::convertible_to<Given, Value>)
  rare_option(Given given) : value_(std::move(given)), function_(Function) {}

  const Value& value() const noexcept { return value_; }

  operator const Value&() const noexcept { return value_; }

  /// Whether it is more than its default, which changes nothing: no function, or 0.
  explicit operator bool() const noexcept {
    if constexpr (std::is_constructible_v<bool, const Value&>) return static_cast<bool>(value_);
    else return value_ != Value();
  }

  /// Null if the option wasn't set.
  decltype(Function) function() const noexcept { return function_; }

 private:
  Value value_{};
  decltype(Function) function_ = nullptr;
};

struct run_options {
  static constexpr std::uint32_t for_ever = std::numeric_limits<std::uint32_t>::max();

  std::uint64_t seed;
  std::uint32_t epochs;
  std::optional<std::uint32_t> first_epoch; // as given
  std::stop_token stop;
  feedline::on_error on_error;
  std::size_t failure_limit;
  std::vector<stage_failure_limit> stage_failure_limits;
  callback<failure> on_failure;
  callback<std::string> on_notice;
  rare_option<callback<std::string>, &why_starved> on_starved;
  std::chrono::nanoseconds starved_after;
  rare_option<std::chrono::nanoseconds, &watch_waits> watchdog;
  double cpu_share;
  int nice;
  std::size_t queue_capacity;
  rare_option<std::size_t, &capacity_within> memory_budget;
  feedline::rank rank;
  std::optional<checkpoint> resume;
  bool allow_grown_data;
  bool endless = false;               // an infinite run, also of a live source, which has one epoch
  std::uint64_t old_extent = 0;       // before the data set grew,
  std::uint64_t old_extent_until = 0; // for the epochs before this one

  // Whether each epoch has its own order of shards.
  bool shuffles_shards() const noexcept { return epochs != 1 || first_epoch; }
};

/// The epoch as the source of a run receives it.
epoch make_epoch(const run_options& o, std::uint32_t number, std::stop_token stop, std::uint64_t first);

} // namespace feedline::inline FEEDLINE_ABI::detail

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_CORE)
namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE epoch make_epoch(const run_options& o, std::uint32_t number, std::stop_token stop,
                                 std::uint64_t first) {
  epoch e{o.seed, number, std::move(stop), o.shuffles_shards()};
  e.rank = o.rank;
  if (o.epochs == run_options::for_ever) e.rank.remainder = remainder::keep; // continued in the next epoch
  e.endless = o.endless;
  e.first = first;
  if (number < o.old_extent_until) e.extent = o.old_extent;
  return e;
}

} // namespace feedline::inline FEEDLINE_ABI::detail
#endif
