// SPDX-License-Identifier: MIT
#pragma once
// Decompresses a gzip file piece by piece, with zlib: libdeflate is faster, but needs whole members.
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <zlib.h>

#include <feedline/detail/file_kind.hpp>
#include <feedline/source/lines_options.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// Whether the rest contains only zeros, which programs that write whole blocks (to tapes) add to a file.
inline bool is_padding(std::span<const std::byte> rest) noexcept {
  return std::all_of(rest.begin(), rest.end(), [](std::byte b) { return b == std::byte{0}; });
}

/// The contents of a gzip file: those of all its members, one after another. Zeros may follow the
/// last member.
class gzip_stream final : public text_stream {
 public:
  /// Throws std::bad_alloc.
  explicit gzip_stream(std::span<const std::byte> begin, compressed_rest rest = {})
      : piece_(begin), rest_(std::move(rest)), kind_(what_it_is(begin)), zlib_(new z_stream()) {
    constexpr int largest_window = 15, gzip_only = 16;
    if (::inflateInit2(zlib_.get(), largest_window + gzip_only) != Z_OK) throw std::bad_alloc();
  }

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

  std::size_t step(std::byte* to, std::size_t count) {
    constexpr std::size_t max_step = std::size_t{1} << 30; // zlib counts in 32 bits
    load();
    const auto in = static_cast<uInt>(std::min(piece_.size(), max_step));
    const auto out = static_cast<uInt>(std::min(count, max_step));
    zlib_->next_in =
        const_cast<Bytef*>(reinterpret_cast<const Bytef*>(piece_.data())); // zlib doesn't change it
    zlib_->avail_in = in;
    zlib_->next_out = reinterpret_cast<Bytef*>(to);
    zlib_->avail_out = out;
    const int result = ::inflate(zlib_.get(), Z_NO_FLUSH);
    advance(in - zlib_->avail_in);
    const std::size_t got = out - zlib_->avail_out;
    switch (result) {
    case Z_STREAM_END:
      end_member();
      break;
    case Z_OK:
      break;
    case Z_BUF_ERROR: // no progress: there is room, so the input is missing
      end(offset_ == 0 ? std::string("the file is empty")
                       : "the gzip data are cut off: they end at offset " + std::to_string(offset_) +
                             ", inside a member");
      break;
    case Z_MEM_ERROR:
      throw std::bad_alloc();
    default:
      end(damage());
    }
    return got;
  }

  // Makes piece_ contain the next byte. False at the end of the file.
  bool load() {
    if (piece_.empty() && rest_) piece_ = rest_();
    return !piece_.empty();
  }

  void advance(std::size_t count) noexcept {
    piece_ = piece_.subspan(count);
    offset_ += count;
  }

  void end_member() {
    member_ = offset_;
    if (load() && piece_.front() != std::byte{0}) {
      ::inflateReset(zlib_.get());
      return;
    }
    while (load() && is_padding(piece_)) advance(piece_.size());
    if (piece_.empty()) end({});
    else end("the gzip data end at offset " + std::to_string(member_) + ", but more than zeros follow");
  }

  std::string damage() const {
    const std::string_view reason = zlib_->msg ? zlib_->msg : "unknown reason";
    const std::string at = " at offset " + std::to_string(offset_);
    if (reason == "incorrect data check")
      return "the gzip data are damaged: the checksum" + at + " doesn't match the contents";
    if (reason == "incorrect length check")
      return "the gzip data are damaged: the size" + at + " doesn't match the contents";
    if (reason == "incorrect header check")
      return member_ == 0
                 ? "the data aren't gzip: there is no header at offset 0" + kind_
                 : "the gzip data end at offset " + std::to_string(member_) + ", but other bytes follow";
    return "the gzip data are damaged" + at + ": " + std::string(reason);
  }

  void end(std::string problem) {
    problem_ = std::move(problem);
    ended_ = true;
  }

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
