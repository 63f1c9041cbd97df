// SPDX-License-Identifier: MIT
#pragma once
// Finds the members of a TAR archive: v7, ustar, GNU and pax headers. In an archive in memory it reads only the
// headers; names and contents are views of the archive.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <feedline/detail/file_kind.hpp>
#include <feedline/detail/hidden_name.hpp>
#include <feedline/detail/readable_text.hpp>
#include <feedline/detail/tar_header.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

struct named_version;

struct tar_member {
  std::string_view directory; ///< the separate directory of ustar, see full_name()
  std::string_view name;
  std::span<const std::byte> bytes;
  std::uint64_t begin = 0;    ///< offset of its first header in the archive, which may be an extended one
  std::uint64_t offset = 0;   ///< offset of the header with its name
  std::uint64_t contents = 0; ///< offset of its bytes
  std::uint64_t size = 0;     ///< how many bytes it has
  std::string_view target;    ///< what a link links to

  std::string full_name() const {
    return directory.empty() ? std::string(name) : std::string(directory).append("/").append(name);
  }
};

enum class tar_status {
  member, ///< a regular file, or a hard link to one that the archive has found
  link,   ///< a symbolic link
  unreadable, ///< a sparse file, one too large for its sample, or another hard link; the archive continues after it
  cut_off, ///< the archive ends inside this member's contents
  damaged, ///< a missing header or an incomplete block: nothing after it can be read, and the
           ///< name is only a guess
  spoilt,  ///< the archive is complete, but its compressed file is damaged there or later
  end
};

/// The bytes of an archive, from which a tar_reader reads.
class tar_archive {
 protected:
  tar_archive() = default;
  tar_archive(const tar_archive&) = default;
  tar_archive& operator=(const tar_archive&) = default;

 public:
  virtual ~tar_archive() = default;

  /// Earlier reads aren't needed any more, except what keep_member() keeps.
  virtual void begin_member() noexcept = 0;

  /// The offset of the next byte.
  virtual std::uint64_t position() const noexcept = 0;

  /// Returns the next bytes; fewer only at the end of the archive. Requires has_room_for(count).
  virtual std::string_view read(std::uint64_t count) = 0;

  /// Skips bytes, and returns how many it skipped.
  virtual std::uint64_t skip(std::uint64_t count) = 0;

  /// Whether this many bytes may be read.
  virtual bool has_room_for(std::uint64_t count) const noexcept = 0;

  /// Why the part that was read ended before the end of the archive; empty if it didn't.
  virtual std::string problem() const = 0;

  /// The same, after reading the rest.
  virtual std::string problem_to_the_end() = 0;

  /// Returns the shard, whose pointer also owns the memory of a sample that begins with the last member read.
  virtual std::shared_ptr<const named_version>
  begin_sample(const std::shared_ptr<const named_version>& shard) = 0;

  /// Adds the last member read to that sample. False if the sample has no room for it.
  virtual bool keep_member() = 0;

  /// Whether contents are skipped: then members have no `bytes`.
  virtual bool leaves_contents() const noexcept { return false; }

  /// Whether hard links find their files.
  virtual bool follows_links() const noexcept { return false; }

  /// The contents of the last file of that name before an offset.
  virtual std::optional<std::span<const std::byte>> find(std::string_view, std::uint64_t) { return {}; }
};

/// An archive in memory.
class tar_memory : public tar_archive {
 public:
  explicit tar_memory(std::span<const std::byte> archive) noexcept
      : archive_(reinterpret_cast<const char*>(archive.data()), archive.size()) {}

  void begin_member() noexcept override {}

  std::uint64_t position() const noexcept override { return position_; }

  std::string_view read(std::uint64_t count) override {
    const auto bytes = archive_.substr(position_, static_cast<std::size_t>(count));
    position_ += bytes.size();
    return bytes;
  }

  std::uint64_t skip(std::uint64_t count) override { return tar_memory::read(count).size(); }

