// SPDX-License-Identifier: MIT
#pragma once
// The options of the checks in feedline/testing.hpp, and the exception that they throw.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <feedline/version.hpp>

namespace feedline::inline FEEDLINE_ABI::testing {

/// Options of check_source() and check_stage().
struct check_options {
  std::uint64_t seed = 1;   ///< of every run
  std::uint32_t epochs = 2; ///< of a finite run
  /// The most items of a run after which it is stopped, resumed or made to fail; they are evenly spread.
  std::size_t places = 30;
  /// The most samples of an epoch, or items of a run. A source or a stage that yields more is refused, as its
  /// check would take too long.
  std::size_t most_items = 1000;
  /// A source may yield a sample several times in an epoch, as with_replacement() does.
  bool may_repeat = false;
  /// A source may yield other samples in another epoch, or in another order of files.
  bool epochs_differ = false;
  /// A stage changes no item and loses none: in finite mode it emits each item of an epoch once, in any
  /// order.
  bool keeps_all = false;
  /// All sizes are known, from the types or from max_item_bytes(), so that a run with a memory_budget must
  /// work.
  bool has_budget = false;
  /// The longest time for one step of a check. A step that takes longer hangs.
  std::chrono::seconds patience{30};
};

/// A source or a stage breaks a promise that the library makes to its users. what() has a sentence for each
/// broken promise: which one, where it was noticed, and what to change.
class broken_promise : public std::runtime_error {
 public:
  /// A sentence for each broken promise.
  explicit broken_promise(std::vector<std::string> sentences)
      : std::runtime_error(joined(sentences)), sentences_(std::move(sentences)) {}

  /// One for each broken promise.
  const std::vector<std::string>& sentences() const noexcept { return sentences_; }

 private:
  static std::string joined(const std::vector<std::string>& sentences) {
    std::string text;
    for (const std::string& sentence : sentences) text += (text.empty() ? "" : "\n") + sentence;
    return text;
  }

  std::vector<std::string> sentences_;
};

} // namespace feedline::inline FEEDLINE_ABI::testing
