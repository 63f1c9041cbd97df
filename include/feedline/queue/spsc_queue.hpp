// SPDX-License-Identifier: MIT
#pragma once
// A queue between two threads: one pushes, one pops.
//
//     producer ──push──▶ [ ring ] ──pop──▶ consumer
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <stop_token>
#include <utility>

#include <feedline/detail/asymmetric.hpp>
#include <feedline/detail/kernel.hpp>
#include <feedline/detail/queue_checks.hpp>
#include <feedline/detail/ring.hpp>
#include <feedline/detail/waiting.hpp>
#include <feedline/queue/blocking_queue.hpp>
#include <feedline/queue/queue_status.hpp>

namespace feedline::inline FEEDLINE_ABI {

/// A bounded, blocking, lock-free queue for one producer thread and one consumer thread. Only the producer
/// may push and only the consumer may pop; any thread may call everything else.
///
/// close() ends the stream: later pushes are refused, every item whose push succeeded is delivered, then pop
/// returns closed. stop(), or the token passed to the constructor, abandons the stream: waiters wake at once,
/// each later operation returns closed, and the items left inside are destroyed with the queue. Waiting
/// threads spin for some microseconds and then sleep.
///
/// The push of an item happens before its pop. Only the constructor allocates or throws, apart from the copy
/// that push(const T&) makes. The calls that wait are those of blocking_queue.
template <class T>
class spsc_queue : public blocking_queue<spsc_queue<T>, T> {
  friend blocking_queue<spsc_queue, T>; // calls the waits

 public:
  /// A queue for exactly `capacity` items; `stop` stops it. Throws std::invalid_argument if `capacity` is 0
  /// or exceeds what memory can hold.
  explicit spsc_queue(std::size_t capacity, std::stop_token stop = {})
      : spsc_queue(capacity, std::move(stop), detail::asymmetric_barrier()) {}

  ~spsc_queue() {
    const std::uint64_t tail = tail_.load(std::memory_order_acquire);
    for (std::uint64_t head = head_.load(std::memory_order_acquire); head != tail; ++head)
      std::destroy_at(ring_.at(head));
  }

  /// Puts an item in if there is room. Returns success, full or closed; the last two leave `item` untouched.
  queue_status try_push(T&& item) {
    const std::uint64_t tail = tail_.load(std::memory_order_relaxed);
    if (is_closed()) [[unlikely]]
      return queue_status::closed;
    if (room(tail, 1) == 0) [[unlikely]]
      return queue_status::full;
    T* const target = ring_.at(tail);
    std::construct_at(target, std::move(item));
    if (publish(tail, 1)) [[likely]]
      return queue_status::success;
    ring_.take_from(target, item); // not take(), which would force each item through memory
    return queue_status::closed;
  }

  /// Puts in as many of the first `items` as fit, and returns their number; the others stay untouched.
  std::size_t try_push_bulk(std::span<T> items) {
    const std::uint64_t tail = tail_.load(std::memory_order_relaxed);
    const std::size_t count = is_closed() ? 0 : room(tail, items.size());
    if (count == 0) return 0;
    ring_.put(tail, items.first(count));
    if (publish(tail, count)) [[likely]]
      return count;
    ring_.take(tail, items.first(count));
    return 0;
  }

  /// Takes the oldest item out if there is one. Returns success, empty or closed.
  queue_status try_pop(T& item) {
    const std::uint64_t head = head_.load(std::memory_order_relaxed);
    if (available(head, 1) == 0) return ended(head) ? queue_status::closed : queue_status::empty;
    ring_.take_from(ring_.at(head), item);
    end_pop(head, 1);
    return queue_status::success;
  }

  /// Takes out up to items.size() available items and returns how many.
  std::size_t try_pop_bulk(std::span<T> items) {
    const std::uint64_t head = head_.load(std::memory_order_relaxed);
    const std::size_t count = available(head, items.size());
    if (count == 0) return 0;
    ring_.take(head, items.first(count));
    end_pop(head, count);
    return count;
  }

  /// Ends the stream. Any thread may call it, any number of times.
  void close() {
    state_.fetch_or(closing, std::memory_order_seq_cst);
    consumer_.alert();
    barrier_.settle();
    end(closed);
  }

  /// Abandons the stream. Any thread may call it, any number of times.
  void stop() { end(closing | closed | stopped); }

  /// True once the queue is closed or stopped; items may still be inside.
  bool is_closed() const noexcept { return state_.load(std::memory_order_seq_cst) != 0; }

  /// About how many items are inside: pushes and pops in progress may not be counted yet.
  std::size_t size_approx() const noexcept {
    const std::uint64_t head = head_.load(std::memory_order_acquire);
    return static_cast<std::size_t>(tail_.load(std::memory_order_acquire) - head);
  }

  /// How many items fit.
  std::size_t capacity() const noexcept { return capacity_; }

 protected:
  /// For tests, which choose the barrier.
  spsc_queue(std::size_t capacity, std::stop_token stop, detail::asymmetric_barrier barrier)
      : capacity_(
            detail::checked_capacity(capacity, std::numeric_limits<std::size_t>::max() / 4 / sizeof(T))),
        ring_(capacity),
        barrier_(barrier),
        on_stop_(std::move(stop), detail::stop_queue<spsc_queue>{this}) {}

