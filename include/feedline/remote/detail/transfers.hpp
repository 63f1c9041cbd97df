// SPDX-License-Identifier: MIT
#pragma once
// transfers: one thread that runs the requests of a store with libcurl.
//
//   readers ── tickets ──▶ [queue] ──▶ thread: transfers in flight, pauses, time limits ── parts ──▶ readers
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <curl/curl.h>

#include <feedline/remote/detail/http_exchange.hpp>
#include <feedline/remote/detail/part_ticket.hpp>
#include <feedline/remote/detail/transfer.hpp>
#include <feedline/remote/remote_options.hpp>
#include <feedline/version.hpp>

#if LIBCURL_VERSION_NUM < 0x074b00
#error "feedline::remote needs libcurl 7.75 or newer"
#endif

namespace feedline::inline FEEDLINE_ABI::detail {

class transfers {
  using clock = std::chrono::steady_clock;
  static constexpr std::chrono::nanoseconds longest_stall =
      std::chrono::hours(24 * 365); // can be added to a time

 public:
  explicit transfers(const remote_options& options);

  transfers(const transfers&) = delete;
  transfers& operator=(const transfers&) = delete;
  ~transfers() = default; // after close()

  /// Queues a ticket. Starts the thread with the first.
  void add(const std::shared_ptr<part_ticket>& t);

  /// Nobody waits for the ticket any more.
  void cancel(part_ticket& t) noexcept;

  /// Ends the thread; open reads fail.
  void close();

  template <class Out, class Total>
  void metrics(const Out& out, const Total& total) const {
    const std::size_t waiting = [this] {
      const std::lock_guard lock(mutex_);
      return queue_.size();
    }();
    out("requests in flight", static_cast<double>(in_flight_.load()));
    out("reads waiting", static_cast<double>(waiting));
    total("requests", static_cast<double>(requests_.load()));
    total("retries", static_cast<double>(retries_.load()));
    total("bytes received", static_cast<double>(bytes_.load()));
    total("seconds of outages", seconds_of_outages());
  }

  /// What the server answers to a request that has failed several times, if none has succeeded since; else empty.
  std::string outage() const;

 private:
  // A transfer at work, with what libcurl uses of it.
  struct request {
    request(transfers& all_, std::vector<std::shared_ptr<part_ticket>> tickets);

    transfers& all;
    transfer work;
    curl_list headers;
    curl_easy easy; // null between attempts
    clock::time_point began{};
    clock::time_point heard{};   // when the server last sent something
    clock::time_point resumes{}; // between attempts: when the next one begins
    curl_off_t body = 0;         // how much of it libcurl has received
    clock::time_point failing_since{};
    bool was_noticed = false; // since it last made progress
    bool awaits_keys = false;
    bool had_other_keys = false; // since it last made progress: the server has refused the first
    std::uint64_t awaited = 0;   // of the key ring
    char words[CURL_ERROR_SIZE] = {};
  };

  void run();

  // Drops what was cancelled, and starts what waits for its turn. Returns false after close().
  bool start_queued();

  // The first ticket of the queue and those after it that continue where it ends: one request serves them.
  std::vector<std::shared_ptr<part_ticket>> next_tickets();

  // `is_redirected`: goes on with an attempt.
  void start_attempt(request& r, bool is_redirected = false);

  // False if it waits for keys, or has failed to get them.
  bool take_keys(request& r);

  void prepare(request& r);

  static std::size_t on_header(char* data, std::size_t, std::size_t size, void* context) noexcept;

  static std::size_t on_body(char* data, std::size_t, std::size_t size, void* context) noexcept;

  // Exceptions can't cross libcurl. Another number than `size` ends the attempt.
  template <class Taker>
  static std::size_t take(request& r, std::size_t size, const Taker& taker) noexcept {
    try {
      return taker() ? size : size + 1;
    } catch (const std::exception& error) {
      r.work.refuse(error.what());
      return size + 1;
    }
  }

  static int on_progress(void* context, curl_off_t, curl_off_t body, curl_off_t, curl_off_t) noexcept;

  void finish_attempts();

  void end_attempt(request& r, attempt_end result);

  // The server has answered.
  void end_outage() noexcept;

  // A request has failed so often that the server must be out of order, or so that it needn't be tried again.
  void note_outage(request& r, bool is_tried_again);

  double seconds_of_outages() const;

  // Ends the use of libcurl, if an attempt is being made.
  void release(request& r);

  // Resumes after pauses, and ends attempts that stall. Returns the milliseconds until the next time to do so.
  int run_timers();

  const remote_options options_;
  const std::chrono::nanoseconds stall_timeout_ = std::min(options_.stall_timeout, longest_stall);
  const common_options common_;
  const curl_multi multi_ = make_multi();

  std::vector<std::unique_ptr<request>> active_; // of the thread

  std::atomic<std::size_t> in_flight_{0};
  std::atomic<std::uint64_t> requests_{0};
  std::atomic<std::uint64_t> retries_{0};
  std::atomic<std::uint64_t> bytes_{0};
  std::atomic<bool> has_outage_{false}; // is written under the lock

  mutable std::mutex mutex_; // protects what follows
  std::list<std::shared_ptr<part_ticket>> queue_;
  bool any_cancelled_ = false;
  bool is_closed_ = false;
  std::string outage_; // the last problem
  clock::time_point outage_began_{};
  clock::time_point outage_ended_{}; // the last one
  clock::duration outages_{0};       // earlier ones
  std::string ending_ = "reading was stopped, as its store was destroyed";
  part_problem ending_kind_ = part_problem::of_object;
  std::thread thread_;
};

} // namespace feedline::inline FEEDLINE_ABI::detail

#ifndef FEEDLINE_COMPILED
#include <feedline/remote/detail/transfers.ipp>
#endif
