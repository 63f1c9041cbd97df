// SPDX-License-Identifier: MIT
#pragma once
// A TAR archive that is read as a stream, for tar_reader.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <feedline/detail/mapped_file.hpp>
#include <feedline/detail/tar_reader.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// An archive that is read from a stream, into separate pieces of memory; a sample takes over the pieces of its members. `Stream` has
/// - `std::size_t read(std::byte* to, std::size_t count)`, which returns less than `count` only at its end;
/// - `std::uint64_t skip(std::uint64_t count)`, which does likewise;
/// - `const std::string& problem() const`: why it ended early, or an empty text;
///
/// and may have
/// - `const std::byte* view(std::size_t count)`: the next bytes, kept by `memory()`; null if they must be copied;
/// - `static constexpr bool headers_only = true`: the contents of members are skipped;
/// - `bool reads_everything() const`: whether problems after the archive, such as a wrong checksum, matter.
template <class Stream>
class basic_stream_archive : public tar_archive {
 public:
  /// `max_sample_bytes`: the most bytes of a sample. `position`: where the stream begins in the archive.
  basic_stream_archive(Stream stream, std::size_t max_sample_bytes, std::uint64_t position = 0)
      : stream_(std::move(stream)), max_sample_bytes_(max_sample_bytes), position_(position) {}

  const Stream& stream() const noexcept { return stream_; }

  void begin_member() noexcept override {
    read_.clear();
    taken_ = 0;
  }

  std::uint64_t position() const noexcept override { return position_; }

  std::string_view read(std::uint64_t count) override {
    const auto size = static_cast<std::size_t>(count);
    if constexpr (requires { stream_.view(size); }) {
      if (const std::byte* const bytes = stream_.view(size)) {
        if (read_.empty() || read_.back() != stream_.memory()) read_.push_back(stream_.memory());
        return taken(bytes, size);
      }
    }
    // Allocates piece by piece as the bytes arrive: the size in a header may be wrong.
    constexpr std::size_t first = 1 << 20;
    std::size_t room = std::min(size, first), got = 0;
    auto bytes = memory_for(room);
    for (;;) {
      got += stream_.read(bytes.get() + got, room - got);
      if (got < room || room == size) break;
      room = std::min(size, 2 * room);
      std::shared_ptr<std::byte[]> larger;
      try {
        larger = memory_for(room);
      } catch (...) {
        position_ += got;
        throw;
      }
      std::memcpy(larger.get(), bytes.get(), got);
      bytes = std::move(larger);
    }
    read_.push_back(bytes);
    return taken(bytes.get(), got);
  }

  std::uint64_t skip(std::uint64_t count) override {
    const std::uint64_t skipped = stream_.skip(count);
    position_ += skipped;
    return skipped;
  }

  bool has_room_for(std::uint64_t count) const noexcept override {
    return taken_ <= max_sample_bytes_ && count <= max_sample_bytes_ - taken_;
  }

  std::string problem() const override { return stream_.problem(); }

  std::string problem_to_the_end() override {
    if constexpr (requires { stream_.reads_everything(); })
      if (stream_.reads_everything()) skip(~std::uint64_t{0});
    return problem();
  }

  std::shared_ptr<const named_version>
  begin_sample(const std::shared_ptr<const named_version>& shard) override {
    const auto memory = std::make_shared<sample_memory>(sample_memory{shard, {}, 0});
    sample_ = memory.get();
    return {memory, shard.get()};
  }

  bool keep_member() override {
    if (!sample_->pieces.empty() && taken_ > max_sample_bytes_ - std::min(max_sample_bytes_, sample_->bytes))
      return false;
    if (sample_->pieces.empty()) {
      sample_->pieces.swap(read_);
    } else {
      const bool is_same = !read_.empty() && read_.front() == sample_->pieces.back();
      std::move(read_.begin() + is_same, read_.end(), std::back_inserter(sample_->pieces));
    }
    sample_->bytes += taken_;
    begin_member();
    return true;
  }

  bool leaves_contents() const noexcept override {
    return requires { requires Stream::headers_only; };
  }

 private:
  using piece = std::shared_ptr<const void>;

  struct sample_memory {
    std::shared_ptr<const named_version> shard;
    std::vector<piece> pieces;
    std::size_t bytes = 0;
  };

  // Not zero-initialized, so that only bytes that are written use memory.
  static std::shared_ptr<std::byte[]> memory_for(std::size_t size) {
    return std::make_shared_for_overwrite<std::byte[]>(std::max<std::size_t>(size, 1));
  }

  std::string_view taken(const std::byte* bytes, std::size_t count) noexcept {
    taken_ += count;
    position_ += count;
    return {reinterpret_cast<const char*>(bytes), count};
  }

  Stream stream_;
  std::size_t max_sample_bytes_;
  std::uint64_t position_;
  std::vector<piece> read_;         // for the current member
  std::size_t taken_ = 0;           // bytes read for the current member
  sample_memory* sample_ = nullptr; // memory of the sample that begin_sample() started
};

} // namespace feedline::inline FEEDLINE_ABI::detail
