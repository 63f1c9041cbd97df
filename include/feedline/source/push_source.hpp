// SPDX-License-Identifier: MIT
#pragma once
// push_source: a source of the items that the caller's threads push.
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include <feedline/core/contract.hpp>
#include <feedline/core/pipeline.hpp>
#include <feedline/detail/given_size.hpp>
#include <feedline/detail/ring.hpp>
#include <feedline/queue/overflow.hpp>
#include <feedline/queue/queue_status.hpp>

namespace feedline::inline FEEDLINE_ABI {

/// Options of push_source.
struct push_options {
  std::size_t capacity = 1024; ///< the most items that wait in the buffer
  feedline::overflow overflow =
      overflow::block; ///< what happens to an item that is pushed while the buffer is full
  std::size_t max_item_bytes =
      0; ///< the most bytes of an item, for a memory_budget if its type doesn't limit them; 0: unknown
};

/// A source of items that the caller's threads push: frames of a camera, results of self-play, requests.
///
///     fl::push_source<frame> frames({.overflow = fl::overflow::drop_oldest});
///     camera.on_frame([=](frame f) mutable { frames.push(std::move(f)); });
///     for (const auto& batch : (frames | fl::map(prepare, fl::workers{4}) | fl::batch(8)).infinite()) step(batch);
///
/// Its copies are handles of one buffer: push to one, and start a pipeline with another. Any number of
/// threads may push. If two runs read it at once, each item goes to one of them.
///
/// Takes:   items of type T, whose move must not throw
/// Gives:   each item as soon as it was pushed; the run ends when the source is closed and empty, also in
///          infinite mode. A run takes items ahead into its queues: at most 256 into each, or `queue_capacity` of its
///          options (see memory_plan); then items wait in the buffer, and then producers wait
/// Throws:  std::invalid_argument for a capacity of 0; the error passed to fail(), as a failure of the source
/// Stops:   at once, and producers with it: push() returns closed from the end of the last run to the start of the next.
///          Items that wait in the buffer stay for that one
/// Order:   the order of pushing; that of each producer is kept. A run can't be resumed: its checkpoint()
///          doesn't compile
template <class T>
class push_source {
  static_assert(
      std::is_object_v<T> && std::is_nothrow_move_constructible_v<T>,
      "feedline::push_source: items move between threads, so their move constructor must not throw");

 public:
  using feedline_part = void;
  static constexpr source_traits traits{.kind = "push_source", .live = true};

  /// An empty buffer.
  explicit push_source(const push_options& options = {})
      : buffer_(std::make_shared<buffer>(checked(options))) {}

  /// Adds an item. If there is no room, the options' `overflow` says what happens. Returns
  /// - success: the item was added;
  /// - full: there was no room, and the item is unchanged (only with drop_newest, which counts it as
  ///   dropped);
  /// - closed: the source is closed, or its run has ended and no other has begun; the item is unchanged. Before the first
  ///   run the source is open.
  queue_status push(T&& item) { return buffer_->push(item, std::nullopt, true); }

  /// The same for a copy of the item.
  queue_status push(const T& item)
    requires std::copy_constructible<T>
  {
    return push(T(item));
  }

  /// The same, but doesn't wait; a rejected item doesn't count as dropped.
  queue_status try_push(T&& item) { return buffer_->push(item, std::chrono::steady_clock::now(), false); }

  /// The same as push(), but waits at most that long, then returns full.
  queue_status push_for(T&& item, std::chrono::nanoseconds longest) {
    const time_point now = std::chrono::steady_clock::now();
    if (longest > time_point::max() - now) return buffer_->push(item, std::nullopt, true);
    return buffer_->push(item, now + longest, true);
  }

  /// Rejects further items. Those in the buffer are delivered, then the stream ends.
  void close() { buffer_->close(nullptr); }

  /// The same, but the stream ends with this error.
  void fail(std::exception_ptr error) { buffer_->close(std::move(error)); }

  /// The same with an exception object.
  template <class Error>
    requires std::derived_from<Error, std::exception>
  void fail(Error error) {
    fail(std::make_exception_ptr(std::move(error)));
  }

  /// Whether close() or fail() was called.
  bool is_closed() const { return buffer_->is_closed(); }

  /// How many items were dropped so far because there was no room.
  std::uint64_t dropped() const { return buffer_->dropped(); }

  /// About how many items wait in the buffer.
  std::size_t size_approx() const { return buffer_->size(); }

  // Called by the run.

  std::shared_ptr<const void> in_run(const std::stop_token& stop) const {
    return std::make_shared<const run_of_buffer>(buffer_, stop);
  }

  void start_epoch(const epoch& e) {
    stop_ = e.stop;
    in_run_ = in_run(stop_); // in_run() wasn't called if the source is read without a run
  }

  bool ready() const { return buffer_->ready(); }

  std::optional<T> next() { return buffer_->pop(stop_); }

  std::size_t items_held() const noexcept { return buffer_->options.capacity; }

