// SPDX-License-Identifier: MIT
#pragma once
// The options and statistics of a cache.
#include <cstdint>
#include <string>

#include <feedline/core/callback.hpp>

namespace feedline::inline FEEDLINE_ABI {

/// Where a cache stores results: in memory or in a directory.
struct cache_options {
  std::uint64_t memory_bytes = 0;    ///< the most bytes of memory that it uses, or
  std::string directory{};           ///< the directory of its files, created if missing, and
  std::uint64_t directory_bytes = 0; ///< the most bytes of files in there, of all processes
  /// Change this text when the functions upstream of the cache change. A directory knows only their names and
  /// types, not what they capture or which function a pointer points to.
  std::string version{};
  /// The most items that the cached stages emit for one sample; more is a failure. A memory_budget needs it
  /// if the cache stores what a flat_map emits: the cache gathers all items of a sample before it emits the
  /// first.
  std::size_t items_per_sample = 0;
  /// Called once, from a worker, when nothing more can be written, for example because the disk is full. By
  /// default a line goes to stderr.
  callback<std::string> on_notice{};
};

/// What a cache has done so far, in all runs of this process.
struct cache_stats {
  std::uint64_t hits = 0;   ///< items that were found
  std::uint64_t misses = 0; ///< items that were computed
  std::uint64_t bytes = 0;  ///< that it holds, including what it needs to find them
  bool full = false;        ///< something wasn't stored because there was no room
};

} // namespace feedline::inline FEEDLINE_ABI
