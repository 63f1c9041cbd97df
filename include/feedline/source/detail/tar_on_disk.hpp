// SPDX-License-Identifier: MIT
#pragma once
// A TAR archive on disk, of which only the headers are read, for tar_reader.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>

#include <feedline/detail/open_file.hpp>
#include <feedline/detail/tar_header.hpp>

namespace feedline::inline v0::detail {

/// The counterpart of tar_memory for an archive on disk. A file that becomes shorter in the meantime counts
/// as cut off.
class tar_on_disk {
 public:
  static constexpr bool headers_only = true;

  /// After a stop, reads find the end of the archive.
  tar_on_disk(const open_file& file, std::uint64_t size, std::stop_token stop)
      : file_(&file), size_(size), stop_(std::move(stop)) {}

  void begin_member() noexcept {
    read_.clear();
    taken_ = 0;
  }

  std::uint64_t position() const noexcept { return position_; }

  std::string_view read(std::uint64_t count) {
    if (!has_room_for(count) || stop_.stop_requested()) return {};
    std::string& bytes = read_.emplace_back(static_cast<std::size_t>(std::min(count, left())), '\0');
    bytes.resize(file_->read(bytes.data(), bytes.size(), position_));
    taken_ += count;
    position_ += bytes.size();
    return bytes;
  }

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

  void keep_globals(tar_overrides& globals) {
    for (auto [view, text] :
         {std::pair(&globals.path, &path_), std::pair(&globals.sparse_name, &sparse_name_)})
      if (*view) {
        if ((*view)->data() != text->data()) text->assign(**view);
        *view = *text;
      }
  }

  static void use_globals(const tar_overrides&) noexcept {}

  static std::string problem() { return {}; }

  static std::string problem_to_the_end() { return {}; }

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

} // namespace feedline::inline v0::detail
