// SPDX-License-Identifier: MIT
#pragma once
// What a file is, from its first bytes, so that a message can say it.
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include <feedline/version.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// A kind of file.
struct file_kind {
  std::string_view name{}; ///< "a PNG image", "gzip data"; empty if it is unknown
  bool is_compressed = false;
};

/// The kind of a file that begins with these bytes. The first 512 are enough.
file_kind kind_of_file(std::string_view begin) noexcept;

/// ": read it READ::decompress = {feedline::unzstd_stream}, which is in …", or ": decompress it first" for a kind
/// that nothing here reads. READ is `read`: "with lines and lines_options".
std::string how_to_decompress(std::string_view kind, std::string_view read);

/// ": it is a PNG image", or ": it is empty"; empty if the kind is unknown.
std::string what_it_is(std::span<const std::byte> begin);

} // namespace feedline::inline FEEDLINE_ABI::detail

#ifndef FEEDLINE_COMPILED
#include <feedline/detail/file_kind.ipp>
#endif
