// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/core/transport/channel.hpp>

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
