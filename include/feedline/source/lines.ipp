// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/source/lines.hpp>

#include <stdexcept>

#include <feedline/detail/readable_text.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE std::optional<std::string> lines_source::next() {
  for (;;) {
    if (!file_) {
      const auto number = files_.next();
      if (!number) return std::nullopt;
      number_ = *number;
      file_ = ahead_.open(files_, number_);
      at_ = 0;
      line_ = 0;
    }
    const char* const begin = reinterpret_cast<const char*>(file_->bytes().data()) + at_;
    const std::size_t left = file_->bytes().size() - at_;
    if (left == 0) {
      file_.reset();
      at_ = closed;
      continue;
    }
    ahead_.announce(files_, file_, at_);
    const void* const end = std::memchr(begin, '\n', left);
    std::size_t length = end ? static_cast<std::size_t>(static_cast<const char*>(end) - begin) : left;
    at_ += end ? length + 1 : length;
    index_ = file_order::index_of(number_, line_++);
    if (end && length > 0 && begin[length - 1] == '\r') --length;
    if (options_.max_line_bytes > 0 && length > options_.max_line_bytes)
      throw std::length_error(origin(index_) + " has " + std::to_string(length) +
                              " bytes, more than lines_options::max_line_bytes, " +
                              std::to_string(options_.max_line_bytes));
    return std::string(begin, length);
  }
}

FEEDLINE_INLINE void lines_source::resumed() {
  if (at_ == closed) return;
  number_ = files_.last();
  file_ = files_.map_last(at_);
}

FEEDLINE_INLINE void lines_source::seek(std::uint64_t index) {
  if (file_ && number_ == file_order::file_of(index) && line_ <= file_order::place_of(index)) return;
  files_.go_to(file_order::file_of(index));
  file_.reset();
  at_ = closed;
}

FEEDLINE_INLINE std::optional<std::size_t> lines_source::max_item_bytes() const noexcept {
  if (options_.max_line_bytes == 0) return std::nullopt;
  return sizeof(std::string) + options_.max_line_bytes + 1;
}

FEEDLINE_INLINE std::string lines_source::origin(std::uint64_t index) const {
  return readable(files_.name_of(index)) + ": line " + std::to_string(file_order::place_of(index) + 1);
}

} // namespace feedline::inline FEEDLINE_ABI::detail
