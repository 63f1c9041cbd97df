// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/stage/detail/memory_table.hpp>

#include <atomic>
#include <memory>
#include <new>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE std::span<const std::byte> memory_table::find(const cache_key& k, scratch_memory&) {
  const auto found = entries_.find(k);
  if (!found) return {};
  return {found->bytes, found->size};
}

FEEDLINE_INLINE std::byte* memory_table::room(const cache_key& k, std::size_t size, scratch_memory&) {
  if (entries_.contains(k)) return nullptr;
  const std::uint64_t taken = size + overhead;
  std::uint64_t before = counters_.bytes.load(std::memory_order_relaxed);
  do {
    if (taken > most_ || before > most_ - taken) {
      counters_.full.store(true, std::memory_order_relaxed);
      return nullptr;
    }
  } while (!counters_.bytes.compare_exchange_weak(before, before + taken, std::memory_order_relaxed));
  std::byte* const memory = new (std::nothrow) std::byte[size];
  if (!memory) is_out_of_memory(size);
  return memory;
}

FEEDLINE_INLINE void memory_table::keep(const cache_key& k, std::byte* value, std::size_t size) {
  std::unique_ptr<std::byte[]> owned(value);
  try {
    if (entries_.insert(k, {value, size})) static_cast<void>(owned.release());
    else give_back(size); // another worker stored the same sample first
  } catch (const std::bad_alloc&) {
    is_out_of_memory(size);
  }
}

} // namespace feedline::inline FEEDLINE_ABI::detail
