// SPDX-License-Identifier: MIT
#pragma once
// Some of a chunk's records in each pass: those of one pass aren't those of the next.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include <feedline/core/permutation.hpp>
#include <feedline/core/random.hpp>

namespace feedline::inline v0 {

/// How many of a chunk's records one pass takes: each with a probability, or a number of them.
struct record_sampling {
  double rate = 1;       ///< the probability, from 0 to 1
  std::size_t count = 0; ///< if it isn't 0: so many, or all if there are fewer; `rate` must be 1
};

/// The numbers of the records that a pass takes of the `records` of a chunk, in ascending order. `chunk` is a key of
/// the chunk and of whatever else is to change the choice, such as a seed: `chunk.random_key() ^ stable_hash(seed)`.
///
/// Passes that follow each other take different records until all have been taken: with a rate of 1/8 each record comes
/// in one of eight passes, with a count of 10 each of 100 records in one of ten.
///
/// Throws std::invalid_argument for a rate that isn't from 0 to 1, or for a rate beside a count.
/// Example:
///
///     flat_map([](const game& g) {
///       std::vector<position> some;
///       for (const std::size_t i : sampled_records(g.positions(), {.count = 16}, g.key, g.pass))
///         some.push_back(g.position(i));
///       return some;
///     })
inline std::vector<std::size_t> sampled_records(std::size_t records, const record_sampling& sampling,
                                                std::uint64_t chunk, std::uint64_t pass) {
  const auto [rate, count] = sampling;
  if (!(rate >= 0 && rate <= 1))
    throw std::invalid_argument("feedline::sampled_records: the rate is " + std::to_string(rate) +
                                ", not from 0 to 1");
  if (count != 0 && rate != 1)
    throw std::invalid_argument("feedline::sampled_records: a rate and a count are given");

  std::vector<std::size_t> taken;
  if (count != 0 && count < records) {
    __extension__ using wide = unsigned __int128;
    // A row of places of a random order, from where the last pass's row ended.
    const permutation order(records, chunk);
    std::uint64_t place = static_cast<std::uint64_t>(wide{pass} * count % records);
    taken.reserve(count);
    for (std::size_t i = 0; i < count; ++i, place = place + 1 == records ? 0 : place + 1)
      taken.push_back(static_cast<std::size_t>(order[place]));
    std::sort(taken.begin(), taken.end());
    return taken;
  }
  // Each record lies somewhere on a circle of 2^64; a pass takes an arc, from where the last pass's arc ended.
  const double arc = count != 0 ? 0x1p64 : rate * 0x1p64;
  const bool all = arc >= 0x1p64;
  const auto length = all ? 0 : static_cast<std::uint64_t>(arc);
  for (std::size_t i = 0; i < records; ++i)
    if (all || detail::key(chunk, i) - pass * length < length) taken.push_back(i);
  return taken;
}

} // namespace feedline::inline v0
