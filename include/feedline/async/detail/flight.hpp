// SPDX-License-Identifier: MIT
#pragma once
// The asynchronous operations of one stage of a run: limited in number, cancelled by a stop.
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <stop_token>
#include <utility>
#include <vector>

#include <asio/cancellation_signal.hpp>
#include <asio/error.hpp>
#include <asio/system_error.hpp>

#include <feedline/async/detail/event_loops.hpp>
#include <feedline/core/sample.hpp>
#include <feedline/detail/kernel.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

class flight;
class operation_base;

/// Operations that have ended, for a thread that waits for any of several.
class completions {
 public:
  /// At most `limit` of them announce their end here.
  explicit completions(std::size_t limit);

  void add(const operation_base& o) noexcept;

  /// Waits until there are some.
  void wait();

  /// Exchanges the list for an empty one that has as much memory.
  void take(std::vector<const operation_base*>& all) noexcept;

 private:
  std::mutex mutex_;
  std::condition_variable some_ended_;
  std::vector<const operation_base*> ended_;
};

/// An operation in flight. Its ticket and its loop share it: whoever is done with it last destroys it.
class operation_base {
 public:
  operation_base(std::shared_ptr<flight> all, event_loop& loop);

  operation_base(operation_base&&) = delete;

  event_loop& loop() noexcept { return loop_; }

  /// The operations of its stage.
  const std::shared_ptr<flight>& operations() const noexcept { return flight_; }

  bool is_done() const noexcept {
    return state_.load(std::memory_order_acquire) == done; // pairs with the release in finish
  }

  /// Waits until the operation is done. Only one thread may. It doesn't spin, as operations take long.
  void wait() noexcept {
    std::uint32_t state = running;
    if (!state_.compare_exchange_strong(state, awaited, std::memory_order_acquire)) return;
    while (!is_done()) park(state_, awaited);
  }

  /// Adds the operation to the list when it is done. Instead of wait().
  void announce_to(std::shared_ptr<completions> list);

  std::size_t place = 0; ///< of its ticket, where that is one of several

  /// Nobody wants the result: cancels what the operation waits for, if it still runs.
  void drop() noexcept;

  void retain() noexcept { references_.fetch_add(1, std::memory_order_relaxed); }

  /// Gives up one of its two references, which exist from the beginning, or one of retain().
  void release() noexcept {
    if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }

 protected:
  virtual ~operation_base() = default;

  /// Begins it, on the loop's thread. It ends with a call of finish().
  virtual void launch() noexcept = 0;

  /// Cancels what it waits for, on the loop's thread.
  virtual void cancel() noexcept { signal_.emit(asio::cancellation_type::terminal); }

  asio::cancellation_slot slot() noexcept { return signal_.slot(); }

  /// An operation that begins after a stop ends at once.
  void throw_if_stopped() const;

  /// The operation has its result; called on the loop's thread, for the last use of the object there.
  void finish() noexcept;

 private:
  friend flight;

  struct launching final : loop_task {
    explicit launching(operation_base& o) : of(o) {}

    void run() noexcept override { of.launch(); }

    operation_base& of;
  };

  struct cancelling final : loop_task {
    explicit cancelling(operation_base& o) : of(o) {}

    void run() noexcept override {
      if (!of.is_done()) of.cancel();
      of.release();
    }

    operation_base& of;
  };

  enum : std::uint32_t { running, awaited, announced, done };

  const std::shared_ptr<flight> flight_;
  event_loop& loop_; // exists while the operation is in flight
  std::atomic<std::uint32_t> state_{running};
  std::atomic<std::uint32_t> references_{2};
  asio::cancellation_signal signal_;
  launching launching_{*this};
  cancelling cancelling_{*this};
  std::shared_ptr<completions> completions_;

  // Of the flight, under its mutex.
  std::uint64_t began_ = 0; // ns
  operation_base* before_ = nullptr;
  operation_base* after_ = nullptr;
  enum class stage : unsigned char { made, due, in_flight, ended } stage_ = stage::made;
  bool is_cancelled_ = false;
};

class flight {
 public:
  /// At most `limit` operations at once. A stop cancels them all.
  flight(std::size_t limit, const std::stop_token& stop);

  flight(flight&&) = delete;

  const std::stop_token& stop_token() const noexcept { return stop_; }

  /// How many operations may be due: each begins when another one ends, without waiting for a thread.
  static constexpr std::size_t most_due(std::size_t limit) noexcept { return limit / 8 + 1; }

