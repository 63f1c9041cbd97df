// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/image/detail/jpeg_markers.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE std::optional<jpeg_marker> jpeg_markers::next() noexcept {
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

} // namespace feedline::inline FEEDLINE_ABI::detail
