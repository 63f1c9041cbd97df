// SPDX-License-Identifier: MIT
#pragma once
// Some of a chunk's records in each pass: different ones in consecutive passes.
#include <cstddef>
#include <cstdint>
#include <vector>

#include <feedline/core/permutation.hpp>
#include <feedline/core/random.hpp>

namespace feedline::inline FEEDLINE_ABI {

/// How many of a chunk's records one pass takes: each record with a probability, or a fixed number of them.
struct record_sampling {
  double rate = 1;       ///< the probability, from 0 to 1
  std::size_t count = 0; ///< if it isn't 0: this many, or all if there are fewer; `rate` must be 1
};

/// The numbers of the records that a pass takes from the `records` of a chunk, in ascending order. `chunk` is
/// a key of the chunk and of everything else that changes the choice, such as a seed:
/// `chunk.random_key() ^ stable_hash(seed)`.
///
/// Consecutive passes take different records until all have been taken: with a rate of 1/8 each record is in
/// one of eight passes, with a count of 10 each of 100 records is in one of ten.
///
/// Throws std::invalid_argument for a rate that isn't from 0 to 1, or for both a rate and a count.
/// Example:
///
///     flat_map([](const game& g) {
///       std::vector<position> some;
///       for (const std::size_t i : sampled_records(g.positions(), {.count = 16}, g.key, g.pass))
///         some.push_back(g.position(i));
///       return some;
///     })
std::vector<std::size_t> sampled_records(std::size_t records, const record_sampling& sampling,
                                         std::uint64_t chunk, std::uint64_t pass);

} // namespace feedline::inline FEEDLINE_ABI

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_WINDOW)
#include <algorithm>
#include <stdexcept>
#include <string>

namespace feedline::inline FEEDLINE_ABI {

FEEDLINE_INLINE std::vector<std::size_t> sampled_records(std::size_t records, const record_sampling& sampling,
                                                         std::uint64_t chunk, std::uint64_t pass) {
  const auto [rate, count] = sampling;
  if (!(rate >= 0 && rate <= 1))
    throw std::invalid_argument("feedline::sampled_records: the rate must be from 0 to 1, not " +
                                std::to_string(rate));
  if (count != 0 && rate != 1)
    throw std::invalid_argument("feedline::sampled_records: set a rate or a count, not both");

  std::vector<std::size_t> taken;
  if (count != 0 && count < records) {
    __extension__ using wide = unsigned __int128;
    // Consecutive positions of a random order, from where the last pass ended.
    const permutation order(records, chunk);
    std::uint64_t position = static_cast<std::uint64_t>(wide{pass} * count % records);
    taken.reserve(count);
    for (std::size_t i = 0; i < count; ++i, position = position + 1 == records ? 0 : position + 1)
      taken.push_back(static_cast<std::size_t>(order[position]));
    std::sort(taken.begin(), taken.end());
    return taken;
  }
  // Each record has a position on a circle of 2^64; a pass takes an arc, from where the last pass's arc
  // ended.
  const double arc = count != 0 ? 0x1p64 : rate * 0x1p64;
  const bool all = arc >= 0x1p64;
  const auto length = all ? 0 : static_cast<std::uint64_t>(arc);
  for (std::size_t i = 0; i < records; ++i)
    if (all || detail::key(chunk, i) - pass * length < length) taken.push_back(i);
  return taken;
}

} // namespace feedline::inline FEEDLINE_ABI
#endif
