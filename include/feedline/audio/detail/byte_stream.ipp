// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/audio/detail/byte_stream.hpp>

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE std::int64_t byte_stream::seek(std::int64_t offset, int from) noexcept {
  const auto end = static_cast<std::int64_t>(size());
  const auto here = static_cast<std::int64_t>(position);
  const std::int64_t base = from == SEEK_SET ? 0 : from == SEEK_CUR ? here : end;
  if (offset < -base || offset > end - base) return -1;
  position = static_cast<std::size_t>(base + offset);
  return base + offset;
}

FEEDLINE_INLINE std::size_t byte_stream::read(void* to, std::size_t count) noexcept {
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

} // namespace feedline::inline FEEDLINE_ABI::detail
