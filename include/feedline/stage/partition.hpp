// SPDX-License-Identifier: MIT
#pragma once
// partition: the samples of one partition of a data set: training, validation or test.
#include <feedline/core/contract.hpp>
#include <feedline/detail/given_size.hpp>
#include <feedline/stage/filter.hpp>

namespace feedline::inline FEEDLINE_ABI {

namespace detail {

/// The key of a sample: its `key()` if it has one, itself if it is a text or a number, else its index.
struct own_key {
  template <class Item>
  std::uint64_t operator()(const Item& item, context& c) const {
    if constexpr (requires { std::string_view(item.key()); })
      return stable_hash(std::string_view(item.key()));
    else if constexpr (std::integral<Item>) return stable_hash(item);
    else if constexpr (std::convertible_to<const Item&, std::string_view>)
      return stable_hash(std::string_view(item));
    else return stable_hash(c.index);
  }
};

/// A key that the user's function returns.
template <class F>
struct given_key {
  F f;

  template <class Item>
    requires std::is_invocable_v<const F&, const Item&>
  std::uint64_t operator()(const Item& item, context&) const {
    return hash_of_key(f(item));
  }
};

template <class Hash>
struct in_part {
  parts all;
  std::size_t wanted;
  Hash hash;

  template <class Item>
    requires std::is_invocable_v<const Hash&, const Item&, context&>
  bool operator()(const Item& item, context& c) const {
    return all(hash(item, c)) == wanted;
  }

  std::uint64_t feedline_fingerprint() const noexcept { return key(all.fingerprint(), wanted); }
};

template <class Hash>
auto make_partition(const std::vector<double>& weights, std::size_t part, Hash hash) {
  parts all(weights);
  if (part >= all.size())
    throw std::invalid_argument("feedline::partition: there is no partition " + size_text(part) + " of " +
                                std::to_string(all.size()) + ": partitions are numbered from 0");
  return filter(in_part<Hash>{std::move(all), part, std::move(hash)}, name{"partition"});
}

} // namespace detail

/// Emits the samples of one partition of a data set. The partition of a sample depends on a hash of its key
/// alone: it is the same in every run, process and platform, in any order of samples, and doesn't change when
/// other samples are added or removed.
///
/// Takes:   the weights of the partitions, in any unit, and the number of the wanted one, from 0; optionally
///          a function that returns an item's key, a text or a whole number. Without it the key is the item's
///          `key()` if it has one, as samples of TAR shards do; else the item itself if it is a text or a
///          whole number; else the sample's index, which changes when files before it are added or removed
/// Gives:   the items of that partition, unchanged
/// Order:   kept
/// Throws:  std::invalid_argument for invalid weights or a partition that doesn't exist
/// Stops:   after the item in hand
/// Example: `games | partition({80, 10, 10}, 0, [](const game& g) { return g.id; })`
inline auto partition(const std::vector<double>& weights, std::size_t part) {
  return detail::make_partition(weights, part, detail::own_key());
}

/// The same, with a function that returns an item's key.
template <class F>
auto partition(const std::vector<double>& weights, std::size_t part, F key) {
  return detail::make_partition(weights, part, detail::given_key<F>{std::move(key)});
}

} // namespace feedline::inline FEEDLINE_ABI
