// SPDX-License-Identifier: MIT
#pragma once
// Finds the members of a TAR archive that lies in memory: v7, ustar, GNU and pax headers. Touches headers
// only; names and contents are views of the archive.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <feedline/detail/readable_text.hpp>
#include <feedline/detail/tar_header.hpp>

namespace feedline::inline v0::detail {

struct tar_member {
  std::string_view directory; ///< what ustar keeps apart, see full_name()
  std::string_view name;
  std::span<const std::byte> bytes;
  std::uint64_t begin = 0;  ///< offset of its first header in the archive, perhaps an extended one
  std::uint64_t offset = 0; ///< of the header that has its name

  std::string full_name() const {
    return directory.empty() ? std::string(name) : std::string(directory).append("/").append(name);
  }
};

enum class tar_status {
  member,     ///< a regular file
  unreadable, ///< a sparse file, whose contents aren't there in one piece; the archive goes on behind it
  cut_off,    ///< the archive ends inside this member's contents
  damaged, ///< no header where one should be, or only a part of a block: nothing behind it can be read. The
           ///< name is at best a guess.
  end
};

/// Gives the regular files of an archive in its order. Directories, links, devices, AppleDouble files (`._*`)
/// and unknown types are left out with their contents. The archive ends where the memory does, or at blocks
/// of zeros: two of them end it whatever comes behind, as other readers have it, a single one if no header
/// follows it. One that ends inside a block is cut off.
class tar_reader {
 public:
  explicit tar_reader(std::span<const std::byte> archive) noexcept
      : archive_(reinterpret_cast<const char*>(archive.data()), archive.size()) {}

  /// Goes on at an offset at which a member begins, as its `begin` tells, and with the headers for all members
  /// that came before; offsets that don't belong to this archive are errors like any other.
  tar_reader(std::span<const std::byte> archive, std::uint64_t begin,
             const std::vector<std::uint64_t>& globals)
      : tar_reader(archive) {
    for (const std::uint64_t at : globals) {
      if (at >= begin || !seek(at)) continue;
      const auto block = archive_.substr(position_, tar_block);
      if (block.size() < tar_block || tar_header(block).type() != 'g') continue;
      const auto size = tar_header(block).size();
      position_ += tar_block;
      if (size && *size <= left()) static_cast<void>(global_.read_pax(take(*size)));
    }
    ended_ = !seek(begin);
  }

  /// The next member. `unreadable`, `cut_off` and `damaged` have their reason in problem(); after the latter
  /// two comes `end`.
  tar_status next(tar_member& member) {
    tar_status status = skipped;
    while (status == skipped && !ended_) status = read(member);
    if (status == skipped) return tar_status::end;
    ended_ = status != tar_status::member && status != tar_status::unreadable;
    return status;
  }

  /// Where the headers lie that hold for all members behind them: few archives have any.
  const std::vector<std::uint64_t>& globals() const noexcept { return globals_; }

  /// A sentence with the member and its offset, but not the file, which the reader doesn't know.
  const std::string& problem() const noexcept { return problem_; }

 private:
  static constexpr tar_status skipped{-1};

  // Reads extended headers and the header that they belong to. Invariant: position_ <= archive_.size().
  tar_status read(tar_member& member) {
    tar_overrides overrides = global_;
    const std::uint64_t begin = position_;
    for (bool extended = false;; extended = true) {
      member = {};
      member.begin = begin;
      member.offset = position_;
      const auto block = archive_.substr(position_, tar_block);
      if (all_zero(block))
        return extended ? nothing_behind_extension(member) : at_zeros(member, block.size());
      if (block.size() < tar_block || !tar_header(block).checksum_fits()) return no_header(member, block);
      const tar_header header(block);
      const auto size = header.size();
      if (!size) return damaged(member, header.name(), "no valid size in the header");
      position_ += tar_block;
      switch (header.type()) {
      case 'L':
      case 'K':
      case 'x':
      case 'X': // what Solaris wrote before pax was a standard
      case 'g': {
        if (*size > left()) return damaged(member, {}, "cut off inside the extended header");
        const auto contents = take(*size);
        if (header.type() == 'L') overrides.long_name = until_nul(contents);
        std::optional<std::string_view> malformed;
        if (header.type() == 'g') {
          malformed = global_.read_pax(contents);
          globals_.push_back(member.offset);
        }
        if (header.type() != 'L' && header.type() != 'K' && !malformed)
          malformed = overrides.read_pax(contents);
        if (malformed)
          return damaged(member, {},
                         "malformed record " + in_backticks(*malformed) + " of the extended header");
        continue;
      }
      default:
        return read_contents(member, header, overrides, *size);
      }
    }
  }