  bool has_room_for(std::uint64_t) const noexcept override { return true; }

  std::string problem() const override { return {}; }

  std::string problem_to_the_end() override { return {}; }

  std::shared_ptr<const named_version>
  begin_sample(const std::shared_ptr<const named_version>& shard) override {
    return shard;
  }

  bool keep_member() override { return true; }

  /// Continues at an offset. False if the archive ends before it.
  bool seek(std::uint64_t offset) noexcept {
    if (offset > archive_.size()) return false;
    position_ = static_cast<std::size_t>(offset);
    return true;
  }

 private:
  std::string_view archive_;
  std::size_t position_ = 0; // <= archive_.size()
};

/// Yields the regular files and links of an archive in its order. Directories, devices, hidden files (see is_hidden())
/// and unknown types are left out with their contents. The archive ends with the memory, or at blocks of zeros:
/// two of them end it whatever follows, as in other readers, unless read_on() was called; a single one ends it if no header
/// follows. An archive that ends inside a block is cut off.
class tar_reader {
 public:
  /// The archive must outlive it.
  explicit tar_reader(tar_archive& archive) : archive_(archive) {}

  /// Continues at the offset of a member, which is its `begin`. An offset that doesn't belong to the archive is an error
  /// like any other.
  tar_reader(tar_memory& archive, std::uint64_t begin) : archive_(archive), ended_(!archive.seek(begin)) {}

  /// Yields hidden files too.
  void keep_hidden() noexcept { keeps_hidden_ = true; }

  /// Skips blocks of zeros: reads the archives too that follow the end of the first one.
  void read_on() noexcept { reads_on_ = true; }

  /// Looks at the archive's end for another one that follows.
  void look_for_more() noexcept { looks_for_more_ = true; }

  tar_archive& archive() const noexcept { return archive_; }

  /// Reads the next member. For each status except `member` and `end`, problem() has the reason; after
  /// `cut_off`, `damaged` and `spoilt` the next status is `end`. After an exception of the archive, the next member is
  /// the one after it if its name is known, and otherwise the next status is `end`.
  tar_status next(tar_member& member) {
    tar_status status = skipped;
    try {
      const std::uint64_t begin = std::exchange(unread_to_, 0);
      if (begin > archive_.position()) archive_.skip(begin - archive_.position());
      while (status == skipped && !ended_) status = read(member);
    } catch (...) {
      ended_ = unread_to_ == 0;
      throw;
    }
    if (status == skipped) return tar_status::end;
    ended_ = status != tar_status::member && status != tar_status::link && status != tar_status::unreadable;
    return status;
  }

  /// Whether the next status is `end`.
  bool has_ended() const noexcept { return ended_; }

  /// How many hidden files were left out.
  std::uint64_t hidden() const noexcept { return hidden_; }

  /// Of how many blocks of zeros read_on() has read past: members between which it differs are of different archives.
  std::uint64_t zeros() const noexcept { return zeros_; }

  /// "the archive ends at offset 1024, and 3072 bytes follow that begin like another one", if look_for_more() has found that.
  const std::string& further() const noexcept { return further_; }

  /// A sentence with the member and its offset. It doesn't name the file, which the reader doesn't know.
  const std::string& problem() const noexcept { return problem_; }

 private:
  static constexpr tar_status skipped{-1};

