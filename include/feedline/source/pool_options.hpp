// SPDX-License-Identifier: MIT
#pragma once
// What sliding_window_pool can be told.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace feedline::inline v0 {

struct pool_options {
  std::uint64_t window = 100'000; ///< the newest chunks, up to so many, are given
  /// Of the files that are there at the start, only the newest are looked into, until the window is full. The source gives
  /// the newest last; or first, as watch_directory does with its option of this name.
  bool newest_first = false;
  /// So many chunks must be in the window before the first one is given; 0: all those at the start that the window wants.
  /// With fewer a finite run, or one whose source has ended, begins all the same.
  std::uint64_t start_at = 0;
  std::size_t index_threads = 1;                         ///< look what is in files
  std::size_t max_open_files = 64;                       ///< TAR files that stay open between reads
  std::uint64_t max_chunk_size = std::uint64_t{1} << 30; ///< in bytes: a larger chunk of a file can't be read
  /// The probability, 0 to 1, with which a chunk is given when its turn has come: it is called with its key and how many
  /// bytes it has (0 if nobody knows). What isn't accepted is left out in this pass. Null: all are given.
  std::function<double(const std::string& key, std::uint64_t bytes)> accept{};
  /// Is told in a sentence when the first chunk can be given, and when all of the window have been given for the first
  /// time, so that they come again. By the thread that runs the source.
  std::function<void(const std::string& sentence)> on_notice{};
};

/// What is in a pool.
struct pool_status {
  bool has_started = false;       ///< the first chunk could be given
  std::uint64_t sources = 0;      ///< files that cover the window
  std::uint64_t chunks = 0;       ///< in the window, …
  std::uint64_t window = 0;       ///< which has room for so many
  std::uint64_t indexed = 0;      ///< chunks that were found in all
  std::uint64_t passes = 0;       ///< over the window that were completed
  std::uint64_t since_anchor = 0; ///< chunks that are newer than the anchor
  std::uint64_t left_out = 0;     ///< not accepted when their turn had come
  double indexing_seconds = 0;    ///< of work, of all threads for it together
};

} // namespace feedline::inline v0
