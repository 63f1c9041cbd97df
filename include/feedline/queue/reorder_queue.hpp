// SPDX-License-Identifier: MIT
#pragma once
// A queue that restores the order of items that parallel workers finish out of order.
//
//     producer 5 ─┐
//     producer 3 ─┼─push(sequence)─▶ [ slots ] ──pop──▶ consumer: 3, 4, 5, …
//     producer 4 ─┘
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <stop_token>
#include <utility>
#include <vector>

#include <feedline/detail/kernel.hpp>
#include <feedline/detail/queue_checks.hpp>
#include <feedline/detail/waiting.hpp>
#include <feedline/queue/queue_status.hpp>

namespace feedline::inline FEEDLINE_ABI {

/// A bounded, blocking queue from any number of producers to one consumer thread, which receives the items by
/// ascending sequence number, whatever the order of the pushes.
///
/// Sequence numbers count from 0. Each belongs to one producer, which pushes it once, or in parts. A push
/// waits while its number is `capacity` or more ahead of the number that the consumer waits for. So the
/// producer of the smallest outstanding number never waits for another: if numbers are assigned in ascending
/// order and each is pushed eventually, the queue can't deadlock.
///
/// close() ends the stream, usually after the last push: later pushes are refused, every item whose push
/// succeeded is delivered, missing numbers are skipped, then pop returns closed. stop(), or the token passed
/// to the constructor, abandons the stream: waiters wake at once, each later operation returns closed, and
/// the items left inside are destroyed with the queue. Waiting threads spin for some microseconds and then
/// sleep, each on the slot that it needs. Only the constructor allocates or throws.
template <class T>
class reorder_queue {
  static_assert(detail::is_queue_item<T>());

 public:
  using value_type = T;

  /// A queue for `capacity` sequence numbers; `stop` stops it. Throws std::invalid_argument if `capacity` is
  /// 0 or exceeds what memory can hold.
  explicit reorder_queue(std::size_t capacity, std::stop_token stop = {})
      : capacity_(
            detail::checked_capacity(capacity, std::numeric_limits<std::size_t>::max() / 2 / sizeof(slot))),
        slots_(capacity),
        on_stop_(std::move(stop), detail::stop_queue<reorder_queue>{this}) {}

  reorder_queue(const reorder_queue&) = delete;
  reorder_queue& operator=(const reorder_queue&) = delete;

  ~reorder_queue() {
    for (std::size_t i = 0; i < capacity_; ++i)
      if ((slots_[i].state.load(std::memory_order_acquire) & filled) != 0) std::destroy_at(&slots_[i].item);
  }

  /// Puts in the item of `sequence`, waiting while an earlier item occupies its slot. With `last` false the
  /// item is a part, and the same thread pushes more parts of this sequence number; the consumer moves to the
  /// next number only after the last part. Returns success or closed; closed leaves `item` untouched.
  queue_status push(std::uint64_t sequence, T&& item, bool last = true) {
    return push_until(sequence, item, last, detail::no_deadline);
  }

  /// The same, but waits for at most `longest` and then returns full, leaving `item` untouched.
  queue_status push_for(std::uint64_t sequence, T&& item, std::chrono::nanoseconds longest,
                        bool last = true) {
    const queue_status status = try_push(sequence, std::move(item), last);
    if (status != queue_status::full || longest.count() <= 0) return status;
    return push_until(sequence, item, last, detail::after(longest));
  }

  /// The same, but returns full where push would wait; full leaves `item` untouched.
  queue_status try_push(std::uint64_t sequence, T&& item, bool last = true) {
    slot& target = slot_of(sequence);
    std::uint32_t state = target.state.load(std::memory_order_acquire); // pairs with take
    if ((state & closed) != 0) return queue_status::closed;
    if ((state & ~waiting) != round_of(sequence)) return queue_status::full;
    // Until the slot is filled no other thread touches the item, and others set only `waiting` and `closed`.
    std::construct_at(&target.item, std::move(item));
    target.last = last;
    while (!target.state.compare_exchange_weak(state, (state & ~waiting) | filled, std::memory_order_release,
                                               std::memory_order_relaxed)) {
      if ((state & closed) == 0) continue;
      move_out(target, item);
      return queue_status::closed;
    }
    if ((state & waiting) != 0) detail::unpark(target.state, all);
    return queue_status::success;
  }

  /// Takes the next item in order out, waiting until it is there. Returns success or closed.
  queue_status pop(T& item) { return pop_until(item, detail::no_deadline); }

  /// Takes the next item in order out, waiting for it for at most `longest`. Returns success, empty or closed.
  queue_status pop_for(T& item, std::chrono::nanoseconds longest) {
    const queue_status status = try_pop(item);
    if (status != queue_status::empty || longest.count() <= 0) return status;
    return pop_until(item, detail::after(longest));
  }

  /// Takes the next item in order out if it is there. Returns success, empty or closed.
  queue_status try_pop(T& item) {
    if (drained_ || stopped_.load(std::memory_order_relaxed)) return queue_status::closed;
    const std::uint32_t state = slots_[head_].state.load(std::memory_order_acquire); // pairs with try_push
    if ((state & filled) == 0) {
      if ((state & closed) == 0) return queue_status::empty;
      pass_over_gaps();
      if (drained_) return queue_status::closed;
    }
    take(item);
    return queue_status::success;
  }

