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

/// The identities of the values in a row: those of the row's samples from some place on, or those at some places.
class row_ids {
 public:
  /// All of them.
  explicit row_ids(const sample_ids& all) noexcept : all_(all), size_(all.size()) {}

  std::size_t size() const noexcept { return size_; }

  /// The place of value number i in the row.
  std::size_t place(std::size_t i) const noexcept { return places_ ? places_[i] : begin_ + i; }

  sample_id operator[](std::size_t i) const noexcept { return all_[place(i)]; }

  row_ids part(std::size_t begin, std::size_t count) const noexcept {
    row_ids some = *this;
    if (places_) some.places_ += begin;
    else some.begin_ += begin;
    some.size_ = count;
    return some;
  }

  /// Those at these places in the row, which must outlive it.
  row_ids selected(std::span<const std::uint32_t> places) const noexcept {
    row_ids some = *this;
    some.places_ = places.data();
    some.size_ = places.size();
    return some;
  }

  /// Whether they are known to differ in the index only.
  bool differ_in_index() const noexcept { return all_.differ_in_index(); }

  /// Writes their indices to `target`, memory without objects.
  void write_indices(std::uint64_t* target) const noexcept {
    if (!all_.count_up()) {
      for (std::size_t i = 0; i < size_; ++i) std::construct_at(&target[i], (*this)[i].index);
    } else if (const std::uint64_t first = all_.front().index; places_) {
      for (std::size_t i = 0; i < size_; ++i) std::construct_at(&target[i], first + places_[i]);
    } else {
      for (std::size_t i = 0; i < size_; ++i) std::construct_at(&target[i], first + begin_ + i);
    }
  }

  /// Whether it has all from a place on, …
  bool follow_each_other() const noexcept { return !places_; }

  /// … and which these are.
  sample_ids range() const noexcept { return all_.subrange(begin_, size_); }

 private:
  sample_ids all_; // of the row
  std::size_t begin_ = 0;
  const std::uint32_t* places_ = nullptr; // null: all from begin_ on
  std::size_t size_;
};

/// Collects identities. Indices are written down only if they don't count up, so the numbering of a source costs nothing, and
/// the rest of an identity only if it isn't the same for all.
class id_collector {
 public:
  /// How many there are.
  std::size_t size() const noexcept { return size_; }

  /// `list`: memory for all of them, the same in each call.
  void add(const sample_id& id, sample_id* list) noexcept {
    if (form_ == form::indices && shares_rest(id)) std::construct_at(as_indices(list) + size_, id.index);
    else if (form_ == form::listed) std::construct_at(list + size_, id);
    else if (size_ == 0) common_ = id;
    else if (!shares_rest(id) || id.index != common_.index + size_)
      write_down(row_ids(sample_ids(id, 1)), list);
    ++size_;
  }

  void add(const row_ids& ids, sample_id* list) noexcept {
    if (!ids.follow_each_other() || !continue_with(ids.range())) write_down(ids, list);
    size_ += ids.size();
  }

  /// All of them.
  sample_ids in(const sample_id* list) const noexcept {
    if (form_ == form::listed) return sample_ids({list, size_});
    if (form_ == form::counted) return {common_, size_};
    return {common_, {as_indices(list), size_}};
  }

 private:
  enum class form : unsigned char { counted, indices, listed };

  static std::uint64_t* as_indices(sample_id* list) noexcept {
    return reinterpret_cast<std::uint64_t*>(list);
  }

  static const std::uint64_t* as_indices(const sample_id* list) noexcept {
    return reinterpret_cast<const std::uint64_t*>(list);
  }

  // Whether it differs from the others in the index only.
  bool shares_rest(const sample_id& id) const noexcept {
    return id.epoch == common_.epoch && id.sub_index == common_.sub_index &&
           id.repetition == common_.repetition;
  }

  // Whether nothing needs to be written down.
  bool continue_with(const sample_ids& ids) noexcept {
    if (form_ != form::counted || !ids.count_up()) return false;
    if (size_ > 0) return ids.empty() || ids.front() == sample_ids(common_, size_ + 1).back();
    common_ = ids.front();
    return true;
  }

  void write_down(const row_ids& ids, sample_id* list) noexcept {
    if (ids.size() == 0) return;
    const sample_id first = ids[0];
    if (size_ == 0) common_ = first;
    if (form_ == form::listed || !ids.differ_in_index() || !shares_rest(first)) return write_whole(ids, list);
    std::uint64_t* const indices = as_indices(list);
    if (form_ == form::counted)
      for (std::size_t i = 0; i < size_; ++i) std::construct_at(&indices[i], common_.index + i);
    form_ = form::indices;
    ids.write_indices(indices + size_);
  }

