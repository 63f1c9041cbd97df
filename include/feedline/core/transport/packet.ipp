// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/core/transport/packet.hpp>

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
