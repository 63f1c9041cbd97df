// SPDX-License-Identifier: MIT
#pragma once
// One call of an asynchronous function that yields several values, and the queue of those that are ready.
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include <asio/cancellation_type.hpp>

#include <feedline/async/async_context.hpp>
#include <feedline/async/async_generator.hpp>
#include <feedline/async/detail/async_stage.hpp>
#include <feedline/async/detail/event_loops.hpp>
#include <feedline/async/detail/flight.hpp>
#include <feedline/async/detail/operation.hpp>
#include <feedline/core/sample.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

template <class T>
inline constexpr bool is_generator = false;
template <class T>
inline constexpr bool is_generator<async_generator<T>> = true;

/// A generator on its event loop. Another thread takes its values.
template <class F, class In>
class stream final : public operation_base,
                     private generator_owner<typename async_result_t<const F, In&>::value_type> {
  using generator = async_result_t<const F, In&>;

 public:
  using output = typename generator::value_type;

  /// It pauses while `ahead` values wait.
  stream(std::shared_ptr<flight> all, event_loop& loop, const F& f, In&& item, const context& c,
         const async_stage_options& options)
      : operation_base(all, loop),
        f_(f),
        item_(std::move(item)),
        context_(c, loop.executor(), all->stop_token()),
        ahead_(options.ahead) {}

  static std::size_t most_ready(const async_stage_options& options) noexcept { return options.ahead; }

  /// Whether next() would return without waiting.
  bool is_ready() const {
    const std::lock_guard lock(mutex_);
    return !ready_.empty() || has_ended_;
  }

  /// The next value, or nothing at the end. Throws what the function threw, once.
  std::optional<output> next() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !ready_.empty() || has_ended_; });
    if (ready_.empty()) {
      if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
      return std::nullopt;
    }
    std::optional<output> value(std::move(ready_.front()));
    ready_.pop_front();
    // Some values at once cost fewer wake-ups than one at a time.
    if (needs_resuming_ && ready_.size() <= ahead_ / 2) {
      needs_resuming_ = false;
      retain();
      loop().add(resuming_);
    }
    return value;
  }

 private:
  struct resuming final : loop_task {
    explicit resuming(stream& s) : of(s) {}

    void run() noexcept override {
      if (std::exchange(of.is_paused_, false)) of.generator_->resume();
      of.release();
    }

    stream& of;
  };

  void launch() noexcept override {
    std::exception_ptr failed;
    try {
      throw_if_stopped();
      generator_.emplace(coroutine_of(f_, item_, context_));
      generator_->start(*this);
    } catch (...) {
      failed = std::current_exception();
    }
    if (failed)
      ended(std::move(failed)); // its catch clause has ended: the thread that takes it is its only owner
  }

  void cancel() noexcept override {
    is_cancelled_ = true;
    if (std::exchange(is_paused_, false)) ended(nullptr);
    else operation_base::cancel();
  }

  bool take(output&& value) override {
    const std::lock_guard lock(mutex_);
    ready_.push_back(std::move(value));
    changed_.notify_one();
    is_paused_ = needs_resuming_ = ready_.size() >= ahead_;
    return !is_paused_;
  }

  void ended(std::exception_ptr error) noexcept override {
    generator_.reset();
    {
      const std::lock_guard lock(mutex_);
      error_ = std::move(error);
      has_ended_ = true;
      needs_resuming_ = false; // the loop may be gone soon
      changed_.notify_one();
    }
    finish();
  }

  async_context::executor_type executor() noexcept override { return context_.executor; }

  asio::cancellation_slot slot() noexcept override { return operation_base::slot(); }

  bool is_cancelled() const noexcept override { return is_cancelled_; }

  const F& f_;
  In item_;
  async_context context_;
  const std::size_t ahead_;
  resuming resuming_{*this};

  // Of the loop's thread.
  std::optional<generator> generator_; // nothing: it has ended, or not begun
  bool is_paused_ = false;             // at a co_yield
  bool is_cancelled_ = false;

  mutable std::mutex mutex_; // guards the members below
  std::condition_variable changed_;
  std::deque<output> ready_;
  bool needs_resuming_ = false; // the generator has paused, and no task will resume it yet
  bool has_ended_ = false;
  std::exception_ptr error_;
};

} // namespace feedline::inline FEEDLINE_ABI::detail
