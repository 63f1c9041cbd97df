// SPDX-License-Identifier: MIT
#pragma once
// A queue for any number of threads on both sides.
//
//     producers ──push──▶ [ ring ] ──pop──▶ consumers
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stop_token>
#include <utility>

#include <feedline/detail/kernel.hpp>
#include <feedline/detail/queue_checks.hpp>
#include <feedline/detail/ring.hpp>
#include <feedline/detail/waiting.hpp>
#include <feedline/queue/blocking_queue.hpp>
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
/// Producers take turns to move items in, and consumers to move items out; neither side holds up the other. So
/// while an item is moved in, its move must not push to this queue, and while it is moved out, not pop from it; nor
/// may the destructors of items that a bulk pop replaces.
///
/// The push of an item happens before its pop. Only the constructor allocates or throws, apart from the copy
/// that push(const T&) makes. The calls that wait are those of blocking_queue.
template <class T>
class mpmc_queue : public blocking_queue<mpmc_queue<T>, T> {
  friend blocking_queue<mpmc_queue, T>; // calls the waits

 public:
  /// A queue for exactly `capacity` items; `stop` stops it. Throws std::invalid_argument if `capacity` is 0
  /// or over 2^31 - 1.
  explicit mpmc_queue(std::size_t capacity, std::stop_token stop = {})
      : capacity_(detail::checked_capacity(capacity, 0x7fff'ffff)),
        ring_(capacity),
        on_stop_(std::move(stop), detail::stop_queue<mpmc_queue>{this}) {}

  ~mpmc_queue() {
    const std::uint64_t end = position(tail_.word.load(std::memory_order_acquire));
    for (std::uint64_t at = position(head_.word.load(std::memory_order_acquire)); at != end; ++at)
      std::destroy_at(ring_.at(at));
  }

  /// Puts an item in if there is room. Returns success, full or closed; the last two leave `item` untouched.
  queue_status try_push(T&& item) {
    const turn mine = take_turn(tail_, head_, 1);
    if (mine.count == 0) return is_closed() ? queue_status::closed : queue_status::full;
    std::construct_at(ring_.at(mine.start), std::move(item));
    end_turn(tail_, head_, 1);
    return queue_status::success;
  }

  /// Puts in as many of the first `items` as fit, and returns their number; the others stay untouched.
  std::size_t try_push_bulk(std::span<T> items) {
    const turn mine = take_turn(tail_, head_, items.size());
    if (mine.count == 0) return 0;
    ring_.put(mine.start, items.first(mine.count));
    end_turn(tail_, head_, mine.count);
    return mine.count;
  }

  /// Takes an item out if there is one. Returns success, empty or closed.
  queue_status try_pop(T& item) {
    const turn mine = take_turn(head_, tail_, 1);
    if (mine.count == 0) return ended() ? queue_status::closed : queue_status::empty;
    T* const source = ring_.at(mine.start);
    T taken(std::move(*source)); // what `item` held is destroyed after the turn
    std::destroy_at(source);
    end_pop(1);
    item = std::move(taken);
    return queue_status::success;
  }

  /// Takes out up to items.size() available items and returns how many.
  std::size_t try_pop_bulk(std::span<T> items) {
    const turn mine = take_turn(head_, tail_, items.size());
    if (mine.count == 0) return 0;
    ring_.take(mine.start, items.first(mine.count));
    end_pop(mine.count);
    return mine.count;
  }

  /// Ends the stream. Any thread may call it, any number of times.
  void close() { end(0); }

  /// Abandons the stream. Any thread may call it, any number of times.
  void stop() { end(over); }

  /// True once the queue is closed or stopped; items may still be inside.
  bool is_closed() const noexcept { return (tail_.word.load(std::memory_order_seq_cst) & over) != 0; }

  /// About how many items are inside: pushes and pops in progress may not be counted yet.
  std::size_t size_approx() const noexcept {
    const std::uint64_t head = position(head_.word.load(std::memory_order_acquire));
    const std::uint64_t size = position(tail_.word.load(std::memory_order_acquire)) - head;
    return std::min(static_cast<std::size_t>(size), capacity_);
  }

  /// How many items fit.
  std::size_t capacity() const noexcept { return capacity_; }

 private:
  // Processors fetch cache lines in pairs, so data of different threads are two lines apart.
  static constexpr std::size_t apart = 2 * detail::cache_line;

  // An end of the ring, where one thread at a time has a turn. The word, from the top: over (no further turns),
  // held (a thread has its turn) and the position (how many items have passed this end).
  static constexpr std::uint64_t over = std::uint64_t{1} << 63;
  static constexpr std::uint64_t held = std::uint64_t{1} << 62;

  struct ring_end {
    explicit ring_end(std::size_t most) : ahead(most) {}

    alignas(apart) std::atomic<std::uint64_t> word{0};
    std::atomic<std::uint64_t> limit{0}; // the last position that a turn may reach, as last seen at this end
    const std::size_t ahead;             // how far this end may be ahead of the other one
    alignas(apart) detail::waiting_room turns; // threads that wait for another one's turn to end
    detail::waiting_room room;                 // threads that wait for the other end to move on
  };

  struct turn {
    std::uint64_t start = 0; // position
    std::size_t count = 0;   // items
  };

  static std::uint64_t position(std::uint64_t word) noexcept { return word & ~(over | held); }

  // Takes a turn for up to `wanted` items, waiting for another thread's turn to end. Its count is 0, and it is no
  // turn, if no item can pass. Each turn moves the end: so a thread that finds it where it was has missed none, and
  // may rely on what it read.
  turn take_turn(ring_end& mine, const ring_end& theirs, std::size_t wanted) {
    std::uint64_t word = mine.word.load(std::memory_order_acquire);
    for (;;) {
      std::uint64_t limit = mine.limit.load(std::memory_order_relaxed);
      if (limit - position(word) < wanted)
        limit = position(theirs.word.load(std::memory_order_acquire)) + mine.ahead; // pairs with end_turn
      const std::size_t count = std::min(static_cast<std::size_t>(limit - position(word)), wanted);
      if (count == 0 || (word & over) != 0) {
        if (mine.turns.occupied())
          mine.turns.wake(1); // passes on the wake-up that this thread may have received
        return {};
      }
      if ((word & held) != 0) {
        detail::wait_in(mine.turns, detail::no_deadline,
                        [&] { return (mine.word.load(std::memory_order_seq_cst) & held) == 0; });
        word = mine.word.load(std::memory_order_acquire);
      } else if (mine.word.compare_exchange_weak(word, word | held, std::memory_order_acquire)) {
        mine.limit.store(limit, std::memory_order_relaxed);
        return {word, count};
      }
    }
  }

  // Ends a turn that moved `count` items. At most one woken thread of each kind is on its way: it wakes the next one.
  void end_turn(ring_end& mine, ring_end& theirs, std::size_t count) {
    mine.word.fetch_add(count - held, std::memory_order_seq_cst);
    if (theirs.room.occupied()) theirs.room.wake(1);
    if (mine.turns.occupied()) mine.turns.wake(1);
    if (mine.room.occupied() && can_pass(mine, theirs)) mine.room.wake(1);
  }

  void end_pop(std::size_t count) {
    end_turn(head_, tail_, count);
    if (head_.room.occupied() && ended()) head_.room.wake_all();
  }

  // True if an item can pass `mine`, or could a moment ago.
  static bool can_pass(const ring_end& mine, const ring_end& theirs) noexcept {
    const std::uint64_t at = position(mine.word.load(std::memory_order_seq_cst));
    return at < position(theirs.word.load(std::memory_order_seq_cst)) + mine.ahead;
  }

  // True if no further item will arrive.
  bool ended() const noexcept {
    const std::uint64_t tail = tail_.word.load(std::memory_order_seq_cst);
    const std::uint64_t head = head_.word.load(std::memory_order_seq_cst);
    return (head & over) != 0 || tail == (over | position(head));
  }

  void end(std::uint64_t for_pops) {
    tail_.word.fetch_or(over, std::memory_order_seq_cst);
    head_.word.fetch_or(for_pops, std::memory_order_seq_cst);
    tail_.room.wake_all();
    head_.room.wake_all();
  }

  bool wait_for_room(detail::deadline until) {
    return detail::wait_in(tail_.room, until, [&] { return is_closed() || can_pass(tail_, head_); });
  }

  bool wait_for_items(detail::deadline until) {
    return detail::wait_in(head_.room, until, [&] { return can_pass(head_, tail_) || ended(); });
  }

  const std::size_t capacity_;
  const detail::ring<T> ring_;
  ring_end tail_{capacity_};
  ring_end head_{0};
  std::stop_callback<detail::stop_queue<mpmc_queue>> on_stop_; // last: it may run in the constructor
};

} // namespace feedline::inline FEEDLINE_ABI
