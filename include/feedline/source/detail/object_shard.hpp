// SPDX-License-Identifier: MIT
#pragma once
// TAR shards that are objects, read in parts.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stop_token>
#include <vector>

#include <feedline/detail/tar_reader.hpp>
#include <feedline/source/detail/object_list.hpp>
#include <feedline/source/detail/object_stream.hpp>
#include <feedline/source/detail/stream_archive.hpp>
#include <feedline/source/detail/tar_shard.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

using object_archive = basic_stream_archive<object_stream>;
using object_shard = basic_tar_shard<object_archive>;
using tar_globals = std::shared_ptr<const std::vector<tar_global>>;

/// Reads the headers at these offsets of an object, as far as they are what they were. Throws tar_error.
tar_globals read_tar_globals(const std::shared_ptr<object_list>& objects, std::size_t number,
                             const std::vector<std::uint64_t>& offsets, std::size_t most_bytes,
                             const std::stop_token& stop);

} // namespace feedline::inline FEEDLINE_ABI::detail

#ifndef FEEDLINE_COMPILED
#include <feedline/source/detail/object_shard.ipp>
#endif
