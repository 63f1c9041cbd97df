// SPDX-License-Identifier: MIT
#pragma once
// A packet is the unit that crosses queues: samples in order and, between them, events of the stream.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include <feedline/core/failure.hpp>
#include <feedline/core/sample.hpp>
#include <feedline/core/snapshot/snapshot.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

enum class event_kind : unsigned char {
  skipped,   ///< a sample was left out because of its failure; the stream continues
  epoch_end, ///< the source reached the end of an epoch
  failed,    ///< the failure ends the stream here
};

/// An event directly before the packet's sample number `position`.
struct event {
  std::size_t position;
  event_kind kind;
  std::uint32_t epoch;       // for epoch_end: the epoch that ends
  failure_ptr cause;         // null for epoch_end
  failed_call call;          // of the cause
  std::uint64_t samples = 0; // for epoch_end: of the source in that epoch
};

/// The identities of consecutive samples.
struct id_row {
  sample_id first;
  const sample_id* listed = nullptr; // null: the indices count up from `first`, which is otherwise unused

  sample_id operator[](std::size_t i) const noexcept { return listed ? listed[i] : counted(i); }

  void copy_to(sample_id* target, std::size_t count) const noexcept {
    if (listed) {
      std::copy_n(listed, count, target);
    } else {
      for (std::size_t i = 0; i < count; ++i) target[i] = counted(i);
    }
  }

  /// The identities from number i on, which may be none.
  id_row from(std::size_t i) const noexcept {
    if (listed) return {first, listed + i};
    return {counted(i)};
  }

 private:
  sample_id counted(std::size_t i) const noexcept {
    sample_id id = first;
    id.index += i;
    return id;
  }
};

/// Queues and threads handle packets without knowing the type of the samples, so that their code exists once
/// for all types; only the code that fills or empties a packet names the type.
///
/// Values are contiguous. Their identities are stored only where the indices don't count up from the first one,
/// so the numbering of a source costs nothing.
class packet {
 public:
  template <class T>
  static std::unique_ptr<packet> make(std::size_t capacity) {
    return allocate(capacity, sizeof(T), std::max<std::size_t>(alignof(T), 64), &destroy_all<T>);
  }

  packet(packet&&) = delete;

  ~packet();

  void clear() noexcept;

  std::size_t size() const noexcept { return size_; }

  /// The most samples that it can hold.
  std::size_t capacity() const noexcept { return capacity_; }

  /// Destroys the samples and returns their number; events stay.
  std::size_t drop_samples() noexcept;

  /// The values, of the type that the packet was made for.
  template <class T>
  T* values() noexcept {
    return static_cast<T*>(memory_);
  }

  id_row ids() const noexcept { return {first_id_, ids_are_listed_ ? id_list() : nullptr}; }

  std::vector<event>& events() noexcept { return events_; }

  const std::vector<event>& events() const noexcept { return events_; }

  bool ends_epoch() const noexcept {
    return !events_.empty() && events_.back().kind == event_kind::epoch_end;
  }

  /// Whether the packet ends an epoch or the stream.
  bool has_end() const noexcept {
    return ends_epoch() || (!events_.empty() && events_.back().kind == event_kind::failed);
  }

  std::uint64_t sequence = 0;    ///< number in the order that must be restored after workers
  std::uint64_t generation = 0;  ///< number of epoch ends before it in the stream
  std::uint64_t first_place = 0; ///< number of items before it in the stream; exact in packets to workers
  std::uint64_t put_at = 0;      ///< when it was pushed, in ns
  bool last = true;              ///< false: more packets of the same sequence follow

  detail::snapshot snapshot;       ///< the state of all upstream parts, …
  bool has_snapshot = false;       ///< … if it is known, …
  std::size_t snapshot_items = 0;  ///< … after this many of the packet's samples
  std::size_t snapshot_events = 0; ///< … and this many of its events

 private:
  friend class packet_writer;

  template <class T>
  static void destroy_all(packet& p) noexcept {
    std::destroy_n(p.values<T>(), p.size_);
  }

  using destroyer = void (*)(packet&) noexcept;

  static std::unique_ptr<packet> allocate(std::size_t capacity, std::size_t value_size, std::size_t alignment,
                                          destroyer destroy_values);

  packet(void* memory, std::size_t capacity, std::size_t ids_at, std::align_val_t alignment,
         destroyer destroy_values);

  sample_id* id_list() const noexcept {
    return reinterpret_cast<sample_id*>(static_cast<std::byte*>(memory_) + ids_at_);
  }

  void* memory_; // the values, then as many identities, which are written only if necessary
  std::size_t capacity_;
  std::size_t ids_at_;
  std::align_val_t alignment_;
  destroyer destroy_values_;
  std::size_t size_ = 0;
  sample_id first_id_;
  bool ids_are_listed_ = false;
  std::vector<event> events_;
};

using packet_ptr = std::unique_ptr<packet>;

/// Fills one packet at a time with samples of the type that the packet was made for.
class packet_writer {
 public:
  packet_writer() = default;

  packet_writer(packet_writer&&) = delete;

  ~packet_writer() { close(); }

  bool is_open() const noexcept { return packet_ != nullptr; }

  bool has_room() const noexcept { return size_ != limit_; }

  /// Starts to fill an empty packet with at most `limit` samples.
  void open(packet_ptr p, std::size_t limit) noexcept;

  template <class T>
  void add(sample<T>&& s) noexcept {
    add_ids({s.id}, 1);
    std::construct_at(packet_->values<T>() + size_, std::move(s.value));
    ++size_;
  }

  /// The space for the next values: memory without objects.
  template <class T>
  std::span<T> room() const noexcept {
    return {packet_->values<T>() + size_, limit_ - size_};
  }

  /// Adds the first `count` values, which the caller has constructed in room().
  void commit(std::size_t count, const id_row& ids) noexcept {
    add_ids(ids, count);
    size_ += count;
  }

  void add(event_kind kind, std::uint32_t epoch, failure_ptr cause);

  /// The open packet.
  packet& current() noexcept { return *packet_; }

  /// The number of samples in it.
  std::size_t size() const noexcept { return size_; }

  /// Returns the packet with the samples; null if none is open.
  packet_ptr close() noexcept;

 private:
  void add_ids(const id_row& ids, std::size_t count) noexcept {
    if (!id_list_) {
      if (!ids.listed && ids.first == id_row{first_id_}[size_]) return;
      if (begin_id_row(ids)) return;
    }
    ids.copy_to(id_list_ + size_, count);
  }

  // The identities don't count up, or these are the first. True if no list is needed yet.
  bool begin_id_row(id_row ids) noexcept;

  packet_ptr packet_;
  std::size_t size_ = 0; // of the packet so far
  std::size_t limit_ = 0;
  sample_id first_id_;
  sample_id* id_list_ = nullptr; // null: so far the indices count up from the first
};

template <class T>
inline constexpr bool comes_in_batches = requires { typename T::feedline_batch; };

} // namespace feedline::inline FEEDLINE_ABI::detail

#ifndef FEEDLINE_COMPILED
#include <feedline/core/transport/packet.ipp>
#endif
