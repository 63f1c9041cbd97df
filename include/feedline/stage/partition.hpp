// SPDX-License-Identifier: MIT
#pragma once
// partition: the samples of one part of a data set, training or validation or test, told by their keys.
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <feedline/core/parts.hpp>
#include <feedline/core/random.hpp>
#include <feedline/core/sample.hpp>
#include <feedline/core/stage.hpp>
#include <feedline/detail/given_size.hpp>
#include <feedline/stage/filter.hpp>

namespace feedline::inline v0 {

namespace detail {

/// A sample's own key: `key()` where it has one, its text or number where it is one, else its index.
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

/// A key that a function of the user's gives.
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
    throw std::invalid_argument("feedline::partition: there is no part " + size_text(part) + " of " +
                                std::to_string(all.size()) + ": they count from 0");
  return filter(in_part<Hash>{std::move(all), part, std::move(hash)}, name{"partition"});
}

} // namespace detail

/// Gives the samples of one part of a data set. To which part a sample belongs follows from a hash of its key
/// alone: it is the same in every run, process and platform, whatever the order, and stays the same when
/// other samples come or go.
///
/// Takes:   how large the parts are, in any unit, and the number of the one that is wanted, from 0; perhaps a
///          function that gives an item's key, a text or a whole number. Without it the key is the item's
///          `key()` where it has one, as samples of TAR shards do; else the item itself where it is a text or a
///          whole number; else the sample's index, which changes when files come or go in front of it
/// Gives:   the items of that part, unchanged
/// Order:   kept
/// Throws:  std::invalid_argument for weights that are no weights or a part that isn't there
/// Stops:   behind the item in hand
/// Example: `games | partition({80, 10, 10}, 0, [](const game& g) { return g.id; })`
inline auto partition(const std::vector<double>& weights, std::size_t part) {
  return detail::make_partition(weights, part, detail::own_key());
}

template <class F>
auto partition(const std::vector<double>& weights, std::size_t part, F key) {
  return detail::make_partition(weights, part, detail::given_key<F>{std::move(key)});
}

} // namespace feedline::inline v0
