// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/gzip/gunzip.hpp>

#include <algorithm>
#include <array>
#include <functional>
#include <new>
#include <stdexcept>
#include <utility>

#include <feedline/detail/given_size.hpp>
#include <feedline/gzip/detail/gzip_stream.hpp>

namespace feedline::inline FEEDLINE_ABI {

FEEDLINE_INLINE std::span<const std::byte> gunzip_decoder::decode(std::span<const std::byte> file,
                                                                  const gunzip_options& options) {
  detail::refuse_negative(options.max_output_bytes, "feedline::gunzip: the max_output_bytes");
  if (is_own(file))
    throw std::invalid_argument(
        "feedline::gunzip: the file is a view of this decoder's memory: use a second decoder for data that "
        "are compressed twice");
  if (!libdeflate_) libdeflate_.reset(::libdeflate_alloc_decompressor());
  if (!libdeflate_) throw std::bad_alloc();
  if (!bytes_) capacity_ = 0; // the decoder was moved from
  const std::size_t announced = announced_size(file);
  reserve(std::min({options.max_output_bytes, announced, 16 * file.size()}), 0);

  std::size_t size = 0;
  for (std::span<const std::byte> rest = file;;) {
    const std::size_t room = std::min(capacity_, options.max_output_bytes);
    std::size_t read = 0, written = 0;
    switch (::libdeflate_gzip_decompress_ex(libdeflate_.get(), rest.data(), rest.size(), bytes_.get() + size,
                                            room - size, &read, &written)) {
    case LIBDEFLATE_SUCCESS:
      size += written;
      rest = rest.subspan(read);
      if (rest.empty() || (rest.front() == std::byte{0} && detail::is_padding(rest)))
        return {bytes_.get(), size};
      break;
    case LIBDEFLATE_INSUFFICIENT_SPACE:
      if (room == options.max_output_bytes)
        throw gzip_error("feedline::gunzip: the contents are larger than " + std::to_string(room) +
                         " bytes: raise max_output_bytes if that is expected");
      reserve(std::min(options.max_output_bytes,
                       announced > capacity_ && announced / 4 <= capacity_ ? announced : 2 * capacity_),
              size);
      break;
    default:
      throw gzip_error("feedline::gunzip: " + problem_of(file, options.max_output_bytes));
    }
  }
}

FEEDLINE_INLINE std::unique_ptr<text_stream> detail::open_gzip(std::span<const std::byte> begin,
                                                               compressed_rest rest) {
  return std::make_unique<gzip_stream>(begin, std::move(rest));
}

FEEDLINE_INLINE bool gunzip_decoder::is_own(std::span<const std::byte> file) const noexcept {
  const std::less<const std::byte*> before;
  return bytes_ && !before(file.data(), bytes_.get()) && before(file.data(), bytes_.get() + capacity_);
}

FEEDLINE_INLINE void gunzip_decoder::reserve(std::size_t bytes, std::size_t used) {
  constexpr std::size_t min_bytes = 64 << 10;
  bytes = std::max(bytes, min_bytes);
  if (bytes <= capacity_) return;
  // Not zero-initialized, so that only bytes that are written use memory.
  std::unique_ptr<std::byte[]> larger(new std::byte[bytes]);
  if (used > 0) std::memcpy(larger.get(), bytes_.get(), used);
  bytes_ = std::move(larger);
  capacity_ = bytes;
}

FEEDLINE_INLINE std::string gunzip_decoder::problem_of(std::span<const std::byte> file,
                                                       std::size_t max_size) {
  detail::gzip_stream stream(file);
  std::array<std::byte, 4096> some;
  for (std::size_t left = max_size; stream.read(some.data(), some.size()) == some.size();) {
    if (left < some.size()) break; // zlib found no damage up to there
    left -= some.size();
  }
  return stream.problem().empty() ? std::string("the gzip data are damaged") : stream.problem();
}

} // namespace feedline::inline FEEDLINE_ABI
