// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <feedline/core/epoch.hpp>

namespace feedline::test {

/// The exception that the fakes throw; nothing else throws it.
struct unlucky : std::runtime_error {
  explicit unlucky(int n) : std::runtime_error("unlucky " + std::to_string(n)), number(n) {}

  int number;
};

/// A source of 0, 1, … count - 1, plus a million in each further epoch. For the numbers in `unlucky` it
/// throws instead.
class numbers {
 public:
  static constexpr feedline::source_traits traits{.kind = "numbers"};
  static constexpr int next_epoch = 1'000'000;

  explicit numbers(int count, std::vector<int> bad = {}) : count_(count), bad_(std::move(bad)) {}

  void start_epoch(const epoch& e) { first_ = static_cast<int>(e.number % 1000) * next_epoch; }

  std::optional<int> next() {
    if (at_ == count_) return std::nullopt;
    const int number = first_ + at_++;
    if (std::find(bad_.begin(), bad_.end(), number) != bad_.end()) throw unlucky(number);
    return number;
  }

  std::uint64_t index() const { return static_cast<std::uint64_t>(at_ - 1); }

  std::string origin(std::uint64_t index) const { return "number " + std::to_string(index); }

 private:
  int count_;
  std::vector<int> bad_;
  int first_ = 0;
  int at_ = 0;
};

} // namespace feedline::test
