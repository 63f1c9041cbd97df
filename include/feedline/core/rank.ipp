// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/core/rank.hpp>

#include <charconv>
#include <stdexcept>
#include <system_error>

namespace feedline::inline FEEDLINE_ABI {

FEEDLINE_INLINE rank rank::from_environment() {
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

FEEDLINE_INLINE void rank::check() const {
  detail::refuse_negative(world_size, "feedline: the world size");
  if (number >= world_size)
    throw std::invalid_argument("feedline: there is no " + to_string(*this) + ": ranks count from 0");
}

FEEDLINE_INLINE std::uint32_t rank::value(const char* name, std::string_view text) {
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size())
    throw std::invalid_argument(std::string("feedline::rank: the environment's ") + name + " is \"" +
                                std::string(text) + "\", which is not a number");
  return number;
}

} // namespace feedline::inline FEEDLINE_ABI
