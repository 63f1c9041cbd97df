// SPDX-License-Identifier: MIT
// At how many workers does a run stop growing, and what stops it? simulated_run.hpp predicts that for machines with a
// processor for each thread: for a source's thread, workers and a thread downstream that restores the order and makes
// batches; and for workers that take their samples themselves. The library's own rules choose the sizes of packets and
// queues, and the costs of the steps are measured here; only a cache line that another processor wrote is assumed to take
// 100 ns, as between the chips of a large machine. The last column has the part of the ideal rate that each number of
// workers reaches. Real runs show how far predictions for this machine are off: of workers that compute, and of workers
// that sleep.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <latch>
#include <mutex>
#include <optional>
#include <ranges>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <benchmark/benchmark.h>
#include <feedline/detail/block_cache.hpp>
#include <feedline/feedline.hpp>

#include "simulated_run.hpp"

namespace fl = feedline;
namespace fd = fl::detail;

namespace {

/// What an attempt takes that nothing disturbs: one in ten of these was faster.
double undisturbed(std::vector<double> all) {
  std::ranges::sort(all);
  return all[all.size() / 10];
}

double seconds_since(std::uint64_t began) { return static_cast<double>(fd::now_ns() - began) * 1e-9; }

/// The ns of one of the `times` things that a call does.
template <class F>
double ns_of(double times, F call) {
  std::vector<double> all;
  for (int i = 0; i < 20; ++i) {
    const std::uint64_t began = fd::now_ns();
    call();
    all.push_back(seconds_since(began) * 1e9 / times);
  }
  return undisturbed(all);
}

/// The same if several threads make the call at once.
template <class F>
double ns_on_threads(std::size_t threads, double times, F call) {
  return ns_of(static_cast<double>(threads) * times, [&] {
    std::vector<std::jthread> all;
    for (std::size_t t = 0; t < threads; ++t) all.emplace_back(call);
  });
}

/// Two threads write a number in turns.
double line_ns() {
  constexpr std::uint32_t turns = 200'000, timed = 500;
  std::atomic<std::uint32_t> number{0};
  const auto write = [&](std::uint32_t i) {
    while (number.load(std::memory_order_acquire) != i) fd::spin_pause();
    number.fetch_add(1);
  };
  const std::jthread other([&] {
    for (std::uint32_t i = 1; i < turns; i += 2) write(i);
  });
  std::vector<double> all;
  for (std::uint32_t i = 0; i < turns;) {
    const std::uint64_t began = fd::now_ns();
    for (const std::uint32_t end = i + timed; i < end; i += 2) write(i);
    all.push_back(seconds_since(began) * 1e9 / timed);
  }
  return undisturbed(all);
}

double lock_ns(std::size_t threads) {
  constexpr int times = 20'000;
  std::mutex mutex;
  std::uint64_t number = 0;
  return ns_on_threads(threads, times, [&] {
    for (int i = 0; i < times; ++i) {
      const std::lock_guard lock(mutex);
      benchmark::DoNotOptimize(++number);
    }
  });
}

double block_ns(std::size_t threads) {
  constexpr int times = 10'000;
  fd::block_cache& cache = fd::block_cache::of_process();
  return ns_on_threads(threads, times, [&] {
    for (int i = 0; i < times; ++i) cache.deallocate(cache.allocate(1 << 16));
  });
}

/// The time of a call that wakes a thread, and the time until that thread runs.
std::pair<double, double> wake_ns() {
  constexpr std::uint32_t times = 200;
  std::atomic<std::uint32_t> word{0};
  std::atomic<std::uint64_t> awake_at{0};
  const std::jthread sleeper([&] {
    for (std::uint32_t i = 0; i < times; ++i) {
      while (word.load() == i) fd::park(word, i);
      awake_at.store(fd::now_ns());
    }
  });
  std::vector<double> calls, ways;
  for (std::uint32_t i = 0; i < times; ++i) {
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    awake_at.store(0);
    const std::uint64_t began = fd::now_ns();
    word.fetch_add(1);
    fd::unpark(word, 1);
    calls.push_back(seconds_since(began) * 1e9);
    while (awake_at.load() == 0) fd::spin_pause();
    ways.push_back(static_cast<double>(awake_at.load() - began));
  }
  return {undisturbed(calls), undisturbed(ways)};
}

fd::packet_ptr new_packet(std::size_t room) { return fd::packet::make<std::uint64_t>(room); }

/// One thread pushes a packet and pops it.
template <fd::transport Transport>
double packet_ns() {
  constexpr int times = 1000;
  const auto queue = make_queue<Transport>({10, 64}, 4);
  fd::thread_counters thread(1);
  std::uint64_t sequence = 0;
  return ns_of(times, [&] {
    for (int i = 0; i < times; ++i) {
      fd::packet_ptr p = queue->spare(&new_packet, 1);
      p->sequence = sequence++;
      queue->push(std::move(p), thread);
      queue->recycle(queue->pop(thread, [] {}));
    }
  });
}

/// A used packet is returned and taken again, after `others` threads have each returned one.
double used_packet_ns(std::size_t others) {
  constexpr int times = 1000;
  const auto queue = make_queue<fd::transport::spread>({4096, 64}, 1);
  std::latch returned(static_cast<std::ptrdiff_t>(others)), end(1);
  std::vector<std::jthread> threads;
  queue->recycle(queue->spare(&new_packet, 64));
  for (std::size_t i = 0; i < others; ++i)
    threads.emplace_back([&] {
      queue->recycle(new_packet(64));
      returned.count_down();
      end.wait();
    });
  returned.wait();
  std::vector<fd::packet_ptr> taken;
  for (std::size_t i = 0; i < others; ++i) taken.push_back(queue->spare(&new_packet, 1));
  const double ns = ns_of(times, [&] {
    for (int i = 0; i < times; ++i) queue->recycle(queue->spare(&new_packet, 1));
  });
  end.count_down();
  return ns;
}

struct sleeping {
  std::uint64_t operator()(std::uint64_t n) const { return std::this_thread::sleep_for(time), n; }

