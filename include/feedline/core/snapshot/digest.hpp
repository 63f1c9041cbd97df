// SPDX-License-Identifier: MIT
#pragma once
// A hash of all samples that a run has delivered, in their order.
#include <array>
#include <cstddef>
#include <cstdint>

#include <feedline/core/random.hpp>
#include <feedline/core/sample.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

class running_digest {
 public:
  running_digest() = default;

  explicit running_digest(std::uint64_t value) : value_(value) {}

  /// Adds the next item, made from one sample.
  void add(const sample_id& id) noexcept { take(value_ += 0x9e3779b97f4a7c15, id.index + word_of(id)); }

  /// Adds the next item, made from these samples.
  void add(const sample_ids& ids) noexcept {
    if (count_up(ids)) return add_run(ids);
    // Four independent sums, as a single one would wait for its own multiplications.
    std::array<std::uint64_t, 4> lanes{ids.size(), 1, 2, 3};
    sample_id last; // most samples share the epoch and the part
    std::uint64_t of_last = 0;
    const auto take_next = [&](std::uint64_t& sum, const sample_id& id) {
      if (id.epoch != last.epoch || id.sub_index != last.sub_index || id.repetition != last.repetition)
          [[unlikely]] {
        last = id;
        of_last = word_of(id);
      }
      take(sum, id.index + of_last);
    };
    const std::size_t whole = ids.size() / lanes.size() * lanes.size();
    for (std::size_t i = 0; i < whole; i += lanes.size())
      for (std::size_t lane = 0; lane < lanes.size(); ++lane) take_next(lanes[lane], ids[i + lane]);
    for (std::size_t i = whole; i < ids.size(); ++i) take_next(lanes[i - whole], ids[i]);
    for (const std::uint64_t lane : lanes) value_ = mix(value_ + 0x9e3779b97f4a7c15 + lane);
  }

  std::uint64_t value() const noexcept { return value_; }

 private:
  static bool count_up(const sample_ids& ids) noexcept {
    return ids.count_up() || ids.empty() || ids == sample_ids(ids.front(), ids.size());
  }

  // However they are stored.
  void add_run(const sample_ids& ids) noexcept {
    value_ += 0x9e3779b97f4a7c15 + ids.size();
    if (!ids.empty()) add(ids.front());
  }

  static std::uint64_t word_of(const sample_id& id) noexcept {
    const std::uint64_t pass = std::uint64_t{id.repetition} << 32 | id.epoch;
    return pass * 0x9e3779b97f4a7c15 + id.sub_index * 0xd1b54a32d192ed03;
  }

  // Each step is a bijection of the sum, so that a difference never disappears.
  static void take(std::uint64_t& sum, std::uint64_t word) noexcept {
    sum ^= word;
    sum *= 0xbf58476d1ce4e5b9;
    sum ^= sum >> 32;
  }

  std::uint64_t value_ = 0;
};

} // namespace feedline::inline FEEDLINE_ABI::detail
