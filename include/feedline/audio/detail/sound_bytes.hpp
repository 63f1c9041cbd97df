// SPDX-License-Identifier: MIT
#pragma once
// Numbers and texts in the bytes of a sound file. The caller checks that the bytes are there, except for texts.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include <feedline/version.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

using sound_bytes = std::span<const std::byte>;

inline bool has_text(sound_bytes file, std::size_t at, std::string_view text) noexcept {
  return at <= file.size() && text.size() <= file.size() - at &&
         std::string_view(reinterpret_cast<const char*>(file.data()) + at, text.size()) == text;
}

inline std::uint64_t big_endian(sound_bytes file, std::size_t at, std::size_t size) noexcept {
  std::uint64_t value = 0;
  for (const std::byte b : file.subspan(at, size)) value = value << 8 | std::to_integer<std::uint64_t>(b);
  return value;
}

inline std::uint64_t little_endian(sound_bytes file, std::size_t at, std::size_t size) noexcept {
  std::uint64_t value = 0;
  while (size-- > 0) value = value << 8 | std::to_integer<std::uint64_t>(file[at + size]);
  return value;
}

} // namespace feedline::inline FEEDLINE_ABI::detail
