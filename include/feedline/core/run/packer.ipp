// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/core/run/packer.hpp>

#include <algorithm>
#include <new>
#include <utility>
#include <vector>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE packer_base::packer_base(packet_maker make, bool packs_batches,
                                         const chain_parts<packer_parts>& from)
    : chain_end(from.sink.progress),
      make_(make),
      packs_batches_(packs_batches),
      is_worker_(from.sink.is_worker),
      channel_(from.sink.channel),
      thread_(from.thread) {}

FEEDLINE_INLINE packer_base::~packer_base() = default;

FEEDLINE_INLINE flow packer_base::skipped(failure_ptr f) {
  const std::uint32_t epoch = f->epoch;
  add_event(event_kind::skipped, epoch, std::move(f));
  is_due_ = true;
  return waits() ? flow::more : flush(true);
}

FEEDLINE_INLINE flow packer_base::end_epoch(epoch_end e, bool drain) {
  for (node_base* n = first_node(); n; n = n->next_node())
    if (n->end_epoch(e, drain) == flow::stop) return flow::stop;
  add_event(event_kind::epoch_end, e.epoch, nullptr);
  packet_.current().events().back().samples = e.samples;
  progress().has_failed = false;
  take_snapshot(true);
  progress().ending = 0;
  progress().enough = progress().is_resumed = false;
  return is_worker_ ? flow::more : flush(true);
}

FEEDLINE_INLINE void packer_base::publish() noexcept {
  for (node_base* n = first_node(); n; n = n->next_node()) n->publish();
}

FEEDLINE_INLINE flow packer_base::fail(failure_ptr f) {
  progress().has_failed = true;
  const std::uint32_t epoch = f->epoch;
  add_event(event_kind::failed, epoch, std::move(f));
  return is_worker_ ? flow::more : flush(true);
}

FEEDLINE_INLINE void packer_base::open(const packet& p) {
  sequence_ = p.sequence;
  generation_ = p.generation;
  first_place_ = p.first_place;
  fill_target_ = std::max(fill_target_, p.size());
  begin_packet(p.first_place);
}

FEEDLINE_INLINE bool packer_base::complete(packet& p) {
  if (!packet_.is_open()) open_packet();
  packet& made = packet_.current();
  made.has_snapshot =
      p.has_snapshot && p.snapshot_items == p.size() && p.snapshot_events == p.events().size();
  made.snapshot_items = packet_.size();
  made.snapshot_events = made.events().size();
  std::swap(made.snapshot, p.snapshot);
  write_section(made.snapshot, [](state_writer&) {}); // workers have no state
  return flush(true) != flow::stop;
}

FEEDLINE_INLINE flow packer_base::open_packet() {
  if (packet_.is_open()) {
    if (is_worker_) set_fill_target(std::max(fill_target_, 2 * packet_.size()));
    if (const flow wanted = push_packet(!is_worker_); wanted != flow::more) return wanted;
  }
  // Holds no more than workers downstream want at once. A worker may have to wait before it can push another part,
  // so it uses all the room that there is.
  const std::size_t samples = std::min(channel_.target(), fill_target_);
  packet_ptr p = channel_.spare(make_, samples);
  const std::size_t limit = is_worker_ ? std::min(channel_.target(), p->capacity()) : samples;
  packet_.open(std::move(p), limit);
  return flow::more;
}

FEEDLINE_INLINE void packer_base::take_snapshot(bool ends_epoch) {
  packet& p = packet_.current();
  if (is_worker_) return;
  try {
    if (!progress().save(p.snapshot, ends_epoch)) return;
  } catch (const std::bad_alloc&) {
    p.has_snapshot = false;
    return;
  }
  p.has_snapshot = true;
  p.snapshot_items = packet_.size();
  p.snapshot_events = p.events().size();
  owes_snapshot_ = false;
}

FEEDLINE_INLINE void packer_base::add_event(event_kind kind, std::uint32_t epoch, failure_ptr cause) {
  if (!packet_.is_open()) open_packet();
  packet_.add(kind, epoch, std::move(cause));
}

FEEDLINE_INLINE flow packer_base::flush(bool last) {
  if (!packet_.current().has_end()) take_snapshot(false);
  return push_packet(last);
}

FEEDLINE_INLINE flow packer_base::push_packet(bool last) {
  is_due_ = false;
  const bool is_full = !packet_.has_room();
  packet_ptr p = packet_.close();
  owes_snapshot_ = !p->has_snapshot;
  p->sequence = sequence_;
  p->generation = generation_;
  p->first_place = is_worker_ ? first_place_ : items_;
  p->last = last;
  items_ += p->size();
  first_place_ += p->size();
  const bool abandoned = channel_.is_abandoned(generation_);
  if (!is_worker_) {
    ++sequence_;
    if (p->ends_epoch()) ++generation_;
    adjust_fill_target(is_full);
  }
  ++pushes_;
  timed_item& timed = progress().timed_stages;
  const std::uint64_t began = timed.is_timed ? now_ns() : 0;
  if (!channel_.push(std::move(p), thread_)) return flow::stop;
  if (!is_worker_ || timed.is_timed) filled_at_ = now_ns();
  if (timed.is_timed) timed.downstream_ns += filled_at_ - began; // waiting counts for no stage
  return abandoned ? flow::enough : flow::more;
}

// While packets take long to fill they are pushed early, so that no thread waits for an item that is ready.
FEEDLINE_INLINE void packer_base::adjust_fill_target(bool is_full) noexcept {
  const std::uint64_t ns = now_ns() - filled_at_;
  if (ns > channel_base::slow_packet_ns) fill_target_ = std::max<std::size_t>(1, fill_target_ / 2);
  else if (is_full && ns < channel_base::slow_packet_ns / 4) set_fill_target(fill_target_ * 2);
}

FEEDLINE_INLINE void packer_base::set_fill_target(std::size_t samples) noexcept {
  fill_target_ = std::min(samples, channel_.config().packet_items);
}

} // namespace feedline::inline FEEDLINE_ABI::detail
