// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/core/snapshot/held.hpp>

#include <utility>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE std::runtime_error lost_sample(const sample_id& id) {
  return std::runtime_error("feedline: sample " + std::to_string(id.index) + " of epoch " +
                            std::to_string(id.epoch) +
                            ", which the run held when the checkpoint was taken, can't be read again");
}

FEEDLINE_INLINE held_log::held_log(std::size_t max_size) : max_size_(max_size), notes_(new note[max_size]) {}

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

FEEDLINE_INLINE held_parts::held_parts(held_parts&& other) noexcept
    : parts_(std::move(other.parts_)), size_(std::exchange(other.size_, 0)) {}

FEEDLINE_INLINE held_parts& held_parts::operator=(held_parts&& other) noexcept {
  parts_.swap(other.parts_);
  std::swap(size_, other.size_);
  return *this;
}

} // namespace feedline::inline FEEDLINE_ABI::detail
