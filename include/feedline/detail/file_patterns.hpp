// SPDX-License-Identifier: MIT
#pragma once
// Turns patterns like `data/train-{0000..0146}.tar` and `data/*.tar` into lists of files.
#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <glob.h>
#include <unistd.h>

namespace feedline::detail {

/// No pattern gives more files.
inline constexpr std::size_t most_files = std::size_t{1} << 24;

[[noreturn]] inline void too_many_files(std::string_view pattern) {
  throw std::length_error("`" + std::string(pattern) + "` names more than 16777216 files");
}

/// The alternatives of one brace: "a,b" or "08..10", padded with zeros if one end is. None if it is neither.
inline std::vector<std::string> brace_alternatives(std::string_view body) {
  std::vector<std::string> alternatives;
  if (const std::size_t dots = body.find(".."); dots != std::string_view::npos) {
    const auto first_text = body.substr(0, dots), last_text = body.substr(dots + 2);
    const auto number = [](std::string_view text, std::uint64_t& value) {
      const char* const end = text.data() + text.size();
      const auto [stop, error] = std::from_chars(text.data(), end, value);
      return error == std::errc() && stop == end;
    };
    std::uint64_t first = 0, last = 0;
    if (!number(first_text, first) || !number(last_text, last)) return {};
    if ((first < last ? last - first : first - last) >= most_files) too_many_files(body);
    const bool padded =
        (first_text.size() > 1 && first_text[0] == '0') || (last_text.size() > 1 && last_text[0] == '0');
    const std::size_t width = padded ? std::max(first_text.size(), last_text.size()) : 0;
    for (std::uint64_t i = first;; first < last ? ++i : --i) {
      std::string digits = std::to_string(i);
      if (digits.size() < width) digits.insert(0, width - digits.size(), '0');
      alternatives.push_back(std::move(digits));
      if (i == last) return alternatives;
    }
  }
  if (body.find(',') == std::string_view::npos) return {};
  for (;;) {
    const std::size_t comma = body.find(',');
    alternatives.emplace_back(body.substr(0, comma));
    if (comma == std::string_view::npos) return alternatives;
    body.remove_prefix(comma + 1);
  }
}

/// `x-{0..2}{a,b}` spelled out, the last brace fastest. Braces don't nest; one that holds neither a list nor
/// a range of numbers stands for itself.
inline std::vector<std::string> expand_braces(std::string_view pattern) {
  std::vector<std::string> names{""};
  const auto append = [&](std::string_view text) {
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
      if (names.size() > most_files / alternatives.size()) too_many_files(pattern);
      std::vector<std::string> longer;
      longer.reserve(names.size() * alternatives.size());
      for (const std::string& name : names)
        for (const std::string& alternative : alternatives) longer.push_back(name + alternative);
      names = std::move(longer);
    }
    pattern.remove_prefix(close + 1);
  }
}

/// Adds the files that a pattern means to `files`. A file with exactly this name is meant before anything
/// else. Braces are spelled out, each name there or not; a name with wildcards (`*`, `?`, `[`; see glob(3))
/// is what exists of it, in the order of the bytes, whatever the locale. Throws std::runtime_error if that is
/// nothing.
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

    struct found_files : glob_t {
      found_files() : glob_t{} {}

      found_files(const found_files&) = delete;
      found_files& operator=(const found_files&) = delete;

      ~found_files() { ::globfree(this); }
    } found;

    if (const int error = ::glob(name.c_str(), GLOB_NOSORT, nullptr, &found); error != 0)
      throw std::runtime_error((error == GLOB_NOMATCH ? "no file matches `" : "can't search for `") + name +
                               "`");
    const auto old_size = static_cast<std::ptrdiff_t>(files.size());
    files.insert(files.end(), found.gl_pathv, found.gl_pathv + found.gl_pathc);
    std::sort(files.begin() + old_size, files.end());
  }
}

} // namespace feedline::detail
