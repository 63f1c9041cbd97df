// SPDX-License-Identifier: MIT
#pragma once
// The state that the pipelines of one cache share.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <feedline/cache/cache_options.hpp>
#include <feedline/cache/detail/cache_table.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// The tables of one cache, one for each pipeline that contains it.
class cache_store {
 public:
  explicit cache_store(cache_options options);

  cache_store(cache_store&&) = delete;

  const std::string& version() const noexcept { return options_.version; }

  /// The most bytes of memory that it uses.
  std::size_t memory() const noexcept { return static_cast<std::size_t>(options_.memory_bytes); }

  /// The most items of a sample; 0: not known.
  std::size_t items_per_sample() const noexcept { return options_.items_per_sample; }

  /// Distinguishes the pipelines in memory: their functions may differ in what they capture. A directory
  /// outlives the functions and can't distinguish them.
  std::uint64_t next_pipeline() noexcept {
    return options_.memory_bytes > 0 ? pipelines_.fetch_add(1, std::memory_order_relaxed) : 0;
  }

  /// The table of a pipeline; it lives as long as the store. Throws std::system_error for a directory that
  /// can't be used.
  cache_table& open(std::uint64_t fingerprint);

  cache_stats stats() const noexcept {
    return {counters_.hits.load(std::memory_order_relaxed), counters_.misses.load(std::memory_order_relaxed),
            counters_.bytes.load(std::memory_order_relaxed), counters_.full.load(std::memory_order_relaxed)};
  }

  void count(bool hit) noexcept {
    (hit ? counters_.hits : counters_.misses).fetch_add(1, std::memory_order_relaxed);
  }

 private:
  struct open_table {
    std::uint64_t fingerprint;
    std::shared_ptr<cache_table> table;
  };

  std::shared_ptr<cache_table> make(std::uint64_t fingerprint);

  cache_options options_;
  cache_counters counters_;
  std::atomic<std::uint64_t> pipelines_{0};
  std::mutex mutex_;
  std::vector<open_table> tables_; // destroyed before the counters
};

} // namespace feedline::inline FEEDLINE_ABI::detail

#ifndef FEEDLINE_COMPILED
#include <feedline/cache/detail/cache_store.ipp>
#endif
