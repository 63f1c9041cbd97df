// SPDX-License-Identifier: MIT
#pragma once
// This process's share of a data set, where several processes train on it together.
#include <cstdint>
#include <string>

#include <feedline/core/callback.hpp>
#include <feedline/detail/given_size.hpp>

namespace feedline::inline FEEDLINE_ABI {

/// What happens to the samples that can't be divided evenly among ranks, where an epoch ends for each rank
/// separately (in finite mode; in infinite mode ranks continue into the next epoch, and there is no
/// remainder).
enum class remainder {
  drop, ///< they are left out: fewer samples than ranks
  wrap, ///< ranks without a sample get one from the epoch's beginning again
  /// Some ranks yield one sample more than others or, if files are split, any number more: don't synchronize
  /// the ranks after the last batch.
  keep,
};

/// One of several processes that train on one data set together. Every rank computes the same order of an
/// epoch and takes its share; the ranks needn't communicate.
struct rank {
  std::uint32_t number = 0;     ///< from 0
  std::uint32_t world_size = 1; ///< how many processes train together
  feedline::remainder remainder =
      feedline::remainder::drop;  ///< what happens to samples that can't be divided evenly
  const char* found_in = nullptr; ///< where from_environment() found it
  /// For sources of files, whose files the ranks divide among themselves: every rank reads all files instead, and keeps each
  /// world_size-th sample. Ranks then have equal shares as with other sources (see `remainder`), also of fewer files than ranks.
  /// Each of them reads all data, and decodes its own share.
  bool by_sample = false;

  /// Whether it is the only rank.
  bool is_alone() const noexcept { return world_size == 1; }

  /// The rank that the launcher of this process has set: torchrun, Open MPI, MPICH (Hydra) or, in a step that srun has started,
  /// Slurm, tried in this order; without any, rank 0 of 1. `on_notice` receives a sentence if variables of a launcher are there
  /// and ignored: of a Slurm job without a step, or of a launcher that contradicts the one before it; by default it goes to
  /// stderr. A program that a rank starts inherits the variables and takes itself for that rank: unset them, or don't call this
  /// function. Throws std::invalid_argument if the values aren't numbers, or the rank isn't below the world size.
  static rank from_environment(const callback<std::string>& on_notice = {});

  /// Throws std::invalid_argument unless `number` is below `world_size`.
  void check() const;

  /// "rank 3 of 8, from torchrun's RANK and WORLD_SIZE"
  friend std::string to_string(const rank& r) {
    std::string text = "rank " + detail::size_text(r.number) + " of " + detail::size_text(r.world_size);
    return r.found_in ? text + ", from " + r.found_in : text;
  }
};

} // namespace feedline::inline FEEDLINE_ABI

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_CORE)
#include <charconv>
#include <cstdlib>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <system_error>

namespace feedline::inline FEEDLINE_ABI::detail {

/// The number in a variable of the environment; nothing if there is none.
FEEDLINE_INLINE std::optional<std::uint32_t> number_in_environment(const char* name) {
  const char* const found = std::getenv(name);
  if (!found) return std::nullopt;
  const std::string_view text = found;
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

/// Whether `outer` may be of a launcher that has started the one of `inner`, as srun starts a torchrun on each node.
FEEDLINE_INLINE bool has_started(const rank& outer, const rank& inner,
                                 const std::optional<std::uint32_t>& groups) {
  if (outer.world_size == 1 || (outer.number == inner.number && outer.world_size == inner.world_size))
    return true;
  return groups ? outer.world_size == *groups : outer.world_size < inner.world_size;
}

} // namespace feedline::inline FEEDLINE_ABI::detail

namespace feedline::inline FEEDLINE_ABI {

FEEDLINE_INLINE rank rank::from_environment(const callback<std::string>& on_notice) {
  struct launcher {
    const char* number;
    const char* of;
    const char* name;
    const char* groups = nullptr; // of processes, each started by one process of another launcher
    const char* needs = nullptr;
  };

  constexpr launcher launchers[] = {
      {"RANK", "WORLD_SIZE", "torchrun's RANK and WORLD_SIZE", "GROUP_WORLD_SIZE"},
      {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "Open MPI's OMPI_COMM_WORLD_RANK and …_SIZE"},
      {"PMI_RANK", "PMI_SIZE", "MPICH's PMI_RANK and PMI_SIZE"},
      {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "Slurm's SLURM_PROCID and SLURM_STEP_NUM_TASKS", nullptr,
       "SLURM_STEP_ID"},
  };
  std::optional<rank> taken;
  std::optional<std::uint32_t> groups;
  std::string ignored;
  for (const launcher& l : launchers) {
    if (l.needs && !std::getenv(l.needs)) continue;
    const bool has_number = std::getenv(l.number) != nullptr, has_of = std::getenv(l.of) != nullptr;
    if (has_number && has_of) {
      const auto number = detail::number_in_environment(l.number), of = detail::number_in_environment(l.of);
      const rank found{number.value_or(0), of.value_or(1), remainder::drop, l.name};
      if (!taken) {
        for (const char* const name : {number ? nullptr : l.number, of ? nullptr : l.of})
          if (name)
            throw std::invalid_argument(std::string("feedline::rank: the environment's ") + name + " is \"" +
                                        std::getenv(name) + "\", which is not a number");
        found.check();
        taken = found;
        ignored.clear(); // half of a pair
        if (l.groups) groups = detail::number_in_environment(l.groups);
      } else if (!detail::has_started(found, *taken, groups)) {
        ignored += (ignored.empty() ? "" : " and ") + to_string(found);
      }
    } else if (!taken && ignored.empty() && (has_number || has_of)) {
      ignored = std::string(has_number ? l.number : l.of) + " without " + (has_number ? l.of : l.number);
    }
  }
  if (!taken) {
    taken = {.found_in = "the default: no launcher has set another"};
    const auto tasks = detail::number_in_environment("SLURM_NTASKS");
    if (ignored.empty() && tasks && *tasks > 1)
      ignored = "Slurm's " + std::to_string(*tasks) +
                " tasks, as this process isn't in a step (use srun to start one process for each task)";
  }
  if (!ignored.empty())
    detail::notify(on_notice,
                   "feedline: this process is " + to_string(*taken) +
                       ". The environment also has, and it ignores, " + ignored +
                       ". If that is wrong, unset the variables that aren't meant for this process");
  return *taken;
}

FEEDLINE_INLINE void rank::check() const {
  detail::refuse_negative(world_size, "feedline: the world size");
  if (number >= world_size)
    throw std::invalid_argument("feedline: there is no " + to_string(*this) + ": ranks count from 0");
}

} // namespace feedline::inline FEEDLINE_ABI
#endif
