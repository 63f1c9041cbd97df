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

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_CACHE)
#include <stdexcept>
#include <utility>

#include <feedline/cache/detail/cache_directory.hpp>
#include <feedline/cache/detail/memory_table.hpp>
#include <feedline/detail/given_size.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE cache_store::cache_store(cache_options options) : options_(std::move(options)) {
  refuse_negative(options_.memory_bytes, "feedline::cache: the memory_bytes");
  refuse_negative(options_.directory_bytes, "feedline::cache: the directory_bytes");
  refuse_negative(options_.items_per_sample, "feedline::cache: the items_per_sample");
  if ((options_.memory_bytes > 0) == !options_.directory.empty())
    throw std::invalid_argument("feedline::cache: set either memory_bytes or a directory");
  if (options_.directory.empty() != (options_.directory_bytes == 0))
    throw std::invalid_argument(
        "feedline::cache: directory and directory_bytes go together: set both or neither");
}

FEEDLINE_INLINE cache_table& cache_store::open(std::uint64_t fingerprint) {
  const std::lock_guard lock(mutex_);
  for (const open_table& p : tables_)
    if (p.fingerprint == fingerprint && p.table->is_usable()) return *p.table;
  tables_.push_back({fingerprint, make(fingerprint)});
  return *tables_.back().table;
}

FEEDLINE_INLINE std::shared_ptr<cache_table> cache_store::make(std::uint64_t fingerprint) {
  if (options_.memory_bytes > 0) return std::make_shared<memory_table>(options_.memory_bytes, counters_);
  return std::make_shared<directory_table>(options_.directory, options_.directory_bytes, fingerprint,
                                           counters_, options_.on_notice);
}

} // namespace feedline::inline FEEDLINE_ABI::detail
#endif
