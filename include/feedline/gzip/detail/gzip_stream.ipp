// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/gzip/detail/gzip_stream.hpp>

#include <algorithm>
#include <new>
#include <string_view>
#include <utility>

#include <feedline/detail/file_kind.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE bool is_padding(std::span<const std::byte> rest) noexcept {
  return std::all_of(rest.begin(), rest.end(), [](std::byte b) { return b == std::byte{0}; });
}

FEEDLINE_INLINE gzip_stream::gzip_stream(std::span<const std::byte> begin, compressed_rest rest)
    : piece_(begin), rest_(std::move(rest)), kind_(what_it_is(begin)), zlib_(new z_stream()) {
  constexpr int largest_window = 15, gzip_only = 16;
  if (::inflateInit2(zlib_.get(), largest_window + gzip_only) != Z_OK) throw std::bad_alloc();
}

FEEDLINE_INLINE std::size_t gzip_stream::step(std::byte* to, std::size_t count) {
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

FEEDLINE_INLINE void gzip_stream::end_member() {
  member_ = offset_;
  if (load() && piece_.front() != std::byte{0}) {
    ::inflateReset(zlib_.get());
    return;
  }
  while (load() && is_padding(piece_)) advance(piece_.size());
  if (piece_.empty()) end({});
  else end("the gzip data end at offset " + std::to_string(member_) + ", but more than zeros follow");
}

FEEDLINE_INLINE std::string gzip_stream::damage() const {
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

FEEDLINE_INLINE void gzip_stream::end(std::string problem) {
  problem_ = std::move(problem);
  ended_ = true;
}

} // namespace feedline::inline FEEDLINE_ABI::detail
