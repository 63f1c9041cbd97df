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

#ifndef FEEDLINE_COMPILED
#include <feedline/async/detail/event_loops.ipp>
#endif
