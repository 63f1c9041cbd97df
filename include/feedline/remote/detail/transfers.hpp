// SPDX-License-Identifier: MIT
#pragma once
// transfers: one thread that runs the requests of a store with libcurl.
//
//   readers ── tickets ──▶ [queue] ──▶ thread: transfers in flight, pauses, time limits ── parts ──▶ readers
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <list>
#include <memory>
#include <mutex>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <curl/curl.h>

#include <feedline/detail/readable_text.hpp>
#include <feedline/remote/detail/http_answer.hpp>
#include <feedline/remote/detail/http_exchange.hpp>
#include <feedline/remote/detail/part_ticket.hpp>
#include <feedline/remote/detail/transfer.hpp>
#include <feedline/remote/detail/url.hpp>
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
  explicit transfers(const remote_options& options) : options_(options) {
    if (lacks_descriptors()) throw std::system_error(EMFILE, std::generic_category(), "feedline::remote");
    // In flight are never more transfers than connections, so libcurl needn't make any of them wait. Several
    // connections are faster than one, so only a few transfers share one.
    check_multi(curl_multi_setopt(multi_.get(), CURLMOPT_MAXCONNECTS, static_cast<long>(options_.in_flight)));
    check_multi(curl_multi_setopt(multi_.get(), CURLMOPT_PIPELINING, CURLPIPE_MULTIPLEX));
    check_multi(curl_multi_setopt(multi_.get(), CURLMOPT_MAX_CONCURRENT_STREAMS, 8L));
  }

  transfers(const transfers&) = delete;
  transfers& operator=(const transfers&) = delete;
  ~transfers() = default; // after close()

  /// Queues a ticket. Starts the thread with the first.
  void add(const std::shared_ptr<part_ticket>& t) {
    {
      const std::lock_guard lock(mutex_);
      if (is_closed_) return t->fail(ending_, ending_kind_);
      if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
      t->place = queue_.insert(queue_.end(), t);
      t->is_queued = true;
    }
    curl_multi_wakeup(multi_.get());
  }

  /// Nobody waits for the ticket any more.
  void cancel(part_ticket& t) noexcept {
    t.is_cancelled = true;
    {
      const std::lock_guard lock(mutex_);
      if (is_closed_) return;
      if (t.is_queued) {
        t.is_queued = false;
        const auto place = t.place;
        queue_.erase(place); // the caller still has the ticket
        return;
      }
      any_cancelled_ = true;
    }
    curl_multi_wakeup(multi_.get());
  }

  /// Ends the thread; open reads fail.
  void close() {
    {
      const std::lock_guard lock(mutex_);
      is_closed_ = true;
    }
    curl_multi_wakeup(multi_.get());
    if (thread_.joinable()) thread_.join();
  }

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
  std::string outage() const {
    const std::lock_guard lock(mutex_);
    if (!has_outage_) return {};
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(clock::now() - outage_began_);
    return outage_ + " (for " + std::to_string(seconds.count()) + " s)";
  }

 private:
  // A transfer at work, with what libcurl uses of it.
  struct request {
    request(transfers& all_, std::vector<std::shared_ptr<part_ticket>> tickets)
        : all(all_), work(std::move(tickets), all_.options_.part_bytes) {}

    transfers& all;
    transfer work;
    curl_list headers;
    curl_easy easy; // null between attempts
    clock::time_point began{};
    clock::time_point heard{};  // when the server last sent something
    std::uint64_t came = 0;     // bytes of this attempt
    clock::time_point window{}; // when the time began in which its speed is measured
    std::uint64_t window_came = 0;
    clock::time_point resumes{}; // between attempts: when the next one begins
    curl_off_t body = 0;         // how much of it libcurl has received
    clock::time_point failing_since{};
    bool was_noticed = false; // since it last made progress
    bool awaits_keys = false;
    bool had_other_keys = false; // since it last made progress: the server has refused the first
    std::uint64_t awaited = 0;   // of the key ring
    bool may_be_newer = false;   // than HTTP/1.1
    bool is_newer = false;       // as the server says
    char words[CURL_ERROR_SIZE] = {};

    void hear(std::size_t bytes) noexcept {
      heard = clock::now();
      if (came == 0) window = heard;
      came += bytes;
    }
  };

  void run() noexcept {
    block_broken_pipe();
    try {
      while (start_queued()) {
        int running = 0;
        check_multi(curl_multi_perform(multi_.get(), &running));
        finish_attempts();
        const int wait = run_timers();
        if (!start_queued()) break;
        check_multi(curl_multi_poll(multi_.get(), nullptr, 0, wait, nullptr));
      }
      end_all(nullptr);
    } catch (const std::exception& error) {
      end_all(error.what());
    }
  }

  // Every read fails; without a failure of this thread, because of close().
  void end_all(const char* failure) noexcept {
    std::list<std::shared_ptr<part_ticket>> waiting;
    {
      const std::lock_guard lock(mutex_);
      is_closed_ = true;
      if (failure) {
        ending_kind_ = part_problem::outage;
        try {
          ending_ = failure;
        } catch (const std::exception&) {
          ending_kind_ = part_problem::memory;
        }
      }
      waiting.swap(queue_);
      for (const auto& t : waiting) t->is_queued = false;
    }
    for (const auto& r : active_) {
      if (r->work.has_ended) continue;
      release(*r);
      r->work.abandon(ending_, ending_kind_);
    }
    active_.clear();
    for (const auto& t : waiting) t->abandon(ending_, ending_kind_);
  }

  // Drops what was cancelled, and starts what waits for its turn. Returns false after close().
  bool start_queued() {
    bool any_cancelled = false;
    {
      const std::lock_guard lock(mutex_);
      if (is_closed_) return false;
      any_cancelled = std::exchange(any_cancelled_, false);
    }
    for (const auto& r : active_) {
      if (!any_cancelled || r->work.has_ended || !r->work.is_cancelled()) continue;
      release(*r);
      r->work.has_ended = true;
    }
    std::erase_if(active_, [](const auto& r) { return r->work.has_ended; });
    while (active_.size() < options_.in_flight) {
      std::vector<std::shared_ptr<part_ticket>> tickets = next_tickets();
      if (tickets.empty()) break;
      try {
        active_.push_back(std::make_unique<request>(*this, tickets));
      } catch (const std::exception& error) { // there is no memory, but a reader may wait for these
        for (const auto& t : tickets) t->abandon(error.what(), part_problem::outage);
        throw;
      }
      start_attempt(*active_.back());
      if (active_.back()->work.has_ended) active_.pop_back();
    }
    return true;
  }

  // The first ticket of the queue and those after it that continue where it ends: one request serves them.
  std::vector<std::shared_ptr<part_ticket>> next_tickets() {
    constexpr std::uint64_t widest_gap = std::uint64_t{16} << 10;
    std::vector<std::shared_ptr<part_ticket>> tickets;
    const std::lock_guard lock(mutex_);
    while (!queue_.empty()) {
      const part_ticket& next = *queue_.front();
      if (!tickets.empty()) {
        const part_ticket& last = *tickets.back();
        const std::uint64_t end = last.offset + last.count;
        if (last.count == 0 || next.count == 0 || next.name != last.name || next.expected != last.expected ||
            next.offset < end || next.offset - end > widest_gap ||
            next.offset - tickets.front()->offset + next.count > options_.part_bytes)
          break;
      }
      try {
        tickets.push_back(queue_.front());
      } catch (const std::bad_alloc&) {
        for (const auto& t : tickets) t->abandon({}, part_problem::memory);
        throw;
      }
      queue_.front()->is_queued = false;
      queue_.pop_front();
    }
    return tickets;
  }

  // `goes_on`: with an attempt.
  void start_attempt(request& r, bool goes_on = false) {
    if (!goes_on) {
      if (!r.awaits_keys) r.work.start_over();
      if (!take_keys(r)) return;
      ++r.work.attempts;
    } else if (!r.work.target().keys) {
      r.work.use(nullptr);
    }
    ++requests_;
    try {
      // Not reused: until libcurl 8.1, the first line of an answer could continue a line of the last one, which was
      // freed. Connections and names are the multi handle's, and are reused.
      r.easy.reset(curl_easy_init());
      if (!r.easy) throw std::bad_alloc();
      ++in_flight_;
      prepare(r);
      check_multi(curl_multi_add_handle(multi_.get(), r.easy.get()));
    } catch (const std::exception& error) {
      r.work.refuse(error.what());
      return end_attempt(r, attempt_end::unusable);
    }
    r.began = r.heard = clock::now();
    r.came = r.window_came = 0;
  }

  // False if it waits for keys, or has failed to get them.
  bool take_keys(request& r) {
    const bool was_awaiting = std::exchange(r.awaits_keys, false);
    if (!was_awaiting) r.began = clock::now();
    std::shared_ptr<const request_keys> keys;
    if (const auto& ring = r.work.target().keys) {
      try {
        keys = ring->get(r.awaited, [this] { curl_multi_wakeup(multi_.get()); });
      } catch (const std::exception& error) {
        const auto* const known = dynamic_cast<const keys_error*>(&error);
        ++r.work.attempts;
        r.work.refuse(error.what());
        end_attempt(r, known && known->may_heal ? attempt_end::broken : attempt_end::unusable);
        return false;
      }
      if (!keys) {
        r.awaits_keys = true;
        r.resumes = clock::time_point::max();
        return false;
      }
    }
    r.work.use(std::move(keys));
    return true;
  }

  void prepare(request& r) {
    CURL* const easy = r.easy.get();
    const auto set = [easy](CURLoption option, auto value) { set_option(easy, option, value); };
    const request_target& target = r.work.target();
    r.words[0] = 0;
    r.body = 0;
    r.is_newer = false;
    set(CURLOPT_PRIVATE, &r);
    set(CURLOPT_ERRORBUFFER, +r.words);
    set(CURLOPT_URL, target.url.c_str());
    if (const std::string range = r.work.begin(); range.empty()) set(CURLOPT_NOBODY, 1L);
    else set(CURLOPT_RANGE, range.c_str());
    common_.set(easy);
    // HTTP/2 is agreed on with TLS only. A request that can't be one of HTTP/2 never shares a connection with another one at
    // the same time, whatever the server says there.
    r.may_be_newer = !has_false_version_ && has_scheme(target.url, "https");
    set(CURLOPT_HTTP_VERSION, r.may_be_newer ? long{CURL_HTTP_VERSION_2TLS} : long{CURL_HTTP_VERSION_1_1});
    set(CURLOPT_BUFFERSIZE, 128L << 10);
    set(CURLOPT_CONNECTTIMEOUT_MS, milliseconds(options_.connect_timeout));
    const auto authenticate = [&](const std::string& user, const std::string& password) {
      if (user.empty() && password.empty()) return;
      set(CURLOPT_HTTPAUTH, CURLAUTH_BASIC);
      set(CURLOPT_USERNAME, user.c_str());
      set(CURLOPT_PASSWORD, password.c_str());
    };
    authenticate(target.user, target.password);
    r.headers.reset();
    for (const std::string& header : target.headers) append_header(r.headers, header);
    if (const auto& keys = r.work.keys()) {
      authenticate(keys->user, keys->password);
      for (const std::string& header : keys->headers) append_header(r.headers, header);
      if (target.is_s3 && !keys->user.empty()) set(CURLOPT_AWS_SIGV4, target.signature.c_str());
    }
    if (r.headers) set(CURLOPT_HTTPHEADER, r.headers.get());
    if (target.is_s3) set(CURLOPT_PATH_AS_IS, 1L);
    set(CURLOPT_HEADERFUNCTION, &on_header);
    set(CURLOPT_HEADERDATA, &r);
    set(CURLOPT_WRITEFUNCTION, &on_body);
    set(CURLOPT_WRITEDATA, &r);
    set(CURLOPT_XFERINFOFUNCTION, &on_progress);
    set(CURLOPT_XFERINFODATA, &r);
    set(CURLOPT_NOPROGRESS, 0L);
  }

  static std::size_t on_header(char* data, std::size_t, std::size_t size, void* context) noexcept {
    auto& r = *static_cast<request*>(context);
    r.hear(size);
    return take(r, size, [&] {
      const std::string_view line(data, size);
      // libcurl believes it, and would send other requests before this one's answer has ended, and mix up the answers.
      if (!r.may_be_newer || !is_false_version(line, r.is_newer)) return r.work.take_header(line);
      r.all.has_false_version_ = true;
      r.work.break_off("the server says HTTP/2 over a connection of HTTP/1.1");
      return false;
    });
  }

  static std::size_t on_body(char* data, std::size_t, std::size_t size, void* context) noexcept {
    auto& r = *static_cast<request*>(context);
    r.hear(size);
    r.all.bytes_ += size;
    const std::size_t taken =
        take(r, size, [&] { return r.work.take_body(std::as_bytes(std::span(data, size))); });
    if (r.work.is_accepted()) r.all.end_outage();
    return taken;
  }

  // Exceptions can't cross libcurl. Another number than `size` ends the attempt.
  template <class Taker>
  static std::size_t take(request& r, std::size_t size, const Taker& taker) noexcept {
    try {
      return taker() ? size : size + 1;
    } catch (const std::exception& error) {
      r.work.refuse(error);
      return size + 1;
    }
  }

  static int on_progress(void* context, curl_off_t, curl_off_t body, curl_off_t, curl_off_t) noexcept {
    auto& r = *static_cast<request*>(context);
    if (body != r.body) {
      r.body = body;
      r.heard = clock::now();
    }
    return static_cast<std::uint64_t>(body) > r.work.most_body_bytes() ? 1 : 0;
  }

  void finish_attempts() {
    int left = 0;
    while (const CURLMsg* const message = curl_multi_info_read(multi_.get(), &left)) {
      if (message->msg != CURLMSG_DONE) continue;
      const CURLcode code = message->data.result;
      request* r = nullptr;
      curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &r);
      end_attempt(*r, r->work.end(code, r->words));
    }
  }

  void end_attempt(request& r, attempt_end result) {
    release(r);
    transfer& t = r.work;
    if (result == attempt_end::goes_on) return start_attempt(r, true);
    if (t.has_refused_keys() && !r.had_other_keys && t.target().keys && t.target().keys->discard(t.keys())) {
      r.had_other_keys = true;
      --t.attempts; // it doesn't count
      ++retries_;
      r.resumes = clock::now();
      return;
    }
    const bool in_outage = result == attempt_end::broken || result == attempt_end::unusable;
    if (!in_outage) end_outage();
    if (result == attempt_end::broken) {
      const clock::time_point now = clock::now();
      if (t.made_progress()) {
        t.attempts = 1;
        r.was_noticed = r.had_other_keys = false;
      }
      if (t.attempts == 1) r.failing_since = now;
      const std::chrono::nanoseconds left = options_.retry.for_at_most - (now - r.failing_since);
      // With a limit of 0, only attempts count.
      const bool is_put_off =
          options_.retry.for_at_most.count() > 0 && t.pause() > std::max(left, std::chrono::nanoseconds(0));
      const bool again = options_.retry.tries_again(t.attempts, true, now - r.failing_since) && !is_put_off;
      if (t.attempts >= options_.retry.attempts || is_put_off) note_outage(r, again);
      if (again) {
        ++retries_;
        std::chrono::nanoseconds pause = options_.retry.pause_after(t.attempts, t.random);
        if (t.attempts >= options_.retry.attempts) // the last attempt is at the end of that time
          pause = std::min(pause, left);
        r.resumes = now + std::max(pause, t.pause());
        return;
      }
    } else if (in_outage) {
      r.failing_since = clock::now();
      note_outage(r, false);
    }
    if (result == attempt_end::complete) t.deliver();
    else t.fail(result == attempt_end::broken ? t.attempts : 1, in_outage);
    t.has_ended = true; // only now: these two allocate, and what hasn't ended fails then
  }

  // The server has answered.
  void end_outage() noexcept {
    if (!has_outage_.load(std::memory_order_relaxed)) return;
    const std::lock_guard lock(mutex_);
    has_outage_ = false;
    outage_ended_ = clock::now();
    outages_ += outage_ended_ - outage_began_;
  }

  // A request has failed so often that the server must be out of order, or so that it needn't be tried again.
  void note_outage(request& r, bool is_tried_again) {
    std::string problem = r.work.shown() + ": " + r.work.problem();
    {
      const std::lock_guard lock(mutex_);
      outage_ = problem;
      // An attempt that began before the last outage ended shows nothing of the time after it.
      if (has_outage_ || (is_tried_again && r.began < outage_ended_)) return;
      has_outage_ = true;
      outage_began_ = std::max(r.failing_since, outage_ended_); // no time counts twice
    }
    if (!options_.on_notice || std::exchange(r.was_noticed, true)) return;
    try {
      options_.on_notice(is_tried_again
                             ? "feedline::remote: a server doesn't answer; it is tried again for " +
                                   duration_text(options_.retry.for_at_most) +
                                   ", and then the run ends: " + problem
                             : "feedline::remote: a server can't be used, and the run ends: " + problem);
    } catch (...) { // a notice isn't worth a failure
    }
  }

  double seconds_of_outages() const {
    const std::lock_guard lock(mutex_);
    const clock::duration now = has_outage_ ? clock::now() - outage_began_ : clock::duration::zero();
    return std::chrono::duration<double>(outages_ + now).count();
  }

  // Ends the use of libcurl, if an attempt is being made.
  void release(request& r) {
    if (!r.easy) return;
    curl_multi_remove_handle(multi_.get(), r.easy.get());
    r.easy.reset();
    --in_flight_;
  }

  // Resumes after pauses, and ends attempts that stall. Returns the milliseconds until the next time to do so.
  int run_timers() {
    const clock::time_point now = clock::now();
    clock::time_point next = now + std::chrono::hours(24);
    for (const auto& r : active_) {
      if (r->work.has_ended) continue;
      if (!r->easy && (r->resumes <= now || r->awaits_keys)) start_attempt(*r);
      if (r->easy && r->heard + stall_timeout_ <= now) {
        curl_off_t connected = 0; // µs
        curl_easy_getinfo(r->easy.get(), CURLINFO_PRETRANSFER_TIME_T, &connected);
        // libcurl limits the time to connect.
        r->heard = connected == 0 ? now : std::max(r->heard, r->began + std::chrono::microseconds(connected));
        if (r->heard + stall_timeout_ <= now)
          end_attempt(*r, r->work.end_stalled("no byte arrived for " + duration_text(stall_timeout_) +
                                              " (stall_timeout)"));
      }
      if (r->easy && r->came > 0 && r->window + stall_timeout_ <= now) {
        if (const std::uint64_t bytes = r->came - r->window_came; static_cast<double>(bytes) < least_bytes_) {
          end_attempt(*r, r->work.end_stalled("only " + std::to_string(bytes) +
                                              (bytes == 1 ? " byte" : " bytes") + " arrived in " +
                                              duration_text(stall_timeout_) + " (min_bytes_per_second)"));
        } else {
          r->window = now;
          r->window_came = r->came;
        }
      }
      if (r->work.has_ended) continue;
      next = std::min(next, r->easy ? r->heard + stall_timeout_ : r->resumes);
      if (r->easy && r->came > 0) next = std::min(next, r->window + stall_timeout_);
    }
    return static_cast<int>(milliseconds(std::max(next - now, clock::duration::zero())));
  }

  const remote_options options_;
  const std::chrono::nanoseconds stall_timeout_ = std::min(options_.stall_timeout, longest_stall);
  // In that time, at least.
  const double least_bytes_ = static_cast<double>(options_.min_bytes_per_second) *
                              std::chrono::duration<double>(stall_timeout_).count();
  const common_options common_;
  const curl_multi multi_ = make_multi();

  // Of the thread.
  std::vector<std::unique_ptr<request>> active_;
  bool has_false_version_ = false; // a server doesn't say the right version of HTTP

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
