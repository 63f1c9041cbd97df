// SPDX-License-Identifier: MIT
#pragma once
// The bytes of an object or of a decompressed shard one after another, from parts of it.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include <feedline/core/failure.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// A part of a stream.
struct stream_part {
  std::uint64_t end;                    ///< of the whole stream, if it is known
  std::span<const std::byte> bytes;     ///< from the offset on that was asked for
  std::shared_ptr<const void> memory{}; ///< keeps the bytes valid; null: they are valid until the next part
  bool is_mapped = false;               ///< keeping the bytes takes no memory of the process
};

/// The bytes of a stream from an offset on, for stream_archive.
class part_stream {
 public:
  /// `next(offset)` returns a part that begins there, and is empty only at the stream's end. An exception ends the
  /// stream; outage_error is passed on by read(), skip() and view().
  using next_part = std::function<stream_part(std::uint64_t offset)>;

  part_stream(std::string name, next_part next, std::uint64_t begin, std::uint64_t end = ~std::uint64_t{0})
      : name_(std::move(name)), next_(std::move(next)), position_(begin), end_(end) {}

  /// What is read next.
  std::uint64_t position() const noexcept { return position_; }

  /// How many bytes of the current part are left.
  std::size_t left_in_part() const noexcept { return rest_.size(); }

  bool has_ended() const noexcept { return position_ >= end_; }

  /// From now on view() may lend parts that are in memory too, not only mapped ones.
  void lend_memory() noexcept { lends_memory_ = true; }

  /// From now on skip() reads what it skips, and problems after the archive, such as a wrong checksum, matter.
  void read_everything() noexcept { reads_everything_ = true; }

  bool reads_everything() const noexcept { return reads_everything_; }

  /// The bytes of the current part that are left; none at the end.
  std::span<const std::byte> peek() {
    load();
    return rest_;
  }

  /// Reads some of them, which stay valid until the next call.
  std::span<const std::byte> take_some() {
    constexpr std::size_t most = std::size_t{64} << 10;
    const auto some = peek().first(std::min(most, peek().size()));
    advance(some.size());
    return some;
  }

  std::size_t read(std::byte* to, std::size_t count) {
    std::size_t got = 0;
    while (got < count && load()) {
      const std::size_t n = std::min(count - got, rest_.size());
      std::memcpy(to + got, rest_.data(), n);
      got += advance(n);
    }
    return got;
  }

  std::uint64_t skip(std::uint64_t count) {
    if (reads_everything_) return read_past(count);
    if (count == 0 || !load()) return 0;
    const std::uint64_t skipped = std::min(count, end_ - position_);
    if (skipped <= rest_.size()) return advance(static_cast<std::size_t>(skipped));
    position_ += skipped;
    rest_ = {};
    return skipped;
  }

  /// The next bytes, if they lie together in a part that may be kept: memory() keeps them. Null otherwise.
  const std::byte* view(std::size_t count) {
    if (count == 0 || !load() || count > rest_.size() || !part_.memory) return nullptr;
    if (!part_.is_mapped && !lends_memory_) return nullptr;
    const std::byte* const bytes = rest_.data();
    advance(count);
    return bytes;
  }

  const std::shared_ptr<const void>& memory() const noexcept { return part_.memory; }

  /// Why it ended early; empty if it didn't.
  const std::string& problem() const noexcept { return problem_; }

 private:
  std::size_t advance(std::size_t count) noexcept {
    rest_ = rest_.subspan(count);
    position_ += count;
    return count;
  }

  std::uint64_t read_past(std::uint64_t count) {
    std::uint64_t got = 0;
    while (got < count && load())
      got += advance(static_cast<std::size_t>(std::min<std::uint64_t>(count - got, rest_.size())));
    return got;
  }

  // Makes rest_ contain the next byte. False at the end.
  bool load() {
    if (!rest_.empty()) return true;
    if (!problem_.empty() || has_ended()) return false;
    part_ = {};
    try {
      part_ = next_(position_);
    } catch (const std::exception& error) {
      problem_ = error.what();
      // Messages begin with the name already.
      if (problem_.starts_with(name_ + ": ")) problem_.erase(0, name_.size() + 2);
      if (problem_.empty()) problem_ = "it can't be read";
      if (is_outage(std::current_exception())) throw; // the stream isn't damaged
      return false;
    }
    end_ = std::min(end_, part_.end);
    rest_ = part_.bytes;
    if (rest_.size() > end_ - std::min(end_, position_))
      rest_ = rest_.first(static_cast<std::size_t>(end_ - position_));
    return !rest_.empty();
  }

  std::string name_; // for messages
  next_part next_;
  std::uint64_t position_;
  std::uint64_t end_;
  stream_part part_;
  std::span<const std::byte> rest_; // of that part
  bool lends_memory_ = false;
  bool reads_everything_ = false;
  std::string problem_;
};

} // namespace feedline::inline FEEDLINE_ABI::detail
