// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/source/files.hpp>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include <fcntl.h>

#include <feedline/core/random.hpp>
#include <feedline/detail/file_search.hpp>
#include <feedline/detail/kernel.hpp>
#include <feedline/detail/mapped_file.hpp>
#include <feedline/detail/open_file.hpp>
#include <feedline/detail/readable_text.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE files_source::files_source(const std::string& directory, const file_patterns& patterns,
                                           files_options options) {
  file_search::expect_folder(directory);
  std::vector<std::string> names;
  std::string listed;
  for (const std::string& pattern : patterns.names()) {
    file_search search(pattern, file_search::kind::regular_files, options.hidden);
    if (options.recursive) search.look_everywhere();
    for (std::string& name : search.in(directory + "/")) names.push_back(std::move(name));
    listed += (listed.empty() ? "" : " or ") + in_backticks(pattern);
  }
  if (patterns.names().empty()) throw std::invalid_argument("feedline::files: the list of patterns is empty");
  if (names.empty()) throw std::runtime_error("no file in " + in_backticks(directory) + " matches " + listed);
  if (patterns.names().size() > 1) { // each search sorts its names
    std::sort(names.begin(), names.end());
    names.erase(std::unique(names.begin(), names.end()), names.end());
  }
  found_ = std::make_shared<const listing>(listing{std::move(names), options.read_ahead});
}

FEEDLINE_INLINE void files_source::will_need(std::uint64_t position) const noexcept {
  if (!found_->reads_ahead) return;
  constexpr std::uint64_t max_bytes = std::uint64_t{8} << 20;
  // Without O_NONBLOCK, opening a file that was replaced by a named pipe would wait for its writer.
  const open_file file(
      ::open(found_->names[static_cast<std::size_t>(position)].c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file) read_soon(file.number(), std::min(max_bytes, file.size()));
}

FEEDLINE_INLINE std::uint64_t files_source::fingerprint(std::uint64_t extent) const {
  std::uint64_t hash = key(extent);
  for (std::size_t i = 0; i < extent; ++i) hash = key(hash, stable_hash(last_name(found_->names[i])));
  return hash;
}

FEEDLINE_INLINE std::optional<std::size_t> files_source::max_item_bytes() const noexcept {
  std::size_t longest = 0;
  for (const std::string& name : found_->names) longest = std::max(longest, name.size());
  return sizeof(std::string) + longest + 1;
}

FEEDLINE_INLINE std::string files_source::origin(std::uint64_t index) const {
  return index < found_->names.size() ? readable(found_->names[index]) : std::string();
}

} // namespace feedline::inline FEEDLINE_ABI::detail
