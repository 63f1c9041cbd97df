// SPDX-License-Identifier: MIT
#pragma once
// A memory resource that counts its allocations.
#include <algorithm>
#include <cstddef>
#include <exception>
#include <iterator>
#include <map>
#include <memory_resource>
#include <mutex>
#include <new>

namespace feedline::test {

/// Any thread may read the counts.
class counting_resource : public std::pmr::memory_resource {
 public:
  bool owns(const void* memory) const {
    const std::lock_guard lock(mutex_);
    const auto after = blocks_.upper_bound(static_cast<const std::byte*>(memory));
    return after != blocks_.begin() && memory < std::prev(after)->first + std::prev(after)->second;
  }

  std::size_t allocations() const {
    const std::lock_guard lock(mutex_);
    return allocations_;
  }

  /// The allocated bytes.
  std::size_t bytes() const {
    const std::lock_guard lock(mutex_);
    return bytes_;
  }

  /// Their peak.
  std::size_t most_bytes() const {
    const std::lock_guard lock(mutex_);
    return most_;
  }

  bool is_unused() const {
    const std::lock_guard lock(mutex_);
    return blocks_.empty();
  }

  /// Makes all further allocations fail, or succeed again.
  void run_out(bool now = true) {
    const std::lock_guard lock(mutex_);
    has_run_out_ = now;
  }

 private:
  void* do_allocate(std::size_t bytes, std::size_t alignment) override {
    const std::lock_guard lock(mutex_);
    if (has_run_out_) throw std::bad_alloc();
    auto* const memory = static_cast<std::byte*>(::operator new(bytes, std::align_val_t{alignment}));
    blocks_[memory] = bytes;
    ++allocations_;
    bytes_ += bytes;
    most_ = std::max(most_, bytes_);
    return memory;
  }

  void do_deallocate(void* memory, std::size_t bytes, std::size_t alignment) override {
    const std::lock_guard lock(mutex_);
    const auto found = blocks_.find(static_cast<std::byte*>(memory));
    if (found == blocks_.end() || found->second != bytes) std::terminate();
    blocks_.erase(found);
    bytes_ -= bytes;
    ::operator delete(memory, std::align_val_t{alignment});
  }

  bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }

  mutable std::mutex mutex_;
  std::map<const std::byte*, std::size_t> blocks_;
  std::size_t allocations_ = 0;
  std::size_t bytes_ = 0;
  std::size_t most_ = 0;
  bool has_run_out_ = false;
};

} // namespace feedline::test
