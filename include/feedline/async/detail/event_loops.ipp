// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/async/detail/event_loops.hpp>

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
