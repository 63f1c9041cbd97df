// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/source/lines.hpp>

#include <algorithm>
#include <stdexcept>

#include <feedline/detail/readable_text.hpp>
#include <feedline/source/detail/line_index.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE lines_source::lines_source(const lines_source&) = default;
FEEDLINE_INLINE lines_source::lines_source(lines_source&&) noexcept = default;
FEEDLINE_INLINE lines_source& lines_source::operator=(const lines_source&) = default;
FEEDLINE_INLINE lines_source& lines_source::operator=(lines_source&&) noexcept = default;
FEEDLINE_INLINE lines_source::~lines_source() = default;

FEEDLINE_INLINE std::optional<std::string> lines_source::next() {
  for (;;) {
    if (!file_) {
      const auto number = files_.next();
      if (!number) return std::nullopt;
      number_ = *number;
      index_ = file_order::index_of(number_, 0); // also of a file that can't be read
      file_ = ahead_.open(files_, number_);
      begin_file();
    }
    if (open_text_) [[unlikely]] {
      if (const auto line = read_zipped_line()) return yielded(line->text, line->has_end, line->dropped);
      close();
      continue;
    }
    const char* const begin = reinterpret_cast<const char*>(file_->bytes().data()) + at_;
    const std::size_t left = file_->bytes().size() - at_;
    if (left == 0) {
      close();
      continue;
    }
    ahead_.announce(files_, file_, at_);
    const void* const end = std::memchr(begin, '\n', left);
    const std::size_t length = end ? static_cast<std::size_t>(static_cast<const char*>(end) - begin) : left;
    at_ += end ? length + 1 : length;
    return yielded({begin, length}, end != nullptr, 0);
  }
}

FEEDLINE_INLINE std::string lines_source::yielded(std::string_view text, bool has_end, std::size_t dropped) {
  index_ = file_order::index_of(number_, line_++);
  return finished_line(text, has_end, dropped, options_.max_line_bytes, files_, index_);
}

FEEDLINE_INLINE void lines_source::begin_file() {
  line_ = 0;
  try {
    const auto [compression, begin] = kind_of_text(*file_);
    at_ = begin;
    open_text_ = nullptr;
    for (const text_opener& o : options_.decompress)
      if (o.kind == compression) open_text_ = o.open;
    if (open_text_ || compression.empty()) return;
    throw_compressed(*file_, compression);
  } catch (...) {
    close();
    throw;
  }
}

FEEDLINE_INLINE void lines_source::close() {
  file_.reset();
  zipped_ = {};
  at_ = closed;
}

FEEDLINE_INLINE std::optional<lines_source::zipped_line> lines_source::read_zipped_line() {
  unzipped& z = zipped_;
  if (!z.stream) unzip();
  ahead_.announce(files_, file_, z.stream->offset());
  std::size_t dropped = 0; // of a line that is too long
  for (std::size_t searched = z.begin;;) {
    const std::size_t end = z.text.find('\n', searched);
    const bool has_end = end != std::string::npos;
    if (has_end || z.has_all) {
      const std::string_view text = std::string_view(z.text).substr(z.begin, has_end ? end - z.begin : end);
      if (!has_end && !z.stream->problem().empty()) {
        const std::string message = readable(file_->path()) + ": " + z.stream->problem();
        close();
        throw std::runtime_error(message);
      }
      if (!has_end && dropped + text.size() == 0) return {};
      z.begin += text.size() + has_end;
      at_ += dropped + text.size() + has_end;
      return zipped_line{text, has_end, dropped};
    }
    z.text.erase(0, z.begin);
    z.begin = 0;
    if (options_.max_line_bytes > 0 && z.text.size() > options_.max_line_bytes + 1) {
      dropped += z.text.size() - 1; // the last byte may be a carriage return
      z.text.erase(0, z.text.size() - 1);
    }
    searched = z.text.size();
    if (stop_.stop_requested()) return {};
    unzip_more();
  }
}

FEEDLINE_INLINE void lines_source::unzip() {
  zipped_.stream = open_text_(file_->bytes(), {});
  unzip_more();
  if (at_ == 0 && zipped_.text.starts_with("\xef\xbb\xbf")) at_ = 3; // a byte order mark of UTF-8
  for (std::size_t left = at_;;) {
    zipped_.begin = std::min(left, zipped_.text.size());
    left -= zipped_.begin;
    if (left == 0 || stop_.stop_requested()) return;
    if (zipped_.has_all)
      throw std::runtime_error(readable(file_->path()) +
                               " has become shorter since the checkpoint was taken");
    zipped_.text.clear();
    unzip_more();
  }
}

FEEDLINE_INLINE void lines_source::unzip_more() {
  const std::size_t before = zipped_.text.size();
  zipped_.text.resize(before + step);
  std::size_t got = 0;
  try {
    got = zipped_.stream->read(reinterpret_cast<std::byte*>(zipped_.text.data() + before), step);
  } catch (...) {
    zipped_.text.resize(before);
    throw;
  }
  zipped_.text.resize(before + got);
  zipped_.has_all = got < step;
}

FEEDLINE_INLINE void lines_source::resumed() {
  if (at_ == closed) return;
  number_ = files_.last();
  const std::size_t at = at_;
  const std::uint64_t line = line_;
  file_ = files_.map_last(0);
  begin_file();
  if (!open_text_) file_ = files_.map_last(at);
  at_ = at;
  line_ = line;
}

FEEDLINE_INLINE void lines_source::seek(std::uint64_t index) {
  if (file_ && number_ == file_order::file_of(index) && line_ <= file_order::place_of(index)) return;
  files_.go_to(file_order::file_of(index));
  close();
}

FEEDLINE_INLINE std::optional<std::size_t> lines_source::max_item_bytes() const noexcept {
  if (options_.max_line_bytes == 0) return std::nullopt;
  return sizeof(std::string) + options_.max_line_bytes + 1;
}

FEEDLINE_INLINE std::size_t lines_source::bytes_held() const noexcept {
  std::size_t most = 0;
  for (const text_opener& o : options_.decompress)
    most = std::max(most, 2 * (step + options_.max_line_bytes) + o.bytes_held); // the text's capacity doubles
  return most;
}

FEEDLINE_INLINE std::string lines_source::origin(std::uint64_t index) const {
  return origin_of_line(files_, index);
}

} // namespace feedline::inline FEEDLINE_ABI::detail
