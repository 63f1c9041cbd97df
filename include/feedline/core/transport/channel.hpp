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

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_CORE)
#include <condition_variable>
#include <mutex>
#include <type_traits>
#include <vector>

#include <feedline/core/transport/dropping_queue.hpp>
#include <feedline/detail/share.hpp>
#include <feedline/queue/mpmc_queue.hpp>
#include <feedline/queue/reorder_queue.hpp>
#include <feedline/queue/spsc_queue.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// A stack, so that the packet that was used last, which may still be in a cache, is reused first.
struct channel_base::spare_packets {
  explicit spare_packets(std::size_t most) { all.reserve(most); }

  std::mutex mutex;
  std::vector<packet_ptr> all; // has memory for as many as it may hold
};

FEEDLINE_INLINE std::shared_ptr<channel_base::spare_packets>
channel_base::make_spares(const channel_config& config) {
  constexpr std::size_t most = 1'000'000; // further ones are freed
  return std::make_shared<spare_packets>(std::min(config.packets + config.ends, most));
}

FEEDLINE_INLINE void channel_base::abandon(std::uint64_t generation) noexcept {
  for (channel_base* e = this; e; e = e->upstream_) {
    // Another segment may already be in a later epoch.
    std::uint64_t known = e->abandoned_.load(std::memory_order_relaxed);
    while (known <= generation &&
           !e->abandoned_.compare_exchange_weak(known, generation + 1, std::memory_order_relaxed)) {
    }
  }
  config_.attention->store(true, std::memory_order_relaxed);
}

FEEDLINE_INLINE packet_ptr channel_base::spare(packet_ptr (*make)(std::size_t capacity), std::size_t room) {
  constexpr std::size_t least = 64; // samples
  packet_ptr p;
  {
    const std::lock_guard lock(spares_->mutex);
    if (!spares_->all.empty()) {
      p = std::move(spares_->all.back());
      spares_->all.pop_back();
    }
  }
  if (p && p->capacity() >= room) return p;
  p.reset(); // first, so that the run holds no more than its plan
  return make(std::min(config_.packet_items, std::max(least, 4 * room)));
}

FEEDLINE_INLINE void channel_base::recycle(packet_ptr p) noexcept {
  p->clear();
  const std::lock_guard lock(spares_->mutex);
  if (spares_->all.size() < spares_->all.capacity()) spares_->all.push_back(std::move(p));
}

/// Numbers the packets of unordered workers in completion order, but keeps epochs apart: the end of an epoch
/// follows all packets of its epoch, and later packets wait for it.
class epoch_gate {
 public:
  /// Returns the packet's number, after a wait if necessary; nothing if the run was stopped.
  std::optional<std::uint64_t> enter(const packet& p, const std::stop_token& stop) {
    const bool ends_epoch = p.ends_epoch();
    const auto may_pass = [&] { return ends_epoch ? completed_ == p.sequence : passed_ >= p.generation; };
    std::unique_lock lock(mutex_);
    if (!may_pass()) {
      ++waiting_;
      const bool passes = changed_.wait(lock, stop, may_pass);
      --waiting_;
      if (!passes) return std::nullopt;
    }
    completed_ += p.last;
    passed_ += ends_epoch;
    if (waiting_ > 0) changed_.notify_all();
    return next_++;
  }

 private:
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::size_t waiting_ = 0;     // threads
  std::uint64_t completed_ = 0; // sequence numbers whose last packet has entered
  std::uint64_t passed_ = 0;    // ends of epochs that have entered
  std::uint64_t next_ = 0;
};

/// A channel for one kind of queue.
template <transport Transport>
class channel final : public channel_base {
  static constexpr bool restores_order =
      Transport == transport::ordered || Transport == transport::ordered_spread;

 public:
  explicit channel(const channel_config& config) : channel_base(config), queue_(make_queue(config)) {}

  bool push(packet_ptr&& p, thread_counters& thread) override {
    const std::size_t samples = p->size();
    if (restores_order && config().unordered) {
      const std::optional<std::uint64_t> number = gate_.enter(*p, config().stop);
      if (!number) return false;
      p->sequence = *number;
      p->last = true;
    }
    const std::uint64_t now = now_ns();
    p->put_at = now;
    queue_status status = try_put(p);
    if (status == queue_status::full) {
      const wait_timer timer(thread, wait_kind::blocked);
      status = put(p);
    }
    if (status != queue_status::success) return false;
    if (Transport == transport::dropping && p) recycle(std::move(p));
    count_put(samples);
    if (thread.is_traced()) [[unlikely]]
      thread.note({now, now, now, samples, fill(), trace_event::kind::pushed});
    return true;
  }