  std::chrono::microseconds time;
};

struct computing {
  std::uint64_t operator()(std::uint64_t x) const {
    for (std::uint64_t i = 0; i < rounds; ++i) x = (x ^ (x >> 29)) * 0xbf58476d1ce4e5b9;
    return x;
  }

  std::uint64_t rounds;
};

template <class Work>
auto from_source(Work work, std::size_t workers) {
  return fl::generate([n = std::uint64_t{0}]() mutable { return std::optional(n++); }) |
         fl::map(work, fl::workers{workers}) | fl::batch(64);
}

template <class Work>
auto by_place(Work work, std::size_t workers) {
  return fl::from(std::views::iota(std::uint64_t{0}, std::uint64_t{1} << 40)) | fl::global_shuffle() |
         fl::map(work, fl::workers{workers}) | fl::batch(64);
}

/// Takes batches for some seconds; returns the items per second.
template <class Loader>
double take_for(Loader& loader, double seconds) {
  double items = 0;
  const std::uint64_t began = fd::now_ns();
  while (seconds_since(began) < seconds) items += static_cast<double>(loader.next().value().size());
  return items / seconds_since(began);
}

/// The processor time for an item without work, by the segments of a run.
template <class Pipeline>
std::array<double, 3> item_ns(const Pipeline& without_work) {
  std::array<std::vector<double>, 3> all;
  for (int times = 0; times < 10; ++times) {
    auto loader = without_work.infinite();
    take_for(loader, 0.05);
    const fl::interval_metrics m = loader.metrics().total;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const std::size_t absent = all.size() - m.segments.size(); // the source's thread
      const fl::worker_metrics threads = i < absent ? fl::worker_metrics() : m.segments[i - absent].sum();
      all[i].push_back(std::max(0.0, threads.busy - threads.preempted) * 1e9 /
                       static_cast<double>(m.queues.back().taken * 64));
    }
  }
  return {undisturbed(all[0]), undisturbed(all[1]), undisturbed(all[2])};
}

