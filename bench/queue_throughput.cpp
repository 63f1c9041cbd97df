// SPDX-License-Identifier: MIT
// What does an item cost on its way through a queue of 1024? One thread on either side, item by item and 64 at a time,
// with items of 8 and 64 bytes; then one to four threads on either side, item by item and 32 at a time. Compared with
// queues of other libraries, of which Boost's and ReaderWriterQueue can neither close nor park: their users wait in a
// loop.
#include <array>
#include <atomic>
#include <barrier>
#include <cstddef>
#include <cstdint>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include <benchmark/benchmark.h>
#include <feedline/queue/mpmc_queue.hpp>
#include <feedline/queue/spsc_queue.hpp>

#include "../tests/support/mutex_queue.hpp"

#ifdef FEEDLINE_WITH_BOOST
#include <boost/lockfree/spsc_queue.hpp>
#endif
#ifdef FEEDLINE_WITH_CONCURRENTQUEUE
#include <blockingconcurrentqueue.h>
#endif
#ifdef FEEDLINE_WITH_READERWRITERQUEUE
#include <readerwriterqueue.h>
#endif
#ifdef FEEDLINE_WITH_TBB
#include <tbb/concurrent_queue.h>
#endif

namespace {

constexpr std::size_t capacity = 1024;
constexpr std::size_t items_per_round = std::size_t{1} << 19;

template <std::size_t Bytes>
struct item {
  std::array<std::uint64_t, Bytes / 8> words{};
};

// How users wait at a queue that can't park a thread. Plain pauses are the fastest way, but wrong where
// threads outnumber cores.
template <class Try>
void poll(Try attempt) {
  while (!attempt()) feedline::detail::spin_pause();
}

// The queues behind one interface: push and pop wait; push_bulk and pop_bulk move as many items as they can.

template <class T, class Queue>
struct ours {
  Queue queue{capacity};

  void push(T value) { queue.push(std::move(value)); }

  void pop(T& value) { queue.pop(value); }

  void push_bulk(std::span<T> values) { queue.push_bulk(values); }

  std::size_t pop_bulk(std::span<T> values) { return queue.pop_bulk(values); }
};

template <class T>
using feedline_spsc = ours<T, feedline::spsc_queue<T>>;
template <class T>
using feedline_mpmc = ours<T, feedline::mpmc_queue<T>>;
template <class T>
using mutex_and_condition_variable = ours<T, feedline::test::mutex_queue<T>>;

template <class T>
struct feedline_spsc_try {
  feedline::spsc_queue<T> queue{capacity};

  void push(T value) {
    poll([&] { return queue.try_push(std::move(value)) == feedline::queue_status::success; });
  }

  void pop(T& value) {
    poll([&] { return queue.try_pop(value) == feedline::queue_status::success; });
  }
};

#ifdef FEEDLINE_WITH_CONCURRENTQUEUE
template <class T>
struct moodycamel_blocking {
  moodycamel::BlockingConcurrentQueue<T> queue{capacity};

  void push(T value) { queue.enqueue(value); } // unbounded

  void pop(T& value) { queue.wait_dequeue(value); }

  void push_bulk(std::span<T> values) { queue.enqueue_bulk(values.data(), values.size()); }

  std::size_t pop_bulk(std::span<T> values) { return queue.wait_dequeue_bulk(values.data(), values.size()); }
};
#endif

#ifdef FEEDLINE_WITH_BOOST
template <class T>
struct boost_spsc {
  boost::lockfree::spsc_queue<T> queue{capacity};

  void push(const T& value) {
    poll([&] { return queue.push(value); });
  }

  void pop(T& value) {
    poll([&] { return queue.pop(value); });
  }

  void push_bulk(std::span<T> values) {
    for (std::size_t moved = 0; moved < values.size();) {
      const std::size_t count = queue.push(values.data() + moved, values.size() - moved);
      moved += count;
      if (count == 0) feedline::detail::spin_pause();
    }
  }

  std::size_t pop_bulk(std::span<T> values) {
    for (;;) {
      if (const std::size_t count = queue.pop(values.data(), values.size()); count > 0) return count;
      feedline::detail::spin_pause();
    }
  }
};
#endif

#ifdef FEEDLINE_WITH_READERWRITERQUEUE
template <class T>
struct reader_writer_queue {
  moodycamel::ReaderWriterQueue<T> queue{capacity};

  void push(const T& value) {
    poll([&] { return queue.try_enqueue(value); });
  }

  void pop(T& value) {
    poll([&] { return queue.try_dequeue(value); });
  }
};
#endif

#ifdef FEEDLINE_WITH_TBB
template <class T>
struct tbb_bounded {
  tbb::concurrent_bounded_queue<T> queue;

  tbb_bounded() { queue.set_capacity(capacity); }

  void push(const T& value) { queue.push(value); }

