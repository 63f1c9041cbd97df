// SPDX-License-Identifier: MIT
#pragma once
// Bytes in memory as a file for libsndfile.
#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <span>

#include <sndfile.h>

#include <feedline/version.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

struct byte_stream {
  std::span<const std::byte> bytes;
  std::size_t position = 0;

  /// libsndfile's callbacks for a stream, whose `user` is a byte_stream. They don't throw.
  static SF_VIRTUAL_IO& functions() noexcept;

 private:
  static byte_stream& of(void* user) noexcept { return *static_cast<byte_stream*>(user); }

  // Refuses positions outside the bytes, which broken files request.
  sf_count_t seek(sf_count_t offset, int from) noexcept;

  sf_count_t read(void* to, sf_count_t count) noexcept {
    if (count <= 0) return 0;
    const std::size_t got = std::min(static_cast<std::size_t>(count), bytes.size() - position);
    if (got > 0) std::memcpy(to, bytes.data() + position, got);
    position += got;
    return static_cast<sf_count_t>(got);
  }
};

} // namespace feedline::inline FEEDLINE_ABI::detail

#ifndef FEEDLINE_COMPILED
#include <feedline/audio/detail/byte_stream.ipp>
#endif
