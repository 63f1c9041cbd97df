// SPDX-License-Identifier: MIT
#pragma once
// What a source is: a plain copyable class with `std::optional<T> next()`.
#include <concepts>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <type_traits>

#include <feedline/core/epoch.hpp>

namespace feedline {

namespace detail {

template <class T>
inline constexpr bool is_optional = false;
template <class T>
inline constexpr bool is_optional<std::optional<T>> = true;

} // namespace detail

/// A source: `next()` gives the samples of one epoch one after another, then nothing. The pipeline keeps it
/// as it was described; each epoch of each run works on a fresh copy, from one thread. After an exception
/// `next()` may be called again and goes on behind what it couldn't read. It may also have
/// - `void start_epoch(const epoch&)`: called on the fresh copy before its first `next()`;
/// - `std::uint64_t index() const`: the index of the sample that `next()` gave last, unique and the same in
///   every epoch (by default samples are counted from 0);
/// - `std::string origin(std::uint64_t index) const`: names a sample (file, member) for error messages;
///   called on the described source from any thread;
/// - `void state(auto& archive)`: calls `archive(x, y, …)` with the whole numbers that say how far the epoch
///   has come. A run that is resumed reads them into a copy on which `start_epoch` was called, and then calls
///   `void resumed()` if there is one;
/// - `void skip(std::uint64_t count)`, in its place: goes on as if next() had been called so often. (A source
///   with neither is read again from its beginning.)
/// - `void go_near(std::uint64_t index)`: makes next() give the sample with that index before long, and those
///   before it in its file or none, then perhaps nothing. For samples that a shuffle buffer held; their
///   indices come in rising order. (Without it the epoch is read from its beginning.)
/// - `std::uint64_t extent() const` and `std::uint64_t fingerprint(std::uint64_t extent) const`: of how many
///   files or elements it consists, and a hash that tells the first so many of them from others;
/// - `std::optional<std::size_t> largest_item() const`: the most bytes that a sample takes with all that
///   belongs to it, or nothing, for a memory_budget where the samples' type doesn't tell;
/// - `static constexpr const char* kind`: its name in error messages and metrics.
template <class S>
concept source = std::copy_constructible<S> && std::is_object_v<S> && requires(S& s) {
  s.next();
  requires detail::is_optional<decltype(s.next())>;
};

/// The type of a source's samples.
template <source S>
using source_item_t = typename decltype(std::declval<S&>().next())::value_type;

/// Samples that can be had in any order and from any thread, by their place in [0, size()): what `at(place)`
/// gives, or throws, is the same each time. May also have
/// - `std::uint64_t index_at(std::uint64_t place) const`: the index of that sample (by default its place);
/// - `std::optional<std::uint64_t> find(std::uint64_t index) const`: the place that has that index
///   (by default all places are asked for theirs);
/// - `std::string origin(std::uint64_t index) const`, as a source has it.
///
/// A source that is indexed samples itself, or has an `indexed()` that gives them, can be shuffled as
/// a whole.
template <class D>
concept indexed_samples = std::copy_constructible<D> && requires(const D& d, std::uint64_t place) {
  { d.size() } -> std::convertible_to<std::uint64_t>;
  { d.at(place) } -> std::move_constructible;
};

/// A source whose samples can be had by their place as well.
template <class S>
concept indexed_source = source<S> && (indexed_samples<S> || requires(const S& s) {
                           { s.indexed() } -> indexed_samples;
                         });

namespace detail {

/// The samples of an indexed source by place.
template <indexed_source S>
auto indexed(const S& source) {
  if constexpr (indexed_samples<S>) return source;
  else return source.indexed();
}

template <indexed_samples D>
std::uint64_t index_at(const D& samples, std::uint64_t place) {
  if constexpr (requires { samples.index_at(place); }) return samples.index_at(place);
  else return place;
}

/// Where the sample with that index is, if there is one.
template <indexed_samples D>
std::optional<std::uint64_t> find_index(const D& samples, std::uint64_t index) {
  if constexpr (requires { samples.find(index); }) {
    return samples.find(index);
  } else {
    const std::uint64_t size = samples.size();
    if constexpr (!requires { samples.index_at(index); })
      return index < size ? std::optional(index) : std::nullopt;
    for (std::uint64_t place = 0; place < size; ++place)
      if (index_at(samples, place) == index) return place;
    return {};
  }
}

/// Goes on as if next() had been called so often.
template <source S>
void skip_samples(S& source, std::uint64_t calls, const std::stop_token& stop) {
  if constexpr (requires { source.skip(calls); }) {
    source.skip(calls);
  } else {
    for (; calls > 0 && !stop.stop_requested(); --calls) {
      try {
        if (!source.next()) return;
      } catch (...) { // was dealt with before
      }
    }
  }
}

/// A source of files that gives each rank its part of them.
template <class S>
concept shares_files = requires { requires S::shares_files; };

/// A source whose texts are names of files, what is in them being the data.
template <class S>
concept names_files = requires { requires S::names_files; };

/// A source that gives each rank its part of an epoch's places.
template <class S>
concept shares_places = requires { requires S::shares_places; };

/// What is wrong with an epoch without samples in infinite mode.
inline std::runtime_error empty_epoch() {
  return std::runtime_error(
      "it gave no sample in a whole epoch, so an infinite run would never yield anything");
}

template <source S>
std::string origin_of(const S& source, std::uint64_t index) {
  if constexpr (requires { source.origin(index); }) return source.origin(index);
  else return {};
}

} // namespace detail

} // namespace feedline
