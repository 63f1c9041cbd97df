// SPDX-License-Identifier: MIT
#pragma once
// Reads objects one after another in parts, of which it requests several ahead.
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <optional>
#include <stop_token>
#include <utility>
#include <vector>

#include <feedline/source/detail/object_list.hpp>
#include <feedline/source/object_store.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// For one thread. The parts that were requested, and the one in use, never have more than bytes_ahead() bytes.
class object_ahead {
 public:
  object_ahead(std::shared_ptr<object_list> objects, std::stop_token stop);

  /// Goes to an object, from an offset on; `next` are the numbers of those that probably follow. Cancels what
  /// was requested of others.
  void open(std::size_t number, std::uint64_t begin, std::vector<std::size_t> next);

  /// No more of the current object is needed.
  void close() noexcept;

  /// The part of the current object that begins at an offset, which isn't before the last one. It is in use until the
  /// next call. Throws object_error.
  object_part take(std::uint64_t offset);

  /// Whether the next part, of this object or of the next one, has arrived.
  bool ready() const;

 private:
  struct requested {
    std::uint64_t offset;
    std::size_t count;
    std::unique_ptr<object_read> read;
    std::optional<object_part> part{};
    std::exception_ptr failure{};

    bool has_arrived() const;
  };

  struct opened {
    std::size_t number;
    std::uint64_t next; // offset of the next part to request
    std::optional<std::uint64_t> size{};
    std::deque<requested> parts{};
    bool has_failed = false;

    bool is_requested() const;
  };

  // Requests parts in the order in which they will be needed.
  void request_more();

  // Waits for a part.
  void receive(opened& o, requested& r);

  void release_current() noexcept { ahead_ -= std::exchange(in_use_, 0); }

  void drop_part(opened& o) noexcept;

  void drop(opened& o) noexcept;

  void drop_first() noexcept;

  void drop_last() noexcept;

  void put_back_last();

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

#ifndef FEEDLINE_COMPILED
#include <feedline/source/detail/object_ahead.ipp>
#endif
