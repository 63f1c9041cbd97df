// SPDX-License-Identifier: MIT
#pragma once
// The samples of TAR sources, as text.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <feedline/source/tar_sample.hpp>

#include "support/catch.hpp"
#include "support/tar_writer.hpp"
#include "support/temporary_folder.hpp"

namespace feedline::test {

/// "key:field=contents,field=contents"
inline std::string as_text(const tar_sample& sample) {
  std::string text = std::string(sample.key()) + ":";
  for (const auto& [name, bytes] : sample)
    text.append(text.back() == ':' ? "" : ",").append(name).append("=").append(sample.text(name));
  return text;
}

/// Each sample as text, or "! message" if next() throws.
template <class Source>
std::vector<std::string> read_all(Source& source, std::vector<std::uint64_t>* indices = nullptr) {
  std::vector<std::string> found;
  for (int calls = 0; calls < 10'000; ++calls) {
    try {
      const auto sample = source.next();
      if (!sample) return found;
      found.push_back(as_text(*sample));
    } catch (const tar_error& error) {
      found.push_back(std::string("! ") + error.what());
    }
    if (indices) indices->push_back(source.index());
  }
  FAIL("the source doesn't end");
  return found;
}

/// The same for one shard with these bytes; messages don't have the folder's name.
template <class Source>
std::vector<std::string> read_bytes(const std::string& bytes, auto... options) {
  static const temporary_folder folder;
  Source source(folder.write("s.tar", bytes), options...);
  std::vector<std::string> found = read_all(source);
  for (std::string& text : found)
    if (const auto at = text.find(folder.path()); at != std::string::npos)
      text.erase(at, folder.path().size() + 1);
  return found;
}

/// Samples with the fields `jpg` and `cls`, whose keys are numbers.
inline tar_writer pairs(int count, int first = 0) {
  tar_writer tar;
  for (int i = first; i < first + count; ++i)
    tar.add(std::to_string(i) + ".jpg", "photo").add(std::to_string(i) + ".cls", std::to_string(i));
  return tar;
}

} // namespace feedline::test
