// SPDX-License-Identifier: MIT
#pragma once
// Expands patterns like `data/train-{0000..0146}.tar` and `data/**/*.tar` into lists of files.
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <dirent.h>
#include <fnmatch.h>
#include <sys/stat.h>
#include <unistd.h>

#include <feedline/detail/hidden_name.hpp>
#include <feedline/detail/readable_text.hpp>
#include <feedline/version.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// The most files that one pattern may name.
inline constexpr std::size_t most_files = std::size_t{1} << 24;

[[noreturn]] inline void too_many_files(std::string_view pattern) {
  throw std::length_error(in_backticks(pattern) + " names more than 16777216 files: use a narrower pattern");
}

/// Throws std::length_error if this many names, of this many bytes on average, exceed 1 GB.
inline void check_length_of_names(std::string_view pattern, std::uint64_t names, std::uint64_t bytes_each) {
  constexpr std::uint64_t most = std::uint64_t{1} << 30;
  if (bytes_each > most || names * bytes_each > most) // there are fewer than 2^25 names
    throw std::length_error(in_backticks(pattern) +
                            " names files whose names take more than 1 GB: use a narrower pattern");
}

/// The alternatives in one pair of braces: "a,b", or "08..10", padded with zeros if either end is, or "0..8..2" in steps. Empty
/// if the text is none of these. As in a shell, "1..2,5" means "1..2" and "5".
inline std::vector<std::string> brace_alternatives(std::string_view body) {
  std::vector<std::string> alternatives;
  const std::size_t dots = body.find("..");
  const bool is_list = body.find(',') != std::string_view::npos;
  if (!is_list && dots != std::string_view::npos) {
    const auto first_text = body.substr(0, dots);
    auto last_text = body.substr(dots + 2), step_text = std::string_view("1");
    if (const std::size_t more = last_text.find(".."); more != std::string_view::npos) {
      step_text = last_text.substr(more + 2);
      last_text = last_text.substr(0, more);
    }
    const auto number = [](std::string_view text, std::uint64_t& value) {
      const char* const end = text.data() + text.size();
      const auto [stop, error] = std::from_chars(text.data(), end, value);
      return error == std::errc() && stop == end;
    };
    std::uint64_t first = 0, last = 0, step = 0;
    if (!number(first_text, first) || !number(last_text, last) || !number(step_text, step) || step == 0)
      return {};
    const std::uint64_t steps = (first < last ? last - first : first - last) / step;
    if (steps >= most_files) too_many_files(body);
    const bool padded =
        (first_text.size() > 1 && first_text[0] == '0') || (last_text.size() > 1 && last_text[0] == '0');
    const std::size_t width = padded ? std::max(first_text.size(), last_text.size()) : 0;
    check_length_of_names(body, steps + 1, width);
    for (std::uint64_t i = 0; i <= steps; ++i) {
      std::string digits = std::to_string(first < last ? first + i * step : first - i * step);
      if (digits.size() < width) digits.insert(0, width - digits.size(), '0');
      alternatives.push_back(std::move(digits));
    }
    return alternatives;
  }
  if (!is_list) return {};
  for (;;) {
    const std::size_t comma = body.find(',');
    alternatives.emplace_back(body.substr(0, comma));
    if (comma == std::string_view::npos) return alternatives;
    body.remove_prefix(comma + 1);
  }
}

/// The scheme of a URL, such as "https://"; empty for other names.
inline std::string_view scheme_of(std::string_view name) noexcept {
  const std::size_t end = name.find("://");
  if (end == std::string_view::npos || end == 0) return {};
  for (const char c : name.substr(0, end))
    if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '+' ||
          c == '-' || c == '.'))
      return {};
  return name.substr(0, end + 3);
}

