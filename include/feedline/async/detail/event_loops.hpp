// SPDX-License-Identifier: MIT
#pragma once
// The threads on which asynchronous operations run, one event loop each.
#include <atomic>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include <asio/bind_allocator.hpp>
#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <asio/post.hpp>

namespace feedline::inline v0::detail {

/// Work that a loop's thread does once. Whoever adds it keeps it alive until then.
struct loop_task {
  virtual void run() noexcept = 0;

  loop_task* next_task = nullptr;

 protected:
  ~loop_task() = default;
};

/// One thread that runs an Asio event loop until it is destroyed.
class event_loop {
 public:
  event_loop() : thread_([this] { io_.run(); }) {}

  event_loop(event_loop&&) = delete;

  ~event_loop() {
    guard_.reset();
    thread_.join();
  }

  asio::io_context::executor_type executor() noexcept { return io_.get_executor(); }

  /// Has the loop's thread run a task, in the order of the calls. Many tasks share one wake-up. Needs no memory.
  void add(loop_task& task) noexcept {
    loop_task* before = added_.load(std::memory_order_relaxed);
    do {
      task.next_task = before;
    } while (
        !added_.compare_exchange_weak(before, &task, std::memory_order_release, std::memory_order_relaxed));
    if (!before) // not of the task, which may have run already
      asio::post(io_, asio::bind_allocator(wake_up_allocator<char>{this}, [this] { run_added(); }));
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

  void run_added() noexcept {
    loop_task* newest = added_.exchange(nullptr, std::memory_order_acquire); // pairs with the release in add
    loop_task* oldest = nullptr;
    while (newest) {
      loop_task* const before = std::exchange(newest->next_task, oldest);
      oldest = std::exchange(newest, before);
    }
    while (oldest) std::exchange(oldest, oldest->next_task)->run();
  }

  asio::io_context io_{1};
  asio::executor_work_guard<asio::io_context::executor_type> guard_{io_.get_executor()};
  alignas(std::max_align_t) std::byte wake_up_[256];
  std::atomic<loop_task*> added_{nullptr}; // the task added last; each points to the one before it
  std::thread thread_;
};

class event_loops {
 public:
  explicit event_loops(std::size_t threads) {
    while (loops_.size() < threads) {
      try {
        loops_.emplace_back();
      } catch (const std::system_error& error) {
        throw std::system_error(error.code(), "feedline: can't start thread " +
                                                  std::to_string(loops_.size() + 1) + " of " +
                                                  std::to_string(threads) + " for asynchronous operations");
      }
    }
  }

  /// The loops in turns.
  event_loop& next() noexcept {
    return loops_[turn_.fetch_add(1, std::memory_order_relaxed) % loops_.size()];
  }

 private:
  std::deque<event_loop> loops_;
  std::atomic<std::size_t> turn_{0};
};

/// The event loops of a described stage, which exist while a run uses them. All of its runs share them.
class shared_loops {
 public:
  explicit shared_loops(std::size_t threads) : threads_(threads) {}

  std::shared_ptr<event_loops> get() {
    const std::lock_guard lock(mutex_);
    std::shared_ptr<event_loops> loops = loops_.lock();
    if (!loops) loops_ = loops = std::make_shared<event_loops>(threads_);
    return loops;
  }

 private:
  std::size_t threads_;
  std::mutex mutex_;
  std::weak_ptr<event_loops> loops_;
};

} // namespace feedline::inline v0::detail
