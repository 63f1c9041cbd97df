// SPDX-License-Identifier: MIT
#pragma once
// The end of a segment's chain of stages: packs samples and pushes the packets into the queue after the
// segment.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include <feedline/core/failure.hpp>
#include <feedline/core/metrics/thread_counters.hpp>
#include <feedline/core/run/emitter.hpp>
#include <feedline/core/run/node_base.hpp>
#include <feedline/core/run/progress.hpp>
#include <feedline/core/run/row.hpp>
#include <feedline/core/sample.hpp>
#include <feedline/core/slot.hpp>
#include <feedline/core/transport/channel.hpp>
#include <feedline/core/transport/packet.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// What the end of a segment's chain is built from.
struct packer_parts {
  segment_progress& progress;
  channel_base& channel;
  bool is_worker;
};

/// The end of every chain, whatever its samples are: fills packets and pushes them.
///
/// In a serial segment each packet gets the next sequence number. A worker's packet has the sequence number of
/// the packet that the worker processes, and is complete when that one is done. A worker pushes parts if it
/// produces more than fit into a packet, or than workers downstream want at once.
class packer_base : public chain_end {
 public:
  using packet_maker = packet_ptr (*)(std::size_t capacity);

  static constexpr bool is_measured = true;

  packer_base(packet_maker make, bool packs_batches, const chain_parts<packer_parts>& from);

  FEEDLINE_INLINE flow skipped(failure_ptr f) final;

  /// What a thread that makes rows checks between two samples.
  watch wanted_in(const run_context& run) const noexcept { return {run, channel_, generation_}; }

  /// Called when a user's stage has returned: its output can now be pushed with the state that it left.
  flow settle() {
    if (!packet_.is_open() || waits()) return flow::more;
    if (is_due_ || !packet_.has_room()) return flush(true);
    if (packs_batches_) take_snapshot(false);
    else take_owed_snapshot();
    return flow::more;
  }

  /// Called when a stage is at rest: takes the snapshot that wasn't possible when the last packet was pushed.
  void take_owed_snapshot() {
    if (owes_snapshot_ && packet_.is_open() && !waits()) take_snapshot(false);
  }

  /// Passes on a failure that ends the stream, unless a stage downstream had enough of the epoch before it.
  FEEDLINE_INLINE flow fail(failure_ptr f) final;

  /// Ends an epoch for the stages and in the stream. Finite mode drains the stages, infinite mode doesn't.
  flow end_epoch(epoch_end e, bool drain);

  /// Makes the counts of the stages visible to other threads.
  void publish() noexcept;

  bool is_worker() const noexcept { return is_worker_; }

  /// What the thread of the chain works on.
  work_in_hand& at() const noexcept { return thread_.at; }

  packer_base& sink() noexcept { return *this; }

  /// How many packets have been pushed.
  std::uint64_t pushes() const noexcept { return pushes_; }

  /// Whether more of this epoch is wanted, as far as is known.
  flow wanted() const noexcept { return channel_.is_abandoned(generation_) ? flow::enough : flow::more; }

  /// Pushes the open packet before a wait, so that no thread waits for an item that is ready.
  flow hand_over() { return packet_.is_open() && !is_worker_ ? flush(true) : flow::more; }

  /// The same in the middle of a stage's call, where the state isn't known: the next sample brings the snapshot.
  flow hand_over_in_call() { return packet_.is_open() ? push_packet(!is_worker_) : flow::more; }

  /// Pushes the open packet if it has taken long to fill.
  flow hand_over_if_late() {
    return packet_.is_open() && now_ns() - filled_at_ > channel_base::slow_packet_ns ? flush(true)
                                                                                     : flow::more;
  }

  /// A worker starts on a packet.
  void open(const packet& p);

  /// A worker has finished a packet. False if no thread will take the result.
  bool complete(packet& p);

 protected:
  ~packer_base();

  // Opens the next packet, after it has pushed a full one.
  flow open_packet();

  // Stores the state of all parts up to the current end of the packet. Without memory for it the packet has no
  // snapshot, and an earlier one must do.
  void take_snapshot(bool ends_epoch);

  // A worker's packet waits until the worker's share is done, and the output of a user's stage until its call
  // has returned.
  bool waits() const noexcept { return is_worker_ || progress().calls > 0; }

  // Pushes the packet with a snapshot at its end.
  flow flush(bool last);

  packet_writer packet_; // being filled

 private:
  void add_event(event_kind kind, std::uint32_t epoch, failure_ptr cause);
  flow push_packet(bool last);
  void adjust_fill_target(bool is_full) noexcept;
  void set_fill_target(std::size_t samples) noexcept;

  packet_maker make_;
  bool packs_batches_;
  bool is_worker_;
  bool owes_snapshot_ = false; // the last packet had no snapshot
  bool is_due_ = false;        // the packet reports a failure and must not wait
  channel_base& channel_;
  thread_counters& thread_;
  // The samples that a packet should have room for. A worker begins with the size of the packet that it processes,
  // and doubles that of its own packet when it is full.
  std::size_t fill_target_ = 1;
  std::uint64_t filled_at_ = 0;
  std::uint64_t sequence_ = 0;
  std::uint64_t generation_ = 0;
  std::uint64_t items_ = 0;       // pushed
  std::uint64_t first_place_ = 0; // of the rest of the packet that a worker processes
  std::uint64_t pushes_ = 0;
};

/// The end of a chain of samples of type T.
template <class T>
class packer final : public packer_base {
 public:
  static constexpr bool has_room = !is_large_item<T>;
  static constexpr bool takes_rows = !comes_in_batches<T> && !is_large_item<T>;

  explicit packer(const chain_parts<packer_parts>& from)
      : packer_base(&packet::make<carried<T>>, comes_in_batches<T>, from) {}

  flow push(sample<T>&& s) { return add(carry(std::move(s))); }

  flow push(sample<slot<T>>&& s)
    requires is_large_item<T>
  {
    return add(std::move(s));
  }

  flow push_row(std::span<T> values, const row_origin& from) {
    return push_in_parts(values, from, [&](std::span<T> left, const row_origin& of_left, flow& result) {
      return move_row(*this, left, of_left, result);
    });
  }

  std::size_t room_left() { return room_left_in<T>(*this); }

  flow room(std::span<T>& lent) {
    if (!packet_.has_room())
      if (const flow wanted = open_packet(); wanted != flow::more) return wanted;
    lent = packet_.room<T>();
    return flow::more;
  }

  flow commit(const row_ids& ids) {
    packet_.commit(ids);
    return packet_.has_room() || waits() ? flow::more : flush(true);
  }

 private:
  [[gnu::always_inline]] flow add(sample<carried<T>>&& s) {
    if (!packet_.has_room()) [[unlikely]]
      if (const flow wanted = open_packet(); wanted != flow::more) return wanted;
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
};

} // namespace feedline::inline FEEDLINE_ABI::detail

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_CORE_RUN)
#include <algorithm>
#include <new>
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
#endif
