// SPDX-License-Identifier: MIT
#pragma once
// The end of a segment's chain of stages: packs samples and pushes the packets into the queue after the
// segment.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include <feedline/core/failure.hpp>
#include <feedline/core/metrics/thread_counters.hpp>
#include <feedline/core/run/emitter.hpp>
#include <feedline/core/run/progress.hpp>
#include <feedline/core/sample.hpp>
#include <feedline/core/state.hpp>
#include <feedline/core/transport/channel.hpp>
#include <feedline/core/transport/packet.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// The end of every chain: fills packets and pushes them.
///
/// In a serial segment each packet gets the next sequence number. A worker's packet has the sequence number of
/// the packet that the worker processes, and is complete when that one is done. A worker pushes parts if it
/// produces more than fit into a packet, or than workers downstream want at once. Without Measured the chain
/// counts nothing.
template <class T, bool IsWorker, bool Measured>
class packer {
 public:
  static constexpr bool is_measured = Measured;
  static constexpr bool has_room = true;
  static constexpr bool takes_rows = false;

  packer(channel_base& channel, thread_counters& thread, segment_progress& progress)
      : channel_(channel), thread_(thread), progress_(progress) {}

  packer(packer&&) noexcept = default;

  flow push(sample<T>&& s) {
    if (!packet_.has_room()) [[unlikely]]
      if (const flow wanted = begin_packet(); wanted != flow::more) return wanted;
    packet_.add(std::move(s));
    // After a batch its stage holds no samples; later, when the packet is pushed, it may hold some.
    if constexpr (comes_in_batches<T>) {
      if (packet_.has_room()) take_snapshot(false);
    } else if (packet_.has_room()) {
      take_owed_snapshot();
    }
    // A worker doesn't push here: it doesn't know yet whether its packet is the last of its sequence number.
    return packet_.has_room() || waits() ? flow::more : flush(true);
  }

  flow room(std::span<T>& lent) {
    if (!packet_.has_room())
      if (const flow wanted = begin_packet(); wanted != flow::more) return wanted;
    lent = packet_.room();
    return flow::more;
  }

  flow commit(std::size_t count, const id_row& ids) {
    packet_.commit(count, ids);
    return packet_.has_room() || waits() ? flow::more : flush(true);
  }

  flow skipped(failure_ptr f) {
    const std::uint32_t epoch = f->epoch;
    add_event(event_kind::skipped, epoch, std::move(f));
    is_due_ = true;
    return waits() ? flow::more : flush(true);
  }

  /// Called when a user's stage has returned: its output can now be pushed with the state that it left.
  flow settle() {
    if (!packet_.is_open() || waits()) return flow::more;
    if (is_due_ || !packet_.has_room()) return flush(true);
    if constexpr (comes_in_batches<T>) take_snapshot(false);
    else take_owed_snapshot();
    return flow::more;
  }

  /// Called when a stage is at rest: takes the snapshot that wasn't possible when the last packet was pushed.
  void take_owed_snapshot() {
    if (owes_snapshot_ && packet_.is_open() && !waits()) take_snapshot(false);
  }

  flow end_epoch(const epoch_end& e, bool) {
    add_event(event_kind::epoch_end, e.epoch, nullptr);
    packet_.current().events().back().samples = e.samples;
    progress_.has_failed = false;
    take_snapshot(true);
    progress_.ending = 0;
    progress_.enough = progress_.is_resumed = false;
    return IsWorker ? flow::more : flush(true);
  }

  /// Passes on a failure that ends the stream, unless a stage downstream had enough of the epoch before it.
  flow fail(failure_ptr f) {
    progress_.has_failed = true;
    const std::uint32_t epoch = f->epoch;
    add_event(event_kind::failed, epoch, std::move(f));
    return IsWorker ? flow::more : flush(true);
  }

  static constexpr bool is_worker() noexcept { return IsWorker; }

  // For a segment without stages, whose thread only passes samples on.
  static constexpr bool is_after_state() noexcept { return false; }

  packer& sink() noexcept { return *this; }

  segment_progress& progress() noexcept { return progress_; }

  void attach() noexcept {}

  void load(state_reader&, const resumption&) noexcept {}

  void begin_packet(std::uint64_t) noexcept {}

  void publish() noexcept {}

  /// How many packets have been pushed.
  std::uint64_t pushes() const noexcept { return pushes_; }

  /// Whether more of this epoch is wanted, as far as is known.
  flow wanted() const noexcept { return channel_.is_abandoned(generation_) ? flow::enough : flow::more; }

  /// Pushes the open packet before a wait, so that no thread waits for an item that is ready.
  flow hand_over() { return packet_.is_open() && !IsWorker ? flush(true) : flow::more; }

  /// The same in the middle of a stage's call, where the state isn't known: the next sample brings the snapshot.
  flow hand_over_in_call() { return packet_.is_open() ? push_packet(!IsWorker) : flow::more; }

  /// Pushes the open packet if it has taken long to fill.
  flow hand_over_if_late() {
    return packet_.is_open() && now_ns() - filled_at_ > channel_base::slow_packet_ns ? flush(true)
                                                                                     : flow::more;
  }

