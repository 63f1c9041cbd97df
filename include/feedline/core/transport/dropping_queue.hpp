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

#ifndef FEEDLINE_COMPILED
#include <feedline/core/transport/dropping_queue.ipp>
#endif