  void write_whole(const row_ids& ids, sample_id* list) noexcept;

  sample_id common_; // its index is that of the first one
  std::size_t size_ = 0;
  form form_ = form::counted;
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

  sample_ids ids() const noexcept { return ids_; }

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
  sample_ids ids_;
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

  bool has_room() const noexcept { return size() != limit_; }

  /// Starts to fill an empty packet with at most `limit` samples.
  void open(packet_ptr p, std::size_t limit) noexcept;

  template <class T>
  void add(sample<T>&& s) noexcept {
    std::construct_at(packet_->values<T>() + size(), std::move(s.value));
    ids_.add(s.id, packet_->id_list());
  }

  /// The space for the next values: memory without objects.
  template <class T>
  std::span<T> room() const noexcept {
    return {packet_->values<T>() + size(), limit_ - size()};
  }

  /// Adds the first values in room(), which the caller has constructed.
  void commit(const row_ids& ids) noexcept { ids_.add(ids, packet_->id_list()); }

  void add(event_kind kind, std::uint32_t epoch, failure_ptr cause);

  /// The open packet.
  packet& current() noexcept { return *packet_; }

  /// The number of samples in it.
  std::size_t size() const noexcept { return ids_.size(); }

  /// Returns the packet with the samples; null if none is open.
  packet_ptr close() noexcept;

 private:
  packet_ptr packet_;
  std::size_t limit_ = 0;
  id_collector ids_; // of the packet so far
};

} // namespace feedline::inline FEEDLINE_ABI::detail

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_CORE)
namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE void id_collector::write_whole(const row_ids& ids, sample_id* list) noexcept {
  // From the last one, as an identity takes more room than its index.
  if (form_ != form::listed)
    for (std::size_t i = size_; i-- > 0;) std::construct_at(&list[i], in(list)[i]);
  form_ = form::listed;
  for (std::size_t i = 0; i < ids.size(); ++i) std::construct_at(&list[size_ + i], ids[i]);
}

FEEDLINE_INLINE packet::packet(void* memory, std::size_t capacity, std::size_t ids_at,
                               std::align_val_t alignment, destroyer destroy_values)
    : memory_(memory),
      capacity_(capacity),
      ids_at_(ids_at),
      alignment_(alignment),
      destroy_values_(destroy_values) {}

FEEDLINE_INLINE packet::~packet() {
  clear();
  ::operator delete(memory_, alignment_);
}

FEEDLINE_INLINE std::unique_ptr<packet> packet::allocate(std::size_t capacity, std::size_t value_size,
                                                         std::size_t alignment, destroyer destroy_values) {
  constexpr std::size_t id_alignment = alignof(sample_id);
  if (capacity > ~std::size_t{0} / 2 / (value_size + sizeof(sample_id) + id_alignment))
    throw std::bad_array_new_length();
  const std::size_t ids_at = (capacity * value_size + id_alignment - 1) / id_alignment * id_alignment;
  const auto aligned = static_cast<std::align_val_t>(alignment);
  return std::unique_ptr<packet>(new packet(::operator new(ids_at + capacity * sizeof(sample_id), aligned),
                                            capacity, ids_at, aligned, destroy_values));
}

FEEDLINE_INLINE void packet::clear() noexcept {
  destroy_values_(*this);
  size_ = 0;
  events_.clear();
  snapshot.clear();
  has_snapshot = false;
}

FEEDLINE_INLINE std::size_t packet::drop_samples() noexcept {
  destroy_values_(*this);
  for (event& e : events_) e.position = 0;
  has_snapshot = false;
  return std::exchange(size_, 0);
}

FEEDLINE_INLINE void packet_writer::open(packet_ptr p, std::size_t limit) noexcept {
  packet_ = std::move(p);
  limit_ = limit;
  ids_ = {};
}

FEEDLINE_INLINE void packet_writer::add(event_kind kind, std::uint32_t epoch, failure_ptr cause) {
  const failed_call call = cause ? cause->call : failed_call();
  packet_->events_.push_back({size(), kind, epoch, std::move(cause), call});
}

FEEDLINE_INLINE packet_ptr packet_writer::close() noexcept {
  if (packet_) {
    packet_->size_ = size();
    packet_->ids_ = ids_.in(packet_->id_list());
  }
  ids_ = {};
  limit_ = 0;
  return std::move(packet_);
}

} // namespace feedline::inline FEEDLINE_ABI::detail
#endif
