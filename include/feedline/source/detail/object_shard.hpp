// SPDX-License-Identifier: MIT
#pragma once
// TAR shards that are objects, read in parts.
#include <feedline/source/detail/object_stream.hpp>
#include <feedline/source/detail/stream_archive.hpp>
#include <feedline/source/detail/tar_shard.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

using object_archive = basic_stream_archive<object_stream>;
using object_shard = basic_tar_shard<object_archive>;

} // namespace feedline::inline FEEDLINE_ABI::detail
