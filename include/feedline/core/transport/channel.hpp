// SPDX-License-Identifier: MIT
#pragma once
// A queue between two segments of a run, with its counters and a return path for empty packets.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <utility>

#include <feedline/core/metrics/thread_counters.hpp>
#include <feedline/core/transport/packet.hpp>
#include <feedline/detail/function_ref.hpp>
#include <feedline/queue/overflow.hpp>
#include <feedline/queue/queue_status.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// The queue that connects two segments, by the number of threads on each side.
enum class transport {
  serial,         ///< one thread to one thread: spsc_queue
  spread,         ///< one thread to workers: mpmc_queue
  ordered,        ///< workers to one thread: reorder_queue, in stream order or in completion order
  ordered_spread, ///< workers to workers: the same, popped in turns
  dropping,       ///< one thread to one or to workers, without waiting for room: dropping_queue
};

/// The queue between two segments, each of which is parallel or not.
constexpr transport transport_between(bool from_workers, bool to_workers) {
  if (!from_workers) return to_workers ? transport::spread : transport::serial;
  return to_workers ? transport::ordered_spread : transport::ordered;
}

struct channel_config {
  std::size_t packets;         ///< capacity in packets
  std::size_t packet_items;    ///< the most samples in a packet
  std::size_t ends;            ///< threads on both sides: each may hold a packet
  bool to_workers;             ///< workers pop from it: a packet is also a unit of work
  bool unordered;              ///< workers push into it, and their packets leave in completion order
  feedline::overflow overflow; ///< of a dropping queue
  std::stop_token stop;
  std::atomic<bool>* attention; ///< flag of the run, set when an epoch is abandoned
};

struct channel_counters {
  std::atomic<std::uint64_t> put{0};
  std::atomic<std::uint64_t> taken{0};
  std::atomic<std::uint64_t> dropped{0}; ///< included in `put`
  std::atomic<std::uint64_t> largest{0}; ///< largest packet so far, in samples
  gauge_counter fill;                    ///< in samples
};

/// A channel as the threads on both sides see it.
class channel_base {
 public:
  explicit channel_base(const channel_config& config)
      : config_(config), target_(config.to_workers ? 1 : config.packet_items), spares_(make_spares(config)) {}

  channel_base(channel_base&&) = delete;
  virtual ~channel_base() = default;

  /// Returns an empty packet with room for `room` samples: a used one if it is large enough, otherwise a new one
  /// from `make`.
  packet_ptr spare(packet_ptr (*make)(std::size_t capacity), std::size_t room);

  /// Returns a used packet for reuse.
  void recycle(packet_ptr p) noexcept;

  /// Pushes a packet, waiting for room. Returns false, and drops the packet, if no thread will take it.
  virtual bool push(packet_ptr&& p, thread_counters& thread) = 0;

  /// Pops a packet. Calls `before_wait` before it waits. Null: there are no more packets.
  virtual packet_ptr pop(thread_counters& thread, function_ref<void()> before_wait) = 0;

  /// Pops a packet if one arrives within that time. Returns success, empty or closed.
  virtual queue_status pop_for(packet_ptr& p, std::chrono::nanoseconds longest, thread_counters& thread) = 0;

  /// No more packets will be pushed.
  virtual void close() = 0;

  /// No more packets are wanted.
  virtual void stop() = 0;

  /// Nothing downstream of this queue wants more of this epoch of the stream: everything upstream may leave out
  /// the rest.
  void abandon(std::uint64_t generation) noexcept;

  bool is_abandoned(std::uint64_t generation) const noexcept {
    return generation < abandoned_.load(std::memory_order_relaxed);
  }

  void set_upstream(channel_base* upstream) noexcept { upstream_ = upstream; }

  const channel_config& config() const noexcept { return config_; }

  /// The samples inside. The counters lag slightly: a packet that is being handed over counts.
  std::uint64_t fill() const noexcept {
    const auto read = [](const std::atomic<std::uint64_t>& a) { return a.load(std::memory_order_relaxed); };
    const std::uint64_t gone = read(counters_.taken) + read(counters_.dropped), put = read(counters_.put);
    return put > gone ? std::min(put - gone, config_.packets * read(counters_.largest)) : 0;
  }

  channel_counters& counters() noexcept { return counters_; }

  const channel_counters& counters() const noexcept { return counters_; }

  /// How many samples a packet should carry: fewer than fit while the workers need long for each.
  std::size_t target() const noexcept { return target_.load(std::memory_order_relaxed); }

  /// Reports how long a worker needed for a packet of this many samples. `waited`: it left the processor to
  /// other threads for most of that time.
  void worked(std::uint64_t ns, std::size_t samples, bool waited) noexcept {
    const std::uint64_t slow = slow_ns(waited);
    const std::size_t target = target_.load(std::memory_order_relaxed);
    if (ns > slow && target > 1) target_.store(target / 2, std::memory_order_relaxed);
    else if (ns < slow / 4 && samples >= target && target < config_.packet_items)
      target_.store(std::min(target * 2, config_.packet_items), std::memory_order_relaxed);
  }

  // A packet that takes longer to fill is too coarse: its samples should rather be on their way.
  static constexpr std::uint64_t slow_packet_ns = 100'000;

  // The same for a packet of workers, which may be coarser: their packets behind an ordered queue should last while one of
  // them has lost its processor for some milliseconds. With much less work in a packet, hand-overs waste time.
  static constexpr std::uint64_t slow_work_ns = 400'000;

 private:
  // All threads at a queue share its counters, and one of them mostly handles every packet. So with more than 100 of them a
  // packet may take longer: however many work, one packet in 1 to 4 us passes. If workers wait during a packet, it may
  // be coarser still: only hand-overs take processor time.
  std::uint64_t slow_ns(bool waited) const noexcept {
    const std::uint64_t each = waited ? 200'000 : 4'000;
    return std::clamp<std::uint64_t>(config_.ends * each, slow_work_ns, 20'000'000);
  }

  struct spare_packets;

  static std::shared_ptr<spare_packets> make_spares(const channel_config& config);

  channel_config config_;
  channel_counters counters_;
  std::atomic<std::uint64_t> abandoned_{0}; // all generations below this one
  std::atomic<std::size_t> target_;
  const std::shared_ptr<spare_packets> spares_;
  channel_base* upstream_ = nullptr;
};

/// Makes a channel for one kind of queue.
template <transport Transport>
std::shared_ptr<channel_base> make_channel(const channel_config& config);

} // namespace feedline::inline FEEDLINE_ABI::detail

#ifndef FEEDLINE_COMPILED
#include <feedline/core/transport/channel.ipp>
#endif
