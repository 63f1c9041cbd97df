// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/core/snapshot/held.hpp>

#include <algorithm>
#include <stdexcept>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE held_log::held_log(std::size_t max_size) : max_size_(max_size), notes_(max_size) {}

FEEDLINE_INLINE std::vector<sample_id> held_log::at(std::size_t moment) const {
  std::vector<sample_id> ids = ids_;
  for (std::size_t i = 0; i < moment; ++i) {
    const note& n = notes_[i];
    const bool is_sample = n.id.index != sample_id::no_index;
    if (is_sample && n.place == after_last) {
      ids.push_back(n.id);
    } else if (is_sample) {
      ids[n.place] = n.id;
    } else if (n.place == after_last) {
      ids.clear();
    } else {
      ids[n.place] = ids.back();
      ids.pop_back();
    }
  }
  return ids;
}

FEEDLINE_INLINE std::vector<sample_id> held::ids() const { return log ? log->at(moment) : listed; }

FEEDLINE_INLINE void held::clear() noexcept {
  log.reset();
  listed.clear();
  values.reset();
  in_run.reset();
}

FEEDLINE_INLINE held_parts::held_parts() = default;

FEEDLINE_INLINE held_parts::~held_parts() = default;

FEEDLINE_INLINE held_parts::held_parts(const held_parts& other) { *this = other; }

FEEDLINE_INLINE held_parts::held_parts(held_parts&& other) noexcept
    : parts_(std::move(other.parts_)), size_(std::exchange(other.size_, 0)) {}

FEEDLINE_INLINE held_parts& held_parts::operator=(const held_parts& other) {
  if (this == &other) return *this;
  clear();
  for (const held& h : other) add() = h;
  return *this;
}

FEEDLINE_INLINE held_parts& held_parts::operator=(held_parts&& other) noexcept {
  parts_.swap(other.parts_);
  std::swap(size_, other.size_);
  return *this;
}

FEEDLINE_INLINE held& held_parts::add() {
  if (size_ == parts_.size()) parts_.emplace_back();
  return parts_[size_++];
}

FEEDLINE_INLINE void held_parts::drop_last() noexcept { parts_[--size_].clear(); }

FEEDLINE_INLINE void held_parts::leave_run() noexcept {
  for (held& h : parts_) h.in_run.reset();
}

FEEDLINE_INLINE read_again::read_again(const std::vector<sample_id>& ids) : is_taken_(ids.size()) {
  places_.reserve(ids.size());
  for (const sample_id& id : ids) places_.emplace_back(id, places_.size());
  std::sort(places_.begin(), places_.end());
}

FEEDLINE_INLINE void read_again::clear() noexcept {
  clear_values();
  std::vector<std::pair<sample_id, std::size_t>>().swap(places_);
}

FEEDLINE_INLINE std::size_t read_again::take_place(const sample_id& id) {
  for (auto i = std::lower_bound(places_.begin(), places_.end(), std::pair(id, std::size_t{0}));
       i != places_.end() && i->first == id; ++i) {
    if (is_taken_[i->second]) continue;
    is_taken_[i->second] = true;
    return i->second;
  }
  throw std::runtime_error("feedline: sample " + std::to_string(id.index) + " of epoch " +
                           std::to_string(id.epoch) +
                           ", which the run held when the checkpoint was taken, can't be read again");
}

} // namespace feedline::inline FEEDLINE_ABI::detail
