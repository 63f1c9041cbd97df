// SPDX-License-Identifier: MIT
#pragma once
// Where a segment's chain of stages ends: samples are packed, and the packets pushed into the queue behind.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include <feedline/core/detail/activity.hpp>
#include <feedline/core/detail/edge.hpp>
#include <feedline/core/detail/emitter.hpp>
#include <feedline/core/detail/packet.hpp>

namespace feedline::detail {

/// The end of every chain: fills packets and pushes them.
///
/// In a serial segment each packet has the next sequence number. A worker instead opens a packet for the
/// sequence number of the one that it works on and completes it when it's done; if it makes more than fit, it
/// pushes parts.
template <class T, class Edge>
class packer {
 public:
  static constexpr bool is_measured = Edge::is_measured;
  static constexpr bool has_room = true;

  packer(Edge& edge, activity& who) : edge_(edge), who_(who) {}

  packer(packer&&) noexcept = default;

  flow push(sample<T>&& s) {
    if (!packet_.has_room()) [[unlikely]]
      if (const flow wanted = begin_packet(); wanted != flow::more) return wanted;
    packet_.add(std::move(s));
    // A worker's is perhaps the last of its sequence number, perhaps a part of it: what follows will tell.
    return packet_.has_room() || is_worker_ ? flow::more : flush(true);
  }

  flow room(std::span<T>& lent) {
    if (!packet_.has_room())
      if (const flow wanted = begin_packet(); wanted != flow::more) return wanted;
    lent = packet_.room();
    return flow::more;
  }

  flow commit(std::size_t count, const id_row& ids) {
    packet_.commit(count, ids);
    return packet_.has_room() || is_worker_ ? flow::more : flush(true);
  }

  flow skipped(failure_ptr f) {
    const std::uint32_t epoch = f->epoch;
    add_event(event_kind::skipped, epoch, std::move(f));
    return is_worker_ ? flow::more : flush(true);
  }

  flow end_epoch(std::uint32_t epoch, bool) {
    add_event(event_kind::epoch_end, epoch, nullptr);
    return is_worker_ ? flow::more : flush(true);
  }

  flow fail(failure_ptr f) {
    const std::uint32_t epoch = f->epoch;
    add_event(event_kind::failed, epoch, std::move(f));
    return is_worker_ ? flow::more : flush(true);
  }

  bool is_worker() const noexcept { return is_worker_; }

  packer& sink() noexcept { return *this; }

  void publish() noexcept {}

  /// How many packets have been pushed.
  std::uint64_t pushes() const noexcept { return pushes_; }

  /// Is more of this epoch wanted, as far as anybody has said?
  flow wanted() const noexcept { return edge_.is_abandoned(generation_) ? flow::enough : flow::more; }

  /// Pushes what there is, before a wait: nobody should wait for an item that is there.
  flow hand_over() { return packet_.is_open() && !is_worker_ ? flush(true) : flow::more; }

  /// The same if what there is took long already.
  flow hand_over_if_late() {
    return packet_.is_open() && now_ns() - filled_at_ > edge_base::slow_packet_ns ? flush(true) : flow::more;
  }

  /// A worker starts on a packet with this sequence number …
  void open(std::uint64_t sequence, std::uint64_t generation) {
    is_worker_ = true;
    sequence_ = sequence;
    generation_ = generation;
  }

  /// … and has done it. False: nobody takes it.
  bool complete() {
    if (!packet_.is_open()) begin_packet();
    return flush(true) != flow::stop;
  }

 private:
  [[gnu::noinline]] flow begin_packet() {
    if (packet_.is_open())
      if (const flow wanted = flush(false); wanted != flow::more) return wanted;
    packet_.open(edge_.spare(&packet::make<T>),
                 is_worker_ ? edge_.config().packet_items : std::min(edge_.target(), fill_target_));
    return flow::more;
  }

  void add_event(event_kind kind, std::uint32_t epoch, failure_ptr cause) {
    if (!packet_.is_open()) begin_packet();
    packet_.add(kind, epoch, std::move(cause));
  }

  [[gnu::noinline]] flow flush(bool last) {
    packet_ptr p = packet_.close();
    p->sequence = sequence_;
    p->generation = generation_;
    p->last = last;
    const bool abandoned = edge_.is_abandoned(generation_);
    if (!is_worker_) {
      ++sequence_;
      if (p->ends_epoch()) ++generation_;
      adjust_fill_target();
    }
    ++pushes_;
    if (!edge_.push(std::move(p), who_)) return flow::stop;
    if (!is_worker_) filled_at_ = now_ns();
    return abandoned ? flow::enough : flow::more;
  }

  // A packet is pushed early as long as it takes long to fill: nobody should wait for an item that's there.
  void adjust_fill_target() noexcept {
    const std::uint64_t ns = now_ns() - filled_at_;
    if (ns > edge_base::slow_packet_ns) fill_target_ = std::max<std::size_t>(1, fill_target_ / 2);
    else if (ns < edge_base::slow_packet_ns / 4)
      fill_target_ = std::min(fill_target_ * 2, edge_.config().packet_items);
  }

  Edge& edge_;
  activity& who_;
  packet_writer<T> packet_; // being filled
  std::size_t fill_target_ = 1;
  std::uint64_t filled_at_ = 0;
  std::uint64_t sequence_ = 0;
  std::uint64_t generation_ = 0;
  std::uint64_t pushes_ = 0;
  bool is_worker_ = false;
};

} // namespace feedline::detail
