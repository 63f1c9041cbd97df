// SPDX-License-Identifier: MIT
#pragma once
// Tables in which a cache stores values by key, from any thread: their interface, and the one in memory.
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <span>

#include <feedline/core/random.hpp>
#include <feedline/core/stored_value.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// Identifies a sample as the cached stages receive it: 128 bits, unique within a data set.
struct cache_key {
  std::uint64_t sample;
  std::uint64_t rest;

  friend auto operator<=>(const cache_key&, const cache_key&) = default;
};

/// The statistics of all tables of a cache.
struct cache_counters {
  std::atomic<std::uint64_t> hits{0};
  std::atomic<std::uint64_t> misses{0};
  std::atomic<std::uint64_t> bytes{0};
  std::atomic<bool> full{false};
};

/// A map whose parts have separate locks, so that workers seldom wait for each other.
template <class Entry>
class shared_map {
 public:
  std::optional<Entry> find(const cache_key& k) const {
    const part& p = part_of(k);
    const std::lock_guard lock(p.mutex);
    const auto found = p.entries.find(k);
    return found == p.entries.end() ? std::nullopt : std::optional(found->second);
  }

  bool contains(const cache_key& k) const { return find(k).has_value(); }

  /// Returns false if there is an entry already.
  bool insert(const cache_key& k, const Entry& entry) {
    part& p = part_of(k);
    const std::lock_guard lock(p.mutex);
    return p.entries.try_emplace(k, entry).second;
  }

  /// Erases this entry. Returns false if there is a different one, or none, by now.
  bool erase(const cache_key& k, const Entry& entry) {
    part& p = part_of(k);
    const std::lock_guard lock(p.mutex);
    const auto found = p.entries.find(k);
    if (found == p.entries.end() || !(found->second == entry)) return false;
    p.entries.erase(found);
    return true;
  }

  template <class F>
  void for_each(F f) {
    for (part& p : parts_)
      for (auto& [k, entry] : p.entries) f(entry);
  }

 private:
  struct alignas(64) part {
    mutable std::mutex mutex;
    std::map<cache_key, Entry> entries;
  };

  part& part_of(const cache_key& k) { return parts_[mix(k.sample ^ k.rest) % parts_.size()]; }

  const part& part_of(const cache_key& k) const { return parts_[mix(k.sample ^ k.rest) % parts_.size()]; }

  std::array<part, 64> parts_;
};

/// The values of one pipeline. No function fails: a value that can't be stored isn't stored.
class cache_table {
 public:
  cache_table() = default;
  cache_table(cache_table&&) = delete;
  virtual ~cache_table() = default;

  /// The stored value, in `scratch` or in memory that lives as long as the table; empty if there is none or
  /// it can't be read.
  virtual std::span<const std::byte> find(const cache_key& k, scratch_memory& scratch) = 0;

  /// Removes the value of that key: it is damaged.
  virtual void forget(const cache_key& k) = 0;

  /// Where to write a value of `size` bytes; null if it isn't to be stored.
  virtual std::byte* room(const cache_key& k, std::size_t size, scratch_memory& scratch) = 0;

  /// Stores the value that was written there.
  virtual void keep(const cache_key& k, std::byte* value, std::size_t size) = 0;

  /// Whether this process may still use it.
  virtual bool is_usable() const { return true; }
};

/// Stores values in memory. `counters.bytes` counts all tables that share the counters.
class memory_table : public cache_table {
 public:
  memory_table(std::uint64_t most_bytes, cache_counters& counters) : most_(most_bytes), counters_(counters) {}

  ~memory_table() {
    entries_.for_each([](entry& e) { delete[] e.bytes; });
  }

  std::span<const std::byte> find(const cache_key& k, scratch_memory&) override;

  void forget(const cache_key&) override {} // this process can read what it wrote

  std::byte* room(const cache_key& k, std::size_t size, scratch_memory&) override;

  void keep(const cache_key& k, std::byte* value, std::size_t size) override;

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

#ifndef FEEDLINE_COMPILED
#include <feedline/stage/detail/cache_table.ipp>
#endif
