// SPDX-License-Identifier: MIT
#pragma once
// Parses the fields of one 512-byte TAR header and the records of a pax header: bytes in, checked values out.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>

#include <feedline/version.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

inline constexpr std::size_t tar_block = 512;

inline std::string_view until_nul(std::string_view field) noexcept {
  return field.substr(0, field.find('\0'));
}

inline bool all_zero(std::string_view block) noexcept {
  return block.find_first_not_of('\0') == std::string_view::npos;
}

/// Reads a number of a header: either spaces, then octal digits ended by NUL, space or the field's end (no
/// digits mean 0), or base 256 if the first byte has its top bit set. Nothing if the field is neither, or the
/// number is negative or beyond 2^63.
inline std::optional<std::uint64_t> tar_number(std::string_view field) noexcept {
  std::uint64_t value = 0;
  if (const auto first = static_cast<unsigned char>(field.front()); (first & 0x80) != 0) {
    if ((first & 0x40) != 0) return {}; // the sign
    value = first & 0x3f;
    for (const char c : field.substr(1)) {
      if (value >> 55 != 0) return {};
      value = value << 8 | static_cast<unsigned char>(c);
    }
    return value;
  }
  constexpr std::string_view blanks("\0 ", 2);
  const std::size_t begin = field.find_first_not_of(' ');
  if (begin == std::string_view::npos) return 0;
  for (const char c : field.substr(begin)) {
    if (blanks.find(c) != std::string_view::npos) break;
    if (c < '0' || c > '7' || value >> 60 != 0) return {};
    value = value << 3 | static_cast<unsigned>(c - '0');
  }
  return value;
}

/// Reads a number that consists only of decimal digits; leading zeros don't count.
inline std::optional<std::uint64_t> decimal_number(std::string_view digits) noexcept {
  constexpr std::size_t most_digits = 18; // fit into 63 bits
  if (digits.empty()) return {};
  digits.remove_prefix(std::min(digits.find_first_not_of('0'), digits.size()));
  if (digits.size() > most_digits) return {};
  std::uint64_t value = 0;
  for (const char c : digits) {
    if (c < '0' || c > '9') return {};
    value = value * 10 + static_cast<unsigned>(c - '0');
  }
  return value;
}

/// A view of a header. The block must have tar_block bytes.
class tar_header {
 public:
  explicit tar_header(std::string_view block) noexcept : block_(block) {}

  std::string_view name() const noexcept { return until_nul(block_.substr(0, 100)); }

  std::optional<std::uint64_t> size() const noexcept { return tar_number(block_.substr(124, 12)); }

  char type() const noexcept { return block_[156]; }

  /// What a link links to.
  std::string_view target() const noexcept { return until_nul(block_.substr(157, 100)); }

  /// The directory part of ustar. GNU headers ("ustar  ") store times there.
  std::string_view prefix() const noexcept {
    constexpr std::string_view ustar("ustar\0", 6);
    return block_.substr(257, 6) == ustar ? until_nul(block_.substr(345, 155)) : std::string_view();
  }

  /// Whether more blocks of an old GNU sparse file's map follow between this header and the contents.
  bool map_goes_on() const noexcept { return block_[482] != 0; }

  /// Whether the checksum is the sum of all bytes, with its own eight bytes counted as spaces; some old writers
  /// summed signed bytes.
  bool checksum_fits() const noexcept {
    const auto expected = tar_number(block_.substr(148, 8));
    if (!expected) return false;
    // Eight bytes at a time in four lanes of 16 bits, which 2 * 64 bytes can't overflow.
    constexpr std::uint64_t even_bytes = 0x00ff00ff00ff00ff;
    std::uint64_t lanes = 0;
    for (std::size_t i = 0; i < tar_block; i += 8) {
      std::uint64_t word;
      std::memcpy(&word, block_.data() + i, 8);
      lanes += (word & even_bytes) + (word >> 8 & even_bytes);
    }
    std::uint64_t sum = (lanes & 0xffff) + (lanes >> 16 & 0xffff) + (lanes >> 32 & 0xffff) + (lanes >> 48);
    sum += 8 * ' ';
    for (const char c : block_.substr(148, 8)) sum -= static_cast<unsigned char>(c);
    if (sum == *expected) return true;
    std::int64_t signed_sum = 8 * ' ';
    for (const char c : block_) signed_sum += static_cast<signed char>(c);
    for (const char c : block_.substr(148, 8)) signed_sum -= static_cast<signed char>(c);
    return signed_sum >= 0 && static_cast<std::uint64_t>(signed_sum) == *expected;
  }

 private:
  std::string_view block_;
};

/// The values in pax headers and GNU long names that override a member's header.
struct tar_overrides {
  std::optional<std::string_view> path; ///< may be empty: as in other readers, the name then is empty
  std::optional<std::string_view> long_name;
  std::optional<std::string_view> sparse_name;
  std::optional<std::string_view> target; ///< of a link
  std::optional<std::uint64_t> size;
  bool sparse = false;

  bool operator==(const tar_overrides&) const = default;

  /// Reads "LENGTH KEY=VALUE\n" records. Returns the first line with a malformed record, or nothing.
  std::optional<std::string_view> read_pax(std::string_view records) noexcept {
    while (!records.empty() && records.front() != '\0') {
      const std::string_view line = records.substr(0, records.find('\n'));
      const std::size_t space = records.find(' ');
      if (space == std::string_view::npos) return line;
      const auto length = decimal_number(records.substr(0, space));
      if (!length || *length > records.size() || *length < space + 2) return line;
      const auto record = records.substr(0, static_cast<std::size_t>(*length));
      records.remove_prefix(record.size());
      const std::size_t equals = record.find('=', space);
      if (record.back() != '\n' || equals == std::string_view::npos) return line;
      const auto key = record.substr(space + 1, equals - space - 1);
      const auto value = record.substr(equals + 1, record.size() - equals - 2);
      if (key == "path") path = until_nul(value);
      if (key == "linkpath") target = until_nul(value);
      if (key == "size" && !(size = decimal_number(value))) return line;
      if (key.starts_with("GNU.sparse.")) sparse = true;
      if (key == "GNU.sparse.name") sparse_name = until_nul(value);
    }
    return {};
  }
};

} // namespace feedline::inline FEEDLINE_ABI::detail
