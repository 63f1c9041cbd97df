// SPDX-License-Identifier: MIT
#pragma once
// What a source is: a plain copyable class with `std::optional<T> next()`.
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <feedline/core/epoch.hpp>
#include <feedline/core/sample.hpp>
#include <feedline/core/state.hpp>
#include <feedline/detail/function_ref.hpp>
#include <feedline/detail/type_name.hpp>

namespace feedline::inline FEEDLINE_ABI {

/// Facts about a source that hold for all of its samples: `static constexpr source_traits traits{…}` in its
/// class.
struct source_traits {
  const char* kind = "";               ///< its name in messages and metrics; by default that of its type
  bool splits_files_by_rank = false;   ///< it yields only the rank's share of the files: see epoch
  bool splits_samples_by_rank = false; ///< it yields only the rank's share of an epoch's positions
  bool yields_file_names = false;      ///< its samples are file names; the data is in those files
  /// The content of a sample depends on the order of the files, and so on the run's mode.
  bool depends_on_file_order = false;
  bool random_order = false; ///< its order depends on the seed and the epoch, also in a single epoch
  /// It yields data as it arrives and can't yield it again. A run has one epoch, which in infinite mode lasts
  /// until the source ends. The run has checkpoints only if the source has a `state`. Each rank has its own
  /// source.
  bool live = false;
};

namespace detail {

template <class T>
inline constexpr bool is_optional = false;
template <class T>
inline constexpr bool is_optional<std::optional<T>> = true;

} // namespace detail

/// A source: `next()` yields the samples of one epoch one by one, then nothing. The pipeline keeps the source
/// as it was described, and its copies share that; each epoch of each run uses a fresh copy, from one thread. One that is trivially
/// copyable may be moved in memory between two calls of `next()`. After an exception
/// `next()` may be called again and continues after the part that it couldn't read. A source may also have
/// - `void start_epoch(const epoch&)`: called on the fresh copy before its first `next()`;
/// - `bool ready() const`: whether next() would return a sample, or end the epoch, without waiting. If not,
///   the samples yielded so far go to the consumer at once, before next() is called; next() may then wait
///   until a sample arrives or the epoch's `stop` wakes it;
/// - `std::uint64_t index() const`: the index of the sample that `next()` yielded last, unique and the same
///   in every epoch (by default samples are counted from 0);
/// - `std::uint32_t repetition() const`: for a source that may yield a sample several times in an epoch, which of these
///   times it was: as in sample_id. It needs `seek` with the repetition as second argument, or none;
/// - `std::string origin(std::uint64_t index) const`: names a sample (file, member) for error messages;
///   called on the described source from any thread;
/// - `void state(auto& archive)`: calls `archive(x, y, …)` with everything that determines its position in
///   the epoch: numbers, strings, lists and the other types that state_writer lists. A resumed run reads the
///   state into a copy on which `start_epoch` was called, and then calls `void resumed()` if the source has
///   it;
/// - `void skip(std::uint64_t count)`, as an alternative to `state`: has the effect of `count` calls of
///   next(). (A source with neither is read again from its beginning.)
/// - `void seek(std::uint64_t index)`: makes next() yield the sample with that index soon, after earlier
///   samples of its file or at once; after it next() may yield nothing. Called for samples that a shuffle
///   buffer held, with increasing indices. (Without it the epoch is read from its beginning.)
/// - `std::uint64_t extent() const` and `std::uint64_t fingerprint(std::uint64_t extent) const`: the number
///   of its files or elements, and a hash that identifies the first `extent` of them. It may take a stop token too, if it
///   may wait;
/// - `std::string parameters() const`: the options, other than the data, that determine what it yields, as "name: value" joined
///   by "; ". A run refuses a checkpoint with others, and names both values;
/// - `std::optional<std::size_t> max_item_bytes() const`: the most bytes that a sample takes with everything
///   it owns, or nothing if unknown; for a memory_budget where the samples' type doesn't determine it;
/// - `std::size_t items_held() const` and `std::size_t bytes_held() const`: the most samples that it keeps, and the
///   most bytes that it keeps in addition to samples, for the memory plan; `bytes_held_by_position()` replaces bytes_held()
///   where samples are read by position (see indexed_samples);
/// - `std::string outage() const`: why the server that it reads from doesn't answer now, empty if it does, for metrics;
///   called on the described source from any thread;
/// - `void metrics(auto& out) const`: calls `out("waiting", 7)` with a current value, and
///   `out.total("bytes read", n)` with a sum since the run began. Called often, where the source has its own
///   thread;
/// - `static constexpr source_traits traits{.kind = "numbers", …}`: other facts about it.
///
/// `check_source` of feedline/testing.hpp tests a source against this contract.
template <class S>
concept source = std::copy_constructible<S> && std::is_object_v<S> && requires(S& s) {
  s.next();
  requires detail::is_optional<decltype(s.next())>;
};

/// The type of a source's samples.
template <source S>
using source_item_t = typename decltype(std::declval<S&>().next())::value_type;

/// Samples that any thread can read in any order, by their position in [0, size()). `at(position)` returns
/// the same sample, or throws the same error, each time. May also have
/// - `std::uint64_t index_at(std::uint64_t position) const`: the index of that sample (by default its
///   position);
/// - `std::optional<std::uint64_t> find(std::uint64_t index) const`: the position of that index
///   (by default all positions are searched);
/// - `std::string origin(std::uint64_t index) const`, as for a source;
/// - `at(position, const std::stop_token& stop)`, which is called instead of at(position) where a run reads: if it waits,
///   it throws when the stop is requested;
/// - `void will_need(std::uint64_t position) const noexcept`: at(position) will probably be called soon. It mustn't wait. It may
///   return a bool: false if the sample is in memory already; then fewer of the next ones are announced;
/// - `bool ready(std::uint64_t position) const`: whether at(position) would return, or throw, without waiting; for metrics,
///   and so that samples which are ready don't wait for the next one.
///
/// A source that meets this concept, or whose `indexed()` returns such samples, can be shuffled as a whole; indexed()
/// may take a stop token too, if it may wait. A class with only size() and at() can be used as a source: it yields its
/// samples in order of position, and may have a source's `traits`, `extent()`, `fingerprint()` and `max_item_bytes()`.
template <class D>
concept indexed_samples = std::copy_constructible<D> && requires(const D& d, std::uint64_t position) {
  { d.size() } -> std::convertible_to<std::uint64_t>;
  { d.at(position) } -> std::move_constructible;
};

/// A source whose samples can also be read by position.
template <class S>
concept indexed_source = source<S> && (indexed_samples<S> || requires(const S& s) {
                           { s.indexed() } -> indexed_samples;
                         });

namespace detail {

/// The samples of an indexed source by position. May throw after a stop.
template <indexed_source S>
auto indexed(const S& source, const std::stop_token& stop = {}) {
  if constexpr (indexed_samples<S>) return source;
  else if constexpr (requires { source.indexed(stop); }) return source.indexed(stop);
  else return source.indexed();
}

/// Samples that can be announced before they are read.
template <class D>
concept announced_samples = requires(const D& d, std::uint64_t position) { d.will_need(position); };

/// Returns whether it may have been of use.
template <indexed_samples D>
bool announce_sample(const D& samples, std::uint64_t position) noexcept {
  if constexpr (requires { static_cast<bool>(samples.will_need(position)); }) {
    return samples.will_need(position);
  } else if constexpr (announced_samples<D>) {
    samples.will_need(position);
    return true;
  } else {
    return false;
  }
}

/// Announces fewer and fewer samples while they are in memory: to ask for each would cost more than reading it.
class announcement_pace {
 public:
  /// Whether to announce the next sample, and then to call note().
  bool is_due() noexcept {
    if (left_ == 0) return true;
    --left_;
    return false;
  }

