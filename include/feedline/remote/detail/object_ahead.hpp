// SPDX-License-Identifier: MIT
#pragma once
// Reads objects one after another in parts, of which it requests several ahead.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <optional>
#include <stop_token>
#include <utility>
#include <vector>

#include <feedline/remote/detail/object_list.hpp>
#include <feedline/remote/object_store.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// For one thread. The parts that were requested, and the one in use, never have more than bytes_ahead() bytes.
class object_ahead {
 public:
  object_ahead(std::shared_ptr<object_list> objects, std::stop_token stop)
      : objects_(std::move(objects)),
        stop_(std::move(stop)),
        most_(std::max<std::size_t>(1, objects_->store().bytes_ahead())),
        step_(std::clamp<std::size_t>(objects_->store().part_bytes(), 1, most_)) {}

  /// Goes to an object, from an offset on; `next` are the numbers of those that probably follow. Cancels what
  /// was requested of others.
  void open(std::size_t number, std::uint64_t begin, std::vector<std::size_t> next) {
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

  /// No more of the current object is needed.
  void close() noexcept {
    release_current();
    if (!opened_.empty()) drop_first();
  }

  /// The part of the current object that begins at an offset, which isn't before the last one. It is in use until the
  /// next call. Throws object_error.
  object_part take(std::uint64_t offset) {
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

  /// Whether the next part, of this object or of the next one, has arrived.
  bool ready() const {
    for (const opened& o : opened_)
      if (!o.parts.empty()) return o.parts.front().has_arrived();
      else if (!o.has_failed && !o.is_requested()) return false;
    return next_.empty();
  }

 private:
  struct requested {
    std::uint64_t offset;
    std::size_t count;
    std::unique_ptr<object_read> read;
    std::optional<object_part> part{};
    std::exception_ptr failure{};

    bool has_arrived() const { return part || failure || read->ready(); }
  };

  struct opened {
    std::size_t number;
    std::uint64_t next; // offset of the next part to request
    std::optional<std::uint64_t> size{};
    std::deque<requested> parts{};
    bool has_failed = false;

    bool is_requested() const { return size && next >= *size; }
  };

  // Requests parts in the order in which they will be needed.
  void request_more() {
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

  // Waits for a part.
  void receive(opened& o, requested& r) {
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

  void release_current() noexcept { ahead_ -= std::exchange(in_use_, 0); }

  void drop_part(opened& o) noexcept {
    ahead_ -= o.parts.front().count;
    o.parts.pop_front();
  }

  void drop(opened& o) noexcept {
    while (!o.parts.empty()) drop_part(o);
  }

  void drop_first() noexcept {
    drop(opened_.front());
    opened_.pop_front();
  }

  void drop_last() noexcept {
    drop(opened_.back());
    opened_.pop_back();
  }

  void put_back_last() {
    next_.push_front(opened_.back().number);
    drop_last();
  }

  const std::shared_ptr<object_list> objects_;
  const std::stop_token stop_;
  const std::size_t most_; // bytes
  const std::size_t step_;
  std::deque<opened> opened_;    // the current object, and those that follow it
  std::deque<std::size_t> next_; // those after them
  std::size_t ahead_ = 0;        // bytes that were requested and not yet used up
  std::size_t in_use_ = 0;       // of these
};

} // namespace feedline::inline FEEDLINE_ABI::detail
