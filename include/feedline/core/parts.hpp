// SPDX-License-Identifier: MIT
#pragma once
// Partitions of a data set, such as training, validation and test, by a hash of each sample's key.
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include <feedline/core/random.hpp>

namespace feedline::inline FEEDLINE_ABI {

/// Maps a hash to a partition of the data set. The sizes of the partitions are in proportion to the weights.
class parts {
 public:
  /// Throws std::invalid_argument if there are no weights, one is negative or infinite, or all are 0.
  explicit parts(const std::vector<double>& weights);

  /// The number of partitions.
  std::size_t size() const noexcept { return ends_.size(); }

  /// A hash of the weights.
  std::uint64_t fingerprint() const noexcept {
    std::uint64_t hash = 0;
    for (const double end : ends_) hash = detail::key(hash, std::bit_cast<std::uint64_t>(end));
    return hash;
  }

  /// The partition of that hash, from 0 to size() - 1. A hash stays in its partition when a later one is
  /// split in two.
  std::size_t operator()(std::uint64_t hash) const noexcept {
    const double position = static_cast<double>(hash >> 11) * 0x1p-53 * ends_.back();
    std::size_t part = 0;
    while (part + 1 < ends_.size() && position >= ends_[part]) ++part;
    return part;
  }

 private:
  std::vector<double> ends_; // of each partition, in units of the weights
};

namespace detail {

/// The hash of a sample's key: an integer, or a type that converts to std::string_view.
template <class Key>
std::uint64_t hash_of_key(const Key& key) {
  if constexpr (std::integral<Key>) return stable_hash(key);
  else return stable_hash(std::string_view(key));
}

} // namespace detail

} // namespace feedline::inline FEEDLINE_ABI

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_CORE)
#include <cmath>
#include <stdexcept>
#include <string>

namespace feedline::inline FEEDLINE_ABI {

FEEDLINE_INLINE parts::parts(const std::vector<double>& weights) {
  double sum = 0;
  for (const double weight : weights) {
    if (!(weight >= 0) || std::isinf(weight))
      throw std::invalid_argument("feedline::partition: a weight must be finite and at least 0, not " +
                                  std::to_string(weight));
    ends_.push_back(sum += weight);
  }
  if (!(sum > 0) || std::isinf(sum))
    throw std::invalid_argument("feedline::partition: the sum of the weights must be finite and above 0");
}

} // namespace feedline::inline FEEDLINE_ABI
#endif
