// SPDX-License-Identifier: MIT
#pragma once
// shuffled: the samples of an indexed source in an order that reaches over all of them.
#include <cstdint>

#include <feedline/core/permutation.hpp>
#include <feedline/source/detail/reordered_source.hpp>

namespace feedline::inline v0 {

namespace detail {

struct permutations {
  permutation operator()(std::uint64_t places, std::uint64_t key) const { return {places, key}; }

  static constexpr std::uint64_t fingerprint() noexcept { return 0; }
};

} // namespace detail

/// Gives the samples of a source that is indexed in an order that reaches over all of them: a keyed
/// permutation of their places, another one in each epoch, which needs no memory and no buffer. It stands
/// right behind the source.
///
/// Takes:   sources whose samples can be had by their place: from(vector), records, files, tar_samples, or one
///          of your own (see indexed_samples)
/// Gives:   every sample, once per epoch
/// Order:   random, the same for the same seed and epoch number, in finite mode too
/// Throws:  what the source throws when its samples are counted, as a failure of the source
/// Example: `tar_samples("train-*.tar") | shuffled() | map(decode, workers{8}) | batch(256)`
inline auto shuffled() { return detail::reordering<detail::permutations>{}; }

} // namespace feedline::inline v0
