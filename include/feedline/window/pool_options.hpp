// SPDX-License-Identifier: MIT
#pragma once
// Options and status of sliding_window_pool.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include <feedline/core/callback.hpp>
#include <feedline/version.hpp>

namespace feedline::inline FEEDLINE_ABI {

/// Options of sliding_window_pool.
struct pool_options {
  std::uint64_t window = 100'000; ///< the most chunks in the window
  /// The order in which the source yields the files of the start: the newest last, or first, as watch_directory does with
  /// its option of this name. Files are indexed from the newest on, until the window is full.
  bool newest_first = false;
  /// The fewest chunks in the window before the first one is yielded; 0: all chunks of the start that fit. A run whose
  /// source has ended begins with fewer; a finite run begins when its source has ended.
  std::uint64_t min_fill = 0;
  std::size_t index_threads = 1;                          ///< threads that find the chunks of files
  std::size_t max_open_files = 64;                        ///< TAR files that stay open between reads
  std::uint64_t max_chunk_bytes = std::uint64_t{1} << 30; ///< reading a larger chunk of a file fails
  /// Returns the probability, 0 to 1, that a chunk is yielded in this pass; called with its key and its size in bytes
  /// (0 if unknown). Null: all chunks are yielded.
  std::function<double(const std::string& key, std::uint64_t bytes)> accept{};
  /// Called with a sentence when the first chunk can be yielded, when the first pass over the window is complete, when
  /// every chunk of a pass has failed and pauses begin, and when all files of the window are gone. The thread that runs
  /// the source calls it.
  callback<std::string> on_notice{};
  bool notice_each_pass =
      false; ///< also at the end of each later pass: data that arrives too slowly is used again
};

/// The contents of a pool and its counters.
struct pool_status {
  bool has_started = false;       ///< the first chunk could be yielded
  std::uint64_t sources = 0;      ///< files that cover the window
  std::uint64_t chunks = 0;       ///< in the window
  std::uint64_t window = 0;       ///< the most chunks in the window
  std::uint64_t indexed = 0;      ///< chunks found in total
  std::uint64_t passes = 0;       ///< completed passes over the window
  std::uint64_t since_anchor = 0; ///< chunks newer than the anchor
  std::uint64_t rejected = 0;     ///< chunks that `accept` left out, summed over passes
  double indexing_seconds = 0;    ///< of work, of all index threads together
  std::uint64_t gone = 0;         ///< chunks not yielded again because reading found their file gone
};

} // namespace feedline::inline FEEDLINE_ABI
