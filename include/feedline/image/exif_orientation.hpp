// SPDX-License-Identifier: MIT
#pragma once
// The orientation of a photograph, from EXIF's tag 0x0112 or from XMP.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include <feedline/version.hpp>

namespace feedline::inline FEEDLINE_ABI {

/// The transform that turns a stored image upright. The values are EXIF's own.
enum class exif_orientation : std::uint8_t {
  upright = 1,           ///< none
  mirror_horizontal = 2, ///< left and right exchanged
  rotate_180 = 3,
  mirror_vertical = 4, ///< top and bottom exchanged
  transpose = 5,       ///< mirrored along the diagonal from the top left: rows become columns
  rotate_90 = 6,       ///< rotated clockwise
  transverse = 7,      ///< mirrored along the other diagonal
  rotate_270 = 8,      ///< rotated clockwise
};

/// Whether rows become columns.
constexpr bool swaps_sides(exif_orientation orientation) noexcept {
  return orientation >= exif_orientation::transpose;
}

namespace detail {

/// Reads the numbers of a TIFF block in its byte order, and none beyond its end.
struct tiff_reader {
  std::span<const std::byte> bytes;
  bool big_endian = false;

  constexpr std::optional<std::uint32_t> number(std::size_t offset, std::size_t size) const noexcept {
    if (offset > bytes.size() || size > bytes.size() - offset) return std::nullopt;
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < size; ++i)
      value = value << 8 | std::to_integer<std::uint32_t>(bytes[offset + (big_endian ? i : size - 1 - i)]);
    return value;
  }
};

/// Reads the orientation from a TIFF block, as read_exif_orientation() does.
constexpr std::optional<exif_orientation> read_tiff_orientation(std::span<const std::byte> block) noexcept {
  tiff_reader tiff{block};
  const auto byte_order = tiff.number(0, 2);
  tiff.big_endian = byte_order == 0x4d4d; // "MM"
  if ((!tiff.big_endian && byte_order != 0x4949) || tiff.number(2, 2) != 42) return std::nullopt;

  const auto directory = tiff.number(4, 4);
  const auto entries = directory ? tiff.number(*directory, 2) : std::nullopt;
  std::uint32_t found = 0; // 0: none that is valid
  for (std::size_t i = 0; entries && i < *entries; ++i) {
    // tag, type, count, value: 2, 2, 4 and 4 bytes
    const std::size_t entry = std::size_t{*directory} + 2 + 12 * i;
    const auto tag = tiff.number(entry, 2);
    if (!tag) break;
    if (tag != 0x0112) continue;
    constexpr std::uint32_t short_type = 3, long_type = 4;
    const auto type = tiff.number(entry + 2, 2);
    const auto value = tiff.number(entry + 8, type == long_type ? 4 : 2);
    const bool is_valid = (type == short_type || type == long_type) && value && *value <= 8;
    found = is_valid ? *value : 0;
  }
  if (found == 0) return std::nullopt;
  return static_cast<exif_orientation>(found);
}

/// Reads the orientation from an XMP packet, where a file has none in its EXIF data: the first `tiff:Orientation="6"` or
/// `tiff:Orientation>6`, as in Pillow.
std::optional<exif_orientation> read_xmp_orientation(std::span<const std::byte> packet) noexcept;

} // namespace detail

/// Reads the orientation from the payload of a JPEG's APP1 segment ("Exif\0\0", then a TIFF block). Returns
/// nullopt if the payload is something else, is damaged before the tag, or has no valid tag in its first
/// directory. The number may have 16 or 32 bits (SHORT or LONG); the last one counts, as in Pillow.
constexpr std::optional<exif_orientation> read_exif_orientation(std::span<const std::byte> payload) noexcept {
  constexpr unsigned char mark[] = {'E', 'x', 'i', 'f', 0, 0};
  if (payload.size() < sizeof mark) return std::nullopt;
  for (std::size_t i = 0; i < sizeof mark; ++i)
    if (std::to_integer<unsigned char>(payload[i]) != mark[i]) return std::nullopt;
  return detail::read_tiff_orientation(payload.subspan(sizeof mark));
}

} // namespace feedline::inline FEEDLINE_ABI

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_IMAGE)
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
#endif
