// SPDX-License-Identifier: MIT
#pragma once
// The options of the checks of feedline/testing.hpp, and what they throw.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace feedline::inline v0::testing {

/// Options of check_source() and check_stage().
struct check_options {
  std::uint64_t seed = 1;   ///< of every run
  std::uint32_t epochs = 2; ///< of a finite run
  /// Where a run is stopped, resumed or fails: after at most this many of its items, evenly spread.
  std::size_t places = 30;
  /// The most samples of an epoch, or items of a run: a source or a stage that gives more is refused, as checking it
  /// would take too long.
  std::size_t most_items = 1000;
  /// A source may give a sample several times in an epoch, as with_replacement() does.
  bool may_repeat = false;
  /// A source may give other samples in another epoch, or in another order of files.
  bool epochs_differ = false;
  /// A stage changes no item and loses none: in finite mode it gives each of an epoch once, in any order.
  bool keeps_all = false;
  /// All sizes are known, from the types or from largest_item(), so that a run with a memory_budget must be possible.
  bool has_budget = false;
  /// So long may one step of a check take. What takes longer hangs.
  std::chrono::seconds patience{30};
};

/// A source or a stage doesn't keep what the library promises to its users. what() has a sentence for each promise
/// that is broken: which one, where it was noticed, and what to change.
class broken_promise : public std::runtime_error {
 public:
  explicit broken_promise(std::vector<std::string> sentences)
      : std::runtime_error(joined(sentences)), sentences_(std::move(sentences)) {}

  const std::vector<std::string>& sentences() const noexcept { return sentences_; }

 private:
  static std::string joined(const std::vector<std::string>& sentences) {
    std::string text;
    for (const std::string& sentence : sentences) text += (text.empty() ? "" : "\n") + sentence;
    return text;
  }

  std::vector<std::string> sentences_;
};

} // namespace feedline::inline v0::testing
