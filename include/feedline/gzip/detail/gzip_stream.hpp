// SPDX-License-Identifier: MIT
#pragma once
// Decompresses a gzip file piece by piece, with zlib: libdeflate is faster, but needs whole members.
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <string>

#include <zlib.h>

#include <feedline/source/lines_options.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// Whether the rest contains only zeros, which programs that write whole blocks (to tapes) add to a file.
bool is_padding(std::span<const std::byte> rest) noexcept;

/// The contents of a gzip file: those of all its members, one after another. Zeros may follow the
/// last member.
class gzip_stream final : public text_stream {
 public:
  /// Throws std::bad_alloc.
  explicit gzip_stream(std::span<const std::byte> begin, compressed_rest rest = {});

  /// Writes the next bytes and returns how many: fewer than `count` only at the end of the contents. Throws
  /// std::bad_alloc.
  std::size_t read(std::byte* to, std::size_t count) override {
    std::size_t got = 0;
    while (got < count && !ended_) got += step(to + got, count - got);
    return got;
  }

  /// How many bytes of the file were read.
  std::size_t offset() const noexcept override { return offset_; }

  /// An error message if the contents are damaged or incomplete; otherwise empty.
  const std::string& problem() const noexcept override { return problem_; }

 private:
  struct end_of_zlib {
    void operator()(z_stream* s) const noexcept {
      ::inflateEnd(s);
      delete s;
    }
  };

  std::size_t step(std::byte* to, std::size_t count);

  // Makes piece_ contain the next byte. False at the end of the file.
  bool load() {
    if (piece_.empty() && rest_) piece_ = rest_();
    return !piece_.empty();
  }

  void advance(std::size_t count) noexcept {
    piece_ = piece_.subspan(count);
    offset_ += count;
  }

  void end_member();

  std::string damage() const;

  void end(std::string problem);

  std::span<const std::byte> piece_; // not read yet
  compressed_rest rest_;             // after it
  std::string kind_;                 // of the file
  std::size_t offset_ = 0;           // of the first byte that was not read yet
  std::size_t member_ = 0;           // where the current member begins
  bool ended_ = false;
  std::string problem_;
  std::unique_ptr<z_stream, end_of_zlib> zlib_; // on the heap: zlib keeps a pointer to it
};

} // namespace feedline::inline FEEDLINE_ABI::detail

#ifndef FEEDLINE_COMPILED
#include <feedline/gzip/detail/gzip_stream.ipp>
#endif
