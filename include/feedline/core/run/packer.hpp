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

#ifndef FEEDLINE_COMPILED
#include <feedline/core/run/packer.ipp>
#endif