  void note(bool was_of_use) noexcept {
    constexpr unsigned most = 1023;
    skips_ = was_of_use ? 0 : skips_ < most ? 2 * skips_ + 1 : most;
    left_ = skips_;
  }

 private:
  unsigned skips_ = 0; // after the last announcement
  unsigned left_ = 0;  // of them
};

/// Samples that report whether reading one would wait.
template <class D>
concept says_when_sample_ready = requires(const D& d, std::uint64_t position) {
  { d.ready(position) } -> std::convertible_to<bool>;
};

/// The sample at a position. May throw after a stop.
template <indexed_samples D>
auto sample_at(const D& samples, std::uint64_t position, const std::stop_token& stop) {
  if constexpr (requires { samples.at(position, stop); }) return samples.at(position, stop);
  else return samples.at(position);
}

template <indexed_samples D>
std::uint64_t index_at(const D& samples, std::uint64_t position) {
  if constexpr (requires { samples.index_at(position); }) return samples.index_at(position);
  else return position;
}

/// The position of the sample with that index, if there is one.
template <indexed_samples D>
std::optional<std::uint64_t> find_index(const D& samples, std::uint64_t index) {
  if constexpr (requires { samples.find(index); }) {
    return samples.find(index);
  } else {
    const std::uint64_t size = samples.size();
    if constexpr (!requires { samples.index_at(index); })
      return index < size ? std::optional(index) : std::nullopt;
    for (std::uint64_t position = 0; position < size; ++position)
      if (index_at(samples, position) == index) return position;
    return {};
  }
}

/// The traits of a source, with the name of its type where it names no kind.
template <class S>
consteval source_traits source_traits_of() {
  source_traits t;
  if constexpr (requires { S::traits; }) t = S::traits;
  if constexpr (!requires { requires S::traits.kind[0] != 0; }) t.kind = type_name<S>.data();
  return t;
}

/// The number of a source's files or elements; 0: unknown.
template <class S>
std::uint64_t extent_of(const S& source) {
  if constexpr (requires { source.extent(); }) return source.extent();
  else return 0;
}

/// The hash of its first `extent` files or elements; 0: unknown. May throw after a stop.
template <class S>
std::uint64_t fingerprint_of(const S& source, std::uint64_t extent, const std::stop_token& stop = {}) {
  if constexpr (requires { source.fingerprint(extent, stop); }) return source.fingerprint(extent, stop);
  else if constexpr (requires { source.fingerprint(extent); }) return source.fingerprint(extent);
  else return 0;
}

/// Its parameters as text; empty: it has none.
template <class S>
std::string parameters_of(const S& source) {
  if constexpr (requires {
                  { source.parameters() } -> std::convertible_to<std::string>;
                })
    return source.parameters();
  else return {};
}

/// Adds parameters to a text of them.
void add_parameters(std::string& to, const std::string& more);

/// "with_replacement.weights: 1, 2, 3"; of many weights only the first, their number and a hash of all.
std::string text_of_weights(const char* option, std::span<const double> weights);

/// Says which of these parameters differ first: "mix.weights was 3, 1, here it is 4, 1".
std::string difference_of_parameters(std::string_view before, std::string_view now);

/// Why the server that a source reads from doesn't answer now; empty if it does.
template <class S>
std::string outage_of(const S& source) {
  if constexpr (requires { source.outage(); }) return source.outage();
  else return {};
}

/// A user's class that is indexed samples and not a source; it can be used as one.
template <class T>
concept only_indexed = indexed_samples<T> && !source<T> && !requires(const T& t) { t.begin(); };

/// Calls `next` that many times; it returns false at the end. `failures`: see below.
void skip_calls(std::uint64_t calls, std::uint64_t failures, const std::stop_token& stop,
                function_ref<bool()> next);

/// Has the effect of `calls` calls of next(), of which `failures` threw. Throws std::runtime_error if the
/// epoch ends too early or another number of calls throws this time.
template <source S>
void skip_samples(S& source, std::uint64_t calls, std::uint64_t failures, const std::stop_token& stop,
                  bool with_index = false) {
  if constexpr (requires { source.skip(calls); }) source.skip(calls);
  else
    skip_calls(calls, failures, stop, [&] {
      const bool has_next = source.next().has_value();
      if constexpr (requires { source.index(); })
        if (with_index && has_next) static_cast<void>(source.index());
      return has_next;
    });
}

/// A source of files that yields only the rank's share of them.
template <class S>
concept splits_files_by_rank = requires { requires S::traits.splits_files_by_rank; };

/// A source of file names; the data is in those files.
template <class S>
concept yields_file_names = requires { requires S::traits.yields_file_names; };

/// A source that yields only the rank's share of an epoch's positions.
template <class S>
concept splits_samples_by_rank = requires { requires S::traits.splits_samples_by_rank; };

/// A source of data that arrives during the run.
template <class S>
concept live_source = requires { requires S::traits.live; };

/// A source that reports whether next() would wait.
template <class S>
concept says_when_ready = requires(const S& s) {
  { s.ready() } -> std::convertible_to<bool>;
};

/// A source from which a later run can continue.
template <class S>
concept can_be_resumed = !live_source<S> || requires(S& s, state_writer& archive) { s.state(archive); };

/// How the ranks of a run divide the samples of a source.
enum class rank_division : std::uint8_t {
  by_run,    ///< the source doesn't know ranks: the run passes over the samples of the others
  by_file,   ///< the source yields only the files of its rank
  by_sample, ///< it yields only the positions of its rank
  none       ///< each rank has its own live source
};

template <source Source>
consteval rank_division division_of() {
  return splits_samples_by_rank<Source> ? rank_division::by_sample
         : splits_files_by_rank<Source> ? rank_division::by_file
         : live_source<Source>          ? rank_division::none
                                        : rank_division::by_run;
}

/// How they do in a run.
constexpr rank_division division_among(const rank& r, rank_division of_source) noexcept {
  return r.by_sample && of_source == rank_division::by_file ? rank_division::by_run : of_source;
}

struct rank_share;

/// A source that knows this rank's share of the positions once an epoch has started and can return each sample from any
/// thread: the position of the epoch's i-th sample, the sample and the index at a position, and the position of an index.
template <class S>
concept dealt_source = source<S> && requires(const S& s, std::uint64_t i) {
  { s.share() } -> std::same_as<const rank_share&>;
  { s.place_of(i) } -> std::same_as<std::uint64_t>;
  { s.sample_at(i) } -> std::same_as<source_item_t<S>>;
  { s.index_at(i) } -> std::same_as<std::uint64_t>;
  { s.find(i) } -> std::same_as<std::optional<std::uint64_t>>;
};

template <source Source>
void start_source(Source& source, const epoch& e) {
  if constexpr (requires { source.start_epoch(e); }) source.start_epoch(e);
}

/// What tells a source that a run reads it: the run keeps it from its begin until it has read the source. Null for most.
template <source Source>
std::shared_ptr<const void> in_run([[maybe_unused]] const Source& source,
                                   [[maybe_unused]] const std::stop_token& stop) {
  if constexpr (requires { source.in_run(stop); }) return source.in_run(stop);
  else return nullptr;
}

template <source Source>
inline constexpr bool has_index = requires(const Source& s) { s.index(); };

/// The index of the sample that the source yielded last, its `ordinal`-th.
template <source Source>
std::uint64_t index_of(const Source& source, std::uint64_t ordinal) {
  if constexpr (has_index<Source>) return source.index();
  else return ordinal;
}

/// A source that may yield a sample several times in an epoch.
template <class Source>
concept has_repetition = requires(const Source& s) {
  { s.repetition() } -> std::convertible_to<std::uint32_t>;
};

/// The identity of that sample.
template <source Source>
sample_id id_of(const Source& source, std::uint64_t ordinal, std::uint32_t epoch) {
  sample_id id{.index = index_of(source, ordinal), .epoch = epoch};
  if constexpr (has_repetition<Source>) id.repetition = source.repetition();
  return id;
}

/// A source that can find a sample again.
template <class Source>
concept can_seek = requires(Source& s, std::uint64_t index, std::uint32_t repetition) {
  requires(has_repetition<Source> ? requires { s.seek(index, repetition); } : requires { s.seek(index); });
};

/// Whether its seek() leads to a sample without reading all that came before.
template <can_seek Source>
bool seeks(const Source& source) {
  if constexpr (requires { source.seeks(); }) return source.seeks();
  else return true;
}

template <can_seek Source>
void seek_sample(Source& source, std::uint64_t index, std::uint32_t repetition) {
  if constexpr (has_repetition<Source>) source.seek(index, repetition);
  else source.seek(index);
}

/// How many samples of this epoch stages inside a source have left out.
template <class S>
std::uint64_t left_out_in(const S& source) {
  if constexpr (requires { source.left_out(); }) return source.left_out();
  else return 0;
}

/// The names of the stages inside a source that may leave out samples.
template <class S>
std::string filters_in(const S& source) {
  if constexpr (requires { source.filters(); }) return source.filters();
  else return {};
}

template <source S>
std::string origin_of(const S& source, std::uint64_t index) {
  if constexpr (requires { source.origin(index); }) return source.origin(index);
  else return {};
}

} // namespace detail

} // namespace feedline::inline FEEDLINE_ABI

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_CORE)
#include <algorithm>
#include <bit>
#include <charconv>
#include <exception>
#include <iterator>
#include <stdexcept>