  /// Ends the stream. Any thread may call it, any number of times. Takes time proportional to the capacity.
  void close() {
    closed_.store(true, std::memory_order_relaxed);
    for (std::size_t i = 0; i < capacity_; ++i) close_slot(slots_[i]);
  }

  /// Abandons the stream. Any thread may call it, any number of times. Takes time proportional to the
  /// capacity.
  void stop() {
    stopped_.store(true, std::memory_order_relaxed);
    close();
  }

  /// True once the queue is closed or stopped; items may still be inside.
  bool is_closed() const noexcept { return closed_.load(std::memory_order_relaxed); }

  /// About how many items are inside: pushes and pops in progress may not be counted yet. Takes time
  /// proportional to the capacity.
  std::size_t size_approx() const noexcept {
    std::size_t size = 0;
    for (std::size_t i = 0; i < capacity_; ++i)
      if ((slots_[i].state.load(std::memory_order_relaxed) & filled) != 0) ++size;
    return size;
  }

  /// How many sequence numbers fit.
  std::size_t capacity() const noexcept { return capacity_; }

 private:
  // A slot's state, from the top: the round that it serves (sequence / capacity, modulo 2^29), then these
  // bits. The slot is free for its round until it is filled; taking the last part moves it to the next round.
  // This one word orders pushes, the end and the waits of the slot.
  static constexpr std::uint32_t waiting = 1; // some thread may be parked on the state
  static constexpr std::uint32_t closed = 2;
  static constexpr std::uint32_t filled = 4;
  static constexpr std::uint32_t one_round = 8;
  static constexpr std::uint32_t all = 0x7fffffff;

  struct alignas(detail::cache_line) slot {
    slot() noexcept {}

    ~slot() {}

    std::atomic<std::uint32_t> state{0};
    bool last = true;

    union {
      T item;
    };
  };

  slot& slot_of(std::uint64_t sequence) noexcept { return slots_[sequence % capacity_]; }

  std::uint32_t round_of(std::uint64_t sequence) const noexcept {
    return static_cast<std::uint32_t>(sequence / capacity_) * one_round;
  }

  static void move_out(slot& source, T& item) {
    item = std::move(source.item);
    std::destroy_at(&source.item);
  }

  // Takes the item from the slot at the head, which must be filled.
  void take(T& item) {
    slot& source = slots_[head_];
    move_out(source, item);
    const std::uint32_t step = source.last ? one_round : 0;
    if (source.last) next_slot();
    std::uint32_t state = source.state.load(std::memory_order_relaxed);
    while (!source.state.compare_exchange_weak(state, (state & ~(waiting | filled)) + step,
                                               std::memory_order_release, std::memory_order_relaxed)) {
    }
    if ((state & waiting) != 0) detail::unpark(source.state, all);
  }

  void next_slot() noexcept { head_ = head_ + 1 == capacity_ ? 0 : head_ + 1; }

  // After the end: moves to the next filled slot. Closes each slot before it skips it, as close() may not
  // have reached it yet.
  void pass_over_gaps() {
    for (std::size_t passed = 0; passed < capacity_; ++passed, next_slot())
      if ((close_slot(slots_[head_]) & filled) != 0) return;
    drained_ = true;
  }

  std::uint32_t close_slot(slot& target) {
    std::uint32_t state = target.state.load(std::memory_order_relaxed);
    while (!target.state.compare_exchange_weak(state, (state & ~waiting) | closed, std::memory_order_acq_rel,
                                               std::memory_order_relaxed)) {
    }
    if ((state & waiting) != 0) detail::unpark(target.state, all);
    return state;
  }

  queue_status push_until(std::uint64_t sequence, T& item, bool last, detail::deadline until) {
    const auto free = [wanted = round_of(sequence)](std::uint32_t state) {
      return (state & closed) != 0 || (state & ~waiting) == wanted;
    };
    for (;;) {
      const queue_status status = try_push(sequence, std::move(item), last);
      if (status != queue_status::full || !wait_for(slot_of(sequence), producers_, until, free))
        return status;
    }
  }

  queue_status pop_until(T& item, detail::deadline until) {
    const auto there = [](std::uint32_t state) { return (state & (filled | closed)) != 0; };
    for (;;) {
      const queue_status status = try_pop(item);
      if (status != queue_status::empty || !wait_for(slots_[head_], consumer_, until, there)) return status;
    }
  }

  // Waits until `ready` holds for the slot's state, or the state has changed; false if the deadline has
  // passed.
  template <class Ready>
  static bool wait_for(slot& target, detail::patience& patience, detail::deadline until, Ready ready) {
    if (patience.spin_until([&] { return ready(target.state.load(std::memory_order_relaxed)); })) return true;
    std::uint32_t state = target.state.load(std::memory_order_relaxed);
    do {
      if (ready(state)) return true;
    } while (!target.state.compare_exchange_weak(state, state | waiting, std::memory_order_relaxed));
    return detail::park(target.state, state | waiting, until);
  }

  const std::size_t capacity_;
  std::vector<slot> slots_;
  std::atomic<bool> stopped_{false};
  std::atomic<bool> closed_{false};
  detail::patience producers_;
  detail::patience consumer_;
  alignas(detail::cache_line) std::size_t head_ = 0; // the slot of the next item
  bool drained_ = false;

  alignas(detail::cache_line)
      std::stop_callback<detail::stop_queue<reorder_queue>> on_stop_; // last: it may run in the constructor
};

} // namespace feedline::inline FEEDLINE_ABI
