// SPDX-License-Identifier: MIT
#pragma once
// Parses the fields of one 512-byte TAR header and the records of a pax header: bytes in, checked values out.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>

#include <feedline/version.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

inline constexpr std::size_t tar_block = 512;

std::string_view until_nul(std::string_view field) noexcept;

bool all_zero(std::string_view block) noexcept;

/// Reads a number of a header: either spaces, then octal digits ended by NUL, space or the field's end (no
/// digits mean 0), or base 256 if the first byte has its top bit set. Nothing if the field is neither, or the
/// number is negative or beyond 2^63.
std::optional<std::uint64_t> tar_number(std::string_view field) noexcept;

/// Reads a number that consists only of decimal digits; leading zeros don't count.
std::optional<std::uint64_t> decimal_number(std::string_view digits) noexcept;

/// A view of a header. The block must have tar_block bytes.
class tar_header {
 public:
  explicit tar_header(std::string_view block) noexcept : block_(block) {}

  std::string_view name() const noexcept;

  std::optional<std::uint64_t> size() const noexcept;

  char type() const noexcept { return block_[156]; }

  /// The directory part of ustar. GNU headers ("ustar  ") store times there.
  std::string_view prefix() const noexcept;

  /// Whether more blocks of an old GNU sparse file's map follow between this header and the contents.
  bool map_goes_on() const noexcept { return block_[482] != 0; }

  /// Whether the checksum is the sum of all bytes, with its own eight bytes counted as spaces; some old writers
  /// summed signed bytes.
  bool checksum_fits() const noexcept;

 private:
  std::string_view block_;
};

/// The values in pax headers and GNU long names that override a member's header.
struct tar_overrides {
  std::optional<std::string_view> path; ///< may be empty: as in other readers, the name then is empty
  std::optional<std::string_view> long_name;
  std::optional<std::string_view> sparse_name;
  std::optional<std::uint64_t> size;
  bool sparse = false;

  /// Reads "LENGTH KEY=VALUE\n" records. Returns the first line with a malformed record, or nothing.
  std::optional<std::string_view> read_pax(std::string_view records) noexcept;
};

} // namespace feedline::inline FEEDLINE_ABI::detail

#ifndef FEEDLINE_COMPILED
#include <feedline/detail/tar_header.ipp>
#endif
