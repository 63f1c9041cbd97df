// SPDX-License-Identifier: MIT
#pragma once
// Expands patterns like `data/train-{0000..0146}.tar` and `data/**/*.tar` into lists of files.
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <dirent.h>

#include <feedline/version.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// The most files that one pattern may name.
inline constexpr std::size_t most_files = std::size_t{1} << 24;

[[noreturn]] void too_many_files(std::string_view pattern);

/// Throws std::length_error if this many names, of this many bytes on average, exceed 1 GB.
void check_length_of_names(std::string_view pattern, std::uint64_t names, std::uint64_t bytes_each);

/// The alternatives in one pair of braces: "a,b", or "08..10", padded with zeros if either end is. Empty if the
/// text is neither. As in a shell, "1..2,5" means "1..2" and "5".
std::vector<std::string> brace_alternatives(std::string_view body);

/// The scheme of a URL, such as "https://"; empty for other names.
std::string_view scheme_of(std::string_view name) noexcept;

/// Expands `x-{0..2}{a,b}`; the last braces vary fastest. Braces don't nest; a pair that holds neither a list
/// nor a range of numbers stands for itself. Messages have `whole` for the pattern.
std::vector<std::string> expand_braces(std::string_view pattern, std::string_view whole);

inline std::vector<std::string> expand_braces(std::string_view pattern) {
  return expand_braces(pattern, pattern);
}

/// Whether a name of a file or folder matches a pattern (see fnmatch(3)). Wildcards match a leading dot, and `__MACOSX`,
/// only with `hidden`.
bool matches_name(const std::string& pattern, const char* name, bool hidden) noexcept;

/// Finds the files that match a pattern of folders and files. `*`, `?` and `[…]` match within one name. `**` matches any
/// number of folders, but follows no links to folders. Wildcards match hidden names only with `hidden`.
class file_search {
 public:
  /// What to find: regular files, also through links, or everything except folders.
  enum class kind { regular_files, anything_but_folders };

  file_search(std::string_view pattern, kind wanted, bool hidden = false);

  /// Searches subfolders as well.
  void look_everywhere();

  /// The matching paths, sorted by their bytes. `folder` is empty or ends with a slash. Throws
  /// std::system_error for a folder that can't be listed.
  std::vector<std::string> in(const std::string& folder);

  /// Throws std::system_error if the folder doesn't exist or can't be listed.
  static void expect_folder(const std::string& folder) {
    if (const int error = for_each_entry(folder, [](const dirent&) {}); error != 0) fail(error, folder);
  }

 private:
  static constexpr const char* anywhere = "**";

  // Adjacent `**` are equivalent to one.
  void add_part(std::string_view part);

  [[noreturn]] static void fail(int error, const std::string& folder);

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

  void search(const std::string& folder, std::size_t number);

  void add(std::string path);

  static bool is_a(const std::string& path, ::mode_t type);

  kind wanted_;
  bool hidden_;
  std::vector<std::string> parts_;
  std::vector<std::string> found_;
};

/// Adds the files that a pattern names to `files`. A file with exactly this name has precedence. Braces are
/// expanded whether the files exist or not; names with wildcards are searched with file_search. Throws
/// std::runtime_error if no file matches, and std::system_error for a folder that can't be listed.
void append_files(std::vector<std::string>& files, const std::string& pattern);

} // namespace feedline::inline FEEDLINE_ABI::detail

#ifndef FEEDLINE_COMPILED
#include <feedline/detail/file_search.ipp>
#endif
