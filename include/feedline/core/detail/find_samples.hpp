// SPDX-License-Identifier: MIT
#pragma once
// Samples of an epoch that are wanted once more: those that stages held when a run was left, or one to replay.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include <feedline/core/detail/cut.hpp>
#include <feedline/core/epoch.hpp>
#include <feedline/core/sample.hpp>
#include <feedline/core/source.hpp>

namespace feedline::detail {

/// A sample that is wanted, so many times.
struct wanted_index {
  std::uint64_t index;
  std::size_t often;
};

/// The samples that a stage held, epoch by epoch, by rising index. Of one that it held several times as the same,
/// all are wanted.
inline std::map<std::uint32_t, std::vector<wanted_index>> indices_of(std::vector<sample_id> ids) {
  const auto by_sample = [](const sample_id& id) { return std::tuple(id.epoch, id.index, id.part); };
  std::sort(ids.begin(), ids.end(),
            [&](const sample_id& a, const sample_id& b) { return by_sample(a) < by_sample(b); });
  std::map<std::uint32_t, std::vector<wanted_index>> all;
  std::size_t same = 0;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    same = i > 0 && ids[i] == ids[i - 1] ? same + 1 : 1;
    std::vector<wanted_index>& of_epoch = all[ids[i].epoch];
    if (of_epoch.empty() || of_epoch.back().index != ids[i].index) of_epoch.push_back({ids[i].index, 0});
    of_epoch.back().often = std::max(of_epoch.back().often, same);
  }
  return all;
}

/// The stages that held samples, the last one first: what an earlier one then gives, they must be ready for.
inline std::vector<held> in_order_of_refill(const held_parts& parts) {
  std::vector<held> all(parts.begin(), parts.end());
  std::sort(all.begin(), all.end(), [](const held& a, const held& b) { return a.place > b.place; });
  return all;
}

template <source Source>
void start_source(Source& source, const epoch& e) {
  if constexpr (requires { source.start_epoch(e); }) source.start_epoch(e);
}

template <source Source>
inline constexpr bool has_index = requires(const Source& s) { s.index(); };

/// The index of the sample that the source gave last, its `ordinal`-th.
template <source Source>
std::uint64_t index_of(const Source& source, std::uint64_t ordinal) {
  if constexpr (has_index<Source>) return source.index();
  else return ordinal;
}

/// Gives those samples of an epoch to f(value, index), in any order, until f returns false. What can't be had is
/// left out; `failed()` is called while an error is being handled. Null, or why it gave up, before a sample that is
/// wanted, on a source that may never end: "has given 100 million others".
template <source Source, class F, class Failed>
const char* find_samples(Source& source, std::vector<wanted_index> wanted, const std::atomic<bool>& stopped,
                         std::uint64_t most_others, F f, Failed failed) {
  constexpr std::uint64_t most_failures = 100'000;
  std::uint64_t given = 0;
  bool goes_on = true;
  const char* gave_up = nullptr;
  // Shows samples to `take(value, index)` until that returns true; false if there are no more.
  const auto read_until = [&](auto take) {
    std::uint64_t others = 0, failures = 0; // those in a row
    while (goes_on && !gave_up && !stopped.load(std::memory_order_relaxed)) {
      try {
        auto value = source.next();
        if (!value) return false;
        const std::uint64_t index = index_of(source, given++);
        failures = 0;
        if (take(*value, index)) return true;
        if (++others == most_others) gave_up = "has given 100 million others";
      } catch (...) { // a sample that nobody wants, or that can't be had
        if (++failures == most_failures) gave_up = "has failed 100,000 times in a row";
        failed();
      }
    }
    return false;
  };
  if constexpr (requires { source.go_near(given); }) {
    for (const wanted_index& w : wanted) {
      bool found = true;
      for (std::size_t times = 0; times < w.often && found && goes_on; ++times) {
        found = false;
        try {
          source.go_near(w.index);
          found = read_until([&](auto& value, std::uint64_t index) {
            if (index == w.index) goes_on = f(std::move(value), index);
            return index == w.index;
          });
        } catch (...) { // its file can't be read
          failed();
        }
      }
    }
  } else {
    std::size_t left = wanted.size();
    read_until([&](auto& value, std::uint64_t index) {
      const auto found = std::lower_bound(wanted.begin(), wanted.end(), index,
                                          [](const wanted_index& w, std::uint64_t i) { return w.index < i; });
      if (found == wanted.end() || found->index != index || found->often == 0) return left == 0;
      left -= --found->often == 0;
      goes_on = f(std::move(value), index);
      return left == 0;
    });
  }
  return gave_up;
}

} // namespace feedline::detail