  packet_ptr pop(thread_counters& thread, function_ref<void()> before_wait) override {
    packet_ptr p;
    if constexpr (Transport == transport::ordered_spread) {
      pop_in_turn(p, thread);
    } else if (queue_.try_pop(p) == queue_status::empty) {
      before_wait();
      const wait_timer timer(thread, wait_kind::starved);
      if (queue_.pop(p) != queue_status::success) return nullptr;
    }
    count_taken(p);
    return p;
  }

  queue_status pop_for(packet_ptr& p, std::chrono::nanoseconds longest, thread_counters& thread) override {
    queue_status status = queue_.try_pop(p);
    if (status == queue_status::empty && longest.count() > 0) {
      const wait_timer timer(thread, wait_kind::starved);
      status = queue_.pop_for(p, longest);
    }
    count_taken(p);
    return status;
  }

  void close() override { queue_.close(); }

  void stop() override { queue_.stop(); }

 private:
  using queue = std::conditional_t<
      restores_order, reorder_queue<packet_ptr>,
      std::conditional_t<Transport == transport::dropping, dropping_queue,
                         std::conditional_t<Transport == transport::serial, spsc_queue<packet_ptr>,
                                            mpmc_queue<packet_ptr>>>>;

  queue make_queue(const channel_config& config) {
    if constexpr (Transport == transport::dropping)
      return queue(config.packets, config.overflow, counters().dropped, config.stop);
    else return queue(config.packets, config.stop);
  }

  queue_status try_put(packet_ptr& p) {
    if constexpr (restores_order) return queue_.try_push(p->sequence, std::move(p), p->last);
    else return queue_.try_push(std::move(p));
  }

  queue_status put(packet_ptr& p) {
    if constexpr (restores_order) return queue_.push(p->sequence, std::move(p), p->last);
    else return queue_.push(std::move(p));
  }

  // Several packets may have the same sequence number here, but the workers downstream need one each.
  void pop_in_turn(packet_ptr& p, thread_counters& thread) {
    std::unique_lock turn(turn_, std::try_to_lock);
    std::optional<wait_timer> timer;
    if (!turn) {
      timer.emplace(thread, wait_kind::starved);
      turn.lock();
    }
    if (queue_.try_pop(p) == queue_status::empty) {
      if (!timer) timer.emplace(thread, wait_kind::starved);
      if (queue_.pop(p) != queue_status::success) return;
    }
    if (!p) return;
    p->sequence = next_sequence_++;
    p->generation = generation_;
    p->first_place = std::exchange(items_, items_ + p->size());
    p->last = true;
    if (p->ends_epoch()) ++generation_;
  }

  void count_taken(const packet_ptr& p) noexcept {
    if (!p) return;
    counters().taken.fetch_add(p->size(), std::memory_order_relaxed);
    counters().fill.pass(static_cast<double>(fill()));
  }

  void count_put(std::size_t samples) noexcept {
    channel_counters& c = counters();
    c.put.fetch_add(samples, std::memory_order_relaxed);
    raise(c.largest, samples);
    c.fill.set(static_cast<double>(std::max<std::uint64_t>(fill(), samples))); // which may be gone already
  }

  static void raise(std::atomic<std::uint64_t>& peak, std::uint64_t value) noexcept {
    std::uint64_t seen = peak.load(std::memory_order_relaxed);
    while (seen < value && !peak.compare_exchange_weak(seen, value, std::memory_order_relaxed)) {
    }
  }

  queue queue_;
  epoch_gate gate_;
  std::mutex turn_;
  std::uint64_t next_sequence_ = 0;
  std::uint64_t generation_ = 0;
  std::uint64_t items_ = 0; // popped in turn
};

template <transport Transport>
std::shared_ptr<channel_base> make_channel(const channel_config& config) {
  return owned<channel_base>(new channel<Transport>(config));
}

} // namespace feedline::inline FEEDLINE_ABI::detail

#ifdef FEEDLINE_COMPILED
// Pipelines of all types share these.
namespace feedline::inline FEEDLINE_ABI::detail {

template std::shared_ptr<channel_base> make_channel<transport::serial>(const channel_config&);
template std::shared_ptr<channel_base> make_channel<transport::spread>(const channel_config&);
template std::shared_ptr<channel_base> make_channel<transport::ordered>(const channel_config&);
template std::shared_ptr<channel_base> make_channel<transport::ordered_spread>(const channel_config&);
template std::shared_ptr<channel_base> make_channel<transport::dropping>(const channel_config&);

} // namespace feedline::inline FEEDLINE_ABI::detail
#endif
#endif