  void pop(T& value) { queue.pop(value); }
};
#endif

// Measures rounds in which each producer and each consumer moves its share of the items. The threads live
// through all rounds.
template <class Produce, class Consume>
void time_rounds(benchmark::State& state, std::size_t per_side, Produce produce, Consume consume) {
  std::barrier gate(static_cast<std::ptrdiff_t>(2 * per_side + 1));
  std::atomic<bool> finished = false;
  const std::size_t share = items_per_round / per_side;
  std::vector<std::jthread> threads;
  for (std::size_t i = 0; i < 2 * per_side; ++i)
    threads.emplace_back([&, i] {
      for (;;) {
        gate.arrive_and_wait();
        if (finished) return;
        if (i < per_side) produce(share);
        else consume(share);
        gate.arrive_and_wait();
      }
    });
  for (auto _ : state) {
    gate.arrive_and_wait();
    gate.arrive_and_wait();
  }
  finished = true;
  gate.arrive_and_wait();
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(items_per_round));
}

template <template <class> class Queue, std::size_t Bytes>
void each(benchmark::State& state) {
  Queue<item<Bytes>> queue;
  time_rounds(
      state, static_cast<std::size_t>(state.range(0)),
      [&](std::size_t count) {
        for (std::size_t i = 0; i < count; ++i) queue.push(item<Bytes>{{i}});
      },
      [&](std::size_t count) {
        item<Bytes> taken;
        for (std::size_t i = 0; i < count; ++i) {
          queue.pop(taken);
          benchmark::DoNotOptimize(taken);
        }
      });
}

template <template <class> class Queue, std::size_t Bytes, std::size_t Chunk>
void bulk(benchmark::State& state) {
  Queue<item<Bytes>> queue;
  time_rounds(
      state, static_cast<std::size_t>(state.range(0)),
      [&](std::size_t count) {
        std::array<item<Bytes>, Chunk> items{};
        for (std::size_t i = 0; i < count; i += Chunk) {
          for (std::size_t k = 0; k < Chunk; ++k) items[k].words[0] = i + k;
          queue.push_bulk(items);
        }
      },
      [&](std::size_t count) {
        std::array<item<Bytes>, Chunk> items{};
        for (std::size_t left = count; left > 0;) {
          left -= queue.pop_bulk(std::span(items).first(left < Chunk ? left : Chunk));
          benchmark::DoNotOptimize(items);
        }
      });
}

// The argument is the number of threads on either side.
void one_to_one(benchmark::internal::Benchmark* benchmark) { benchmark->Arg(1)->UseRealTime(); }

void up_to_four(benchmark::internal::Benchmark* benchmark) { benchmark->DenseRange(1, 4)->UseRealTime(); }

// Numbers of threads that divide the items of a round into whole chunks.
void even_shares(benchmark::internal::Benchmark* benchmark) {
  for (const int threads : {1, 2, 4}) benchmark->Arg(threads)->UseRealTime();
}

BENCHMARK(each<feedline_spsc, 8>)->Apply(one_to_one);
BENCHMARK(each<feedline_spsc_try, 8>)->Apply(one_to_one);
#ifdef FEEDLINE_WITH_BOOST
BENCHMARK(each<boost_spsc, 8>)->Apply(one_to_one);
#endif
#ifdef FEEDLINE_WITH_READERWRITERQUEUE
BENCHMARK(each<reader_writer_queue, 8>)->Apply(one_to_one);
#endif
BENCHMARK(each<feedline_spsc, 64>)->Apply(one_to_one);
BENCHMARK(each<feedline_spsc_try, 64>)->Apply(one_to_one);
#ifdef FEEDLINE_WITH_BOOST
BENCHMARK(each<boost_spsc, 64>)->Apply(one_to_one);
#endif
#ifdef FEEDLINE_WITH_READERWRITERQUEUE
BENCHMARK(each<reader_writer_queue, 64>)->Apply(one_to_one);
#endif

BENCHMARK(bulk<feedline_spsc, 8, 64>)->Apply(one_to_one);
#ifdef FEEDLINE_WITH_BOOST
BENCHMARK(bulk<boost_spsc, 8, 64>)->Apply(one_to_one);
#endif
BENCHMARK(bulk<feedline_spsc, 64, 64>)->Apply(one_to_one);
#ifdef FEEDLINE_WITH_BOOST
BENCHMARK(bulk<boost_spsc, 64, 64>)->Apply(one_to_one);
#endif

BENCHMARK(each<feedline_mpmc, 8>)->Apply(up_to_four);
#ifdef FEEDLINE_WITH_CONCURRENTQUEUE
BENCHMARK(each<moodycamel_blocking, 8>)->Apply(up_to_four);
#endif
#ifdef FEEDLINE_WITH_TBB
BENCHMARK(each<tbb_bounded, 8>)->Apply(up_to_four);
#endif
BENCHMARK(each<mutex_and_condition_variable, 8>)->Apply(up_to_four);
BENCHMARK(bulk<feedline_mpmc, 8, 32>)->Apply(even_shares);
#ifdef FEEDLINE_WITH_CONCURRENTQUEUE
BENCHMARK(bulk<moodycamel_blocking, 8, 32>)->Apply(even_shares);
#endif
BENCHMARK(bulk<mutex_and_condition_variable, 8, 32>)->Apply(even_shares);

} // namespace
