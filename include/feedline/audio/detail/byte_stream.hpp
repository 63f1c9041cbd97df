// SPDX-License-Identifier: MIT
#pragma once
// Bytes in memory as a file for a C library.
#include <cstddef>
#include <cstdint>
#include <vector>

#include <feedline/audio/detail/sound_bytes.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// A header of its own, followed by bytes that must outlive the object. Nothing throws: the callers are C.
struct byte_stream {
  std::vector<std::byte> header;
  sound_bytes bytes;
  std::size_t position = 0;

  std::size_t size() const noexcept { return header.size() + bytes.size(); }

  /// As lseek(), but returns -1 for positions outside the bytes, which broken files request.
  std::int64_t seek(std::int64_t offset, int from) noexcept;

  std::size_t read(void* to, std::size_t count) noexcept;
};

} // namespace feedline::inline FEEDLINE_ABI::detail

#ifndef FEEDLINE_COMPILED
#include <feedline/audio/detail/byte_stream.ipp>
#endif
