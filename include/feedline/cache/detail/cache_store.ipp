// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/cache/detail/cache_store.hpp>

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
