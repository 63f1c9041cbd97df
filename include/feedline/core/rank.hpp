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

#ifndef FEEDLINE_COMPILED
#include <feedline/core/rank.ipp>
#endif
