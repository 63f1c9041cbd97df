// SPDX-License-Identifier: MIT
#pragma once
// A mapped Arrow file, whose record batches are read on first use.
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <feedline/arrow/arrow_error.hpp>
#include <feedline/arrow/detail/layout.hpp>
#include <feedline/arrow/detail/loaded_batch.hpp>
#include <feedline/arrow/detail/wanted_columns.hpp>
#include <feedline/detail/mapped_file.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// Maps a file. Throws arrow_error for any error.
std::shared_ptr<const mapped_file> map_arrow(const std::string& path, sharing with = sharing::all);

/// The layout of a file, and the size and modification time that it was read at.
struct known_layout {
  std::shared_ptr<const arrow_layout> layout;
  std::uint64_t bytes = 0;
  std::int64_t modified_ns = 0;

  bool is_of(const mapped_file& file) const noexcept {
    return bytes == file.bytes().size() && modified_ns == file.modified_ns();
  }
};

/// Reads the positions of a file's batches. A file that can't be read has a layout with a problem.
known_layout read_layout(const mapped_file& file, const wanted_rows& wanted);

/// Keeps the most recently decompressed record batches, so that rows in random order don't each need a
/// decompression. Thread-safe.
class recent_batches {
 public:
  static constexpr std::size_t capacity = 16;

  /// `most`: the most bytes of all batches, but for one that is larger.
  explicit recent_batches(std::size_t most) : most_(most) {}

  void keep(std::shared_ptr<const loaded_batch> batch);

 private:
  const std::uint64_t most_;
  std::mutex mutex_;
  std::deque<std::shared_ptr<const loaded_batch>> batches_; // oldest first
  std::uint64_t bytes_ = 0;
};

/// A mapped Arrow file. Thread-safe.
class mapped_table {
 public:
  /// Throws arrow_error if the columns don't match, or if the file has no readable batch because of a
  /// problem.
  mapped_table(std::shared_ptr<const mapped_file> file, std::size_t number, known_layout known,
               const wanted_rows& wanted, std::shared_ptr<recent_batches> recent = nullptr);

  const arrow_layout& layout() const noexcept;

  const std::shared_ptr<const mapped_file>& mapped() const noexcept { return mapped_; }

  /// The error that follows the last batch.
  arrow_error problem() const;

  std::shared_ptr<const loaded_batch> batch(std::size_t number);

  /// Makes the system start to read what row `row` of the file needs. Doesn't wait for it.
  void will_need(std::uint64_t row);

 private:
  struct slot {
    std::shared_ptr<const loaded_batch> kept;
    std::weak_ptr<const loaded_batch> known;
  };

  static arrow_error problem_of(const arrow_file& file);

  std::shared_ptr<const mapped_file> mapped_;
  std::shared_ptr<const arrow_file> file_;
  std::shared_ptr<recent_batches> recent_;
  std::mutex mutex_; // for the members below
  std::vector<slot> batches_;
  arrow_dictionaries dictionaries_;
};

} // namespace feedline::inline FEEDLINE_ABI::detail

#ifndef FEEDLINE_COMPILED
#include <feedline/arrow/detail/mapped_table.ipp>
#endif