const step_costs& costs() {
  static const step_costs measured = [] {
    const auto [wake_call, until_awake] = wake_ns();
    const auto clock = [] {
      for (int i = 0; i < 1000; ++i) benchmark::DoNotOptimize(fd::now_ns());
    };
    const auto pauses = [] {
      for (int i = 0; i < 1000; ++i) fd::spin_pause();
    };
    return step_costs{line_ns(),
                      lock_ns(1),
                      wake_call,
                      until_awake,
                      ns_of(1000, clock),
                      ns_of(1000, pauses),
                      packet_ns<fd::transport::spread>(),
                      packet_ns<fd::transport::ordered>(),
                      item_ns(from_source(computing{0}, 1)),
                      item_ns(by_place(computing{0}, 1))};
  }();
  return measured;
}

double round_ns() {
  static const double ns = ns_of(
      100'000, [x = std::uint64_t{1}]() mutable { benchmark::DoNotOptimize(x = computing{100'000}(x)); });
  return ns;
}

void report_ns(benchmark::State& state, double ns) {
  for (auto _ : state) state.SetIterationTime(ns * 1e-9);
}

void report_rate(benchmark::State& state, double items_per_second) {
  for (auto _ : state) state.SetIterationTime(1);
  state.counters["items_per_second"] = items_per_second;
}

run_load load_of(const benchmark::State& state, bool by_place = false) {
  const double ns = 1000 * static_cast<double>(state.range(1));
  return {static_cast<std::size_t>(state.range(0)), ns, ns, by_place};
}

/// With what a sleep takes on as many bare threads.
run_load sleeping_load_of(const benchmark::State& state) {
  run_load load = load_of(state);
  const double sleeps = 1 + 200e6 / load.work_ns;
  const sleeping sleep{std::chrono::microseconds(state.range(1))};
  const std::uint64_t used = fd::ns_of_clock(CLOCK_PROCESS_CPUTIME_ID), began = fd::now_ns();
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < load.workers; ++i)
      threads.emplace_back([&] {
        for (int n = 0; n < sleeps; ++n) sleep(0);
      });
  }
  load.work_ns = seconds_since(began) * 1e9 / std::ceil(sleeps);
  load.cpu_ns = static_cast<double>(fd::ns_of_clock(CLOCK_PROCESS_CPUTIME_ID) - used) /
                (std::ceil(sleeps) * static_cast<double>(load.workers));
  return load;
}

/// Reports the rate of 256 workers, and which part of the ideal rate each number of workers reaches.
void predicted(benchmark::State& state, bool by_place) {
  step_costs there = costs();
  there.line = std::max(there.line, 100.0);
  const double work_ns = 1000 * static_cast<double>(state.range(0));
  std::string all;
  for (const std::size_t workers : {1u, 4u, 16u, 64u, 128u, 256u, 512u, 1024u}) {
    const run_outcome o = simulated_run({workers, work_ns, work_ns, by_place}, there).run();
    if (workers == 256) report_rate(state, 1e9 * o.items / o.ns);
    const double part = o.items / o.ns * work_ns / static_cast<double>(workers);
    all += (all.empty() ? "" : "; ") + std::to_string(workers) + ": " +
           std::to_string(std::lround(100 * part)) + "%";
    if (part < 0.9 && o.limit != run_outcome::by_work) all += " (" + std::string(o.limit) + ")";
  }
  state.SetLabel(all);
}

void predicted_here(benchmark::State& state, const run_load& load) {
  report_rate(state, simulated_run(load, costs()).run().rate(static_cast<double>(fl::processors())));
}

template <class Pipeline>
void measured_here(benchmark::State& state, const Pipeline& pipeline) {
  const double each = 4e-6 * static_cast<double>(state.range(1)); // for some rounds of the workers
  auto loader = pipeline.infinite();
  take_for(loader, 0.1 + each);
  report_rate(state, take_for(loader, 0.4 + each));
}

