// SPDX-License-Identifier: MIT
#pragma once
// A bounded number of objects that threads borrow and return.
//
//     threads ◀──acquire── [ objects ] ◀──end of a lease── threads
#include <chrono>
#include <concepts>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <stop_token>
#include <type_traits>
#include <utility>

#include <feedline/detail/given_size.hpp>
#include <feedline/detail/kernel.hpp>

namespace feedline::inline FEEDLINE_ABI {

/// Lends objects that are costly to make (decoders, connections, buffers): at most `capacity` of them, each
/// leased to one user at a time. The end of a lease returns the object as its user left it; the object
/// returned last is leased next. Objects are made when they are first needed. Any thread may use the pool and
/// end a lease.
///
/// A lease may outlive the pool; the end of the lease then destroys its object. What one user did to an
/// object happens before what the next user does. Once all objects are made, the pool allocates nothing.
///
/// Example: `object_pool<decoder> decoders(8);`
///          `const auto d = decoders.acquire(); d->decode(bytes);`
template <class T>
class object_pool {
  static_assert(
      std::is_object_v<T> && !std::is_const_v<T>,
      "feedline::object_pool: the leased type must be an object type, neither a reference nor const");
  static_assert(std::is_nothrow_destructible_v<T>,
                "feedline::object_pool: the leased type must have a destructor that doesn't throw");

  struct node {
    T object;
    node* next = nullptr; // in the list of idle objects
  };

  // The state that the pool shares with its leases.
  class depot {
   public:
    static constexpr detail::deadline at_once{}; // doesn't wait

    explicit depot(std::size_t capacity) noexcept : capacity_(capacity) {}

    depot(const depot&) = delete;
    depot& operator=(const depot&) = delete;

    virtual ~depot() { destroy(idle_); }

    // Returns null if no object became free before the deadline, or if `stop` or stop() was requested.
    node* take(detail::deadline until, const std::stop_token& stop) {
      // Outlives the lock, as the callback may be waiting for the mutex.
      const std::stop_callback on_stop(stop, [this] {
        { const std::lock_guard lock(mutex_); } // a thread that saw no stop waits by now
        changed_.notify_all();
      });
      std::unique_lock lock(mutex_);
      const auto ready = [&] { return stopped_ || stop.stop_requested() || idle_ || made_ < capacity_; };
      if (until == detail::no_deadline) changed_.wait(lock, ready);
      else if (until != at_once) changed_.wait_until(lock, until, ready);
      if (stop.stop_requested()) {
        changed_.notify_one(); // passes on the wake-up that this thread may have received
        return nullptr;
      }
      if (stopped_ || !(idle_ || made_ < capacity_)) return nullptr;
      if (idle_) return std::exchange(idle_, idle_->next);
      ++made_;
      lock.unlock();
      return make_counted();
    }

    void give_back(node* n) noexcept {
      {
        const std::lock_guard lock(mutex_);
        if (!abandoned_) {
          n->next = idle_;
          idle_ = std::exchange(n, nullptr);
        }
      }
      delete n;
      changed_.notify_one();
    }

    void stop() noexcept {
      {
        const std::lock_guard lock(mutex_);
        stopped_ = true;
      }
      changed_.notify_all();
    }

    bool is_stopped() const {
      const std::lock_guard lock(mutex_);
      return stopped_;
    }

    std::size_t capacity() const noexcept { return capacity_; }

    // Called by the pool's destructor.
    void abandon() noexcept {
      node* idle = nullptr;
      {
        const std::lock_guard lock(mutex_);
        abandoned_ = true;
        idle = std::exchange(idle_, nullptr);
      }
      destroy(idle);
    }

   private:
    virtual node* make() const = 0;

    node* make_counted() {
      try {
        return make();
      } catch (...) {
        {
          const std::lock_guard lock(mutex_);
          --made_;
        }
        changed_.notify_one();
        throw;
      }
    }

