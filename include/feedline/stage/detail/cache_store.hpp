// SPDX-License-Identifier: MIT
#pragma once
// What the pipelines that one cache is put into share.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <feedline/detail/given_size.hpp>
#include <feedline/stage/cache_options.hpp>
#include <feedline/stage/detail/cache_directory.hpp>
#include <feedline/stage/detail/cache_table.hpp>

namespace feedline::inline v0::detail {

/// The tables of one cache, one for each pipeline that it is put into.
class cache_store {
 public:
  explicit cache_store(cache_options options) : options_(std::move(options)) {
    refuse_negative(options_.memory, "feedline::cache: the memory");
    refuse_negative(options_.bytes, "feedline::cache: the number of bytes");
    refuse_negative(options_.items_per_sample, "feedline::cache: the items_per_sample");
    if ((options_.memory > 0) == !options_.directory.empty())
      throw std::invalid_argument(
          "feedline::cache: it keeps things in memory or in a directory: give it one of both");
    if (options_.directory.empty() != (options_.bytes == 0))
      throw std::invalid_argument(
          "feedline::cache: a directory and the bytes that it may take at most go together");
  }

  cache_store(cache_store&&) = delete;

  const std::string& version() const noexcept { return options_.version; }

  /// At most so much of it is kept.
  std::size_t memory() const noexcept { return static_cast<std::size_t>(options_.memory); }

  /// No sample becomes more items than these; 0: that isn't known.
  std::size_t items_per_sample() const noexcept { return options_.items_per_sample; }

  /// Tells the pipelines that are kept in memory from each other: their functions may differ in what they
  /// capture. A directory, which outlives them, can't.
  std::uint64_t next_pipeline() noexcept {
    return options_.memory > 0 ? pipelines_.fetch_add(1, std::memory_order_relaxed) : 0;
  }

  /// The table of a pipeline; it lives as long as the store. Throws std::system_error for a directory that can't be
  /// used.
  cache_table& open(std::uint64_t fingerprint) {
    const std::lock_guard lock(mutex_);
    for (const place& p : tables_)
      if (p.fingerprint == fingerprint && p.table->is_usable()) return *p.table;
    tables_.push_back({fingerprint, make(fingerprint)});
    return *tables_.back().table;
  }

  cache_stats stats() const noexcept {
    return {counters_.hits.load(std::memory_order_relaxed), counters_.misses.load(std::memory_order_relaxed),
            counters_.bytes.load(std::memory_order_relaxed), counters_.full.load(std::memory_order_relaxed)};
  }

  void count(bool hit) noexcept {
    (hit ? counters_.hits : counters_.misses).fetch_add(1, std::memory_order_relaxed);
  }

 private:
  struct place {
    std::uint64_t fingerprint;
    std::unique_ptr<cache_table> table;
  };

  std::unique_ptr<cache_table> make(std::uint64_t fingerprint) {
    if (options_.memory > 0) return std::make_unique<memory_table>(options_.memory, counters_);
    const auto tell = [](void* listener, const std::string& sentence) {
      try {
        (*static_cast<const trouble_listener*>(listener))(sentence);
      } catch (...) { // no fault of the sample in hand
      }
    };
    return std::make_unique<directory_table>(options_.directory, options_.bytes, fingerprint, counters_, tell,
                                             &options_.on_trouble);
  }

  cache_options options_;
  cache_counters counters_;
  std::atomic<std::uint64_t> pipelines_{0};
  std::mutex mutex_;
  std::vector<place> tables_; // gone before the counters
};

} // namespace feedline::inline v0::detail
