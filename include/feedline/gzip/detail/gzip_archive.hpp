// SPDX-License-Identifier: MIT
#pragma once
// A TAR archive inside a gzip file, for tar_reader.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <feedline/detail/mapped_file.hpp>
#include <feedline/detail/tar_header.hpp>
#include <feedline/gzip/detail/gzip_stream.hpp>

namespace feedline::inline v0::detail {

/// The counterpart of tar_memory for an archive in a gzip file, which it decompresses from the beginning. It
/// reads into separate pieces of memory; a sample takes over the pieces of its members.
class gzip_archive {
 public:
  /// `max_sample_bytes`: the most bytes of a sample. After a stop, reads find the end of the archive.
  gzip_archive(std::shared_ptr<const mapped_file> file, std::size_t max_sample_bytes, std::stop_token stop)
      : file_(std::move(file)),
        stream_(file_->bytes()),
        max_sample_bytes_(max_sample_bytes),
        stop_(std::move(stop)) {}

  void begin_member() noexcept {
    read_.clear();
    taken_ = 0;
  }

  std::uint64_t position() const noexcept { return position_; }

  /// The offset in the compressed file.
  std::uint64_t compressed_position() const noexcept { return stream_.offset(); }

  // Allocates piece by piece as the bytes arrive: the size in a header may be wrong.
  std::string_view read(std::uint64_t count) {
    constexpr std::size_t first = 1 << 20;
    const auto size = static_cast<std::size_t>(count);
    std::size_t room = std::min(size, first), got = 0;
    piece bytes(new std::byte[std::max<std::size_t>(room, 1)]);
    for (;;) {
      got += next(bytes.get() + got, room - got);
      if (got < room || room == size) break;
      room = std::min(size, 2 * room);
      piece larger(new std::byte[room]);
      std::memcpy(larger.get(), bytes.get(), got);
      bytes = std::move(larger);
    }
    taken_ += got;
    return {reinterpret_cast<const char*>(read_.emplace_back(std::move(bytes)).get()), got};
  }

  std::uint64_t skip(std::uint64_t count) {
    std::array<std::byte, 16 << 10> some;
    std::uint64_t skipped = 0;
    while (skipped < count) {
      const auto wanted = static_cast<std::size_t>(std::min<std::uint64_t>(some.size(), count - skipped));
      const std::size_t got = next(some.data(), wanted);
      skipped += got;
      if (got < wanted) break;
    }
    return skipped;
  }

  /// Whether `count` more bytes of this member are within the limit.
  bool has_room_for(std::uint64_t count) const noexcept {
    return taken_ <= max_sample_bytes_ && count <= max_sample_bytes_ - taken_;
  }

  void keep_globals(tar_overrides& globals) {
    for (auto [view, text] :
         {std::pair(&globals.path, &path_), std::pair(&globals.sparse_name, &sparse_name_)})
      if (*view) {
        if ((*view)->data() != text->data()) text->assign(**view);
        *view = *text;
      }
  }

  void use_globals(tar_overrides& overrides) {
    for (std::optional<std::string_view>* const view : {&overrides.path, &overrides.sparse_name})
      if (*view) *view = copy_of(**view);
  }

  const std::string& problem() const noexcept { return stream_.problem(); }

  /// Reads what follows the archive: usually zeros, and the checksum.
  const std::string& problem_to_the_end() {
    skip(~std::uint64_t{0});
    return problem();
  }

  /// Starts a sample. Returns the archive's file as a pointer that also keeps the sample's memory.
  std::shared_ptr<const mapped_file> begin_sample(const std::shared_ptr<const mapped_file>& file) {
    const auto memory = std::make_shared<sample_memory>(sample_memory{file, {}, 0});
    sample_ = memory.get();
    return {memory, file.get()};
  }

  bool keep_member() {
    if (!sample_->pieces.empty() && taken_ > max_sample_bytes_ - std::min(max_sample_bytes_, sample_->bytes))
      return false;
    std::move(read_.begin(), read_.end(), std::back_inserter(sample_->pieces));
    sample_->bytes += taken_;
    begin_member();
    return true;
  }

 private:
  using piece = std::unique_ptr<std::byte[]>;

  struct sample_memory {
    std::shared_ptr<const mapped_file> file;
    std::vector<piece> pieces;
    std::size_t bytes = 0;
  };

  // Checks for a stop after each step.
  std::size_t next(std::byte* to, std::size_t count) {
    constexpr std::size_t step = 1 << 20;
    std::size_t got = 0;
    while (got < count && !stop_.stop_requested()) {
      const std::size_t wanted = std::min(step, count - got), n = stream_.read(to + got, wanted);
      got += n;
      if (n < wanted) break;
    }
    position_ += got;
    return got;
  }

  std::string_view copy_of(std::string_view text) {
    piece& copy = read_.emplace_back(new std::byte[text.size() + 1]);
    std::memcpy(copy.get(), text.data(), text.size());
    taken_ += text.size();
    return {reinterpret_cast<const char*>(copy.get()), text.size()};
  }

  std::shared_ptr<const mapped_file> file_;
  gzip_stream stream_;
  std::size_t max_sample_bytes_;
  std::stop_token stop_;
  std::uint64_t position_ = 0;
  std::vector<piece> read_;         // for the current member
  std::size_t taken_ = 0;           // bytes read for the current member
  sample_memory* sample_ = nullptr; // memory of the sample that begin_sample() started
  std::string path_;                // from global headers
  std::string sparse_name_;
};

} // namespace feedline::inline v0::detail
