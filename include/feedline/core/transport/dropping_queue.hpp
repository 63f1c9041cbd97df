// SPDX-License-Identifier: MIT
#pragma once
// A queue of packets that drops samples when it is full.
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <stop_token>

#include <feedline/core/transport/packet.hpp>
#include <feedline/queue/overflow.hpp>
#include <feedline/queue/queue_status.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// A queue from one thread to any number of threads. It never drops failures and ends of epochs: when their
/// packet's samples are dropped, they join a neighbouring packet; a packet that contains only such events waits
/// for room.
///
/// Numbers the packets as they leave.
class dropping_queue {
 public:
  /// Adds the number of dropped samples to `dropped`.
  dropping_queue(std::size_t capacity, overflow what, std::atomic<std::uint64_t>& dropped,
                 std::stop_token stop);

  /// Returns success, closed, or full if the packet must wait. After success `p` is a dropped packet or null.
  queue_status try_push(packet_ptr&& p);

  /// The same, but waits for room: returns success or closed.
  queue_status push(packet_ptr&& p);

  queue_status try_pop(packet_ptr& p);

  queue_status pop(packet_ptr& p);

  queue_status pop_for(packet_ptr& p, std::chrono::nanoseconds longest);

  /// Ends the stream: packets inside are still delivered.
  void close();

  /// Abandons the stream: no more packets go in or out.
  void stop();

 private:
  static constexpr std::size_t max_events = 1024; // in one packet

  bool may_take() const noexcept;

  queue_status take(packet_ptr& p);

  queue_status put(packet_ptr& p);

  queue_status drop_newest(packet& p);

  // Makes room for `newest`: drops the first packet that has samples and whose events can move to the next
  // packet.
  packet_ptr drop_oldest(packet& newest);

  // Whether the events of two packets can be merged; `a` comes first.
  static bool may_join(const packet& a, const packet& b);

  const std::size_t capacity_; // in packets
  const bool drops_oldest_;
  std::atomic<std::uint64_t>& dropped_; // samples
  const std::stop_token stop_;
  std::mutex mutex_; // guards the members below
  std::condition_variable_any not_empty_;
  std::condition_variable_any room_;
  std::deque<packet_ptr> packets_;
  std::uint64_t next_sequence_ = 0;
  std::uint64_t items_ = 0; // that have left
  bool closed_ = false;
  bool stopped_ = false;
};

} // namespace feedline::inline FEEDLINE_ABI::detail

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_CORE)
#include <iterator>
#include <utility>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE dropping_queue::dropping_queue(std::size_t capacity, overflow what,
                                               std::atomic<std::uint64_t>& dropped, std::stop_token stop)
    : capacity_(capacity),
      drops_oldest_(what == overflow::drop_oldest),
      dropped_(dropped),
      stop_(std::move(stop)) {}

FEEDLINE_INLINE queue_status dropping_queue::try_push(packet_ptr&& p) {
  const std::lock_guard lock(mutex_);
  return put(p);
}

FEEDLINE_INLINE queue_status dropping_queue::push(packet_ptr&& p) {
  std::unique_lock lock(mutex_);
  queue_status status = queue_status::full;
  room_.wait(lock, stop_, [&] { return (status = put(p)) != queue_status::full; });
  return status == queue_status::full ? queue_status::closed : status;
}

FEEDLINE_INLINE queue_status dropping_queue::try_pop(packet_ptr& p) {
  const std::lock_guard lock(mutex_);
  return take(p);
}

FEEDLINE_INLINE queue_status dropping_queue::pop(packet_ptr& p) {
  std::unique_lock lock(mutex_);
  not_empty_.wait(lock, stop_, [&] { return may_take(); });
  return take(p);
}

FEEDLINE_INLINE queue_status dropping_queue::pop_for(packet_ptr& p, std::chrono::nanoseconds longest) {
  std::unique_lock lock(mutex_);
  not_empty_.wait_for(lock, stop_, longest, [&] { return may_take(); });
  return take(p);
}

FEEDLINE_INLINE void dropping_queue::close() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  not_empty_.notify_all();
  room_.notify_all();
}

FEEDLINE_INLINE void dropping_queue::stop() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = stopped_ = true;
  }
  not_empty_.notify_all();
  room_.notify_all();
}

FEEDLINE_INLINE bool dropping_queue::may_take() const noexcept { return !packets_.empty() || closed_; }

FEEDLINE_INLINE queue_status dropping_queue::take(packet_ptr& p) {
  if (stopped_ || stop_.stop_requested()) return queue_status::closed;
  if (packets_.empty()) return closed_ ? queue_status::closed : queue_status::empty;
  p = std::move(packets_.front());
  packets_.pop_front();
  p->sequence = next_sequence_++;
  p->last = true;
  p->first_place = std::exchange(items_, items_ + p->size());
  room_.notify_one();
  return queue_status::success;
}

FEEDLINE_INLINE queue_status dropping_queue::put(packet_ptr& p) {
  if (closed_ || stop_.stop_requested()) return queue_status::closed;
  packet_ptr dropped;
  if (packets_.size() == capacity_) {
    if (!drops_oldest_ || p->size() == 0) return drop_newest(*p); // events alone displace no samples
    dropped = drop_oldest(*p);
    if (!dropped) return queue_status::full;
  }
  packets_.push_back(std::move(p));
  p = std::move(dropped);
  not_empty_.notify_one();
  return queue_status::success;
}

FEEDLINE_INLINE queue_status dropping_queue::drop_newest(packet& p) {
  dropped_.fetch_add(p.drop_samples(), std::memory_order_relaxed);
  packet& last = *packets_.back();
  if (p.events().empty()) return queue_status::success;
  if (!may_join(last, p)) return queue_status::full;
  for (event& e : p.events()) {
    last.events().push_back(std::move(e));
    last.events().back().position = last.size();
  }
  p.events().clear();
  return queue_status::success;
}

FEEDLINE_INLINE packet_ptr dropping_queue::drop_oldest(packet& newest) {
  for (std::size_t i = 0; i < packets_.size(); ++i) {
    packet& oldest = *packets_[i];
    packet& next = i + 1 < packets_.size() ? *packets_[i + 1] : newest;
    if (oldest.size() == 0 || !(oldest.events().empty() || may_join(oldest, next))) continue;
    dropped_.fetch_add(oldest.drop_samples(), std::memory_order_relaxed);
    next.events().insert(next.events().begin(), std::move_iterator(oldest.events().begin()),
                         std::move_iterator(oldest.events().end()));
    oldest.events().clear();
    packet_ptr dropped = std::move(packets_[i]);
    packets_.erase(packets_.begin() + static_cast<std::ptrdiff_t>(i));
    return dropped;
  }
  return nullptr;
}

FEEDLINE_INLINE bool dropping_queue::may_join(const packet& a, const packet& b) {
  return !a.has_end() && a.events().size() + b.events().size() <= max_events;
}

} // namespace feedline::inline FEEDLINE_ABI::detail
#endif
