// SPDX-License-Identifier: MIT
#pragma once
// A queue for any number of threads on both sides.
//
//     producers ──push──▶ [ moodycamel::ConcurrentQueue ] ──pop──▶ consumers
#include <atomic>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <new>
#include <span>
#include <stop_token>
#include <thread>
#include <utility>

#include <concurrentqueue.h>

#include <feedline/detail/kernel.hpp>
#include <feedline/detail/queue_checks.hpp>
#include <feedline/detail/waiting.hpp>
#include <feedline/queue/queue_status.hpp>

namespace feedline::inline FEEDLINE_ABI {

/// A bounded, blocking queue for any number of producers and consumers. Each consumer receives the items of
/// one producer in the order of their pushes; there is no order between producers.
///
/// close() ends the stream: later pushes are refused, every item whose push succeeded is delivered, then pop
/// returns closed. stop(), or the token passed to the constructor, abandons the stream: waiters wake at once,
/// each later operation returns closed, and the items left inside are destroyed with the queue. Waiting
/// threads spin for some microseconds and then sleep; each item wakes one of them.
///
/// The push of an item happens before its pop. The constructor allocates the memory; if more threads push
/// than it planned for, their first pushes allocate too. A push that can't allocate throws std::bad_alloc and
/// leaves its item untouched.
template <class T>
class mpmc_queue {
  static_assert(detail::is_queue_item<T>());

 public:
  using value_type = T;

  /// A queue for exactly `capacity` items; `stop` stops it. Throws std::invalid_argument if `capacity` is 0
  /// or over 2^31 - 1.
  explicit mpmc_queue(std::size_t capacity, std::stop_token stop = {})
      : capacity_(detail::checked_capacity(capacity, count_mask)),
        items_(capacity, 0, 4),
        on_stop_(std::move(stop), detail::stop_queue<mpmc_queue>{this}) {}

  mpmc_queue(const mpmc_queue&) = delete;
  mpmc_queue& operator=(const mpmc_queue&) = delete;
  ~mpmc_queue() = default;

  /// Puts an item in, waiting while the queue is full. Returns success or closed; closed leaves `item`
  /// untouched.
  queue_status push(T&& item) { return push_until(item, detail::no_deadline); }

  /// Pushes a copy of `item`.
  queue_status push(const T& item)
    requires std::copy_constructible<T>
  {
    return push(T(item));
  }

  /// Puts an item in if there is room. Returns success, full or closed; the last two leave `item` untouched.
  queue_status try_push(T&& item) {
    if (reserve(1) == 0) return is_closed() ? queue_status::closed : queue_status::full;
    publish(1, items_.enqueue(std::move(item)));
    return queue_status::success;
  }

  /// Puts an item in, waiting for at most `longest` while the queue is full. Returns success, full or closed;
  /// the last two leave `item` untouched.
  queue_status push_for(T&& item, std::chrono::nanoseconds longest) {
    const queue_status status = try_push(std::move(item));
    if (status != queue_status::full || longest.count() <= 0) return status;
    return push_until(item, detail::after(longest));
  }

  /// Puts all `items` in, in order, waiting while the queue is full. Returns how many it put in: fewer than
  /// all only if the queue was closed or stopped.
  std::size_t push_bulk(std::span<T> items) {
    std::size_t moved = 0;
    while (moved < items.size()) {
      const std::size_t count = try_push_bulk(items.subspan(moved));
      moved += count;
      if (count > 0) continue;
      if (is_closed()) break;
      wait_for_room();
    }
    return moved;
  }

  /// Puts in as many of the first `items` as fit, and returns their number; the others stay untouched.
  std::size_t try_push_bulk(std::span<T> items) {
    const std::size_t count = reserve(items.size());
    if (count > 0) publish(count, items_.enqueue_bulk(std::make_move_iterator(items.data()), count));
    return count;
  }

  /// Takes an item out, waiting while there is none. Returns success or closed.
  queue_status pop(T& item) { return pop_until(item, detail::no_deadline); }

  /// Takes an item out if there is one. Returns success, empty or closed.
  queue_status try_pop(T& item) {
    if (take(1) == 0)
      return ended(state_.load(std::memory_order_seq_cst)) ? queue_status::closed : queue_status::empty;
    // Each available item that was taken exists; a failure only means that another consumer is at work on the
    // queue.
    while (!items_.try_dequeue(item)) std::this_thread::yield();
    release(1);
    return queue_status::success;
  }

  /// Takes an item out, waiting for at most `longest` while there is none. Returns success, empty or closed.
  queue_status pop_for(T& item, std::chrono::nanoseconds longest) {
    const queue_status status = try_pop(item);
    if (status != queue_status::empty || longest.count() <= 0) return status;
    return pop_until(item, detail::after(longest));
  }

  /// Takes out at least one and at most items.size() items, waiting while there is none. Returns how many: 0
  /// only if the queue is closed or stopped, or `items` is empty.
  std::size_t pop_bulk(std::span<T> items) {
    while (!items.empty()) {
      if (const std::size_t count = try_pop_bulk(items); count > 0) return count;
      if (ended(state_.load(std::memory_order_seq_cst))) break;
      wait_for_items();
    }
    return 0;
  }

  /// Takes out up to items.size() available items and returns how many.
  std::size_t try_pop_bulk(std::span<T> items) {
    const std::size_t count = take(items.size());
    for (std::size_t moved = 0; moved < count;) {
      const std::size_t more = items_.try_dequeue_bulk(items.data() + moved, count - moved);
      if (more == 0) std::this_thread::yield();
      moved += more;
    }
    if (count > 0) release(count);
    return count;
  }

