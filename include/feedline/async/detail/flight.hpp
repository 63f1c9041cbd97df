// SPDX-License-Identifier: MIT
#pragma once
// The asynchronous operations of one stage of a run: started in order, limited in number, cancelled by a stop.
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <stop_token>
#include <utility>

#include <asio/cancellation_signal.hpp>

#include <feedline/async/detail/event_loops.hpp>
#include <feedline/core/sample.hpp>
#include <feedline/detail/kernel.hpp>

namespace feedline::inline v0::detail {

class flight;

/// An operation in flight. Its ticket and its loop share it: whoever is done with it last destroys it.
class operation_base {
 public:
  operation_base(std::shared_ptr<flight> all, event_loop& loop) : flight_(std::move(all)), loop_(loop) {}

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

  enum : std::uint32_t { running, awaited, done };

  const std::shared_ptr<flight> flight_;
  event_loop& loop_; // exists while the operation is in flight
  std::atomic<std::uint32_t> state_{running};
  std::atomic<std::uint32_t> references_{2};
  asio::cancellation_signal signal_;
  launching launching_{*this};
  cancelling cancelling_{*this};

  // Of the flight, under its mutex.
  std::uint64_t began_ = 0; // ns
  operation_base* before_ = nullptr;
  operation_base* after_ = nullptr;
  bool is_in_flight_ = false;
  bool is_cancelled_ = false;
};

class flight {
 public:
  /// At most `limit` operations at once. A stop cancels them all.
  flight(std::size_t limit, const std::stop_token& stop)
      : limit_(limit), stop_(stop), on_stop_(stop, canceller{this}) {}

  flight(flight&&) = delete;

  const std::stop_token& stop_token() const noexcept { return stop_; }

  /// Waits for room, then starts an operation on its loop. `c` is that of the thread that waits.
  void start(operation_base& o, const context& c) {
    std::unique_lock lock(mutex_);
    if (count_ >= limit_) {
      const auto waiting = c.waiting();
      // Some room at once costs fewer wake-ups than one place at a time.
      wanted_ = limit_ - std::max<std::size_t>(1, limit_ / 64);
      has_room_.wait(lock, [&] { return count_ <= wanted_; });
    }
    o.began_ = note_count(count_ + 1);
    o.after_ = first_;
    if (first_) first_->before_ = &o;
    first_ = &o;
    o.is_in_flight_ = true;
    o.loop_.add(o.launching_);
    if (is_stopped_) cancel(o);
  }

  /// Cancels an operation that nobody waits for.
  void drop(operation_base& o) noexcept {
    const std::lock_guard lock(mutex_);
    if (o.is_in_flight_) cancel(o);
  }

  void finished(operation_base& o) noexcept {
    const std::lock_guard lock(mutex_);
    (o.before_ ? o.before_->after_ : first_) = o.after_;
    if (o.after_) o.after_->before_ = o.before_;
    o.is_in_flight_ = false;
    const std::uint64_t took = note_count(count_ - 1) - o.began_;
    times_.add(took, 1);
    ++finished_;
    took_ += took;
    if (count_ == 0 || count_ == wanted_) has_room_.notify_all();
  }

  /// Waits until no operation is in flight.
  void join() {
    std::unique_lock lock(mutex_);
    wanted_ = 0;
    has_room_.wait(lock, [&] { return count_ == 0; });
  }

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

    void operator()() const noexcept {
      const std::lock_guard lock(self->mutex_);
      self->is_stopped_ = true;
      for (operation_base* o = self->first_; o; o = o->after_) self->cancel(*o);
    }
  };

  // The mutex is held, so the operation is in flight and its loop exists.
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
  std::size_t wanted_ = ~std::size_t{0}; // the number at which a thread waits for room
  operation_base* first_ = nullptr;      // of those in flight
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
  flight_session(std::shared_ptr<event_loops> all, std::size_t limit, const std::stop_token& stop)
      : loops_(std::move(all)), operations_(std::make_shared<flight>(limit, stop)) {
    loops_->enter();
  }

  flight_session(flight_session&&) = delete;

  ~flight_session() {
    operations_->join();
    loops_->leave();
  }

  /// The loop for the next operation.
  event_loop& next_loop() noexcept { return loops_->next(); }

  const std::shared_ptr<flight>& operations() const noexcept { return operations_; }

 private:
  std::shared_ptr<event_loops> loops_;
  std::shared_ptr<flight> operations_;
};

/// What the stage that waits for operations reports of them: from time to time, as metrics() of a stage is called for
/// each packet, and at the end of each epoch.
class flight_report {
 public:
  void see(const operation_base& o) {
    if (!operations_) operations_ = o.operations();
  }

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

inline void operation_base::drop() noexcept {
  if (!is_done()) flight_->drop(*this);
}

inline void operation_base::finish() noexcept {
  const std::shared_ptr<flight> all = flight_;
  all->finished(*this);
  if (state_.exchange(done, std::memory_order_acq_rel) == awaited) unpark(state_, 1);
  release();
}

} // namespace feedline::inline v0::detail
