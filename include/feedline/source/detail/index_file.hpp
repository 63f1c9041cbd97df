// SPDX-License-Identifier: MIT
#pragma once
// Files that keep the index of a data file: words of 64 bits in the machine's byte order, the last of which is a checksum
// of the others.
#include <cstddef>
#include <cstdint>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include <feedline/version.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// For those who make an index for a run: throws std::runtime_error if the run was stopped.
void throw_if_stopped(const std::stop_token& stop);

std::uint64_t checksum_of(std::span<const std::uint64_t> words) noexcept;

/// The words of an index without the checksum; none if they are incomplete or damaged.
std::vector<std::uint64_t> words_of_index(std::span<const std::byte> bytes);

/// The same for a file; none if it is missing.
std::vector<std::uint64_t> read_index_file(const std::string& path);

/// Writes the complete index or, on an error, nothing. `kind`: the bytes with which each version of such an index begins.
/// A file that begins with others isn't overwritten.
void write_index_file(const std::string& path, std::string_view kind, std::span<const std::uint64_t> words);

} // namespace feedline::inline FEEDLINE_ABI::detail

#ifndef FEEDLINE_COMPILED
#include <feedline/source/detail/index_file.ipp>
#endif