  /// Ends the stream. Any thread may call it, any number of times.
  void close() { end(closed); }

  /// Abandons the stream. Any thread may call it, any number of times.
  void stop() { end(closed | stopped); }

  /// True once the queue is closed or stopped; items may still be inside.
  bool is_closed() const noexcept { return (state_.load(std::memory_order_seq_cst) & closed) != 0; }

  /// How many items are inside, including those that are being pushed.
  std::size_t size_approx() const noexcept { return reserved(state_.load(std::memory_order_relaxed)); }

  /// How many items fit.
  std::size_t capacity() const noexcept { return capacity_; }

 private:
  // state_, from the top: stopped, closed, 31 bits of reserved slots, 31 bits of available items. A push
  // reserves a slot (here it finds the queue full or closed), moves its item in and makes it available; a pop
  // takes an available item, moves it out and releases the slot. The stream has ended when the queue is
  // closed and no slot is reserved. All changes are read-modify-writes of this one word, so a pop
  // synchronizes with every push counted before it.
  static constexpr std::uint64_t count_mask = (std::uint64_t{1} << 31) - 1;
  static constexpr std::uint64_t one_available = 1;
  static constexpr std::uint64_t one_reserved = std::uint64_t{1} << 31;
  static constexpr std::uint64_t closed = std::uint64_t{1} << 62;
  static constexpr std::uint64_t stopped = std::uint64_t{1} << 63;

  static std::size_t available(std::uint64_t state) noexcept { return state & count_mask; }

  static std::size_t reserved(std::uint64_t state) noexcept { return (state >> 31) & count_mask; }

  // True if no further item will arrive. `state` must be one in which no item was available.
  static bool ended(std::uint64_t state) noexcept {
    return (state & stopped) != 0 || ((state & closed) != 0 && reserved(state) == 0);
  }

  // Reserves up to `wanted` slots; returns how many.
  std::size_t reserve(std::size_t wanted) {
    std::uint64_t state = state_.load(std::memory_order_relaxed);
    std::size_t count = 0;
    do {
      const std::size_t free = capacity_ - reserved(state);
      count = (state & closed) != 0 ? 0 : free < wanted ? free : wanted;
      if (count == 0) return 0;
    } while (!state_.compare_exchange_weak(state, state + count * one_reserved, std::memory_order_acq_rel,
                                           std::memory_order_relaxed));
    return count;
  }

  // Makes reserved items available, or releases their slots if they couldn't be stored.
  void publish(std::size_t count, bool stored) {
    if (!stored) {
      release(count);
      throw std::bad_alloc();
    }
    state_.fetch_add(count * one_available, std::memory_order_seq_cst);
    if (consumers_.occupied()) consumers_.wake(static_cast<std::uint32_t>(count));
  }

  // Takes up to `wanted` available items; returns how many.
  std::size_t take(std::size_t wanted) {
    std::uint64_t state = state_.load(std::memory_order_relaxed);
    std::size_t count = 0;
    do {
      count = (state & stopped) != 0 ? 0 : available(state) < wanted ? available(state) : wanted;
      if (count == 0) return 0;
    } while (!state_.compare_exchange_weak(state, state - count * one_available, std::memory_order_acq_rel,
                                           std::memory_order_relaxed));
    return count;
  }

  // Releases slots and wakes the threads that wait for them.
  void release(std::size_t count) {
    const std::uint64_t slots = count * one_reserved;
    const std::uint64_t state = state_.fetch_sub(slots, std::memory_order_seq_cst) - slots;
    if (producers_.occupied()) producers_.wake(static_cast<std::uint32_t>(count));
    if (ended(state)) consumers_.wake_all();
  }

  queue_status push_until(T& item, detail::deadline until) {
    for (;;) {
      const queue_status status = try_push(std::move(item));
      if (status != queue_status::full || !wait_for_room(until)) return status;
    }
  }

  queue_status pop_until(T& item, detail::deadline until) {
    for (;;) {
      const queue_status status = try_pop(item);
      if (status != queue_status::empty || !wait_for_items(until)) return status;
    }
  }

  // The waits return false if the deadline has passed, and true when the caller should try again.
  bool wait_for_room(detail::deadline until = detail::no_deadline) {
    return detail::wait_in(producers_, until, [&] {
      const std::uint64_t state = state_.load(std::memory_order_seq_cst);
      return (state & closed) != 0 || reserved(state) < capacity_;
    });
  }

  bool wait_for_items(detail::deadline until = detail::no_deadline) {
    return detail::wait_in(consumers_, until, [&] {
      const std::uint64_t state = state_.load(std::memory_order_seq_cst);
      return available(state) > 0 || ended(state);
    });
  }

  void end(std::uint64_t how) {
    state_.fetch_or(how, std::memory_order_seq_cst);
    producers_.wake_all();
    consumers_.wake_all();
  }

  const std::size_t capacity_;
  detail::waiting_room producers_;
  detail::waiting_room consumers_;
  alignas(detail::cache_line) std::atomic<std::uint64_t> state_{0};
  alignas(detail::cache_line) moodycamel::ConcurrentQueue<T> items_;
  std::stop_callback<detail::stop_queue<mpmc_queue>> on_stop_; // last: it may run in the constructor
};

} // namespace feedline::inline FEEDLINE_ABI
