// SPDX-License-Identifier: MIT
#pragma once
// A TAR archive inside a gzip file, for tar_reader.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>

#include <feedline/detail/mapped_file.hpp>
#include <feedline/gzip/detail/gzip_stream.hpp>
#include <feedline/source/detail/stream_archive.hpp>

namespace feedline::inline v0::detail {

/// The contents of a gzip file, which it decompresses from the beginning, for stream_archive. After a stop they seem
/// to end.
class gzip_contents {
 public:
  static constexpr bool reads_to_the_end = true;

  gzip_contents(std::shared_ptr<const mapped_file> file, std::stop_token stop)
      : file_(std::move(file)), stream_(file_->bytes()), stop_(std::move(stop)) {}

  // Checks for a stop after each step.
  std::size_t read(std::byte* to, std::size_t count) {
    constexpr std::size_t step = 1 << 20;
    std::size_t got = 0;
    while (got < count && !stop_.stop_requested()) {
      const std::size_t wanted = std::min(step, count - got), n = stream_.read(to + got, wanted);
      got += n;
      if (n < wanted) break;
    }
    return got;
  }

  const std::string& problem() const noexcept { return stream_.problem(); }

  /// The offset in the compressed file.
  std::uint64_t offset() const noexcept { return stream_.offset(); }

 private:
  std::shared_ptr<const mapped_file> file_;
  gzip_stream stream_;
  std::stop_token stop_;
};

using gzip_archive = basic_stream_archive<gzip_contents>;

} // namespace feedline::inline v0::detail
