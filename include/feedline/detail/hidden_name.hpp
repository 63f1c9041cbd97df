// SPDX-License-Identifier: MIT
#pragma once
// Which names of files are hidden: such files are no samples.
#include <string_view>

#include <feedline/version.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// Whether a file or a folder with this name is hidden: the name begins with a dot, as those of `.DS_Store`, `._17.jpg`
/// and `.ipynb_checkpoints` do, or is `__MACOSX`, the folder that macOS adds to archives.
constexpr bool is_hidden(std::string_view name) noexcept {
  return name == "__MACOSX" || (name.starts_with('.') && name != "." && name != "..");
}

/// Whether a part of the path is hidden.
constexpr bool has_hidden_part(std::string_view path) noexcept {
  for (;;) {
    const std::string_view part = path.substr(0, path.find('/'));
    if (is_hidden(part)) return true;
    if (part.size() == path.size()) return false;
    path.remove_prefix(part.size() + 1);
  }
}

} // namespace feedline::inline FEEDLINE_ABI::detail
