// SPDX-License-Identifier: MIT
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "support/outcome.hpp"

namespace feedline::test {

/// Bytes for all results that a test stores.
inline constexpr std::uint64_t plenty = 1 << 24;

/// Counts how often it is called.
struct counted {
  std::shared_ptr<std::atomic<int>> calls = std::make_shared<std::atomic<int>>(0);

  int operator()(int n) const {
    ++*calls;
    return 3 * n;
  }

  int since_last() const { return calls->exchange(0); }
};

inline constexpr auto twice_and_text = [](int n) {
  return std::vector<std::string>(static_cast<std::size_t>(n % 3), std::to_string(n));
};

/// The items of several runs, one after another. (Within one run, a worker may reach a sample of the next
/// epoch while another worker still has it in hand.)
template <class Pipeline>
auto in_runs(const Pipeline& p, int runs) {
  auto all = collect(p.finite());
  for (; runs > 1; --runs)
    for (auto& item : collect(p.finite())) all.push_back(std::move(item));
  return all;
}

} // namespace feedline::test