  /// Starts an operation on its loop, now or when another one ends. Waits while enough of them are due: then the
  /// thread, whose context is `c`, calls `before_wait()` first.
  template <class F>
  void start(operation_base& o, const context& c, F before_wait) {
    std::unique_lock lock(mutex_);
    if (due_ == most_due(limit_)) {
      lock.unlock();
      before_wait();
      const auto waiting = c.waiting();
      lock.lock();
      wanted_ = most_due(limit_) / 2; // some room at once costs fewer wake-ups than one place at a time
      has_room_.wait(lock, [&] { return due_ <= wanted_; });
    }
    if (count_ == limit_) {
      o.stage_ = operation_base::stage::due;
      o.before_ = std::exchange(last_due_, &o);
      (o.before_ ? o.before_->after_ : first_due_) = &o;
      ++due_;
    } else {
      begin(o, note_count(count_ + 1));
      launch_on_its_loop(o);
    }
  }

  /// Cancels an operation that nobody waits for.
  void drop(operation_base& o) noexcept;

  /// An operation has ended: the next one begins. Returns that if the caller must launch it, after this call. Called on
  /// the loop's thread.
  operation_base* finished(operation_base& o) noexcept;

  /// Waits until no operation is in flight.
  void join();

  /// Reports how many operations were in flight at once and how long each took.
  template <class Out>
  void report(const Out& out) const {
    const std::lock_guard lock(mutex_);
    if (finished_ == 0) return;
    const std::uint64_t now = now_ns();
    const double area = area_ + static_cast<double>(count_) * static_cast<double>(now - changed_);
    out("in flight, mean", area / static_cast<double>(std::max<std::uint64_t>(now - since_, 1)));
    out("in flight, peak", static_cast<double>(peak_));
    const auto counts = times_.read();
    out("ms, mean", static_cast<double>(took_) / static_cast<double>(finished_) * 1e-6);
    out("ms, 90th %", histogram::quantile(counts, 0.9) * 1e-6);
    out("ms, 99th %", histogram::quantile(counts, 0.99) * 1e-6);
  }

 private:
  using histogram = duration_histogram<4, std::uint32_t>;

  struct canceller {
    flight* self;

    void operator()() const noexcept;
  };

  // The mutex is held in all functions below.

  void begin(operation_base& o, std::uint64_t now) noexcept {
    o.stage_ = operation_base::stage::in_flight;
    o.began_ = now;
    o.before_ = nullptr;
    o.after_ = std::exchange(first_, &o);
    if (o.after_) o.after_->before_ = &o;
  }

  void launch_on_its_loop(operation_base& o) noexcept {
    o.loop_.add(o.launching_);
    if (is_stopped_) cancel(o);
  }

  void remove_due(operation_base& o) noexcept;

  // The operation is in flight, so its loop exists.
  void cancel(operation_base& o) noexcept {
    if (std::exchange(o.is_cancelled_, true)) return;
    o.retain();
    o.loop_.add(o.cancelling_);
  }

  // Returns the time.
  std::uint64_t note_count(std::size_t count) noexcept {
    const std::uint64_t now = now_ns();
    if (since_ == 0) since_ = changed_ = now;
    area_ += static_cast<double>(count_) * static_cast<double>(now - changed_);
    changed_ = now;
    count_ = count;
    peak_ = std::max(peak_, count);
    return now;
  }

  const std::size_t limit_;
  const std::stop_token stop_;
  mutable std::mutex mutex_; // guards the members below
  std::condition_variable has_room_;
  std::size_t wanted_ = ~std::size_t{0}; // a thread waits until no more than these are due
  operation_base* first_due_ = nullptr;
  operation_base* last_due_ = nullptr;
  std::size_t due_ = 0;
  operation_base* first_ = nullptr; // of those in flight
  std::size_t count_ = 0;
  std::size_t peak_ = 0;
  bool is_stopped_ = false;
  std::uint64_t since_ = 0;   // when the first operation started, in ns
  std::uint64_t changed_ = 0; // when the number changed, in ns
  double area_ = 0;           // number of operations times ns
  std::uint64_t finished_ = 0;
  std::uint64_t took_ = 0; // ns, of all that finished
  histogram times_;
  std::stop_callback<canceller> on_stop_; // last: its function uses the others
};

/// Operations and the loops they run on. Its end waits for that of all operations.
class flight_session {
 public:
  flight_session(std::shared_ptr<event_loops> all, std::size_t limit, const std::stop_token& stop);

  flight_session(flight_session&&) = delete;

  ~flight_session();

  /// The loop for the next operation.
  event_loop& next_loop() noexcept;

  const std::shared_ptr<flight>& operations() const noexcept { return operations_; }

 private:
  std::shared_ptr<event_loops> loops_;
  std::shared_ptr<flight> operations_;
};

/// What the stage that waits for operations reports of them: from time to time, as metrics() of a stage is called for
/// each packet, and at the end of each epoch.
class flight_report {
 public:
  void see(const operation_base& o);

  void is_due() noexcept { reported_ = 0; }

  template <class Out>
  void operator()(const Out& out) {
    constexpr std::uint64_t pause = 20'000'000; // ns
    const std::uint64_t now = now_ns();
    if (!operations_ || now - reported_ < pause) return;
    reported_ = now;
    operations_->report(out);
  }