  std::optional<std::size_t> max_item_bytes() const noexcept {
    const std::size_t bytes = buffer_->options.max_item_bytes;
    return bytes == 0 ? std::nullopt : std::optional(bytes);
  }

 private:
  using time_point = std::chrono::steady_clock::time_point;

  static push_options checked(const push_options& options) {
    if (options.capacity == 0)
      throw std::invalid_argument("feedline::push_source: the capacity must be at least 1");
    detail::refuse_negative(options.capacity, "feedline::push_source: the capacity");
    detail::refuse_negative(options.max_item_bytes, "feedline::push_source: max_item_bytes");
    return options;
  }

  struct buffer {
    explicit buffer(const push_options& o) : options(o), items_(o.capacity) {}

    ~buffer() {
      while (begin_ != end_) std::destroy_at(items_.at(begin_++));
    }

    queue_status push(T& item, std::optional<time_point> deadline, bool may_drop) {
      std::unique_lock lock(mutex_);
      if (refuses()) return queue_status::closed;
      if (is_full()) {
        if (options.overflow == overflow::drop_oldest) {
          std::destroy_at(items_.at(begin_++));
          ++dropped_;
        } else if (options.overflow == overflow::drop_newest) {
          dropped_ += may_drop;
          return queue_status::full;
        } else {
          const auto has_room = [&] { return !is_full() || refuses(); };
          if (!deadline) room_.wait(lock, has_room);
          else if (!room_.wait_until(lock, *deadline, has_room)) return queue_status::full;
          if (refuses()) return queue_status::closed;
        }
      }
      std::construct_at(items_.at(end_++), std::move(item));
      lock.unlock();
      items_came_.notify_one();
      return queue_status::success;
    }

    std::optional<T> pop(const std::stop_token& stop) {
      std::unique_lock lock(mutex_);
      if (!items_came_.wait(lock, stop, [&] { return begin_ != end_ || closed_; })) return std::nullopt;
      if (begin_ != end_) {
        T* const first = items_.at(begin_++);
        std::optional<T> item(std::move(*first));
        std::destroy_at(first);
        lock.unlock();
        room_.notify_one();
        return item;
      }
      if (const std::exception_ptr error = std::exchange(error_, nullptr)) std::rethrow_exception(error);
      return std::nullopt;
    }

    void close(std::exception_ptr error) {
      {
        const std::lock_guard lock(mutex_);
        if (std::exchange(closed_, true)) return;
        error_ = std::move(error);
      }
      items_came_.notify_all();
      room_.notify_all();
    }

    void begin_run() {
      const std::lock_guard lock(mutex_);
      ++runs_;
      had_run_ = true;
    }

    void end_run() {
      {
        const std::lock_guard lock(mutex_);
        --runs_;
      }
      room_.notify_all();
    }

    bool ready() const {
      const std::lock_guard lock(mutex_);
      return begin_ != end_ || closed_;
    }

    bool is_closed() const {
      const std::lock_guard lock(mutex_);
      return closed_;
    }

    std::uint64_t dropped() const {
      const std::lock_guard lock(mutex_);
      return dropped_;
    }

    std::size_t size() const {
      const std::lock_guard lock(mutex_);
      return static_cast<std::size_t>(end_ - begin_);
    }

    const push_options options;

   private:
    bool refuses() const noexcept { return closed_ || (had_run_ && runs_ == 0); }

    bool is_full() const noexcept { return end_ - begin_ == options.capacity; }

    mutable std::mutex mutex_; // guards the members below
    std::condition_variable_any items_came_;
    std::condition_variable_any room_;
    detail::ring<T> items_; // items in [begin_, end_)
    std::uint64_t begin_ = 0;
    std::uint64_t end_ = 0;
    std::uint64_t dropped_ = 0;
    bool closed_ = false;
    std::size_t runs_ = 0; // at work
    bool had_run_ = false;
    std::exception_ptr error_; // thrown at the end of the stream
  };

  // A run that reads the buffer, until it is stopped or its source is gone.
  class run_of_buffer {
   public:
    run_of_buffer(std::shared_ptr<buffer> b, const std::stop_token& stop)
        : buffer_(std::move(b)), on_stop_((buffer_->begin_run(), stop), ending{this}) {}

    run_of_buffer(const run_of_buffer&) = delete;

    ~run_of_buffer() { end(); }

   private:
    struct ending {
      const run_of_buffer* self;

      void operator()() const { self->end(); }
    };

    void end() const {
      if (!has_ended_.exchange(true)) buffer_->end_run();
    }

    const std::shared_ptr<buffer> buffer_;
    mutable std::atomic<bool> has_ended_{false};
    const std::stop_callback<ending> on_stop_; // last: it uses the others
  };

  std::shared_ptr<buffer> buffer_;
  std::stop_token stop_; // of the run
  std::shared_ptr<const void> in_run_;
};

} // namespace feedline::inline FEEDLINE_ABI
