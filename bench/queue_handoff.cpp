// SPDX-License-Identifier: MIT
// How long does it take to reach a thread that waits at a queue, and to be answered? A number goes to a partner and
// comes back, compared with the least that such an exchange can cost: two atomics with wait and notify. First without
// a pause, so that the partner mostly still spins; then after a pause in which the partner has gone to sleep.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <utility>

#include <benchmark/benchmark.h>
#include <feedline/queue/mpmc_queue.hpp>
#include <feedline/queue/reorder_queue.hpp>
#include <feedline/queue/spsc_queue.hpp>

#include "../tests/support/mutex_queue.hpp"

#ifdef FEEDLINE_WITH_CONCURRENTQUEUE
#include <blockingconcurrentqueue.h>
#endif
#ifdef FEEDLINE_WITH_TBB
#include <tbb/concurrent_queue.h>
#endif

namespace {

using clock = std::chrono::steady_clock;

// One direction of the exchange; numbers are never 0.

template <class Queue>
struct ours {
  Queue queue{16};

  void send(std::uint32_t number) { queue.push(std::move(number)); }

  std::uint32_t receive() {
    std::uint32_t number = 0;
    queue.pop(number);
    return number;
  }
};

using feedline_spsc = ours<feedline::spsc_queue<std::uint32_t>>;
using feedline_mpmc = ours<feedline::mpmc_queue<std::uint32_t>>;
using mutex_and_condition_variable = ours<feedline::test::mutex_queue<std::uint32_t>>;

struct feedline_reorder {
  feedline::reorder_queue<std::uint32_t> queue{16};
  std::uint64_t sequence = 0;

  void send(std::uint32_t number) { queue.push(sequence++, std::move(number)); }

  std::uint32_t receive() {
    std::uint32_t number = 0;
    queue.pop(number);
    return number;
  }
};

struct bare_atomic_wait {
  alignas(feedline::detail::cache_line) std::atomic<std::uint32_t> word{0};

  void send(std::uint32_t number) {
    word.store(number, std::memory_order_release);
    word.notify_one();
  }

  std::uint32_t receive() {
    word.wait(0, std::memory_order_acquire);
    return word.exchange(0, std::memory_order_relaxed);
  }
};

// The same without the spinning with which a standard library begins a wait.
struct bare_futex {
  alignas(feedline::detail::cache_line) std::atomic<std::uint32_t> word{0};

  void send(std::uint32_t number) {
    word.store(number, std::memory_order_release);
    feedline::detail::unpark(word, 1);
  }

  std::uint32_t receive() {
    while (word.load(std::memory_order_acquire) == 0) feedline::detail::park(word, 0);
    return word.exchange(0, std::memory_order_relaxed);
  }
};

#ifdef FEEDLINE_WITH_CONCURRENTQUEUE
struct moodycamel_blocking {
  moodycamel::BlockingConcurrentQueue<std::uint32_t> queue;

  void send(std::uint32_t number) { queue.enqueue(number); }

  std::uint32_t receive() {
    std::uint32_t number = 0;
    queue.wait_dequeue(number);
    return number;
  }
};
#endif

#ifdef FEEDLINE_WITH_TBB
struct tbb_bounded {
  tbb::concurrent_bounded_queue<std::uint32_t> queue;

  void send(std::uint32_t number) { queue.push(number); }

  std::uint32_t receive() {
    std::uint32_t number = 0;
    queue.pop(number);
    return number;
  }
};
#endif

void work_for(std::chrono::microseconds time) {
  for (const auto end = clock::now() + time; clock::now() < end;) feedline::detail::spin_pause();
}

// The argument is the pause before each exchange in microseconds; the pause isn't timed.
template <class Way>
void round_trip(benchmark::State& state) {
  const std::chrono::microseconds pause(state.range(0));
  constexpr std::uint32_t last = 2;
  Way there, back;
  const std::jthread partner([&] {
    for (std::uint32_t number = 0; number != last;) {
      number = there.receive();
      back.send(number);
    }
  });
  for (auto _ : state) {
    if (pause.count() > 0) work_for(pause);
    const auto start = clock::now();
    there.send(1);
    benchmark::DoNotOptimize(back.receive());
    state.SetIterationTime(std::chrono::duration<double>(clock::now() - start).count());
  }
  there.send(last);
  back.receive();
}

void without_and_with_pause(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgName("pause")->Arg(0)->Arg(100)->UseManualTime();
}

BENCHMARK(round_trip<bare_atomic_wait>)->Apply(without_and_with_pause);
BENCHMARK(round_trip<bare_futex>)->Apply(without_and_with_pause);
BENCHMARK(round_trip<feedline_spsc>)->Apply(without_and_with_pause);
BENCHMARK(round_trip<feedline_mpmc>)->Apply(without_and_with_pause);
BENCHMARK(round_trip<feedline_reorder>)->Apply(without_and_with_pause);
#ifdef FEEDLINE_WITH_CONCURRENTQUEUE
BENCHMARK(round_trip<moodycamel_blocking>)->Apply(without_and_with_pause);
#endif
#ifdef FEEDLINE_WITH_TBB
BENCHMARK(round_trip<tbb_bounded>)->Apply(without_and_with_pause);
#endif
BENCHMARK(round_trip<mutex_and_condition_variable>)->Apply(without_and_with_pause);

} // namespace
