// SPDX-License-Identifier: MIT
#pragma once
// The results of a run, for comparisons.
#include <feedline/core/failure.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

namespace feedline::test {

template <class T>
struct outcome {
  std::vector<T> items;
  std::vector<failure> skipped;
  std::optional<failure> failed;

  std::vector<std::uint64_t> skipped_indices() const {
    std::vector<std::uint64_t> indices;
    for (const failure& f : skipped) indices.push_back(f.index);
    return indices;
  }
};

/// Takes items until the stream ends or fails.
template <class Loader>
outcome<typename std::remove_cvref_t<Loader>::value_type> run_to_end(Loader&& loader) {
  outcome<typename std::remove_cvref_t<Loader>::value_type> result;
  try {
    while (auto item = loader.next()) result.items.push_back(std::move(*item));
  } catch (const pipeline_error& error) {
    result.failed = error.failure();
  }
  result.skipped = loader.failures();
  return result;
}

/// Returns all items; throws if the run fails.
template <class Loader>
auto collect(Loader&& loader) {
  std::vector<typename std::remove_cvref_t<Loader>::value_type> items;
  for (auto& item : loader) items.push_back(std::move(item));
  return items;
}

/// The first `count` items, or all if there are fewer.
template <class Loader>
auto collect(Loader&& loader, std::size_t count) {
  std::vector<typename std::remove_cvref_t<Loader>::value_type> items;
  while (items.size() < count) {
    auto item = loader.next();
    if (!item) break;
    items.push_back(std::move(*item));
  }
  return items;
}

/// 0, 1, … size - 1.
inline std::vector<int> count_to(int size) {
  std::vector<int> numbers;
  for (int i = 0; i < size; ++i) numbers.push_back(i);
  return numbers;
}

/// Numbers of threads that must all yield the same result.
inline constexpr std::array<std::size_t, 3> worker_counts{1, 2, 8};

} // namespace feedline::test
