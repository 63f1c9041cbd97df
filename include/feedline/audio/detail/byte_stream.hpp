// SPDX-License-Identifier: MIT
#pragma once
// Bytes in memory as a file for a C library.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
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
  std::int64_t seek(std::int64_t offset, int from) noexcept {
    const auto end = static_cast<std::int64_t>(size());
    const auto here = static_cast<std::int64_t>(position);
    const std::int64_t base = from == SEEK_SET ? 0 : from == SEEK_CUR ? here : end;
    if (offset < -base || offset > end - base) return -1;
    position = static_cast<std::size_t>(base + offset);
    return base + offset;
  }

  std::size_t read(void* to, std::size_t count) noexcept {
    auto* out = static_cast<std::byte*>(to);
    const auto copy = [&](sound_bytes from) {
      from = from.first(std::min(from.size(), count));
      if (!from.empty()) std::memcpy(out, from.data(), from.size());
      out += from.size();
      count -= from.size();
      position += from.size();
    };
    if (position < header.size()) copy(sound_bytes(header).subspan(position));
    if (position >= header.size()) copy(bytes.subspan(position - header.size()));
    return static_cast<std::size_t>(out - static_cast<std::byte*>(to));
  }
};

} // namespace feedline::inline FEEDLINE_ABI::detail
