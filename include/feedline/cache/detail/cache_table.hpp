// SPDX-License-Identifier: MIT
#pragma once
// Tables in which a cache stores values by key, from any thread.
#include <atomic>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>

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

} // namespace feedline::inline FEEDLINE_ABI::detail
