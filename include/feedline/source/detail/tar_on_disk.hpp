// SPDX-License-Identifier: MIT
#pragma once
// A TAR archive on disk, of which only the headers are read, for tar_reader.
#include <algorithm>
#include <cstdint>
#include <deque>
#include <stop_token>
#include <string>
#include <string_view>

#include <feedline/detail/open_file.hpp>
#include <feedline/detail/tar_header.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// The counterpart of tar_memory for an archive on disk. A file that becomes shorter in the meantime counts
/// as cut off.
class tar_on_disk {
 public:
  static constexpr bool headers_only = true;

  /// After a stop, reads find the end of the archive.
  tar_on_disk(const open_file& file, std::uint64_t size, std::stop_token stop);

  void begin_member() noexcept;

  std::uint64_t position() const noexcept { return position_; }

  std::string_view read(std::uint64_t count);

  std::uint64_t skip(std::uint64_t count) noexcept {
    const std::uint64_t skipped = std::min(count, left());
    position_ += skipped;
    return skipped;
  }

  /// Whether `count` more bytes of headers may be read for this member.
  bool has_room_for(std::uint64_t count) const noexcept {
    constexpr std::uint64_t max_bytes = 1 << 20;
    return count <= max_bytes - taken_;
  }

  void keep_globals(tar_overrides& globals);

  static void use_globals(const tar_overrides&) noexcept {}

  static std::string problem();

  static std::string problem_to_the_end();

 private:
  std::uint64_t left() const noexcept { return size_ - position_; }

  const open_file* file_;
  std::uint64_t size_;
  std::stop_token stop_;
  std::uint64_t position_ = 0;   // <= size_
  std::deque<std::string> read_; // headers of the member; its name is a view of them
  std::uint64_t taken_ = 0;      // bytes read for the member
  std::string path_;             // from global headers
  std::string sparse_name_;
};

} // namespace feedline::inline FEEDLINE_ABI::detail

#ifndef FEEDLINE_COMPILED
#include <feedline/source/detail/tar_on_disk.ipp>
#endif
