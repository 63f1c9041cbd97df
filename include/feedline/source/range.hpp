// SPDX-License-Identifier: MIT
#pragma once
// from: makes a pipeline from the elements of a container, or from a custom source.
#include <iterator>

#include <feedline/core/contract.hpp>
#include <feedline/core/pipeline.hpp>
#include <feedline/core/snapshot/value_hash.hpp>

namespace feedline::inline FEEDLINE_ABI {

namespace detail {

template <class Range>
class range_source {
  using iterator = decltype(std::begin(std::declval<const Range&>()));
  using difference = std::iter_difference_t<iterator>;
  // Requires a known end: iterators of endless views, and of views up to a condition, look the same.
  static constexpr bool is_indexed = requires(const Range& range, iterator i, difference n) {
    { std::end(range) - std::begin(range) } -> std::same_as<difference>;
    i[n];
  };
  // Not a view that computes its elements on access.
  static constexpr bool has_elements =
      is_indexed && std::is_lvalue_reference_v<decltype(*std::declval<iterator&>())>;

 public:
  static constexpr source_traits traits{.kind = "from"};
  using value = std::decay_t<decltype(*std::declval<iterator&>())>;

  explicit range_source(Range range) : range_(std::make_shared<const Range>(std::move(range))) {
    if constexpr (has_elements && shows_bytes<value>() && !std::is_trivially_copyable_v<value>) {
      largest_ = 0;
      for (const value& v : *range_) largest_ = std::max(*largest_, bytes_taken(v));
    }
  }

  void start_epoch(const epoch& e) { extent_ = e.extent; }

  std::optional<value> next() {
    // Steps before it reads, so that an element whose copy throws isn't read again.
    if (!at_) {
      at_.emplace(std::begin(*range_));
    } else if (*at_ != std::end(*range_)) {
      ++*at_;
      ++index_;
    }
    if (*at_ == std::end(*range_) || index_ >= extent_) return std::nullopt;
    return std::optional<value>(**at_);
  }

  std::uint64_t index() const noexcept { return index_; }

  void skip(std::uint64_t count)
    requires is_indexed
  {
    if (count > 0) go_to(at_ ? index_ + count : count - 1);
  }

  void seek(std::uint64_t index)
    requires is_indexed
  {
    if (index > 0) go_to(index - 1);
  }

  std::uint64_t extent() const
    requires is_indexed
  {
    return size();
  }

  /// A hash of the first and the last elements.
  std::uint64_t fingerprint(std::uint64_t extent) const
    requires is_indexed
  {
    constexpr std::uint64_t hashed = 256; // at each end
    std::uint64_t hash = key(extent);
    // Elements that a view computes are hashed only if they are cheap.
    if constexpr (has_elements || std::is_arithmetic_v<value> || hashed_as_text<value>) {
      for (std::uint64_t i = 0; i < extent; ++i) {
        if (i == hashed && extent > 2 * hashed) i = extent - hashed;
        hash = key(hash, value_hash<value>(std::begin(*range_)[static_cast<difference>(i)]));
      }
    }
    return hash;
  }

  known_bytes max_item_bytes() const noexcept { return largest_; }

  std::uint64_t size() const
    requires is_indexed
  {
    return static_cast<std::uint64_t>(std::end(*range_) - std::begin(*range_));
  }

  value at(std::uint64_t position) const
    requires is_indexed
  {
    return std::begin(*range_)[static_cast<difference>(position)];
  }

 private:
  void go_to(std::uint64_t index)
    requires is_indexed
  {
    index = std::min(index, size());
    index_ = index;
    at_ = std::begin(*range_) + static_cast<difference>(index);
  }

  std::shared_ptr<const Range> range_;
  known_bytes largest_;
  std::optional<iterator> at_;
  std::uint64_t index_ = 0;
  std::uint64_t extent_ = ~std::uint64_t{0};
};

} // namespace detail

/// Yields the elements of a range in order.
///
/// Takes:   a container or view that can be iterated as const, with begin() and end(); it is copied or moved
///          into the pipeline, whose copies share it. Or an object of a class that is a source already
/// Gives:   copies of the elements; a sample's index is its position
/// Order:   the range's, in every epoch
/// Example: `from(std::vector{1, 2, 3}) | map(square) | batch(2)`
template <class T>
auto from(T&& thing) {
  using plain = std::remove_cvref_t<T>;
  if constexpr (source<plain> || detail::only_indexed<plain>) {
    return detail::as_pipeline(plain(std::forward<T>(thing)));
  } else if constexpr (!requires(const plain& p) { std::begin(p) != std::end(p); }) {
    static_assert(
        requires(const plain& p) { std::begin(p) != std::end(p); },
        "feedline::from: it takes a range that can be iterated as const, with begin() and end(), or a "
        "source: "
        "a copyable class with next(), or with size() and at()");
    return detail::refused_pipeline();
  } else {
    return detail::as_pipeline(detail::range_source<plain>(std::forward<T>(thing)));
  }
}

} // namespace feedline::inline FEEDLINE_ABI
