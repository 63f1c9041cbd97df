// SPDX-License-Identifier: MIT
#pragma once
// TAR shards that are objects, read in parts.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include <feedline/detail/readable_text.hpp>
#include <feedline/detail/tar_header.hpp>
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
inline tar_globals read_tar_globals(const std::shared_ptr<object_list>& objects, std::size_t number,
                                    const std::vector<std::uint64_t>& offsets, std::size_t most_bytes,
                                    const std::stop_token& stop) {
  if (offsets.empty()) return nullptr;
  constexpr std::size_t step = 16 << 10;
  std::vector<tar_global> globals;
  for (const std::uint64_t offset : offsets) {
    basic_stream_archive<object_stream> header(
        object_stream(objects->shown(number), read_when_needed(objects, number, step, tar_place::none, stop),
                      offset),
        most_bytes, offset);
    const auto block = header.read(tar_block);
    if (block.size() == tar_block && tar_header(block).type() == 'g')
      if (const auto size = tar_header(block).size(); size && header.has_room_for(*size))
        globals.push_back({offset, std::string(header.read(*size))});
    if (!header.problem().empty())
      throw tar_error(readable(objects->shown(number)) + ": " + header.problem());
  }
  return std::make_shared<const std::vector<tar_global>>(std::move(globals));
}

} // namespace feedline::inline FEEDLINE_ABI::detail
