// SPDX-License-Identifier: MIT
#pragma once
// The markers of a JPEG's header, without libjpeg.
#include <cstddef>
#include <optional>
#include <span>

#include <feedline/version.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// A marker segment: `bytes` begins with the marker's 0xff and ends with its payload.
struct jpeg_marker {
  unsigned code; ///< the byte after 0xff
  std::span<const std::byte> bytes;

  std::span<const std::byte> payload() const noexcept { return bytes.subspan(4); }
};

inline unsigned jpeg_byte(std::span<const std::byte> bytes, std::size_t at) noexcept {
  return std::to_integer<unsigned>(bytes[at]);
}

/// Whether a marker begins a frame and so gives the kind of the file. (0xc4, 0xc8 and 0xcc mean something else.)
constexpr bool is_jpeg_frame(unsigned code) noexcept {
  return code >= 0xc0 && code <= 0xcf && code != 0xc4 && code != 0xc8 && code != 0xcc;
}

/// Goes through the marker segments from the file's first one to the first start of a scan. Ends early where the file
/// isn't what an encoder writes: libjpeg then decides.
class jpeg_markers {
 public:
  static constexpr unsigned start_of_scan = 0xda;

  explicit jpeg_markers(std::span<const std::byte> file) noexcept : file_(file) {
    if (file.size() < 2 || jpeg_byte(file, 0) != 0xff || jpeg_byte(file, 1) != 0xd8) at_ = file.size();
  }

  std::optional<jpeg_marker> next() noexcept {
    while (at_ + 1 < file_.size() && jpeg_byte(file_, at_) == 0xff && jpeg_byte(file_, at_ + 1) == 0xff)
      ++at_; // a marker may have any number of these before it
    const auto rest = file_.subspan(at_);
    if (rest.size() < 4 || jpeg_byte(rest, 0) != 0xff) return {};
    const unsigned code = jpeg_byte(rest, 1);
    if (code < 0xc0 || (code >= 0xd0 && code <= 0xd9)) return {}; // has no length, or isn't a marker
    const std::size_t size = 2 + (jpeg_byte(rest, 2) << 8 | jpeg_byte(rest, 3));
    if (size < 4 || size > rest.size()) return {};
    at_ = code == start_of_scan ? file_.size() : at_ + size;
    return jpeg_marker{code, rest.first(size)};
  }

 private:
  std::span<const std::byte> file_;
  std::size_t at_ = 2; // after the start of the image
};

} // namespace feedline::inline FEEDLINE_ABI::detail
