// SPDX-License-Identifier: MIT
#pragma once
// This process's share of a data set, where several processes train on it together.
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <string_view>

#include <feedline/detail/given_size.hpp>

namespace feedline::inline v0 {

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

  /// Whether it is the only rank.
  bool is_alone() const noexcept { return world_size == 1; }

  /// The rank that the launcher of this process has set: torchrun, Open MPI, MPICH (Hydra) or Slurm, tried in
  /// this order; without any, rank 0 of 1. Throws std::invalid_argument if the values aren't numbers, or the
  /// rank isn't below the world size.
  static rank from_environment() {
    struct launcher {
      const char* number;
      const char* of;
      const char* name;
    };

    constexpr launcher launchers[] = {
        {"RANK", "WORLD_SIZE", "torchrun's RANK and WORLD_SIZE"},
        {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "Open MPI's OMPI_COMM_WORLD_RANK and …_SIZE"},
        {"PMI_RANK", "PMI_SIZE", "MPICH's PMI_RANK and PMI_SIZE"},
        {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "Slurm's SLURM_PROCID and SLURM_STEP_NUM_TASKS"},
        {"SLURM_PROCID", "SLURM_NTASKS", "Slurm's SLURM_PROCID and SLURM_NTASKS"},
    };
    for (const launcher& l : launchers) {
      const char* const number = std::getenv(l.number);
      const char* const of = std::getenv(l.of);
      if (!number || !of) continue;
      const rank found{value(l.number, number), value(l.of, of), remainder::drop, l.name};
      found.check();
      return found;
    }
    return {.found_in = "the default: no launcher has set another"};
  }

  /// Throws std::invalid_argument unless `number` is below `world_size`.
  void check() const {
    detail::refuse_negative(world_size, "feedline: the world size");
    if (number >= world_size)
      throw std::invalid_argument("feedline: there is no " + to_string(*this) + ": ranks count from 0");
  }

  /// "rank 3 of 8, from torchrun's RANK and WORLD_SIZE"
  friend std::string to_string(const rank& r) {
    std::string text = "rank " + detail::size_text(r.number) + " of " + detail::size_text(r.world_size);
    return r.found_in ? text + ", from " + r.found_in : text;
  }

 private:
  static std::uint32_t value(const char* name, std::string_view text) {
    std::uint32_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size())
      throw std::invalid_argument(std::string("feedline::rank: the environment's ") + name + " is \"" +
                                  std::string(text) + "\", which is not a number");
    return number;
  }
};

} // namespace feedline::inline v0
