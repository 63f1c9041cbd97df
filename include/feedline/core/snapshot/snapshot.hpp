// SPDX-License-Identifier: MIT
#pragma once
// The state of a run at one moment, segment by segment, from which it can continue in another process.
#include <cstddef>
#include <cstdint>
#include <vector>

#include <feedline/core/snapshot/held.hpp>
#include <feedline/core/state.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// The state of everything upstream of some queue at one moment. `words` begins with the number of the first
/// segment that has a section (segments before it are at their beginning). Then each segment from there on has
/// a section: its number of words, without the zeros at the end, and those words.
struct snapshot {
  std::vector<std::uint64_t> words; // empty at the beginning of the run
  held_parts held;

  void clear() noexcept {
    words.clear();
    held.clear();
  }
};

/// Whether the source has a section: it has passed its beginning.
inline bool has_source(const snapshot& c) noexcept { return !c.words.empty() && c.words[0] == 0; }

/// A word of the source's section; 0 if it is absent.
inline std::uint64_t source_word(const snapshot& c, std::size_t number) noexcept {
  return has_source(c) && c.words.size() > 2 + number && c.words[1] > number ? c.words[2 + number] : 0;
}

/// The epoch that the source has reached, in a run that began with epoch `first`.
inline std::uint64_t epoch_of(const snapshot& c, std::uint64_t first) noexcept {
  return has_source(c) ? source_word(c, 0) : first;
}

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

} // namespace feedline::inline FEEDLINE_ABI::detail
