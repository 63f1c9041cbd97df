// SPDX-License-Identifier: MIT
#pragma once
// Which part of a data set is this process's, where several train on it together.
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <string_view>

#include <feedline/detail/given_size.hpp>

namespace feedline::inline v0 {

/// What becomes of samples that can't be shared out evenly, where an epoch ends for each rank on its own (in
/// finite mode; in infinite mode ranks go on into the next epoch, and there is no rest).
enum class uneven {
  drop, ///< they are left out: fewer than there are ranks
  wrap, ///< ranks that would go without get samples from the epoch's beginning once more
  keep, ///< some ranks give one sample more than others, or, sharing by files, any number: don't wait for each
        ///< other behind the last batch
};

/// One of several processes that train on one data set together. Every rank works out the same order of an
/// epoch and takes its part; they need not talk to each other.
struct rank {
  std::uint32_t number = 0; ///< from 0 on
  std::uint32_t of = 1;     ///< the world size
  uneven rest = uneven::drop;
  const char* found_in = nullptr; ///< where from_environment() found it

  bool is_alone() const noexcept { return of == 1; }

  /// The rank that the launcher of this process tells it: torchrun, Open MPI, MPICH (Hydra) or Slurm, looked
  /// for in this order; without any, rank 0 of 1. Throws std::invalid_argument if what it tells are no numbers,
  /// or a rank that isn't below the world size.
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
      const rank found{value(l.number, number), value(l.of, of), uneven::drop, l.name};
      found.check();
      return found;
    }
    return {.found_in = "nowhere: no launcher has set another"};
  }

  /// Throws std::invalid_argument unless `number` is below `of`.
  void check() const {
    detail::refuse_negative(of, "feedline: the number of ranks");
    if (number >= of)
      throw std::invalid_argument("feedline: there is no " + to_string(*this) + ": ranks count from 0");
  }

  /// "rank 3 of 8, from torchrun's RANK and WORLD_SIZE"
  friend std::string to_string(const rank& r) {
    std::string text = "rank " + detail::size_text(r.number) + " of " + detail::size_text(r.of);
    return r.found_in ? text + ", from " + r.found_in : text;
  }

 private:
  static std::uint32_t value(const char* name, std::string_view text) {
    std::uint32_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size())
      throw std::invalid_argument(std::string("feedline::rank: the environment's ") + name + " is \"" +
                                  std::string(text) + "\", which is no number");
    return number;
  }
};

} // namespace feedline::inline v0
