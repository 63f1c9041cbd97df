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

#ifndef FEEDLINE_COMPILED
#include <feedline/window/record_sampling.ipp>
#endif
