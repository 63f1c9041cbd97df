// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/source/detail/object_ahead.hpp>

#include <algorithm>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE object_ahead::object_ahead(std::shared_ptr<object_list> objects, std::stop_token stop)
    : objects_(std::move(objects)),
      stop_(std::move(stop)),
      most_(std::max<std::size_t>(1, objects_->store().bytes_ahead())),
      step_(std::clamp<std::size_t>(objects_->store().part_bytes(), 1, most_)) {}

FEEDLINE_INLINE void object_ahead::open(std::size_t number, std::uint64_t begin,
                                        std::vector<std::size_t> next) {
  release_current();
  while (!opened_.empty() && opened_.front().number != number) drop_first();
  if (!opened_.empty() && begin != 0) drop_first();
  std::size_t kept = 0; // of those that follow
  while (kept + 1 < opened_.size() && kept < next.size() && opened_[kept + 1].number == next[kept]) ++kept;
  while (opened_.size() > kept + 1) drop_last();
  if (opened_.empty()) opened_.push_back({number, begin});
  next_.assign(next.begin() + static_cast<std::ptrdiff_t>(kept), next.end());
  request_more();
}

FEEDLINE_INLINE void object_ahead::close() noexcept {
  release_current();
  if (!opened_.empty()) drop_first();
}

FEEDLINE_INLINE object_part object_ahead::take(std::uint64_t offset) {
  release_current();
  opened& o = opened_.front();
  const auto is_skipped = [&](const requested& r) {
    return r.offset < offset && r.offset + r.count <= offset;
  };
  while (!o.parts.empty() && is_skipped(o.parts.front())) drop_part(o);
  if (o.parts.empty()) o.next = offset;
  request_more();
  receive(o, o.parts.front());
  requested r = std::move(o.parts.front());
  o.parts.pop_front();
  in_use_ = r.count; // until the next call
  if (r.failure) {
    drop(o);
    std::rethrow_exception(r.failure);
  }
  request_more();
  r.part->bytes = r.part->bytes.subspan(static_cast<std::size_t>(offset - r.offset));
  return *std::move(r.part);
}

FEEDLINE_INLINE bool object_ahead::ready() const {
  for (const opened& o : opened_)
    if (!o.parts.empty()) return o.parts.front().has_arrived();
    else if (!o.has_failed && !o.is_requested()) return false;
  return next_.empty();
}

FEEDLINE_INLINE bool object_ahead::requested::has_arrived() const { return part || failure || read->ready(); }

FEEDLINE_INLINE bool object_ahead::opened::is_requested() const { return size && next >= *size; }

FEEDLINE_INLINE void object_ahead::request_more() {
  std::size_t most = most_;
  for (std::size_t i = 0;; ++i) {
    if (i == opened_.size()) {
      if (next_.empty()) return;
      opened_.push_back({next_.front(), 0});
      next_.pop_front();
    }
    opened& o = opened_[i];
    // A failure of a later object is thrown when that is reached.
    if (i > 0 && !o.size && !o.has_failed && !o.parts.empty() && o.parts.front().read->ready())
      receive(o, o.parts.front());
    while (!o.has_failed && !o.is_requested() && (o.size || o.parts.empty())) {
      const std::size_t count = o.size ? std::min<std::size_t>(step_, *o.size - o.next) : step_;
      if (i == 0 && o.parts.empty() && in_use_ == 0)
        while (ahead_ + count > most_ && opened_.size() > 1) put_back_last();
      if (ahead_ + count > most) return;
      o.parts.push_back({o.next, count, objects_->read(o.number, o.next, count)});
      ahead_ += count;
      o.next += count;
    }
    // It isn't known yet how much of this object is left, so later ones get only a part of the room.
    if (!o.size && !o.has_failed) most = most_ / 2;
  }
}

FEEDLINE_INLINE void object_ahead::receive(opened& o, requested& r) {
  if (r.part || r.failure) return;
  try {
    r.part = objects_->get(o.number, r.offset, r.count, *r.read, stop_);
    o.size = r.part->object.bytes;
    ahead_ -= r.count - r.part->bytes.size();
    r.count = r.part->bytes.size();
  } catch (...) {
    r.failure = std::current_exception();
    o.has_failed = true;
  }
  r.read.reset();
}

FEEDLINE_INLINE void object_ahead::drop_part(opened& o) noexcept {
  ahead_ -= o.parts.front().count;
  o.parts.pop_front();
}

FEEDLINE_INLINE void object_ahead::drop(opened& o) noexcept {
  while (!o.parts.empty()) drop_part(o);
}

FEEDLINE_INLINE void object_ahead::drop_first() noexcept {
  drop(opened_.front());
  opened_.pop_front();
}

FEEDLINE_INLINE void object_ahead::drop_last() noexcept {
  drop(opened_.back());
  opened_.pop_back();
}

FEEDLINE_INLINE void object_ahead::put_back_last() {
  next_.push_front(opened_.back().number);
  drop_last();
}

} // namespace feedline::inline FEEDLINE_ABI::detail
