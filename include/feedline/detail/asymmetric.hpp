// SPDX-License-Identifier: MIT
#pragma once
// One thread publishes and then checks for a waiter; another announces that it waits and then checks for the
// item. One of the two must see the other, which takes a full barrier on each side.
#include <atomic>
#include <cstdint>

#include <feedline/detail/kernel.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// The barrier between two sides of which one acts often and the other rarely.
///
/// The frequent side calls `publish()`, which stores and then reads. The rare side stores (sequentially
/// consistent), calls `settle()` and reads (sequentially consistent). Either the rare side's read sees the
/// store of a publish(), or that publish() sees the rare side's store.
///
/// A locked instruction for each item would cost more than the rest of the push (5 ns compared with 2). So
/// where the kernel can make all running threads pass a barrier, the rare side calls the kernel, and the
/// frequent side only restrains the compiler. Elsewhere both sides use sequentially consistent operations.
class asymmetric_barrier {
 public:
  asymmetric_barrier() noexcept : asymmetric_barrier(has_heavy_barrier()) {}

  /// `by_kernel`: the rare side uses the kernel's barrier; requires has_heavy_barrier().
  explicit asymmetric_barrier(bool by_kernel) noexcept : kernel_(by_kernel) {}

  /// Stores `value` into `mine` (release), then reads `theirs`.
  template <class Word>
  std::uint32_t publish(std::atomic<Word>& mine, Word value,
                        const std::atomic<std::uint32_t>& theirs) const noexcept {
    if (kernel_) [[likely]] {
      mine.store(value, std::memory_order_release);
      std::atomic_signal_fence(std::memory_order_seq_cst);
      return theirs.load(std::memory_order_relaxed);
    }
    mine.store(value, std::memory_order_seq_cst);
    return theirs.load(std::memory_order_seq_cst);
  }

  /// The barrier of the rare side.
  void settle() const noexcept {
    if (kernel_) heavy_barrier();
  }

 private:
  bool kernel_;
};

} // namespace feedline::inline FEEDLINE_ABI::detail