  tar_status read_contents(tar_member& member, tar_header header, const tar_overrides& overrides,
                           std::uint64_t size) {
    name(member, header, overrides);
    const char type = header.type();
    bool sparse = overrides.sparse;
    if (type >= '1' && type <= '6') {
      size = 0; // links, devices, directories and pipes have no contents, whatever their header says
    } else {
      size = overrides.size.value_or(size);
      if (type == 'S') {
        sparse = true;
        bool goes_on = header.map_goes_on();
        while (goes_on && left() >= tar_block) goes_on = take(tar_block)[504] != 0;
      }
    }
    const bool regular =
        (type == '0' || type == '\0' || type == '7' || type == 'S') && !member.name.ends_with('/');
    const bool wanted = regular && !base_name(member.name).starts_with("._");
    if (size > left()) {
      problem_ = "member " + in_backticks(member.full_name()) + " at offset " +
                 std::to_string(member.offset) + " is cut off: " + std::to_string(size) +
                 " bytes announced, " + std::to_string(left()) + " left";
      // The name of a member that nobody asked for says nothing about the sample before it.
      if (!wanted) member.directory = member.name = {};
      return wanted ? tar_status::cut_off : tar_status::damaged;
    }
    const auto contents = take(size);
    if (!wanted) return skipped;
    member.bytes = std::as_bytes(std::span(contents));
    if (!sparse) return tar_status::member;
    problem_ = "member " + in_backticks(member.full_name()) + " at offset " + std::to_string(member.offset) +
               " is a sparse file, which feedline doesn't read: store it in full";
    return tar_status::unreadable;
  }

  static void name(tar_member& member, tar_header header, const tar_overrides& overrides) noexcept {
    if (overrides.sparse_name) {
      member.name = *overrides.sparse_name;
    } else if (overrides.path) {
      member.name = *overrides.path;
    } else if (overrides.long_name) {
      member.name = *overrides.long_name;
    } else {
      member.name = header.name();
      member.directory = header.prefix();
    }
  }

  static std::string_view base_name(std::string_view name) noexcept {
    return name.substr(name.rfind('/') + 1);
  }

  tar_status at_zeros(tar_member& member, std::size_t size) {
    if (archive_.empty()) return damaged(member, {}, "empty file: there is no header");
    if (archive_.size() % tar_block != 0 && archive_.size() - position_ < 2 * tar_block)
      return damaged(member, {},
                     size == 0 ? "cut off inside the last member's padding"
                               : "cut off inside the zeros that end an archive");
    const auto behind = archive_.substr(position_ + size, tar_block);
    if (behind.size() == tar_block && !all_zero(behind) && tar_header(behind).checksum_fits())
      return damaged(member, {}, "a single block of zeros before more members");
    return tar_status::end;
  }

  tar_status nothing_behind_extension(tar_member& member) {
    return damaged(member, {}, "an extended header without its member");
  }

  tar_status no_header(tar_member& member, std::string_view block) {
    const auto guess = until_nul(block.substr(0, 100));
    if (position_ > 0)
      return damaged(member, guess,
                     block.size() < tar_block ? "cut off inside the header" : "damaged header");
    const auto compression = compression_of(block);
    problem_ = compression.empty()
                   ? std::string("no TAR file: there is no valid header at offset 0")
                   : "compressed: " + std::string(compression) +
                         " data begins at offset 0. A shard is mapped into memory, so it must be plain TAR";
    return tar_status::damaged;
  }

  tar_status damaged(tar_member& member, std::string_view guess, const std::string& what) {
    member.name = guess;
    problem_ = what + " at offset " + std::to_string(member.offset);
    return tar_status::damaged;
  }

  bool seek(std::uint64_t offset) noexcept {
    if (offset > archive_.size()) return false;
    position_ = static_cast<std::size_t>(offset);
    return true;
  }

  std::uint64_t left() const noexcept { return archive_.size() - position_; }

  // Steps over contents and their padding, of which a part may be missing at the end. Needs size <= left().
  std::string_view take(std::uint64_t size) noexcept {
    const auto contents = archive_.substr(position_, static_cast<std::size_t>(size));
    const std::size_t padding = (tar_block - contents.size() % tar_block) % tar_block;
    position_ = std::min(position_ + contents.size() + padding, archive_.size());
    return contents;
  }

  std::string_view archive_;
  std::size_t position_ = 0;
  bool ended_ = false;
  tar_overrides global_;
  std::vector<std::uint64_t> globals_;
  std::string problem_;
};

} // namespace feedline::inline v0::detail
