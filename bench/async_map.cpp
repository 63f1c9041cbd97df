// SPDX-License-Identifier: MIT
// How near does async_map come to what waiting allows? Each item waits 10 ms for a timer on one thread; the limit is the
// number in flight divided by 10 ms. The baseline is Asio alone: as many coroutines as may be in flight, each of which
// takes the next number, waits, and adds to a sum, without order, batches or failures. With a wait of 0 nothing waits:
// that is what an item costs. The last rows time a stop with a thousand items in flight that would take a minute.
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <ranges>
#include <thread>

#include <benchmark/benchmark.h>

#include <asio/awaitable.hpp>
#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <asio/use_awaitable.hpp>

#include <feedline/async/async_map.hpp>
#include <feedline/source/range.hpp>
#include <feedline/stage/batch.hpp>

namespace fl = feedline;

namespace {

/// The arguments: items, in flight, microseconds each.
void report(benchmark::State& state) {
  state.SetItemsProcessed(state.iterations() * state.range(0));
  if (state.range(2) == 0) return;
  const double ideal = static_cast<double>(state.range(0)) / static_cast<double>(state.range(1)) *
                       static_cast<double>(state.range(2)) * 1e-6;
  state.counters["of_ideal"] =
      benchmark::Counter(ideal * static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
}

void async_map(benchmark::State& state) {
  const auto items = static_cast<std::uint64_t>(state.range(0));
  const std::chrono::microseconds time(state.range(2));
  const auto p = fl::from(std::views::iota(std::uint64_t{0}, items)) |
                 fl::async_map(
                     [time](std::uint64_t i, fl::async_context& c) -> asio::awaitable<std::uint64_t> {
                       if (time.count() > 0) {
                         asio::steady_timer timer(c.executor, time);
                         co_await timer.async_wait(asio::use_awaitable);
                       }
                       co_return i;
                     },
                     fl::in_flight{static_cast<std::size_t>(state.range(1))}) |
                 fl::batch(256);
  for (auto _ : state) {
    std::uint64_t sum = 0;
    auto loader = p.finite();
    for (const auto& batch : loader)
      for (const std::uint64_t i : batch.values()) sum += i;
    if (sum != items * (items - 1) / 2) state.SkipWithError("items were lost");
  }
  report(state);
}

void asio_alone(benchmark::State& state) {
  const auto items = static_cast<std::uint64_t>(state.range(0));
  const std::chrono::microseconds time(state.range(2));
  for (auto _ : state) {
    asio::io_context io(1);
    std::uint64_t next = 0, sum = 0;
    // One coroutine for each item, as async_map has it: a chain of them for each place in flight.
    const auto one = [&](std::uint64_t i) -> asio::awaitable<void> {
      if (time.count() > 0) {
        asio::steady_timer timer(io, time);
        co_await timer.async_wait(asio::use_awaitable);
      }
      sum += i;
    };
    const auto chain = [&](const auto& self) -> void {
      if (next < items) asio::co_spawn(io, one(next++), [&](std::exception_ptr) { self(self); });
    };
    for (std::int64_t i = 0; i < state.range(1); ++i) chain(chain);
    io.run();
    if (sum != items * (items - 1) / 2) state.SkipWithError("items were lost");
  }
  report(state);
}

void stop(benchmark::State& state) {
  const auto in_flight = static_cast<std::size_t>(state.range(0));
  std::atomic<std::size_t> begun{0};
  const auto p = fl::from(std::views::iota(std::uint64_t{0}, std::uint64_t{1'000'000})) |
                 fl::async_map(
                     [&](std::uint64_t i, fl::async_context& c) -> asio::awaitable<std::uint64_t> {
                       ++begun;
                       asio::steady_timer timer(c.executor, std::chrono::minutes(1));
                       co_await timer.async_wait(asio::use_awaitable);
                       co_return i;
                     },
                     fl::in_flight{in_flight});
  for (auto _ : state) {
    begun = 0;
    std::optional loader(p.finite());
    while (begun < in_flight) std::this_thread::yield();
    const auto began = std::chrono::steady_clock::now();
    loader.reset();
    state.SetIterationTime(std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count());
  }
}

BENCHMARK(async_map)
    ->Args({300'000, 1000, 10'000})
    ->Args({30'000, 100, 10'000})
    ->Args({200'000, 1000, 0})
    ->MeasureProcessCPUTime()
    ->UseRealTime();
BENCHMARK(asio_alone)
    ->Args({300'000, 1000, 10'000})
    ->Args({30'000, 100, 10'000})
    ->Args({200'000, 1000, 0})
    ->MeasureProcessCPUTime()
    ->UseRealTime();
BENCHMARK(stop)->Arg(1000)->Arg(10)->UseManualTime()->Iterations(20);

} // namespace
