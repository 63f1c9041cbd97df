// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/remote/detail/part_ticket.hpp>

#include <utility>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE part_ticket::part_ticket(std::string name_, std::uint64_t offset_, std::size_t count_,
                                         std::optional<object_info> expected_)
    : name(std::move(name_)), offset(offset_), count(count_), expected(std::move(expected_)) {}

FEEDLINE_INLINE object_part part_ticket::get(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  if (!changed_.wait(lock, stop, [this] { return is_done(); }) || stop.stop_requested())
    throw object_error(without_secrets(name) + ": reading was stopped, at offset " + std::to_string(offset));
  if (error_.empty()) return std::move(part_);
  if (kind_ == part_problem::missing) throw object_missing(error_);
  if (kind_ == part_problem::outage) throw outage_error(error_);
  throw object_error(error_);
}

FEEDLINE_INLINE void part_ticket::deliver(object_part part) {
  const std::lock_guard lock(mutex_);
  part_ = std::move(part);
  is_done_.store(true, std::memory_order_release); // pairs with the acquire in is_done()
  changed_.notify_all();
}

FEEDLINE_INLINE void part_ticket::fail(const std::string& problem, part_problem kind) {
  fail_saying(without_secrets(name) + ": " + problem, kind);
}

FEEDLINE_INLINE void part_ticket::fail_saying(std::string message, part_problem kind) {
  const std::lock_guard lock(mutex_);
  kind_ = kind;
  error_ = std::move(message);
  is_done_.store(true, std::memory_order_release);
  changed_.notify_all();
}

} // namespace feedline::inline FEEDLINE_ABI::detail
