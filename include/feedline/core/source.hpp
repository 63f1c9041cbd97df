// SPDX-License-Identifier: MIT
#pragma once
// What a source is: a plain copyable class with `std::optional<T> next()`.
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <type_traits>
#include <utility>

#include <feedline/core/epoch.hpp>
#include <feedline/core/state.hpp>
#include <feedline/detail/type_name.hpp>

namespace feedline::inline v0 {

/// What is known of a source whatever its samples are: `static constexpr source_traits traits{…}` in its class.
struct source_traits {
  const char* kind = nullptr; ///< its name in messages and metrics; else that of its type
  bool shares_files = false;  ///< it gives each rank its part of the files: see epoch
  bool shares_places = false; ///< it gives each rank its part of an epoch's places
  bool names_files = false;   ///< its samples are names of files, what is in them being the data
  bool pairs_by_order =
      false; ///< what is in a sample depends on the order of files, and so on the run's mode
  bool repeats_samples = false; ///< a sample may come several times in an epoch
  /// It gives what arrives, which can't be given again: a run of it has one epoch, which in an infinite run lasts until
  /// it gives no more, and has checkpoints only if the source has a `state` all the same. Ranks each have one of their
  /// own.
  bool live = false;
};

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
/// - `bool ready() const`: whether next() would give a sample, or end the epoch, without a wait. If not, what was given
///   so far goes to the consumer at once before next() is called, which then waits until the epoch's `stop` wakes it;
/// - `std::uint64_t index() const`: the index of the sample that `next()` gave last, unique and the same in
///   every epoch (by default samples are counted from 0);
/// - `std::string origin(std::uint64_t index) const`: names a sample (file, member) for error messages;
///   called on the described source from any thread;
/// - `void state(auto& archive)`: calls `archive(x, y, …)` with all that says how far the epoch has come: numbers,
///   strings, lists and what state_writer names beside them. A run that is resumed reads it into a copy on which
///   `start_epoch` was called, and then calls `void resumed()` if there is one;
/// - `void skip(std::uint64_t count)`, in its place: goes on as if next() had been called so often. (A source
///   with neither is read again from its beginning.)
/// - `void go_near(std::uint64_t index)`: makes next() give the sample with that index before long, and those
///   before it in its file or none, then perhaps nothing. For samples that a shuffle buffer held; their
///   indices come in rising order. (Without it the epoch is read from its beginning.)
/// - `std::uint64_t extent() const` and `std::uint64_t fingerprint(std::uint64_t extent) const`: of how many
///   files or elements it consists, and a hash that tells the first so many of them from others;
/// - `std::optional<std::size_t> largest_item() const`: the most bytes that a sample takes with all that
///   belongs to it, or nothing, for a memory_budget where the samples' type doesn't tell;
/// - `void metrics(auto& out) const`: calls `out("waiting", 7)` with what holds now, and `out.total("bytes read", n)` with
///   what has added up since the run began. Called often, where the source has a thread of its own;
/// - `static constexpr source_traits traits{.kind = "numbers", …}`: what else is to be known of it.
///
/// `check_source` of feedline/testing.hpp runs a source through all that is promised of it.
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
/// a whole. A class with size() and at() alone is enough to stand where a source does: it gives its samples by
/// rising place, and may have a source's `traits`, `extent()`, `fingerprint()` and `largest_item()`.
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

/// What the class of a source says of it, with the name of its type where it gives none.
template <class S>
consteval source_traits source_traits_of() {
  source_traits t;
  if constexpr (requires { S::traits; }) t = S::traits;
  if (!t.kind) t.kind = type_name<S>.data();
  return t;
}

/// Of how many files or elements a source consists; 0: it doesn't say.
template <class S>
std::uint64_t extent_of(const S& source) {
  if constexpr (requires { source.extent(); }) return source.extent();
  else return 0;
}

/// What tells its first files or elements from others; 0: it doesn't say.
template <class S>
std::uint64_t fingerprint_of(const S& source, std::uint64_t extent) {
  if constexpr (requires { source.fingerprint(extent); }) return source.fingerprint(extent);
  else return 0;
}

/// A class of a user's own that is indexed samples and no more: a source all the same.
template <class T>
concept only_indexed = indexed_samples<T> && !source<T> && !requires(const T& t) { t.begin(); };

/// The source that such a class stands for: it gives the samples by rising place.
template <only_indexed D>
class samples_in_order {
 public:
  static constexpr source_traits traits = source_traits_of<D>();

  explicit samples_in_order(D samples) : samples_(std::move(samples)) {}

  void start_epoch(const epoch& e) {
    size_ = samples_.size();
    if constexpr (requires { samples_.size_of_first(e.extent); }) size_ = samples_.size_of_first(e.extent);
    else if constexpr (!requires { samples_.extent(); }) size_ = std::min(size_, e.extent);
  }

  // The place is counted before the sample is read, so that one that throws is left behind.
  auto next() -> std::optional<std::decay_t<decltype(std::declval<const D&>().at(0))>> {
    if (next_ >= size_) return std::nullopt;
    return samples_.at(next_++);
  }

  std::uint64_t index() const { return index_at(samples_, next_ - 1); }

  void skip(std::uint64_t count) { next_ += std::min(count, size_ - next_); }

  void go_near(std::uint64_t index) { next_ = find_index(samples_, index).value_or(size_); }

