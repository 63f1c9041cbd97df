// SPDX-License-Identifier: MIT
#pragma once
// global_shuffle: a random order over all samples of an indexed source.
#include <feedline/core/contract.hpp>
#include <feedline/source/detail/reordered_source.hpp>

namespace feedline::inline FEEDLINE_ABI {

namespace detail {

struct permutations {
  permutation operator()(std::uint64_t places, std::uint64_t key) const { return {places, key}; }

  static constexpr std::uint64_t fingerprint() noexcept { return 0; }

  static std::string parameters() { return {}; }
};

} // namespace detail

/// Yields the samples of an indexed source in a random order over all of them: a keyed permutation of their
/// positions, different in each epoch, which needs no memory and no buffer. It must follow the source
/// directly, or map, filter and tap.
///
/// Takes:   sources with access to samples by position: from(vector), indexed_lines, records, read_files, files, tar_samples, or a
///          custom source (see indexed_samples)
/// Gives:   every sample, once per epoch
/// Order:   random, the same for the same seed and epoch number, in finite mode too
/// Throws:  what the source throws when its samples are counted, as a failure of the source
/// Example: `tar_samples("train-*.tar") | global_shuffle() | map(decode, workers{8}) | batch(256)`
inline auto global_shuffle() { return detail::reordering<detail::permutations>{}; }

} // namespace feedline::inline FEEDLINE_ABI
