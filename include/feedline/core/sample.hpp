// SPDX-License-Identifier: MIT
#pragma once
// What travels through a pipeline, a value with its identity, and what a user's function may know of it.
#include <compare>
#include <cstdint>
#include <optional>
#include <stop_token>
#include <string_view>

#include <feedline/core/metrics/thread_counters.hpp>
#include <feedline/core/random.hpp>

namespace feedline::inline v0 {

/// Which sample a value comes from: the same in every epoch, with any number of workers.
struct sample_id {
  static constexpr std::uint64_t no_index = ~std::uint64_t{0};

  std::uint64_t index = no_index; ///< the source's index of the sample, unique over all its files
  std::uint64_t part = 0;         ///< which of the items that were made of it, as by flat_map
  std::uint32_t epoch = 0;        ///< the epoch in which the source gave it, from 0

  friend auto operator<=>(const sample_id&, const sample_id&) = default;
};

/// A value and its identity. Stages that hold items back or give them in another order take and give these.
template <class T>
struct sample {
  T value;
  sample_id id;
};

namespace detail {

/// Times a wait inside a function of the user's.
class waiting_inside {
 public:
  explicit waiting_inside(stage_counters* counters) {
    if (counters) timer_.emplace(*counters->thread, wait_kind::inside);
  }

  waiting_inside(const waiting_inside&) = delete;

 private:
  std::optional<wait_timer> timer_;
};

} // namespace detail

/// What a function `(item, context)` is told beside the item. Two calls for the same sample, epoch, seed and
/// stage see the same numbers, whichever worker makes them.
struct context {
  std::uint64_t index;
  std::uint64_t part;
  std::uint32_t epoch;
  random_generator random;                    ///< this call's own, keyed by (seed, stage, epoch, index, part)
  const std::stop_token& stop;                ///< asks a long call to give up; valid during the call
  detail::stage_counters* counters = nullptr; ///< the run's

  /// Adds to a counter of that name, which metrics() gives with the stage's.
  void count(std::string_view name, std::uint64_t times = 1) const {
    if (counters) counters->numbers.count(name, times);
  }

  /// As long as what it returns lives the thread counts as waiting, not as busy: for a disk or a network, say. One at a
  /// time.
  detail::waiting_inside waiting() const { return detail::waiting_inside(counters); }
};

namespace detail {

/// The identity of item k of those that a stage makes of one sample. Where several stages do so parts are hashes:
/// two of a sample are equal with a chance of one in 2^64.
inline sample_id part_of(sample_id id, std::uint64_t k) noexcept {
  id.part = id.part == 0 ? k : key(id.part, k);
  return id;
}

inline context make_context(const sample_id& id, std::uint64_t stage_key, const std::stop_token& stop,
                            stage_counters* counters = nullptr) {
  return {id.index, id.part, id.epoch, random_generator(key(stage_key, id.epoch, id.index, id.part)),
          stop,     counters};
}

} // namespace detail

} // namespace feedline::inline v0
