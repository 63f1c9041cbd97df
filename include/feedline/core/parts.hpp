// SPDX-License-Identifier: MIT
#pragma once
// Parts of a data set, training or validation or test, told by keys.
#include <bit>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <feedline/core/random.hpp>

namespace feedline::inline v0 {

/// The part of a data set that a hash falls into, where parts are as large as their weights say.
class parts {
 public:
  /// Throws std::invalid_argument unless there are weights, none is negative or infinite, and not all are 0.
  explicit parts(std::span<const double> weights) {
    double sum = 0;
    for (const double weight : weights) {
      if (!(weight >= 0) || std::isinf(weight))
        throw std::invalid_argument("feedline::partition: a weight is a number from 0 on, not " +
                                    std::to_string(weight));
      ends_.push_back(sum += weight);
    }
    if (!(sum > 0) || std::isinf(sum))
      throw std::invalid_argument("feedline::partition: the weights must have a sum above 0");
  }

  std::size_t size() const noexcept { return ends_.size(); }

  std::uint64_t fingerprint() const noexcept {
    std::uint64_t hash = 0;
    for (const double end : ends_) hash = detail::key(hash, std::bit_cast<std::uint64_t>(end));
    return hash;
  }

  /// From 0 to size() - 1. A hash stays in its part when a later one is split in two.
  std::size_t operator()(std::uint64_t hash) const noexcept {
    const double place = static_cast<double>(hash >> 11) * 0x1p-53 * ends_.back();
    std::size_t part = 0;
    while (part + 1 < ends_.size() && place >= ends_[part]) ++part;
    return part;
  }

 private:
  std::vector<double> ends_; // of each part, in units of the weights
};

namespace detail {

/// The hash of a sample's key: a whole number, or what converts to std::string_view.
template <class Key>
std::uint64_t hash_of_key(const Key& key) {
  if constexpr (std::integral<Key>) return stable_hash(key);
  else return stable_hash(std::string_view(key));
}

} // namespace detail

} // namespace feedline::inline v0
