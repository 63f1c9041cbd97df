// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/source/detail/tar_shard.hpp>

#include <stdexcept>

#include <feedline/source/detail/file_order.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE tar_notice::tar_notice(callback<std::string> on_notice) : on_notice_(std::move(on_notice)) {}

FEEDLINE_INLINE void tar_notice::give(const std::string& sentence) {
  if (was_given_.exchange(true)) return;
  try {
    on_notice_(sentence);
  } catch (...) { // a notice isn't worth a failure
  }
}

FEEDLINE_INLINE bool seen_keys::add(std::uint64_t hash) {
  constexpr std::size_t most = most_bytes / sizeof(std::uint64_t) / 2;
  hash += hash == 0;
  const auto slot_of = [this](std::uint64_t wanted) {
    std::size_t at = static_cast<std::size_t>(wanted) % slots_.size();
    while (slots_[at] != 0 && slots_[at] != wanted) at = (at + 1) % slots_.size();
    return slots_.begin() + static_cast<std::ptrdiff_t>(at);
  };
  if (2 * size_ == slots_.size() && size_ < most) {
    const auto before =
        std::exchange(slots_, std::vector<std::uint64_t>(std::max<std::size_t>(64, 4 * size_)));
    for (const std::uint64_t other : before)
      if (other != 0) *slot_of(other) = other;
  }
  const auto slot = slot_of(hash);
  if (*slot == hash) return false;
  if (size_ == most) return true;
  *slot = hash;
  ++size_;
  return true;
}

FEEDLINE_INLINE tar_shard::tar_shard(const std::shared_ptr<const mapped_file>& file, const tar_settings& how)
    : basic_tar_shard(version_of(file), tar_reader(bytes_of(*file)), how) {}

FEEDLINE_INLINE tar_shard::tar_shard(const std::shared_ptr<const mapped_file>& file, const tar_settings& how,
                                     const tar_place& from)
    : basic_tar_shard(version_of(file), tar_reader(file->bytes(), from.begin, from.globals), how, from) {}

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
