// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/source/detail/read_ahead.hpp>

#include <stdexcept>
#include <utility>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE std::shared_ptr<const mapped_file> read_ahead::open(const file_order& files,
                                                                    std::size_t number) {
  if (auto file = take(number)) return file;
  return std::make_shared<const mapped_file>(files.names()[number]);
}

FEEDLINE_INLINE std::shared_ptr<const mapped_file> read_ahead::take(std::size_t number) noexcept {
  due_ = 0;
  return next_number_ == number ? next_.file : nullptr;
}

FEEDLINE_INLINE void read_ahead::announce_more(const file_order& files,
                                               const std::shared_ptr<const mapped_file>& file,
                                               std::uint64_t offset) {
  if (file != here_.file) {
    here_ = next_.file == file ? std::exchange(next_, {}) : announced_file{file};
    next_ = {};
    next_number_.reset();
  }
  due_ = offset + announced_file::step;
  if (offset > here_.bytes) here_.bytes = offset; // skipped bytes aren't needed
  const std::uint64_t end = offset + reach, size = file->bytes().size();
  here_.reach(end);
  if (end <= size) return;
  if (!next_number_) map_next(files);
  if (next_.file) next_.reach(end - size);
}

FEEDLINE_INLINE void read_ahead::map_next(const file_order& files) {
  next_number_ = files.peek();
  try {
    if (next_number_) next_.file = std::make_shared<const mapped_file>(files.names()[*next_number_]);
  } catch (const std::runtime_error&) { // thrown when the source opens this file
  }
}

} // namespace feedline::inline FEEDLINE_ABI::detail