#include <feedline/core/failure.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE void skip_calls(std::uint64_t calls, std::uint64_t failures, const std::stop_token& stop,
                                function_ref<bool()> next) {
  constexpr const char* lost = "the run can't return to the checkpoint's position: ";
  std::uint64_t failed = 0;
  std::string last;
  for (; calls > 0 && !stop.stop_requested(); --calls) {
    bool has_next = true;
    try {
      has_next = next();
    } catch (const std::exception& error) {
      if (is_outage(std::current_exception())) throw;
      ++failed;
      last = error.what();
    } catch (...) {
      ++failed;
    }
    if (!has_next)
      throw std::runtime_error(lost + ("the epoch ended " + std::to_string(calls)) + " samples before it");
  }
  if (failed != failures && !stop.stop_requested())
    throw std::runtime_error(lost + std::to_string(failed) + " samples before it failed now, " +
                             std::to_string(failures) + " when the checkpoint was taken" +
                             (last.empty() ? last : "; the last error is: " + last));
}

FEEDLINE_INLINE void add_parameters(std::string& to, const std::string& more) {
  if (!to.empty() && !more.empty()) to += "; ";
  to += more;
}

FEEDLINE_INLINE std::string text_of_weights(const char* option, std::span<const double> weights) {
  constexpr std::size_t most = 8;
  std::string text = std::string(option) + ": ";
  std::uint64_t hash = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    hash = mix(hash ^ std::bit_cast<std::uint64_t>(weights[i]));
    if (i >= most) continue;
    char digits[32];
    const auto end = std::to_chars(std::begin(digits), std::end(digits), weights[i]).ptr;
    text.append(i == 0 ? "" : ", ").append(digits, end);
  }
  if (weights.size() > most)
    text += ", … (" + std::to_string(weights.size()) + " weights, checksum " +
            std::to_string(static_cast<std::uint32_t>(hash)) + ")";
  return text;
}

FEEDLINE_INLINE std::string difference_of_parameters(std::string_view before, std::string_view now) {
  const auto take = [](std::string_view& list) {
    const std::string_view item = list.substr(0, list.find("; "));
    list.remove_prefix(std::min(list.size(), item.size() + 2));
    return item;
  };
  const auto name_of = [](std::string_view item) { return item.substr(0, item.find(": ")); };
  const auto or_none = [](std::string_view item) {
    return std::string(item.empty() ? "no further option" : item);
  };
  std::string_view a, b;
  do {
    a = take(before);
    b = take(now);
  } while (a == b && !(before.empty() && now.empty()));
  if (name_of(a) != name_of(b)) return "its source had " + or_none(a) + ", here it has " + or_none(b);
  const auto value_of = [&](std::string_view item) {
    return std::string(item.substr(std::min(item.size(), name_of(item).size() + 2)));
  };
  return std::string(name_of(a)) + " was " + value_of(a) + ", here it is " + value_of(b);
}

} // namespace feedline::inline FEEDLINE_ABI::detail
#endif
