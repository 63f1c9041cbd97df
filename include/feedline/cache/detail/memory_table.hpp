// SPDX-License-Identifier: MIT
#pragma once
// A cache's table in memory.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>

#include <feedline/cache/detail/cache_table.hpp>
#include <feedline/cache/detail/shared_map.hpp>
#include <feedline/core/stored_value.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// Stores values in memory. `counters.bytes` counts all tables that share the counters.
class memory_table : public cache_table {
 public:
  memory_table(std::uint64_t most_bytes, cache_counters& counters) : most_(most_bytes), counters_(counters) {}

  ~memory_table() {
    entries_.for_each([](entry& e) { delete[] e.bytes; });
  }

  std::span<const std::byte> find(const cache_key& k, scratch_memory&) override {
    const auto found = entries_.find(k);
    if (!found) return {};
    return {found->bytes, found->size};
  }

  void forget(const cache_key&) override {} // this process can read what it wrote

  std::byte* room(const cache_key& k, std::size_t size, scratch_memory&) override {
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

  void keep(const cache_key& k, std::byte* value, std::size_t size) override {
    std::unique_ptr<std::byte[]> owned(value);
    try {
      if (entries_.insert(k, {value, size})) static_cast<void>(owned.release());
      else give_back(size); // another worker stored the same sample first
    } catch (const std::bad_alloc&) {
      is_out_of_memory(size);
    }
  }

 private:
  struct entry {
    std::byte* bytes;
    std::size_t size;

    bool operator==(const entry&) const = default;
  };

  // The bytes that the map and the allocator need for an entry, in addition to its value.
  static constexpr std::uint64_t overhead = 128;

  void give_back(std::size_t size) noexcept {
    counters_.bytes.fetch_sub(size + overhead, std::memory_order_relaxed);
  }

  void is_out_of_memory(std::size_t size) noexcept {
    give_back(size);
    counters_.full.store(true, std::memory_order_relaxed);
  }

  std::uint64_t most_;
  cache_counters& counters_;
  shared_map<entry> entries_;
};

} // namespace feedline::inline FEEDLINE_ABI::detail
