// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/gzip/detail/gzip_archive.hpp>

#include <algorithm>
#include <utility>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE gzip_contents::gzip_contents(std::shared_ptr<const mapped_file> file, std::stop_token stop)
    : file_(std::move(file)), stream_(file_->bytes()), stop_(std::move(stop)) {}

FEEDLINE_INLINE std::size_t gzip_contents::read(std::byte* to, std::size_t count) {
  constexpr std::size_t step = 1 << 20;
  std::size_t got = 0;
  while (got < count && !stop_.stop_requested()) {
    const std::size_t wanted = std::min(step, count - got), n = stream_.read(to + got, wanted);
    got += n;
    if (n < wanted) break;
  }
  return got;
}

} // namespace feedline::inline FEEDLINE_ABI::detail
