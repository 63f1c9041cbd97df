// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/core/transport/channel.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

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
  static_cast<void>(spares_.try_pop(p));
  if (p && p->capacity() >= room) return p;
  p.reset(); // first, so that the run holds no more than its plan
  return make(std::min(config_.packet_items, std::max(least, 4 * room)));
}

FEEDLINE_INLINE void channel_base::recycle(packet_ptr p) noexcept {
  p->clear();
  try {
    static_cast<void>(spares_.try_push(std::move(p)));
  } catch (...) { // the queue has no memory for it: the packet is freed
  }
}

FEEDLINE_INLINE std::optional<std::uint64_t> epoch_gate::enter(const packet& p, const std::stop_token& stop) {
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

} // namespace feedline::inline FEEDLINE_ABI::detail

#ifdef FEEDLINE_COMPILED
namespace feedline::inline FEEDLINE_ABI {

template class spsc_queue<detail::packet_ptr>;
template class mpmc_queue<detail::packet_ptr>;
template class reorder_queue<detail::packet_ptr>;
template std::unique_ptr<detail::channel_base>
detail::make_channel<detail::transport::serial>(const detail::channel_config&);
template std::unique_ptr<detail::channel_base>
detail::make_channel<detail::transport::spread>(const detail::channel_config&);
template std::unique_ptr<detail::channel_base>
detail::make_channel<detail::transport::ordered>(const detail::channel_config&);
template std::unique_ptr<detail::channel_base>
detail::make_channel<detail::transport::ordered_spread>(const detail::channel_config&);
template std::unique_ptr<detail::channel_base>
detail::make_channel<detail::transport::dropping>(const detail::channel_config&);

} // namespace feedline::inline FEEDLINE_ABI
#endif
