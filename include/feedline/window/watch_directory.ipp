// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/window/watch_directory.hpp>

#include <stdexcept>

#include <feedline/detail/file_search.hpp>
#include <feedline/detail/readable_text.hpp>
#include <feedline/window/detail/watched_tree.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE directory_source::directory_source(std::string directory, const file_patterns& patterns,
                                                   const watch_options& options)
    : directory_(std::move(directory)), patterns_(patterns), options_(options) {
  if (patterns.names().empty())
    throw std::invalid_argument("feedline::watch_directory: the list of patterns is empty");
  for (const std::string& pattern : patterns.names())
    if (pattern.empty() || pattern.find('/') != std::string::npos)
      throw std::invalid_argument(
          "feedline::watch_directory: the pattern " + in_backticks(pattern) +
          " must match names of files, in all directories below: it can't contain a slash");
  file_search::expect_folder(directory_);
  while (directory_.size() > 1 && directory_.back() == '/') directory_.pop_back();
}

FEEDLINE_INLINE void directory_source::start_epoch(const epoch& e) {
  const watched_tree::settings settings{directory_, patterns_.names(), options_.newest_first,
                                        options_.hidden};
  tree_ = std::make_shared<watched_tree>(settings, e.endless, e.stop);
}

FEEDLINE_INLINE bool directory_source::ready() const { return tree_->ready(); }

FEEDLINE_INLINE std::optional<watched_file> directory_source::next() {
  watched_file file;
  switch (tree_->next(file.path)) {
  case watched_tree::step::at_start:
    break;
  case watched_tree::step::scan_complete:
    file.what = watched_file::kind::scan_complete;
    break;
  case watched_tree::step::arrived:
    file.what = watched_file::kind::arrived;
    break;
  case watched_tree::step::end:
    return std::nullopt;
  }
  return file;
}

FEEDLINE_INLINE std::optional<std::size_t> directory_source::max_item_bytes() const noexcept {
  constexpr std::size_t longest_path = 4096;
  return sizeof(watched_file) + longest_path;
}

} // namespace feedline::inline FEEDLINE_ABI::detail
