// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/source/detail/tar_shard.hpp>

#include <stdexcept>

#include <feedline/source/detail/file_order.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE tar_shard::tar_shard(const std::shared_ptr<const mapped_file>& file)
    : basic_tar_shard(version_of(file), tar_reader(bytes_of(*file))) {}

FEEDLINE_INLINE tar_shard::tar_shard(const std::shared_ptr<const mapped_file>& file, const tar_place& from)
    : basic_tar_shard(version_of(file), tar_reader(file->bytes(), from.begin, from.globals), from) {}

FEEDLINE_INLINE std::shared_ptr<const mapped_file> tar_shard::map(const std::string& path, sharing with) {
  try {
    return std::make_shared<const mapped_file>(path, with);
  } catch (const std::runtime_error& error) {
    throw tar_error(error.what());
  }
}

FEEDLINE_INLINE std::shared_ptr<const named_version>
tar_shard::version_of(const std::shared_ptr<const mapped_file>& file) {
  return {file, &file->version()};
}

FEEDLINE_INLINE std::span<const std::byte> tar_shard::bytes_of(const mapped_file& file) {
  if (has_too_many_blocks(file.bytes().size()))
    throw tar_error(readable(file.path()) + ": " + too_many_blocks);
  return file.bytes();
}

} // namespace feedline::inline FEEDLINE_ABI::detail