  /// A worker starts on a packet.
  void open(const packet& p) {
    sequence_ = p.sequence;
    generation_ = p.generation;
    first_place_ = p.first_place;
    fill_target_ = std::max(fill_target_, p.size());
  }

  /// A worker has finished a packet. False if no thread will take the result.
  bool complete(packet& p) {
    if (!packet_.is_open()) begin_packet();
    packet& made = packet_.current();
    made.has_snapshot =
        p.has_snapshot && p.snapshot_items == p.size() && p.snapshot_events == p.events().size();
    made.snapshot_items = packet_.size();
    made.snapshot_events = made.events().size();
    std::swap(made.snapshot, p.snapshot);
    write_section(made.snapshot, [](state_writer&) {}); // workers have no state
    return flush(true) != flow::stop;
  }

 private:
  [[gnu::noinline]] flow begin_packet() {
    if (packet_.is_open()) {
      if (IsWorker) set_fill_target(std::max(fill_target_, 2 * packet_.size()));
      if (const flow wanted = push_packet(!IsWorker); wanted != flow::more) return wanted;
    }
    // Holds no more than workers downstream want at once. A worker may have to wait before it can push another part,
    // so it uses all the room that there is.
    const std::size_t samples = std::min(channel_.target(), fill_target_);
    packet_ptr p = channel_.spare(&packet::make<T>, samples);
    const std::size_t limit = IsWorker ? std::min(channel_.target(), p->capacity()) : samples;
    packet_.open(std::move(p), limit);
    return flow::more;
  }

  // Stores the state of all parts up to the current end of the packet. Without memory for it the packet has no
  // snapshot, and an earlier one must do.
  void take_snapshot(bool ends_epoch) {
    packet& p = packet_.current();
    if (IsWorker) return;
    try {
      if (!progress_.save(p.snapshot, ends_epoch)) return;
    } catch (const std::bad_alloc&) {
      p.has_snapshot = false;
      return;
    }
    p.has_snapshot = true;
    p.snapshot_items = packet_.size();
    p.snapshot_events = p.events().size();
    owes_snapshot_ = false;
  }

  void add_event(event_kind kind, std::uint32_t epoch, failure_ptr cause) {
    if (!packet_.is_open()) begin_packet();
    packet_.add(kind, epoch, std::move(cause));
  }

  // A worker's packet waits until the worker's share is done, and the output of a user's stage until its call
  // has returned.
  bool waits() const noexcept { return IsWorker || progress_.calls > 0; }

  // Pushes the packet with a snapshot at its end.
  [[gnu::noinline]] flow flush(bool last) {
    if (!packet_.current().has_end()) take_snapshot(false);
    return push_packet(last);
  }

  flow push_packet(bool last) {
    is_due_ = false;
    const bool is_full = !packet_.has_room();
    packet_ptr p = packet_.close();
    owes_snapshot_ = !p->has_snapshot;
    p->sequence = sequence_;
    p->generation = generation_;
    p->first_place = IsWorker ? first_place_ : items_;
    p->last = last;
    items_ += p->size();
    first_place_ += p->size();
    const bool abandoned = channel_.is_abandoned(generation_);
    if (!IsWorker) {
      ++sequence_;
      if (p->ends_epoch()) ++generation_;
      adjust_fill_target(is_full);
    }
    ++pushes_;
    timed_item& timed = progress_.timed_stages;
    const std::uint64_t began = timed.is_timed ? now_ns() : 0;
    if (!channel_.push(std::move(p), thread_)) return flow::stop;
    if (!IsWorker || timed.is_timed) filled_at_ = now_ns();
    if (timed.is_timed) timed.downstream_ns += filled_at_ - began; // waiting counts for no stage
    return abandoned ? flow::enough : flow::more;
  }

  // While packets take long to fill they are pushed early, so that no thread waits for an item that is ready.
  void adjust_fill_target(bool is_full) noexcept {
    const std::uint64_t ns = now_ns() - filled_at_;
    if (ns > channel_base::slow_packet_ns) fill_target_ = std::max<std::size_t>(1, fill_target_ / 2);
    else if (is_full && ns < channel_base::slow_packet_ns / 4) set_fill_target(fill_target_ * 2);
  }

  void set_fill_target(std::size_t samples) noexcept {
    fill_target_ = std::min(samples, channel_.config().packet_items);
  }

  channel_base& channel_;
  thread_counters& thread_;
  segment_progress& progress_;
  packet_writer<T> packet_; // being filled
  // The samples that a packet should have room for. A worker begins with the size of the packet that it processes,
  // and doubles that of its own packet when it is full.
  std::size_t fill_target_ = 1;
  std::uint64_t filled_at_ = 0;
  std::uint64_t sequence_ = 0;
  std::uint64_t generation_ = 0;
  std::uint64_t items_ = 0;       // pushed
  std::uint64_t first_place_ = 0; // of the rest of the packet that a worker processes
  std::uint64_t pushes_ = 0;
  bool owes_snapshot_ = false; // the last packet had no snapshot
  bool is_due_ = false;        // the packet reports a failure and must not wait
};

} // namespace feedline::inline FEEDLINE_ABI::detail
