// SPDX-License-Identifier: MIT
#pragma once
// from: the elements of a container, or a source of one's own.
#include <concepts>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include <feedline/core/pipeline.hpp>
#include <feedline/core/source.hpp>

namespace feedline {

namespace detail {

template <class Range>
class range_source {
  using iterator = decltype(std::begin(std::declval<const Range&>()));
  static constexpr bool is_indexed = requires(iterator i, std::iter_difference_t<iterator> n) {
    { i - i } -> std::same_as<std::iter_difference_t<iterator>>;
    i[n];
  };

 public:
  static constexpr const char* kind = "from";
  using value = std::decay_t<decltype(*std::declval<iterator&>())>;

  explicit range_source(Range range) : range_(std::make_shared<const Range>(std::move(range))) {}

  std::optional<value> next() {
    // The step comes before the read, so that an element whose copy throws is left behind.
    if (!at_) {
      at_.emplace(std::begin(*range_));
    } else {
      ++*at_;
      ++index_;
    }
    if (*at_ == std::end(*range_)) return std::nullopt;
    return std::optional<value>(**at_);
  }

  std::uint64_t index() const noexcept { return index_; }

  std::uint64_t size() const
    requires is_indexed
  {
    return static_cast<std::uint64_t>(std::end(*range_) - std::begin(*range_));
  }

  value at(std::uint64_t place) const
    requires is_indexed
  {
    return std::begin(*range_)[static_cast<std::iter_difference_t<iterator>>(place)];
  }

 private:
  std::shared_ptr<const Range> range_;
  std::optional<iterator> at_;
  std::uint64_t index_ = 0;
};

} // namespace detail

/// A source that gives the elements of a range in order.
///
/// Takes:   a container or view with begin() and end() that can be read as const, copied or moved into the
///          pipeline (its copies share it); or a class that is a source already
/// Gives:   copies of the elements; the index of a sample is its place
/// Order:   the range's, in every epoch
/// Example: `from(std::vector{1, 2, 3}) | map(square) | batch(2)`
template <class T>
auto from(T&& thing) {
  using plain = std::remove_cvref_t<T>;
  if constexpr (source<plain>) {
    return pipeline<plain>(std::forward<T>(thing), {});
  } else {
    static_assert(
        requires(const plain& p) { std::begin(p) != std::end(p); },
        "feedline::from: give it a range with begin() and end(), or a source: a copyable class with next()");
    return pipeline<detail::range_source<plain>>(detail::range_source<plain>(std::forward<T>(thing)), {});
  }
}

} // namespace feedline