/// Expands `x-{0..2}{a,b}`; the last braces vary fastest. Braces don't nest; a pair that holds neither a list
/// nor a range of numbers stands for itself. Messages have `whole` for the pattern.
inline std::vector<std::string> expand_braces(std::string_view pattern, std::string_view whole) {
  std::vector<std::string> names{""};
  std::size_t longest = 0; // upper bound of their lengths
  const auto append = [&](std::string_view text) {
    check_length_of_names(whole, names.size(), longest += text.size());
    for (std::string& name : names) name += text;
  };
  for (;;) {
    const std::size_t open = pattern.find('{'), close = pattern.find('}', open);
    if (open == std::string_view::npos || close == std::string_view::npos) {
      append(pattern);
      return names;
    }
    append(pattern.substr(0, open));
    const auto alternatives = brace_alternatives(pattern.substr(open + 1, close - open - 1));
    if (alternatives.empty()) {
      append(pattern.substr(open, close + 1 - open));
    } else {
      if (names.size() > most_files / alternatives.size()) too_many_files(whole);
      const auto shorter = [](const std::string& a, const std::string& b) { return a.size() < b.size(); };
      longest += std::max_element(alternatives.begin(), alternatives.end(), shorter)->size();
      check_length_of_names(whole, names.size() * alternatives.size(), longest);
      std::vector<std::string> longer;
      longer.reserve(names.size() * alternatives.size());
      for (const std::string& name : names)
        for (const std::string& alternative : alternatives) longer.push_back(name + alternative);
      names = std::move(longer);
    }
    pattern.remove_prefix(close + 1);
  }
}

inline std::vector<std::string> expand_braces(std::string_view pattern) {
  return expand_braces(pattern, pattern);
}

/// Whether a name of a file or folder matches a pattern (see fnmatch(3)). Wildcards match a leading dot, and `__MACOSX`,
/// only with `hidden`.
inline bool matches_name(const std::string& pattern, const char* name, bool hidden) noexcept {
  if (::fnmatch(pattern.c_str(), name, hidden ? 0 : FNM_PERIOD) != 0) return false;
  return hidden || !is_hidden(name) || name[0] == '.' || pattern == name;
}

/// Finds the files that match a pattern of folders and files. `*`, `?` and `[…]` match within one name. `**` matches any
/// number of folders, but follows no links to folders. Wildcards match hidden names only with `hidden`.
class file_search {
 public:
  /// What to find: regular files, also through links, or everything except folders.
  enum class kind { regular_files, anything_but_folders };

  file_search(std::string_view pattern, kind wanted, bool hidden = false) : wanted_(wanted), hidden_(hidden) {
    while (!pattern.empty()) {
      const std::size_t slash = std::min(pattern.find('/'), pattern.size());
      add_part(pattern.substr(0, slash));
      pattern.remove_prefix(std::min(slash + 1, pattern.size()));
    }
    if (!parts_.empty() && parts_.back() == anywhere) parts_.emplace_back("*");
  }

  /// Searches subfolders as well.
  void look_everywhere() {
    if (parts_.empty() || parts_.front() != anywhere) parts_.emplace(parts_.begin(), anywhere);
  }

  /// The matching paths, sorted by their bytes. `folder` is empty or ends with a slash. Throws
  /// std::system_error for a folder that can't be listed.
  std::vector<std::string> in(const std::string& folder) {
    found_.clear();
    if (!parts_.empty()) search(folder, 0);
    std::sort(found_.begin(), found_.end());
    found_.erase(std::unique(found_.begin(), found_.end()), found_.end());
    return std::move(found_);
  }

  /// Throws std::system_error if the folder doesn't exist or can't be listed.
  static void expect_folder(const std::string& folder) {
    if (const int error = for_each_entry(folder, [](const dirent&) {}); error != 0) fail(error, folder);
  }

 private:
  static constexpr const char* anywhere = "**";

  // Adjacent `**` are equivalent to one.
  void add_part(std::string_view part) {
    if (part.empty() || (part == anywhere && !parts_.empty() && parts_.back() == anywhere)) return;
    parts_.emplace_back(part);
  }

  [[noreturn]] static void fail(int error, const std::string& folder) {
    throw std::system_error(error, std::generic_category(), "can't list the folder " + readable(folder));
  }

