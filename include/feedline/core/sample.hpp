// SPDX-License-Identifier: MIT
#pragma once
// The items of a pipeline, values with their identities, and the context of a user's function.
#include <cstdint>
#include <optional>
#include <stop_token>
#include <string_view>

#include <feedline/core/metrics/thread_counters.hpp>
#include <feedline/core/random.hpp>

namespace feedline::inline FEEDLINE_ABI {

/// The sample that a value was made from: the same in every epoch, with any number of workers.
struct sample_id {
  static constexpr std::uint64_t no_index = ~std::uint64_t{0}; ///< no sample

  std::uint64_t index = no_index; ///< the source's index of the sample, unique over all its files
  std::uint64_t sub_index = 0;    ///< which of the items that were made from it, as by flat_map
  std::uint32_t epoch = 0;        ///< the epoch in which the source yielded it, from 0
  /// Tells apart the times that the epoch has this sample: with_replacement() numbers its draws, mix() the passes over a
  /// source that it repeats. 0 where a source yields each sample once.
  std::uint32_t repetition = 0;

  friend auto operator<=>(const sample_id&, const sample_id&) = default;
};

/// A value and its identity. Stages that hold items back or change their order receive and emit these.
template <class T>
struct sample {
  T value;      ///< the item
  sample_id id; ///< the sample that it was made from
};

namespace detail {

/// Times a wait inside a user's function.
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

/// The second argument of a function `(item, context)`. Two calls for the same sample, epoch, seed and stage
/// see the same numbers, whichever worker makes them.
struct context {
  std::uint64_t index;         ///< as in sample_id
  std::uint64_t sub_index;     ///< as in sample_id
  std::uint32_t epoch;         ///< as in sample_id
  random_generator random;     ///< for this call, keyed by (seed, stage, sample_id)
  const std::stop_token& stop; ///< a long call should return when it is requested; valid during the call
  detail::stage_counters* counters = nullptr; ///< the run's
  std::uint32_t repetition = 0;               ///< as in sample_id

  /// Adds to a counter with that name, which metrics() reports with the stage's counters.
  void count(std::string_view name, std::uint64_t times = 1) const {
    if (counters) counters->numbers.count(name, times);
  }

  /// Sets a gauge with that name, which metrics() reports in the same way. Each worker has its own, and they are added up.
  void gauge(std::string_view name, double value) const {
    if (counters) counters->numbers.set(name, value);
  }

  /// While the returned object exists, the thread counts as waiting, not as busy: for a disk or a network,
  /// say. Only one object at a time.
  detail::waiting_inside waiting() const { return detail::waiting_inside(counters); }

  /// The sample.
  sample_id id() const noexcept { return {index, sub_index, epoch, repetition}; }
};

namespace detail {

/// The identity of item k of those that a stage makes from one sample. If several stages do so, the parts are
/// hashes: two parts of a sample are equal with a probability of 2^-64.
inline sample_id part_of(sample_id id, std::uint64_t k) noexcept {
  id.sub_index = id.sub_index == 0 ? k : key(id.sub_index, k);
  return id;
}

inline context make_context(const sample_id& id, std::uint64_t stage_key, const std::stop_token& stop,
                            stage_counters* counters = nullptr) {
  const std::uint64_t pass = std::uint64_t{id.repetition} << 32 | id.epoch;
  return {
      id.index, id.sub_index, id.epoch,     random_generator(key(stage_key, pass, id.index, id.sub_index)),
      stop,     counters,     id.repetition};
}

} // namespace detail

} // namespace feedline::inline FEEDLINE_ABI
