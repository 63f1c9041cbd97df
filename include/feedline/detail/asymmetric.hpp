// SPDX-License-Identifier: MIT
#pragma once
// "I publish, then look whether you wait" against "I say that I wait, then look whether you have published":
// one of the two must see the other, which takes a full barrier on each side.
#include <atomic>
#include <cstdint>

#include <feedline/detail/kernel.hpp>
#include <feedline/detail/waiting.hpp>

namespace feedline::inline v0::detail {

/// The barrier between two sides of which one acts often and the other rarely.
///
/// Often: `publish()` stores and then looks. Rarely: store (sequentially consistent), `settle()`, look
/// (likewise). Either the rare side's look sees the store of a publish(), or that publish() sees the rare
/// store.
///
/// A locked instruction on each item would cost more than the rest of the push (5 ns of 2). So where the
/// kernel can make all running threads pass a barrier, the rare side has it do so, and the often side
/// needs to restrain only the compiler. Elsewhere both sides use sequentially consistent operations.
class asymmetric_barrier {
 public:
  asymmetric_barrier() noexcept : asymmetric_barrier(has_heavy_barrier()) {}

  /// `by_kernel`: the rare side has the kernel do it; only where has_heavy_barrier().
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

  /// The rare side's barrier.
  void settle() const noexcept {
    if (kernel_) heavy_barrier();
  }

 private:
  bool kernel_;
};

} // namespace feedline::inline v0::detail