computing work_of(const benchmark::State& state) {
  return {static_cast<std::uint64_t>(1000 * static_cast<double>(state.range(1)) / round_ns())};
}

std::size_t workers_of(const benchmark::State& state) { return static_cast<std::size_t>(state.range(0)); }

void cache_line(benchmark::State& state) { report_ns(state, line_ns()); }

void lock(benchmark::State& state) { report_ns(state, lock_ns(workers_of(state))); }

void block(benchmark::State& state) { report_ns(state, block_ns(workers_of(state))); }

void wake_call(benchmark::State& state) { report_ns(state, wake_ns().first); }

void until_awake(benchmark::State& state) { report_ns(state, wake_ns().second); }

void packet_to_workers(benchmark::State& state) { report_ns(state, packet_ns<fd::transport::spread>()); }

void packet_from_workers(benchmark::State& state) { report_ns(state, packet_ns<fd::transport::ordered>()); }

void used_packet(benchmark::State& state) { report_ns(state, used_packet_ns(workers_of(state))); }

void predicted_from_source(benchmark::State& state) { predicted(state, false); }

void predicted_by_place(benchmark::State& state) { predicted(state, true); }

void computing_predicted(benchmark::State& state) { predicted_here(state, load_of(state)); }

void computing_measured(benchmark::State& state) {
  measured_here(state, from_source(work_of(state), workers_of(state)));
}

void places_predicted(benchmark::State& state) { predicted_here(state, load_of(state, true)); }

void places_measured(benchmark::State& state) {
  measured_here(state, by_place(work_of(state), workers_of(state)));
}

void waiting_predicted(benchmark::State& state) { predicted_here(state, sleeping_load_of(state)); }

void waiting_measured(benchmark::State& state) {
  measured_here(state, from_source(sleeping{std::chrono::microseconds(state.range(1))}, workers_of(state)));
}

void once(benchmark::internal::Benchmark* b) { b->UseManualTime()->Iterations(1); }

void on_one_and_two(benchmark::internal::Benchmark* b) { b->Arg(1)->Arg(2)->ArgName("threads")->Apply(once); }

void matrix(benchmark::internal::Benchmark* b, const std::vector<std::int64_t>& workers,
            const std::vector<std::int64_t>& microseconds) {
  b->ArgsProduct({workers, microseconds})->ArgNames({"workers", "us"})->Apply(once);
}

void of_work(benchmark::internal::Benchmark* b) {
  b->Arg(1)->Arg(10)->Arg(100)->Arg(1000)->Arg(10'000)->ArgName("us")->Apply(once);
}

void on_few(benchmark::internal::Benchmark* b) { matrix(b, {1, 2}, {1, 10, 100, 1000}); }

void asleep(benchmark::internal::Benchmark* b) { matrix(b, {64, 256}, {1000, 10'000}); }

BENCHMARK(cache_line)->Apply(once);
BENCHMARK(lock)->Apply(on_one_and_two);
BENCHMARK(block)->Apply(on_one_and_two);
BENCHMARK(wake_call)->Apply(once);
BENCHMARK(until_awake)->Apply(once);
BENCHMARK(packet_to_workers)->Apply(once);
BENCHMARK(packet_from_workers)->Apply(once);
BENCHMARK(used_packet)->Arg(1)->Arg(64)->Arg(256)->Arg(1024)->ArgName("threads")->Apply(once);
BENCHMARK(predicted_from_source)->Apply(of_work);
BENCHMARK(predicted_by_place)->Apply(of_work);
BENCHMARK(computing_predicted)->Apply(on_few);
BENCHMARK(computing_measured)->Apply(on_few);
BENCHMARK(places_predicted)->Apply(on_few);
BENCHMARK(places_measured)->Apply(on_few);
BENCHMARK(waiting_predicted)->Apply(asleep);
BENCHMARK(waiting_measured)->Apply(asleep);

} // namespace