 private:
  std::shared_ptr<flight> operations_;
  std::uint64_t reported_ = 0; // when, in ns
};

} // namespace feedline::inline FEEDLINE_ABI::detail

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_ASYNC)
namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE completions::completions(std::size_t limit) { ended_.reserve(limit); }

FEEDLINE_INLINE void completions::add(const operation_base& o) noexcept {
  const std::lock_guard lock(mutex_);
  ended_.push_back(&o);
  some_ended_.notify_one();
}

FEEDLINE_INLINE void completions::wait() {
  std::unique_lock lock(mutex_);
  some_ended_.wait(lock, [this] { return !ended_.empty(); });
}

FEEDLINE_INLINE void completions::take(std::vector<const operation_base*>& all) noexcept {
  const std::lock_guard lock(mutex_);
  ended_.swap(all);
}

FEEDLINE_INLINE operation_base::operation_base(std::shared_ptr<flight> all, event_loop& loop)
    : flight_(std::move(all)), loop_(loop) {}

FEEDLINE_INLINE void operation_base::announce_to(std::shared_ptr<completions> list) {
  completions_ = std::move(list);
  std::uint32_t state = running;
  // The release pairs with the acquire in finish.
  if (!state_.compare_exchange_strong(state, announced, std::memory_order_acq_rel)) completions_->add(*this);
}

FEEDLINE_INLINE flight::flight(std::size_t limit, const std::stop_token& stop)
    : limit_(limit), stop_(stop), on_stop_(stop, canceller{this}) {}

FEEDLINE_INLINE void flight::drop(operation_base& o) noexcept {
  std::unique_lock lock(mutex_);
  if (o.stage_ == operation_base::stage::in_flight) cancel(o);
  if (o.stage_ != operation_base::stage::due) return;
  remove_due(o);
  lock.unlock();
  o.release(); // it never gets to its loop
}

FEEDLINE_INLINE operation_base* flight::finished(operation_base& o) noexcept {
  const std::lock_guard lock(mutex_);
  (o.before_ ? o.before_->after_ : first_) = o.after_;
  if (o.after_) o.after_->before_ = o.before_;
  o.stage_ = operation_base::stage::ended;
  operation_base* const next = first_due_;
  const std::uint64_t now = note_count(count_ - (next ? 0 : 1));
  times_.add(now - o.began_, 1);
  ++finished_;
  took_ += now - o.began_;
  if (count_ == 0) has_room_.notify_all();
  if (!next) return nullptr;
  remove_due(*next);
  begin(*next, now);
  if (is_stopped_ || &next->loop_ != &o.loop_) {
    launch_on_its_loop(*next);
    return nullptr;
  }
  return next;
}

FEEDLINE_INLINE void flight::join() {
  std::unique_lock lock(mutex_);
  has_room_.wait(lock, [&] { return count_ == 0; });
}

FEEDLINE_INLINE void flight::canceller::operator()() const noexcept {
  const std::lock_guard lock(self->mutex_);
  self->is_stopped_ = true;
  for (operation_base* o = self->first_; o; o = o->after_) self->cancel(*o);
}

FEEDLINE_INLINE void flight::remove_due(operation_base& o) noexcept {
  (o.before_ ? o.before_->after_ : first_due_) = o.after_;
  (o.after_ ? o.after_->before_ : last_due_) = o.before_;
  if (--due_ == wanted_) has_room_.notify_all();
}

FEEDLINE_INLINE flight_session::flight_session(std::shared_ptr<event_loops> all, std::size_t limit,
                                               const std::stop_token& stop)
    : loops_(std::move(all)), operations_(std::make_shared<flight>(limit, stop)) {
  loops_->enter();
}

FEEDLINE_INLINE flight_session::~flight_session() {
  operations_->join();
  loops_->leave();
}

FEEDLINE_INLINE event_loop& flight_session::next_loop() noexcept { return loops_->next(); }

FEEDLINE_INLINE void flight_report::see(const operation_base& o) {
  if (!operations_) operations_ = o.operations();
}

FEEDLINE_INLINE void operation_base::drop() noexcept {
  if (!is_done()) flight_->drop(*this);
}

FEEDLINE_INLINE void operation_base::throw_if_stopped() const {
  if (flight_->stop_token().stop_requested()) throw asio::system_error(asio::error::operation_aborted);
}

FEEDLINE_INLINE void operation_base::finish() noexcept {
  const std::shared_ptr<flight> all = flight_;
  event_loop& here = loop_;
  operation_base* const next = all->finished(*this);
  const std::uint32_t before = state_.exchange(done, std::memory_order_acq_rel);
  if (before == awaited) unpark(state_, 1);
  if (before == announced) completions_->add(*this);
  release();
  if (next) here.run(next->launching_);
}

} // namespace feedline::inline FEEDLINE_ABI::detail
#endif