 private:
  // Bits of state_. close() sets `closing`, makes all threads pass a barrier, then sets `closed`. A push that
  // finished without seeing `closing` shows in tail_ to a consumer that sees `closed`. The other pushes in
  // progress see `closing` afterwards: either such a push sets `accepted`, or the consumer sets `drained`;
  // the first of them wins.
  static constexpr std::uint32_t closing = 1;
  static constexpr std::uint32_t closed = 2;
  static constexpr std::uint32_t accepted = 4; // the last push preceded the verdict
  static constexpr std::uint32_t drained = 8;  // the verdict: no further item will arrive
  static constexpr std::uint32_t stopped = 16;

  static std::size_t smaller(std::size_t a, std::size_t b) noexcept { return a < b ? a : b; }

  // How many of `wanted` items fit.
  std::size_t room(std::uint64_t tail, std::size_t wanted) {
    std::size_t free = capacity_ - static_cast<std::size_t>(tail - head_seen_);
    if (free < wanted) {
      head_seen_ = head_.load(std::memory_order_acquire); // pairs with end_pop
      free = capacity_ - static_cast<std::size_t>(tail - head_seen_);
    }
    return smaller(free, wanted);
  }

  // Makes `count` items from `tail` on visible to the consumer. False if the stream had already ended: the
  // items then belong to the producer again.
  bool publish(std::uint64_t tail, std::size_t count) {
    return barrier_.publish(tail_, tail + count, consumer_.word()) == 0 || publish_slowly(tail);
  }

  [[gnu::noinline, gnu::cold]] bool publish_slowly(std::uint64_t tail) {
    consumer_.wake(1);
    std::uint32_t state = state_.load(std::memory_order_seq_cst);
    while ((state & closing) != 0 && (state & drained) == 0)
      if (state_.compare_exchange_weak(state, state | accepted, std::memory_order_acq_rel)) return true;
    if ((state & drained) == 0 || head_.load(std::memory_order_acquire) != tail) return true;
    tail_.store(tail, std::memory_order_release);
    return false;
  }

  // How many of `wanted` items are available; 0 after the end.
  std::size_t available(std::uint64_t head, std::size_t wanted) {
    if ((state_.load(std::memory_order_relaxed) & (stopped | drained)) != 0) [[unlikely]]
      return 0;
    if (tail_seen_ - head < wanted) tail_seen_ = tail_.load(std::memory_order_acquire); // pairs with publish
    const auto there = static_cast<std::size_t>(tail_seen_ - head);
    return smaller(there, wanted);
  }

  void end_pop(std::uint64_t head, std::size_t count) {
    if (barrier_.publish(head_, head + count, producer_.word()) != 0) [[unlikely]]
      producer_.wake(1);
  }

  bool ended() { return ended(head_.load(std::memory_order_relaxed)); }

  // True if no further item will arrive. Called when no item was available.
  bool ended(std::uint64_t head) {
    std::uint32_t state = state_.load(std::memory_order_seq_cst);
    while ((state & (stopped | drained)) == 0) {
      if ((state & closed) == 0 || tail_.load(std::memory_order_seq_cst) != head) return false;
      state_.compare_exchange_weak(state, state | drained, std::memory_order_acq_rel);
    }
    return true;
  }

  [[gnu::noinline, gnu::cold]] bool wait_for_room(detail::deadline until) {
    const std::uint64_t full = tail_.load(std::memory_order_relaxed) - capacity_;
    return detail::wait_in(
        producer_, until, [&] { return head_.load(std::memory_order_seq_cst) != full || is_closed(); },
        [&] { barrier_.settle(); });
  }

  [[gnu::noinline, gnu::cold]] bool wait_for_items(detail::deadline until) {
    const std::uint64_t head = head_.load(std::memory_order_relaxed);
    return detail::wait_in(
        consumer_, until, [&] { return tail_.load(std::memory_order_seq_cst) != head || ended(head); },
        [&] { barrier_.settle(); });
  }

  void end(std::uint32_t how) {
    state_.fetch_or(how, std::memory_order_seq_cst);
    producer_.wake_all();
    consumer_.wake_all();
  }

  // Processors fetch cache lines in pairs, so the two sides are two lines apart.
  static constexpr std::size_t apart = 2 * detail::cache_line;

  // Read by both sides, never or rarely written.
  const std::size_t capacity_;
  const detail::ring<T> ring_;
  const detail::asymmetric_barrier barrier_;
  std::atomic<std::uint32_t> state_{0};
  detail::waiting_room producer_;
  detail::waiting_room consumer_;

  // Written by the producer. Positions count items since the start; 64 bits never wrap.
  alignas(apart) std::atomic<std::uint64_t> tail_{0}; // items put in
  alignas(detail::cache_line) std::uint64_t head_seen_ = 0;

  // Written by the consumer.
  alignas(apart) std::atomic<std::uint64_t> head_{0}; // items taken out
  alignas(detail::cache_line) std::uint64_t tail_seen_ = 0;

  alignas(apart)
      std::stop_callback<detail::stop_queue<spsc_queue>> on_stop_; // last: it may run in the constructor
};

} // namespace feedline::inline FEEDLINE_ABI
