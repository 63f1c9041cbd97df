// SPDX-License-Identifier: MIT
#pragma once
// Memory for packed positions: blocks of one size, which workers allocate and tensor generators free.
#include <cstddef>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include <feedline/core/tensor.hpp>

namespace chess {

/// A general allocator is slow with blocks that one thread allocates and another one frees. Here each thread has its
/// own chain of free blocks, and threads exchange whole chains, so that one lock serves many positions. Memory is
/// reused until the program ends. Any thread may allocate and free blocks.
class position_memory {
 public:
  static constexpr std::size_t block_size = 1280; ///< room for 52 legal moves: few positions have more

  /// Throws std::bad_alloc.
  static std::byte* take() {
    chain& own = own_chain();
    if (!own.first) own = all().take_chain();
    --own.size;
    auto* const block = reinterpret_cast<std::byte*>(std::exchange(own.first, own.first->next));
    if (own.first)
      prefetch(reinterpret_cast<std::byte*>(own.first)); // it may have left this processor's cache
    return block;
  }

  static void give_back(std::byte* block) noexcept {
    chain& own = own_chain();
    if (own.size == chain_size) all().give_back(std::exchange(own, {}));
    own.first = ::new (block) free_block{own.first, {}};
    ++own.size;
  }

 private:
  static constexpr std::size_t chain_size = 64, chains_at_once = 25; // 2 MB, to fit huge pages

  struct free_block;

  struct chain {
    free_block* first = nullptr;
    std::size_t size = 0;
  };

  struct free_block {
    free_block* next;
    chain next_chain; // used in the first block of a chain
  };

  struct chain_of_thread : chain {
    ~chain_of_thread() {
      if (first) all().give_back(*this);
    }
  };

  static void prefetch(const std::byte* block) noexcept {
    for (std::size_t at = 0; at < block_size; at += 64) __builtin_prefetch(block + at, 1);
  }

  static chain& own_chain() noexcept {
    thread_local chain_of_thread own;
    return own;
  }

  // Never destroyed: positions may live as long as the program.
  static position_memory& all() {
    static position_memory* const memory = new position_memory;
    return *memory;
  }

  chain take_chain() {
    const std::lock_guard lock(mutex_);
    if (!chains_.first) make_chains();
    return std::exchange(chains_, chains_.first->next_chain);
  }

  void give_back(chain c) noexcept {
    const std::lock_guard lock(mutex_);
    c.first->next_chain = std::exchange(chains_, c);
  }

  void make_chains() {
    feedline::tensor<std::byte>& memory =
        memory_.emplace_back(feedline::shape{chains_at_once * chain_size * block_size});
    std::byte* block = memory.data();
    for (std::size_t i = 0; i < chains_at_once; ++i) {
      chain c;
      for (; c.size < chain_size; ++c.size, block += block_size)
        c.first = ::new (block) free_block{c.first, {}};
      c.first->next_chain = std::exchange(chains_, c);
    }
  }

  std::mutex mutex_; // protects chains_
  chain chains_;     // the first free chain
  std::vector<feedline::tensor<std::byte>> memory_;
};

} // namespace chess
