// SPDX-License-Identifier: MIT
#pragma once
// part_ticket: stands for a part that is being read, between the thread that reads it and the one that waits for it.
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>

#include <feedline/remote/detail/url.hpp>
#include <feedline/remote/object_store.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// Why a part can't be read.
enum class part_problem {
  of_object, ///< the server says so, or what it sends is wrong
  missing,   ///< there is no such object
  outage,    ///< the server, or the way to it, fails
  memory,    ///< there wasn't enough, not even for a message
};

class part_ticket {
 public:
  part_ticket(std::string name_, std::uint64_t offset_, std::size_t count_,
              std::optional<object_info> expected_)
      : name(std::move(name_)), offset(offset_), count(count_), expected(std::move(expected_)) {}

  const std::string name;
  const std::uint64_t offset;
  const std::size_t count;
  const std::optional<object_info> expected;
  request_target target{};

  // Of the queue, under its lock.
  std::list<std::shared_ptr<part_ticket>>::iterator place{};
  bool is_queued = false;

  std::atomic<bool> is_cancelled{false}; ///< nobody waits for it any more

  bool is_done() const noexcept { return is_done_.load(std::memory_order_acquire); }

  /// Waits. Throws object_missing, object_error or outage_error if the part couldn't be read, and object_error after a
  /// stop.
  object_part get(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    if (!changed_.wait(lock, stop, [this] { return is_done(); }) || stop.stop_requested())
      throw object_error(without_secrets(name) + ": reading was stopped, at offset " +
                         std::to_string(offset));
    if (!problem_) return std::move(part_);
    switch (*problem_) {
    case part_problem::of_object:
      break;
    case part_problem::missing:
      throw object_missing(error_);
    case part_problem::memory: // there may be some now
      throw outage_error(without_secrets(name) + ": no memory is left to read it, at offset " +
                         std::to_string(offset));
    case part_problem::outage:
      throw outage_error(error_);
    }
    throw object_error(error_);
  }

  void deliver(object_part part) {
    const std::lock_guard lock(mutex_);
    part_ = std::move(part);
    is_done_.store(true, std::memory_order_release); // pairs with the acquire in is_done()
    changed_.notify_all();
  }

  /// `problem`: what happened and where, without the name. A thread that has no memory left can call it, too.
  void fail(std::string_view problem, part_problem kind) noexcept {
    std::string message;
    try {
      if (kind != part_problem::memory) message.append(without_secrets(name)).append(": ").append(problem);
    } catch (const std::exception&) {
      kind = part_problem::memory;
    }
    fail_saying(std::move(message), kind);
  }

  /// The same where the problem is none of the object.
  void abandon(std::string_view problem, part_problem kind) noexcept {
    std::string where;
    try {
      where.append(problem).append(", at offset ").append(std::to_string(offset));
    } catch (const std::exception&) {
      kind = part_problem::memory;
    }
    fail(where, kind);
  }

  /// The same with the whole message.
  void fail_saying(std::string&& message, part_problem kind) noexcept {
    const std::lock_guard lock(mutex_);
    problem_ = kind;
    error_ = std::move(message);
    is_done_.store(true, std::memory_order_release);
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::atomic<bool> is_done_{false};
  object_part part_;
  std::optional<part_problem> problem_;
  std::string error_;
};

} // namespace feedline::inline FEEDLINE_ABI::detail