  D indexed() const { return samples_; }

  std::uint64_t extent() const {
    if constexpr (requires { samples_.extent(); }) return samples_.extent();
    else return samples_.size();
  }

  std::uint64_t fingerprint(std::uint64_t extent) const {
    if constexpr (requires { samples_.fingerprint(extent); }) return samples_.fingerprint(extent);
    else return extent;
  }

  std::optional<std::size_t> largest_item() const {
    if constexpr (requires { samples_.largest_item(); }) return samples_.largest_item();
    else return std::nullopt;
  }

  std::string origin(std::uint64_t index) const {
    if constexpr (requires { samples_.origin(index); }) return samples_.origin(index);
    else return {};
  }

 private:
  D samples_;
  std::uint64_t next_ = 0; // place
  std::uint64_t size_ = 0; // of the epoch
};

/// Goes on as if next() had been called so often, of which so many calls threw. Throws if that isn't the same this
/// time.
template <source S>
void skip_samples(S& source, std::uint64_t calls, std::uint64_t failures, const std::stop_token& stop,
                  bool with_index = false) {
  if constexpr (requires { source.skip(calls); }) {
    source.skip(calls);
  } else {
    constexpr const char* lost = "the run can't come to the place where the run that it resumes was left: ";
    std::uint64_t failed = 0;
    std::string last;
    for (; calls > 0 && !stop.stop_requested(); --calls) {
      bool has_ended = false;
      try {
        has_ended = !source.next();
        if constexpr (requires { source.index(); })
          if (with_index && !has_ended) static_cast<void>(source.index());
      } catch (const std::exception& error) {
        ++failed;
        last = error.what();
      } catch (...) {
        ++failed;
      }
      if (has_ended)
        throw std::runtime_error(lost + ("the epoch ended " + std::to_string(calls)) +
                                 " samples before that place");
    }
    if (failed != failures && !stop.stop_requested())
      throw std::runtime_error(lost + std::to_string(failed) + " samples before it failed, " +
                               std::to_string(failures) + " had failed then" +
                               (last.empty() ? last : "; the last error is: " + last));
  }
}

/// A source of files that gives each rank its part of them.
template <class S>
concept shares_files = requires { requires S::traits.shares_files; };

/// A source whose texts are names of files, what is in them being the data.
template <class S>
concept names_files = requires { requires S::traits.names_files; };

/// A source that gives each rank its part of an epoch's places.
template <class S>
concept shares_places = requires { requires S::traits.shares_places; };

/// A source of what arrives.
template <class S>
concept live_source = requires { requires S::traits.live; };

/// A source that says whether next() would wait.
template <class S>
concept says_when_ready = requires(const S& s) {
  { s.ready() } -> std::convertible_to<bool>;
};

/// A source of which a run can go on where an earlier one stood.
template <class S>
concept can_be_resumed = !live_source<S> || requires(S& s, state_writer& archive) { s.state(archive); };

/// Every rank gets all that its own source gives.
template <class S>
concept shares_itself = shares_files<S> || shares_places<S> || live_source<S>;

/// A source that knows, once an epoch has started, how many samples it has and can give each from any thread:
/// where number i of the epoch is, and the sample and the index at that place; and where an index is.
template <class S>
concept dealt_source = source<S> && requires(const S& s, std::uint64_t i) {
  { s.epoch_size() } -> std::same_as<std::uint64_t>;
  { s.places() } -> std::same_as<std::uint64_t>;
  { s.next_first() } -> std::same_as<std::uint64_t>;
  { s.place_of(i) } -> std::same_as<std::uint64_t>;
  { s.sample_at(i) } -> std::same_as<source_item_t<S>>;
  { s.index_at(i) } -> std::same_as<std::uint64_t>;
  { s.find(i) } -> std::same_as<std::optional<std::uint64_t>>;
};

template <source Source>
void start_source(Source& source, const epoch& e) {
  if constexpr (requires { source.start_epoch(e); }) source.start_epoch(e);
}

template <source Source>
inline constexpr bool has_index = requires(const Source& s) { s.index(); };

/// The index of the sample that the source gave last, its `ordinal`-th.
template <source Source>
std::uint64_t index_of(const Source& source, std::uint64_t ordinal) {
  if constexpr (has_index<Source>) return source.index();
  else return ordinal;
}

/// Why an infinite run ends of itself.
struct empty_run : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// What is wrong with an epoch without samples in infinite mode, of a source and …
inline empty_run empty_epoch() {
  return empty_run("it gave no sample in a whole epoch, so an infinite run would never yield anything");
}

/// … of what gets nothing from the stages before it.
inline empty_run nothing_came() {
  return empty_run("the stages before it let no sample through in one epoch after another, so an "
                   "infinite run would never yield anything");
}

/// How many epochs in a row without a sample show that a rank will never have one. There may be fewer samples than
/// ranks; and a rank may get empty files by chance, in one epoch after another.
template <source S>
std::uint32_t empty_epochs_of(const rank& r) noexcept {
  if (r.is_alone()) return 1;
  return shares_files<S> ? 64 + 64 * r.of : r.of;
}

template <source S>
std::string origin_of(const S& source, std::uint64_t index) {
  if constexpr (requires { source.origin(index); }) return source.origin(index);
  else return {};
}

} // namespace detail

} // namespace feedline::inline v0