  /// Returns 0, or the errno value if the folder can't be listed.
  template <class F>
  static int for_each_entry(const std::string& folder, F f) {
    const std::unique_ptr<DIR, int (*)(DIR*)> listing(::opendir(folder.empty() ? "." : folder.c_str()),
                                                      ::closedir);
    if (!listing) return errno;
    for (;;) {
      errno = 0;
      const dirent* const entry = ::readdir(listing.get());
      if (!entry) return errno;
      const std::string_view name = entry->d_name;
      if (name != "." && name != "..") f(*entry);
    }
  }

  // Reads all names before the search descends, so that no folder's descriptor stays open meanwhile.
  template <class Wanted>
  static std::vector<std::string> names_in(const std::string& folder, Wanted wanted) {
    std::vector<std::string> names;
    const int error = for_each_entry(folder, [&](const dirent& entry) {
      if (wanted(entry)) names.emplace_back(entry.d_name);
    });
    if (error != 0 && error != ENOENT && error != ENOTDIR) fail(error, folder);
    return names;
  }

  void search(const std::string& folder, std::size_t number) {
    const std::string& part = parts_[number];
    const bool is_last = number + 1 == parts_.size();
    if (part == anywhere) {
      search(folder, number + 1);
      const auto is_folder = [&](const dirent& entry) {
        if (!hidden_ && is_hidden(entry.d_name)) return false;
        if (entry.d_type != DT_UNKNOWN) return entry.d_type == DT_DIR;
        struct stat status {};
        return ::lstat((folder + entry.d_name).c_str(), &status) == 0 && S_ISDIR(status.st_mode);
      };
      for (const std::string& name : names_in(folder, is_folder)) search(folder + name + "/", number);
    } else if (part.find_first_of("*?[\\") == std::string::npos) {
      if (is_last) add(folder + part);
      else search(folder + part + "/", number + 1);
    } else {
      const auto matches = [&](const dirent& entry) { return matches_name(part, entry.d_name, hidden_); };
      for (const std::string& name : names_in(folder, matches)) {
        if (is_last) add(folder + name);
        else if (is_a(folder + name, S_IFDIR)) search(folder + name + "/", number + 1);
      }
    }
  }

  void add(std::string path) {
    struct stat status {};

    const bool is_there = ::lstat(path.c_str(), &status) == 0;
    if (!is_there && errno != ENOENT && errno != ENOTDIR)
      throw std::system_error(errno, std::generic_category(), readable(path));
    if (!is_there || is_a(path, S_IFDIR)) return;
    if (wanted_ == kind::regular_files && !is_a(path, S_IFREG)) return;
    found_.push_back(std::move(path));
  }

  static bool is_a(const std::string& path, ::mode_t type) {
    struct stat status {};

    return ::stat(path.c_str(), &status) == 0 && (status.st_mode & S_IFMT) == type;
  }

  kind wanted_;
  bool hidden_;
  std::vector<std::string> parts_;
  std::vector<std::string> found_;
};

/// Adds the files that a pattern names to `files`. A file with exactly this name has precedence. Braces are
/// expanded whether the files exist or not; names with wildcards are searched with file_search. Throws
/// std::runtime_error if no file matches, and std::system_error for a folder that can't be listed.
inline void append_files(std::vector<std::string>& files, const std::string& pattern) {
  const bool special = pattern.find_first_of("*?[{") != std::string::npos;
  if (!special || ::access(pattern.c_str(), F_OK) == 0) {
    files.push_back(pattern);
    return;
  }
  for (std::string& name : expand_braces(pattern)) {
    if (name.find_first_of("*?[") == std::string::npos) {
      files.push_back(std::move(name));
      continue;
    }
    auto found =
        file_search(name, file_search::kind::anything_but_folders).in(name.front() == '/' ? "/" : "");
    if (found.empty()) throw std::runtime_error("no file matches " + in_backticks(name));
    files.insert(files.end(), std::make_move_iterator(found.begin()), std::make_move_iterator(found.end()));
  }
}

} // namespace feedline::inline FEEDLINE_ABI::detail
