// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/image/exif_orientation.hpp>

#include <string_view>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE std::optional<exif_orientation>
read_xmp_orientation(std::span<const std::byte> packet) noexcept {
  const std::string_view text(reinterpret_cast<const char*>(packet.data()), packet.size());
  constexpr std::string_view name = "tiff:Orientation";
  for (std::size_t at = 0; (at = text.find(name, at)) != text.npos;) {
    at += name.size();
    std::string_view rest = text.substr(at);
    if (rest.starts_with("=\"")) rest.remove_prefix(2);
    else if (rest.starts_with('>')) rest.remove_prefix(1);
    else continue;
    if (rest.empty() || rest[0] < '0' || rest[0] > '9') continue;
    if (rest[0] == '0' || rest[0] == '9') return {};
    return static_cast<exif_orientation>(rest[0] - '0');
  }
  return {};
}

} // namespace feedline::inline FEEDLINE_ABI::detail
