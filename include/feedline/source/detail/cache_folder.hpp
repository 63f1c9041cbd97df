// SPDX-License-Identifier: MIT
#pragma once
// The folder of a cache of parts, which several processes may share.
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

#include <feedline/source/detail/cached_part.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// Any thread may use it.
class cache_folder {
 public:
  /// Makes the folder if it doesn't exist. Throws std::system_error if that fails.
  cache_folder(std::string path, std::uint64_t limit);

  std::string part_path(const part_key& k) const;

  std::string draft_path(const part_key& k) const;

  bool has_room_for(std::size_t bytes) const noexcept {
    return bytes < limit_ && limit_ - bytes >= sizeof(part_record);
  }

  /// A file was used: others leave before it.
  static void used(const std::string& path) noexcept;

  /// A file was added. The least recently used ones leave if there are too many bytes.
  void added(std::size_t bytes);

  /// Removes a file of that many bytes. False if that isn't possible.
  bool remove(const std::string& path, std::size_t bytes);

  /// As far as this process knows.
  std::uint64_t bytes() const;

 private:
  static constexpr std::string_view part = ".part", draft = ".draft";

  struct file {
    std::int64_t used_ns;
    std::uint64_t bytes;
    std::string path;
  };

  // Measures the folder and removes files until they fit. With `all`, also drafts that nobody writes.
  void trim(bool all);

  const std::string path_;
  const std::uint64_t limit_;
  mutable std::mutex mutex_; // guards the members below
  std::uint64_t bytes_ = 0;
  std::uint64_t unchecked_ = 0; // bytes added since the folder was measured
};

} // namespace feedline::inline FEEDLINE_ABI::detail

#ifndef FEEDLINE_COMPILED
#include <feedline/source/detail/cache_folder.ipp>
#endif