  // Reads extended headers and the header after them.
  tar_status read(tar_member& member) {
    archive_.begin_member();
    tar_overrides overrides;
    const std::uint64_t begin = archive_.position();
    for (bool extended = false;; extended = true) {
      member = {};
      member.begin = begin;
      member.offset = archive_.position();
      const auto block = archive_.read(tar_block);
      if (all_zero(block)) return extended ? nothing_after_extension(member) : at_zeros(member, block.size());
      if (block.size() < tar_block || !tar_header(block).checksum_fits()) return no_header(member, block);
      const tar_header header(block);
      const auto size = header.size();
      if (!size) return damaged(member, header.name(), "no valid size in the header");
      switch (header.type()) {
      case 'L':
      case 'K':
      case 'x':
      case 'X': // used by Solaris before pax was a standard
      case 'g': {
        const bool has_room = archive_.has_room_for(*size);
        const auto contents = has_room ? archive_.read(*size) : std::string_view();
        if ((has_room ? contents.size() : archive_.skip(*size)) < *size)
          return damaged(member, {}, "cut off inside the extended header");
        if (!has_room)
          return damaged(member, {}, "an extended header of " + std::to_string(*size) + " bytes");
        skip_padding(*size);
        if (header.type() == 'L') overrides.long_name = until_nul(contents);
        if (header.type() == 'K') overrides.target = until_nul(contents);
        std::optional<std::string_view> malformed;
        if (header.type() == 'g') {
          tar_overrides global;
          malformed = global.read_pax(contents);
          if (!malformed && global != tar_overrides())
            return damaged(member, {}, "a global header that gives all members one name or size");
        } else if (header.type() != 'L' && header.type() != 'K') {
          malformed = overrides.read_pax(contents);
        }
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
        for (bool goes_on = header.map_goes_on(); goes_on && archive_.has_room_for(tar_block);) {
          const auto block = archive_.read(tar_block);
          goes_on = block.size() == tar_block && block[504] != 0;
        }
      }
    }
    const bool is_link = type == '1' || type == '2';
    const bool regular =
        (type == '0' || type == '\0' || type == '7' || type == 'S' || is_link) && !member.name.ends_with('/');
    const bool wanted =
        regular && (keeps_hidden_ || !(has_hidden_part(member.directory) || has_hidden_part(member.name)));
    if (is_link && wanted) [[unlikely]] {
      member.target = overrides.target.value_or(header.target());
      return read_link(member, type == '1');
    }
    const bool leaves_contents = archive_.leaves_contents();
    const bool has_room = leaves_contents || archive_.has_room_for(size);
    member.contents = archive_.position();
    member.size = size;
    std::uint64_t there = 0;
    if (wanted && !sparse && has_room && !leaves_contents) {
      unread_to_ = member.contents + size + padding_of(size);
      const auto contents = archive_.read(size);
      unread_to_ = 0;
      member.bytes = std::as_bytes(std::span(contents));
      there = contents.size();
    } else {
      there = archive_.skip(size);
    }
    if (there < size) {
      problem_ = with_cause(described(member) + " is cut off: " + std::to_string(size) +
                            " bytes announced, " + std::to_string(there) + " left");
      // The name of an unwanted member would be misleading: it says nothing about the sample before it.
      if (!wanted) member.directory = member.name = {};
      return wanted ? tar_status::cut_off : tar_status::damaged;
    }
    skip_padding(size);
    hidden_ += regular && !wanted && !is_link;
    if (!wanted) return skipped;
    if (!sparse && has_room) return tar_status::member;
    problem_ = sparse ? described(member) + " is a sparse file, which feedline doesn't read: store it in full"
                      : described(member) + " has " + std::to_string(size) +
                            " bytes, more than its sample has room for";
    return tar_status::unreadable;
  }

  [[gnu::cold]] tar_status read_link(tar_member& member, bool is_hard) {
    member.contents = archive_.position();
    if (!is_hard) return tar_status::link;
    const char* why = ", which is followed only in uncompressed files that tar_samples reads";
    if (archive_.follows_links()) {
      if (const auto found = archive_.find(member.target, member.begin)) {
        member.bytes = *found;
        member.size = found->size();
        return tar_status::member;
      }
      why = ", which isn't a file before it in the archive";
    }
    problem_ = described(member) + " is a hard link to " + in_backticks(member.target) + why +
               ": store it in full (tar --hard-dereference)";
    return tar_status::unreadable;
  }

  static std::string described(const tar_member& member) {
    return "member " + in_backticks(member.full_name()) + " at offset " + std::to_string(member.offset);
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

  tar_status at_zeros(tar_member& member, std::size_t size) {
    if (size == 0 && !archive_.problem().empty()) return damaged(member, {}, "cut off");
    if (reads_on_ && size == tar_block) {
      ++zeros_;
      return skipped;
    }
    const auto after = size == 0 ? std::string_view() : archive_.read(tar_block);
    if (archive_.position() == 0) return damaged(member, {}, "empty file: there is no header");
    if (size + after.size() < 2 * tar_block && archive_.position() % tar_block != 0)
      return damaged(member, {},
                     size == 0 ? "cut off inside the last member's padding"
                               : "cut off inside the zeros that end an archive");
    if (after.size() == tar_block && !all_zero(after) && tar_header(after).checksum_fits())
      return damaged(member, {}, "a single block of zeros before more members");
    if (looks_for_more_ && after.size() == tar_block && all_zero(after)) find_more(member.begin);
    problem_ = archive_.problem_to_the_end();
    return problem_.empty() ? tar_status::end : tar_status::spoilt;
  }

  // After the zeros that end an archive.
  [[gnu::cold]] void find_more(std::uint64_t end) {
    constexpr int most_zeros = 2048; // blocks: tar writes few, and those of an object are read for this alone
    for (int zeros = 0; zeros < most_zeros; ++zeros) {
      archive_.begin_member();
      const auto block = archive_.read(tar_block);
      if (block.size() < tar_block) return;
      if (all_zero(block)) continue;
      if (!tar_header(block).checksum_fits()) return;
      const std::uint64_t bytes = tar_block + archive_.skip(~std::uint64_t{0});
      further_ = "the archive ends at offset " + std::to_string(end) + ", and " + std::to_string(bytes) +
                 " bytes follow that begin like another one";
      return;
    }
  }

  tar_status nothing_after_extension(tar_member& member) {
    return damaged(member, {}, "an extended header without its member");
  }

  tar_status no_header(tar_member& member, std::string_view block) {
    const auto guess = until_nul(block.substr(0, 100));
    if (member.offset > 0 || !archive_.problem().empty())
      return damaged(member, guess,
                     block.size() < tar_block ? "cut off inside the header" : "damaged header");
    const file_kind kind = kind_of_file(block);
    if (!kind.is_compressed)
      problem_ = "not a TAR file: there is no valid header at offset 0" +
                 what_it_is(std::as_bytes(std::span(block)));
    else
      problem_ = "compressed: " + std::string(kind.name) + " begins at offset 0" +
                 how_to_decompress(kind.name, "in order, without global_shuffle, with tar_options");
    return tar_status::damaged;
  }

  tar_status damaged(tar_member& member, std::string_view guess, const std::string& what) {
    member.name = guess;
    problem_ = with_cause(what + " at offset " + std::to_string(member.offset));
    return tar_status::damaged;
  }

  // Adds why the archive ended early, if the cause is known.
  std::string with_cause(const std::string& what) {
    const std::string cause = archive_.problem();
    if (archive_.position() == 0 && !cause.empty()) return cause;
    return cause.empty() ? what : what + ": " + cause;
  }

  // Part of the padding may be missing at the end of the archive.
  void skip_padding(std::uint64_t size) { archive_.skip(padding_of(size)); }

  static std::uint64_t padding_of(std::uint64_t size) noexcept {
    return (tar_block - size % tar_block) % tar_block;
  }

  tar_archive& archive_;
  bool ended_ = false;
  bool keeps_hidden_ = false;
  std::uint64_t hidden_ = 0;
  std::uint64_t unread_to_ = 0; // where a member ends whose contents couldn't be read; 0: none
  bool reads_on_ = false;
  bool looks_for_more_ = false;
  std::uint64_t zeros_ = 0;
  std::string further_;
  std::string problem_;
};

} // namespace feedline::inline FEEDLINE_ABI::detail