    static void destroy(node* list) noexcept {
      while (list) delete std::exchange(list, list->next);
    }

    const std::size_t capacity_;
    mutable std::mutex mutex_; // guards the members below
    std::condition_variable changed_;
    node* idle_ = nullptr;
    std::size_t made_ = 0; // includes those being made
    bool stopped_ = false;
    bool abandoned_ = false;
  };

  template <class Make>
  class depot_of final : public depot {
   public:
    depot_of(std::size_t capacity, Make make) : depot(capacity), make_(std::move(make)) {}

   private:
    node* make() const override { return new node{make_()}; }

    Make make_;
  };

  struct give_back {
    std::shared_ptr<depot> from;

    void operator()(node* n) const noexcept { from->give_back(n); }
  };

 public:
  using value_type = T;

  /// The right to use one object until the lease ends. A lease is empty after it was moved from.
  class lease {
   public:
    /// Makes an empty lease.
    lease() noexcept = default;

    /// False for an empty lease.
    explicit operator bool() const noexcept { return node_ != nullptr; }

    /// The object; the lease must not be empty.
    T& operator*() const noexcept { return node_->object; }

    T* operator->() const noexcept { return &node_->object; }

    /// Null for an empty lease.
    T* get() const noexcept { return node_ ? &node_->object : nullptr; }

    /// Returns the object now.
    void reset() noexcept { node_.reset(); }

   private:
    friend class object_pool;

    lease(node* n, const std::shared_ptr<depot>& from) noexcept : node_(n, give_back{from}) {}

    std::unique_ptr<node, give_back> node_;
  };

  /// A pool of at most `capacity` objects, each made by `make()`. The threads that need an object call
  /// `make`, several at once if necessary. What it throws reaches the caller, and the next thread that needs
  /// an object tries again. Throws std::invalid_argument for a capacity of 0.
  template <class Make>
    requires std::is_invocable_r_v<T, const Make&>
  object_pool(std::size_t capacity, Make make)
      : depot_(std::make_shared<depot_of<Make>>(checked(capacity), std::move(make))) {}

  /// A pool of objects `T()`.
  explicit object_pool(std::size_t capacity)
    requires std::default_initializable<T>
      : object_pool(capacity, [] { return T(); }) {}

  object_pool(const object_pool&) = delete;
  object_pool& operator=(const object_pool&) = delete;

  /// No thread may be inside acquire() any more. Leases may outlive the pool.
  ~object_pool() { depot_->abandon(); }

  /// Leases an object, waiting while all are leased. Returns an empty lease if `stop` or stop() was
  /// requested.
  lease acquire(std::stop_token stop = {}) { return {depot_->take(detail::no_deadline, stop), depot_}; }

  /// The same, but waits for at most `longest`. Returns an empty lease if no object was returned in time, or
  /// if the wait was stopped.
  lease acquire_for(std::chrono::nanoseconds longest, std::stop_token stop = {}) {
    return {depot_->take(detail::after(longest), stop), depot_};
  }

  /// Leases an object if one is idle or may still be made. Returns an empty lease if all are leased, or after
  /// stop().
  lease try_acquire() { return {depot_->take(depot::at_once, {}), depot_}; }

  /// Wakes the threads that wait for an object; no thread gets one any more. Existing leases remain valid.
  void stop() noexcept { depot_->stop(); }

  /// Whether stop() was called.
  bool is_stopped() const { return depot_->is_stopped(); }

  /// The most objects that the pool makes.
  std::size_t capacity() const noexcept { return depot_->capacity(); }

 private:
  static std::size_t checked(std::size_t capacity) {
    if (capacity == 0) throw std::invalid_argument("feedline::object_pool: the capacity must be at least 1");
    detail::refuse_negative(capacity, "feedline::object_pool: the capacity");
    return capacity;
  }

  std::shared_ptr<depot> depot_;
};

} // namespace feedline::inline FEEDLINE_ABI
