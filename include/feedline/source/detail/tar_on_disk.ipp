// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/source/detail/tar_on_disk.hpp>

#include <cstddef>
#include <utility>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE tar_on_disk::tar_on_disk(const open_file& file, std::uint64_t size, std::stop_token stop)
    : file_(&file), size_(size), stop_(std::move(stop)) {}

FEEDLINE_INLINE void tar_on_disk::begin_member() noexcept {
  read_.clear();
  taken_ = 0;
}

FEEDLINE_INLINE std::string_view tar_on_disk::read(std::uint64_t count) {
  if (!has_room_for(count) || stop_.stop_requested()) return {};
  std::string& bytes = read_.emplace_back(static_cast<std::size_t>(std::min(count, left())), '\0');
  bytes.resize(file_->read(bytes.data(), bytes.size(), position_));
  taken_ += count;
  position_ += bytes.size();
  return bytes;
}

FEEDLINE_INLINE void tar_on_disk::keep_globals(tar_overrides& globals) {
  for (auto [view, text] : {std::pair(&globals.path, &path_), std::pair(&globals.sparse_name, &sparse_name_)})
    if (*view) {
      if ((*view)->data() != text->data()) text->assign(**view);
      *view = *text;
    }
}

FEEDLINE_INLINE std::string tar_on_disk::problem() { return {}; }

FEEDLINE_INLINE std::string tar_on_disk::problem_to_the_end() { return {}; }

} // namespace feedline::inline FEEDLINE_ABI::detail
