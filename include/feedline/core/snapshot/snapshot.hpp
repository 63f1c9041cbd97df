// SPDX-License-Identifier: MIT
#pragma once
// What a run was at one moment, part by part: from that it can go on in another process.
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include <feedline/core/sample.hpp>
#include <feedline/core/snapshot/held.hpp>
#include <feedline/core/state.hpp>

namespace feedline::inline v0::detail {

/// Everything up to some queue at one moment. Its words are the number of the first segment that has some
/// (those before it are at their beginning), and from there on a section for each segment: how many words,
/// zeros at the end left out, and those words.
struct snapshot {
  std::vector<std::uint64_t> words; // none: the beginning of the run
  held_parts held;

  void clear() noexcept {
    words.clear();
    held.clear();
  }
};

/// A word of the source's section, 0 if there is none.
inline std::uint64_t source_word(const snapshot& c, std::size_t number) noexcept {
  return c.words.size() > 2 + number && c.words[0] == 0 && c.words[1] > number ? c.words[2 + number] : 0;
}

/// The epoch that the source has come to.
inline std::uint64_t epoch_of(const snapshot& c) noexcept { return source_word(c, 0); }

/// Writes one section of a snapshot.
template <class Write>
void write_section(snapshot& target, Write write) {
  const std::size_t begin = target.words.size();
  target.words.push_back(0);
  state_writer writer(target.words);
  write(writer);
  while (target.words.size() > begin + 1 && target.words.back() == 0) target.words.pop_back();
  target.words[begin] = target.words.size() - begin - 1;
}

} // namespace feedline::inline v0::detail
