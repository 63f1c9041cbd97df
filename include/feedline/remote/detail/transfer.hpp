// SPDX-License-Identifier: MIT
#pragma once
// transfer: reads one range of an object, in as many attempts as it takes. It judges each answer and keeps the bytes
// that have arrived; it knows nothing of threads and timers.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <curl/curl.h>

#include <feedline/core/random.hpp>
#include <feedline/remote/detail/http_answer.hpp>
#include <feedline/remote/detail/part_ticket.hpp>
#include <feedline/remote/detail/url.hpp>
#include <feedline/source/object_store.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// Memory for a part; a later part of about its size reuses it.
std::shared_ptr<std::byte> part_memory(std::size_t bytes);

/// Whether the process can open only few more files.
bool lacks_descriptors() noexcept;

/// What an attempt came to.
enum class attempt_end {
  complete,
  failed,   ///< because of the object, or of what the server says
  broken,   ///< because of the server or the way to it
  unusable, ///< likewise, and another attempt would end in the same way
  moved,    ///< target() is now where the server redirects to
};

class transfer {
 public:
  /// The tickets are for one object and in the order of their offsets; the range goes from the first to the last.
  /// `part_bytes`: of the options.
  transfer(std::vector<std::shared_ptr<part_ticket>> tickets, std::size_t part_bytes);

  // For the thread that runs it.
  std::size_t attempts = 0; ///< since it last made progress
  random_generator random;
  bool has_ended = false;

  const request_target& target() const noexcept { return target_; }

  /// Keys for the next attempt; null for none.
  void use(std::shared_ptr<const request_keys> keys) noexcept { keys_ = std::move(keys); }

  const std::shared_ptr<const request_keys>& keys() const noexcept { return keys_; }

  /// Whether the server has refused these keys.
  bool has_refused_keys() const noexcept { return refuses_keys_; }

  /// Goes back to the first server.
  void start_over();

  bool is_cancelled() const;

  /// Begins an attempt; returns the range that it requests.
  std::string begin();

  /// The most bytes of a body that the server may send.
  std::uint64_t most_body_bytes() const noexcept {
    const std::uint64_t used = lead_ + count_;
    return std::max(used, used + most_unused_bytes);
  }

  /// Returns false if the attempt must be given up.
  bool take_header(std::string_view line);

  /// The same for a piece of the body.
  bool take_body(std::span<const std::byte> bytes);

  /// Ends an attempt with libcurl's result and its words about it.
  attempt_end end(CURLcode code, std::string_view words);

  /// Ends an attempt in which no byte arrived for too long.
  attempt_end end_stalled(std::chrono::nanoseconds limit);

  /// Ends an attempt that couldn't begin or go on.
  void refuse(std::string problem);

  /// Whether the server has answered with bytes of the object.
  bool is_accepted() const noexcept { return verdict_ == verdict::accepted; }

  /// The last attempt's problem and where it occurred.
  std::string problem() const;

  /// The object's name for messages.
  std::string shown() const;

  /// After a broken attempt: whether it read enough to begin counting attempts again. A server that sends a few bytes
  /// per attempt doesn't make progress.
  bool made_progress() {
    constexpr std::size_t least = std::size_t{64} << 10;
    if (arrived_ < progress_ + least) return false;
    progress_ = arrived_;
    return true;
  }

  /// How long the server asked to wait.
  std::chrono::nanoseconds pause() const;

  void deliver();

  /// Fails with the last attempt's problem. `in_outage`: it isn't the object's.
  void fail(std::size_t tried, bool in_outage);

 private:
  enum class verdict { none, accepted, past_end, busy, refused, moved };

  static constexpr std::size_t most_redirects = 10;

  static constexpr std::size_t most_unused_bytes = std::size_t{64} << 10; // of a body that says nothing

  std::uint64_t first() const noexcept { return offset_ + arrived_; }

  // A request for no bytes asks for one, as a range can't be empty.
  std::uint64_t last() const noexcept { return offset_ + std::max<std::size_t>(count_, 1) - 1; }

  void judge();

  void judge_range();

  // Fine if the object is small and ends within the range. What precedes the range comes again, as do the bytes of earlier
  // attempts.
  void judge_whole();

  void judge_end();

  attempt_end follow();

  void refuse_status();

  // Takes a piece of the body of an answer with an error; false if no more of it is needed.
  bool take_error(std::string_view bytes);

  // Adds what S3 says to the problem.
  void explain();

  // The version that was read before, or must be read.
  const std::optional<object_info>& known() const;

  void accept(std::uint64_t total);

  static std::string change_text(const object_info& before, const object_info& now);

  static std::string range_text(std::uint64_t first, std::uint64_t last);

  attempt_end end_without_answer(CURLcode code, std::string_view words);

  const std::vector<std::shared_ptr<part_ticket>> tickets_;
  const std::uint64_t offset_;
  const std::size_t count_;
  const std::size_t most_whole_; // the largest object that is read from a server without ranges

  // Of all attempts.
  std::optional<object_info> object_;
  std::shared_ptr<std::byte> memory_; // of length_ bytes, from the first one on
  std::size_t length_ = 0;            // of the part, as soon as object_ is known
  std::size_t arrived_ = 0;
  std::size_t progress_ = 0; // arrived_ when attempts were last counted from the beginning

  // Of this attempt.
  request_target target_;
  std::size_t redirects_ = 0;
  std::shared_ptr<const request_keys> keys_;
  http_answer answer_;
  verdict verdict_ = verdict::none;
  std::uint64_t announced_ = 0; // bytes of the body
  std::uint64_t body_ = 0;      // bytes of it that came
  std::uint64_t lead_ = 0;      // bytes of it that precede the range
  std::string problem_;
  std::optional<std::string> error_; // the beginning of the body, if the answer's status is an error
  bool is_missing_ = false;          // there is no such object
  bool refuses_all_ = false;         // the server's refusal isn't about the object
  bool refuses_keys_ = false;        // other keys may help
};

} // namespace feedline::inline FEEDLINE_ABI::detail

#ifndef FEEDLINE_COMPILED
#include <feedline/remote/detail/transfer.ipp>
#endif
