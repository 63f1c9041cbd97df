// SPDX-License-Identifier: MIT
#pragma once
// The threads on which asynchronous operations run, one event loop each.
#include <atomic>
#include <cstddef>
#include <deque>
#include <mutex>
#include <new>
#include <thread>
#include <utility>

#include <asio/bind_allocator.hpp>
#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <asio/post.hpp>

#include <feedline/version.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// Work that a loop's thread does once. Whoever adds it keeps it alive until then.
struct loop_task {
  virtual void run() noexcept = 0;

  loop_task* next_task = nullptr;

 protected:
  ~loop_task() = default;
};

/// An Asio event loop and the thread that runs it between start() and stop(). What belongs to the loop, such as a socket
/// that a function keeps, stays valid in between.
class event_loop {
 public:
  event_loop() = default;
  event_loop(event_loop&&) = delete;

  void start();

  /// Ends the thread after the tasks that were added. What waits besides them waits for the next start(), or is
  /// destroyed with the loop.
  void stop();

  /// Returns when the tasks that were added before have run.
  void wait_for_added();

  asio::io_context::executor_type executor() noexcept { return io_.get_executor(); }

  /// Has the loop's thread run a task, in the order of the calls. Many tasks share one wake-up. Needs no memory.
  void add(loop_task& task) noexcept;

  /// Runs a task at once, on the loop's thread. If a task calls it, the other one runs after it.
  void run(loop_task& task) noexcept {
    task.next_task = std::exchange(next_, &task);
    if (std::exchange(is_running_, true)) return;
    while (next_) std::exchange(next_, next_->next_task)->run();
    is_running_ = false;
  }

 private:
  // Only one wake-up is under way at a time, and Asio frees its memory before it calls the function.
  template <class T>
  struct wake_up_allocator {
    using value_type = T;

    explicit wake_up_allocator(event_loop* loop) noexcept : of(loop) {}

    template <class U>
    wake_up_allocator(const wake_up_allocator<U>& other) noexcept : of(other.of) {}

    T* allocate(std::size_t count) const {
      static_assert(sizeof(T) <= sizeof(wake_up_));
      return count == 1 ? reinterpret_cast<T*>(of->wake_up_) : throw std::bad_alloc();
    }

    void deallocate(T*, std::size_t) const noexcept {}

    friend bool operator==(const wake_up_allocator&, const wake_up_allocator&) = default;

    event_loop* of;
  };

  void run_added() noexcept;

  asio::io_context io_{1};
  asio::executor_work_guard<asio::io_context::executor_type> guard_{io_.get_executor()};
  alignas(std::max_align_t) std::byte wake_up_[256];
  std::atomic<loop_task*> added_{nullptr}; // the task added last; each points to the one before it
  loop_task* next_ = nullptr;              // of run()
  bool is_running_ = false;
  std::thread thread_;
};

/// The event loops of a described stage. Their threads exist while runs use them; all of its runs share them.
class event_loops {
 public:
  explicit event_loops(std::size_t threads) : threads_(threads) {}

  /// The loops in turns.
  event_loop& next() noexcept;

  /// Throws std::system_error if a thread can't be started.
  void enter();

  void leave();

 private:
  void start();

  const std::size_t threads_;
  std::deque<event_loop> loops_; // made when they are first used
  std::atomic<std::size_t> turn_{0};
  std::mutex mutex_; // held while threads start and end
  std::size_t users_ = 0;
};

} // namespace feedline::inline FEEDLINE_ABI::detail

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_ASYNC)
#include <condition_variable>
#include <string>
#include <system_error>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE void event_loop::start() {
  io_.restart();
  thread_ = std::thread([this] { io_.run(); });
}

FEEDLINE_INLINE void event_loop::stop() {
  struct last final : loop_task {
    explicit last(asio::io_context& of) : io(of) {}

    void run() noexcept override { io.stop(); }

    asio::io_context& io;
  } task(io_);

  add(task); // which needs no memory
  thread_.join();
}

FEEDLINE_INLINE void event_loop::wait_for_added() {
  struct last final : loop_task {
    void run() noexcept override {
      const std::lock_guard lock(mutex);
      has_run = true;
      changed.notify_one();
    }

    std::mutex mutex;
    std::condition_variable changed;
    bool has_run = false;
  } task;

  add(task);
  std::unique_lock lock(task.mutex);
  task.changed.wait(lock, [&] { return task.has_run; });
}

FEEDLINE_INLINE void event_loop::add(loop_task& task) noexcept {
  loop_task* before = added_.load(std::memory_order_relaxed);
  do {
    task.next_task = before;
  } while (
      !added_.compare_exchange_weak(before, &task, std::memory_order_acq_rel, std::memory_order_relaxed));
  if (!before) // not of the task, which may have run already
    asio::post(io_, asio::bind_allocator(wake_up_allocator<char>{this}, [this] { run_added(); }));
}

FEEDLINE_INLINE void event_loop::run_added() noexcept {
  loop_task* newest = added_.exchange(nullptr, std::memory_order_acq_rel); // pairs with the one in add
  loop_task* oldest = nullptr;
  while (newest) {
    loop_task* const before = std::exchange(newest->next_task, oldest);
    oldest = std::exchange(newest, before);
  }
  while (oldest) std::exchange(oldest, oldest->next_task)->run();
}

FEEDLINE_INLINE event_loop& event_loops::next() noexcept {
  return loops_[turn_.fetch_add(1, std::memory_order_relaxed) % loops_.size()];
}

FEEDLINE_INLINE void event_loops::enter() {
  const std::lock_guard lock(mutex_);
  if (users_ == 0) start();
  ++users_;
}

FEEDLINE_INLINE void event_loops::leave() {
  const std::lock_guard lock(mutex_);
  --users_;
  for (event_loop& loop : loops_) {
    if (users_ == 0) loop.stop();
    else loop.wait_for_added(); // they may use what the run owns
  }
}

FEEDLINE_INLINE void event_loops::start() {
  while (loops_.size() < threads_) loops_.emplace_back();
  std::size_t started = 0;
  try {
    for (; started < loops_.size(); ++started) loops_[started].start();
  } catch (...) {
    for (std::size_t i = 0; i < started; ++i) loops_[i].stop();
    try {
      throw;
    } catch (const std::system_error& error) {
      throw std::system_error(error.code(), "feedline: can't start thread " + std::to_string(started + 1) +
                                                " of " + std::to_string(loops_.size()) +
                                                " for asynchronous operations");
    }
  }
}

} // namespace feedline::inline FEEDLINE_ABI::detail
#endif
