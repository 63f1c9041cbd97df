// SPDX-License-Identifier: MIT
#pragma once
// unzstd_stream: decompresses a zstd file piece by piece.
#include <cstddef>
#include <memory>
#include <span>

#include <feedline/source/lines_options.hpp>

namespace feedline::inline FEEDLINE_ABI {

namespace detail {

/// As zstd(1) without --long, which writes no larger window. A stream takes as much memory as the window of its file.
inline constexpr int largest_zstd_window = 27; // its binary logarithm: 128 MiB

std::unique_ptr<text_stream> open_zstd(std::span<const std::byte> begin, compressed_rest rest);

} // namespace detail

/// Opens zstd files: their frames, one after another. Skippable frames are left out. A frame whose window is larger than
/// 128 MiB, as of `zstd --ultra --long=28`, is an error, and so are data that are cut off, damaged, or don't match their
/// checksum; then the contents end with the last complete part before. The checksum stands at the end of a frame, so it is
/// compared after the lines or samples before it were delivered, and not in a run that ends earlier.
///
/// Example: `lines("corpus/*.jsonl.zst", {.decompress = {unzstd_stream}})`
///          `tar_samples("photos-*.tar.zst", {.decompress = {unzstd_stream}})`
inline constexpr text_opener unzstd_stream{
    "zstd data", (std::size_t{1} << detail::largest_zstd_window) + (std::size_t{1} << 20),
    &detail::open_zstd};

} // namespace feedline::inline FEEDLINE_ABI

#ifndef FEEDLINE_COMPILED
#include <feedline/zstd/unzstd.ipp>
#endif
