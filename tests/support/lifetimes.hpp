// SPDX-License-Identifier: MIT
#pragma once
#include <atomic>
#include <utility>

namespace feedline::test {

/// Counts the `counted_item`s that it created and that still have their value.
class lifetimes {
 public:
  int live() const { return live_.load(); }

 private:
  friend class counted_item;
  std::atomic<int> live_{0};
};

/// A move-only item. Each value has one holder: a move passes it on, and it ends when its holder is destroyed
/// or overwritten. An item that was moved from or default-constructed has no value.
class counted_item {
 public:
  counted_item() noexcept = default;

  counted_item(lifetimes& all, int value) noexcept : all_(&all), value_(value) { ++all.live_; }

  counted_item(counted_item&& other) noexcept
      : all_(std::exchange(other.all_, nullptr)), value_(other.value_) {}

  counted_item& operator=(counted_item&& other) noexcept {
    if (this == &other) return *this;
    end();
    all_ = std::exchange(other.all_, nullptr);
    value_ = other.value_;
    return *this;
  }

  ~counted_item() { end(); }

  bool empty() const { return all_ == nullptr; }

  int value() const { return empty() ? -1 : value_; }

 private:
  void end() noexcept {
    if (all_ != nullptr) --all_->live_;
    all_ = nullptr;
  }

  lifetimes* all_ = nullptr;
  int value_ = -1;
};

} // namespace feedline::test
