// SPDX-License-Identifier: MIT
#pragma once
// A TAR archive inside a gzip file, for tar_reader.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>

#include <feedline/detail/mapped_file.hpp>
#include <feedline/gzip/detail/gzip_stream.hpp>
#include <feedline/source/detail/stream_archive.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// The contents of a gzip file, which it decompresses from the beginning, for stream_archive. After a stop they seem
/// to end.
class gzip_contents {
 public:
  static constexpr bool reads_to_the_end = true;

  gzip_contents(std::shared_ptr<const mapped_file> file, std::stop_token stop);

  // Checks for a stop after each step.
  std::size_t read(std::byte* to, std::size_t count);

  const std::string& problem() const noexcept { return stream_.problem(); }

  /// The offset in the compressed file.
  std::uint64_t offset() const noexcept { return stream_.offset(); }

 private:
  std::shared_ptr<const mapped_file> file_;
  gzip_stream stream_;
  std::stop_token stop_;
};

using gzip_archive = basic_stream_archive<gzip_contents>;

} // namespace feedline::inline FEEDLINE_ABI::detail

#ifndef FEEDLINE_COMPILED
#include <feedline/gzip/detail/gzip_archive.ipp>
#endif
