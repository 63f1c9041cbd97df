// SPDX-License-Identifier: MIT
#pragma once
// The parts of a source that consists of several, such as concat, mix and zip.
#include <variant>

#include <feedline/core/contract.hpp>
#include <feedline/core/pipeline.hpp>
#include <feedline/source/detail/mapped_source.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

template <source Source>
Source source_of(Source source) {
  return source;
}

template <source Source>
Source source_of(pipeline<Source, segment<segment_traits{}>> p) {
  return p.source();
}

template <source Source, class... Stages>
  requires(sizeof...(Stages) > 0 && (can_stand_in_source<Stages> && ...))
auto source_of(pipeline<Source, segment<segment_traits{}, Stages...>> p) {
  return mapped_source<Source, types<Stages...>>(p.source(), p.composed());
}

/// The stages on workers are left to a finishing_stage.
template <source Source, class... Here, segment_traits Traits, class... Later>
  requires((can_stand_in_source<Here> && ...) && sizeof...(Later) > 0 && Traits.parallel && Traits.ordered &&
           !Traits.has_queue && ((can_stand_in_source<Later> && traits_of<Later>().one_to_one) && ...))
auto source_of(pipeline<Source, segment<segment_traits{}, Here...>, segment<Traits, Later...>> p) {
  return mapped_source<Source, types<Here..., Later...>, sizeof...(Here)>(p.source(), p.composed());
}

template <only_indexed D>
samples_in_order<D> source_of(D samples) {
  return samples_in_order<D>(std::move(samples));
}

/// A source, or a pipeline that can serve as one: its stages, if any, have no state and emit at most one item for each. The
/// last ones, which emit exactly one, may have workers.
template <class T>
concept part_source = requires(T (&make)()) { source_of(make()); };

template <part_source T>
using source_of_t = decltype(source_of(std::declval<T>()));

/// A type for items of any of these types: a variant, unless they are the same.
template <class Seen, class... Items>
struct any_item;

template <class Item>
struct any_item<types<Item>> {
  using type = Item;
};

template <class... Items>
  requires(sizeof...(Items) > 1)
struct any_item<types<Items...>> {
  using type = std::variant<Items...>;
};

template <class... Seen, class Item, class... Rest>
struct any_item<types<Seen...>, Item, Rest...>
    : any_item<std::conditional_t<(std::is_same_v<Seen, Item> || ...), types<Seen...>, types<Seen..., Item>>,
               Rest...> {};

template <class... Items>
using any_item_t = typename any_item<types<>, Items...>::type;

/// Converts a value to that type.
template <class Any, class Item>
Any as_any(Item&& item) {
  if constexpr (std::is_same_v<Any, Item>) return std::move(item);
  else return Any(std::in_place_type<Item>, std::move(item));
}

/// A type for one item of each of these types.
template <class... Items>
struct zipped {
  using type = std::tuple<Items...>;
};

template <class First, class Second>
struct zipped<First, Second> {
  using type = std::pair<First, Second>;
};

/// A source as described, and the copy of it that yields the samples of an epoch. The copy is gone at its end.
template <source Source>
class sub_source {
 public:
  using described_source = Source;
  using item = source_item_t<Source>;

  explicit sub_source(Source source) : described_(std::move(source)) {}

  const Source& described() const noexcept { return described_; }

  /// Resets it to the state before its start.
  void rewind() noexcept {
    running_.reset();
    phase_ = phase::idle;
    calls_ = given_ = left_out_ = 0;
  }

  /// Starts an epoch. If that throws, the source has ended.
  void start(const epoch& e) {
    phase_ = phase::ended;
    calls_ = given_ = 0;
    stop_ = e.stop;
    running_.emplace(described_);
    if constexpr (requires { running_->start_epoch(e); }) running_->start_epoch(e);
    phase_ = phase::running;
  }

  /// Returns the next sample; nothing at the end and after it.
  std::optional<item> next() {
    if (phase_ != phase::running) return std::nullopt;
    ++calls_;
    std::optional<item> value = running_->next();
    if (value) {
      ++given_;
    } else {
      left_out_ = left_out_in(*running_);
      running_.reset();
      phase_ = phase::ended;
    }
    return value;
  }

  /// The index of the last sample.
  std::uint64_t index() const {
    if constexpr (requires { running_->index(); }) return running_->index();
    else return given_ - 1;
  }

  /// Its repetition.
  std::uint32_t repetition() const {
    if constexpr (has_repetition<Source>) return running_->repetition();
    else return 0;
  }

  /// What yields the samples of the epoch; null before and after it.
  const Source* running() const noexcept { return running_ ? &*running_ : nullptr; }

  bool is_idle() const noexcept { return phase_ == phase::idle; }

  bool is_running() const noexcept { return phase_ == phase::running; }

  bool has_ended() const noexcept { return phase_ == phase::ended; }

  /// How many samples it yielded since it started.
  std::uint64_t given() const noexcept { return given_; }

  /// How many samples its stages left out since it started.
  std::uint64_t left_out() const { return running_ ? left_out_in(*running_) : left_out_; }

  /// Prepares to read a held sample again, as a source's seek() does. If that throws, the source has ended.
  void seek(std::uint64_t index, std::uint32_t repetition, const epoch& e) {
    if (phase_ != phase::running) start(e);
    phase_ = phase::ended; // in case seek() throws
    seek_sample(*running_, index, repetition);
    phase_ = phase::running;
  }

  /// Whether next() would return without waiting.
  bool ready() const {
    if constexpr (!says_when_ready<Source>) return true;
    else if (phase_ == phase::running) return running_->ready();
    else return phase_ == phase::ended || !live_source<Source>; // others wait when they start, if at all
  }

  /// Saves or loads the state. In a resumed run the source starts epoch `e`, unless it is running already.
  void state(auto& archive, const epoch& e) {
    phase now = phase_;
    archive(now, given_);
    if (now > phase::ended) throw_state_not_whole();
    if (now == phase::running && phase_ != phase::running) {
      const std::uint64_t given = given_;
      start(e);
      given_ = given;
    }
    phase_ = now;
    if (now != phase::running) return;
    if constexpr (has_state<Source>) running_->state(archive);
    else archive(calls_);
  }

  void resumed() {
    if (phase_ != phase::running) return;
    if constexpr (!has_state<Source>) skip_samples(*running_, calls_, calls_ - given_, stop_);
    else if constexpr (requires { running_->resumed(); }) running_->resumed();
  }

  std::uint64_t fingerprint(const std::stop_token& stop) const {
    const std::uint64_t extent = extent_of(described_);
    return key(stable_hash(kind_of<Source>()), extent, fingerprint_of(described_, extent, stop));
  }

 private:
  enum class phase : std::uint8_t { idle, running, ended };

  Source described_;
  std::optional<Source> running_;
  phase phase_ = phase::idle;
  std::uint64_t calls_ = 0; // of next() since it started
  std::uint64_t given_ = 0;
  std::uint64_t left_out_ = 0; // when it ended
  std::stop_token stop_;
};

/// Indices of the samples of several sources: `number of the source << 56 | its index there`.
struct part_index {
  static constexpr unsigned bits = 56;
  static constexpr std::size_t most_parts = 255; // the largest index stands for no sample

  static std::uint64_t join(std::size_t part, std::uint64_t index) {
    if (index >> bits != 0)
      throw std::length_error("feedline: source " + std::to_string(part) + " has a sample with the index " +
                              std::to_string(index) + ", which needs more than 56 bits");
    return std::uint64_t{part} << bits | index;
  }

  static std::size_t part_of(std::uint64_t index) noexcept { return static_cast<std::size_t>(index >> bits); }

  static std::uint64_t within(std::uint64_t index) noexcept {
    return index & ((std::uint64_t{1} << bits) - 1);
  }
};

/// The epoch that all parts get: they yield all their samples. The run divides the samples of the whole
/// source among ranks.
inline epoch without_limits(epoch e) {
  e.extent = ~std::uint64_t{0};
  e.rank = {};
  e.first = 0;
  return e;
}

/// The epoch that part `number` gets. Its seed is different, so that equal parts have different orders.
inline epoch epoch_of_part(epoch e, std::size_t number, std::uint64_t pass = 0) {
  e.seed = key(e.seed, number, pass);
  return without_limits(std::move(e));
}

/// Parts whose number is only known when the program runs: a vector of parts of one type, not a tuple of any types.
template <class Parts>
concept listed_parts = requires(const Parts& parts) { parts.size(); };

/// How many they are.
template <class Parts>
constexpr std::size_t number_of(const Parts& parts) noexcept {
  if constexpr (listed_parts<Parts>) return parts.size();
  else return std::tuple_size_v<Parts>;
}

/// Calls f with part `number`.
template <std::size_t I = 0, class Parts, class F>
decltype(auto) with_part(Parts& parts, std::size_t number, F&& f) {
  if constexpr (listed_parts<Parts>) {
    return f(parts[number]);
  } else {
    if constexpr (I + 1 < std::tuple_size_v<std::remove_const_t<Parts>>) {
      if (number != I) return with_part<I + 1>(parts, number, std::forward<F>(f));
    }
    return f(std::get<I>(parts));
  }
}

/// Calls f with each part and its number.
template <class Parts, class F>
void for_each_part(Parts& parts, F&& f) {
  std::size_t number = 0;
  if constexpr (listed_parts<Parts>)
    for (auto& part : parts) f(part, number++);
  else std::apply([&](auto&... part) { (f(part, number++), ...); }, parts);
}

/// What f makes of each part, one after another.
template <class Parts, class F>
auto made_of_parts(Parts& parts, F&& f) {
  if constexpr (listed_parts<Parts>) {
    std::vector<decltype(f(parts.front()))> all;
    all.reserve(parts.size());
    for (auto& part : parts) all.push_back(f(part));
    return all;
  } else {
    return std::apply([&](auto&... part) { return std::tuple<decltype(f(part))...>{f(part)...}; }, parts);
  }
}

/// Facts about parts: of a tuple of any types, or of a vector.
template <class Parts>
struct facts_of_parts;

template <class First, class... Rest>
struct facts_of_parts<std::tuple<First, Rest...>> {
  using any = any_item_t<typename First::item, typename Rest::item...>;            ///< an item of one of them
  using all = typename zipped<typename First::item, typename Rest::item...>::type; ///< an item of each
  using first = typename First::described_source;

  /// Whether the predicate holds for some source, or for each.
  template <class Predicate>
  static constexpr bool some(Predicate holds) {
    return (holds(std::type_identity<typename First::described_source>()) || ... ||
            holds(std::type_identity<typename Rest::described_source>()));
  }

  template <class Predicate>
  static constexpr bool each(Predicate holds) {
    return (holds(std::type_identity<typename First::described_source>()) && ... &&
            holds(std::type_identity<typename Rest::described_source>()));
  }

  static constexpr bool yield_file_names =
      some([]<class S>(std::type_identity<S>) { return yields_file_names<S>; });
  static constexpr bool split_files = some([]<class S>(std::type_identity<S>) {
    return splits_files_by_rank<S> || requires { typename S::feedline_any_source; };
  });
  static constexpr bool are_live = some([]<class S>(std::type_identity<S>) { return live_source<S>; });
  static constexpr bool have_repetition =
      some([]<class S>(std::type_identity<S>) { return has_repetition<S>; });
  static constexpr bool say_when_ready =
      some([]<class S>(std::type_identity<S>) { return says_when_ready<S>; });
  static constexpr bool can_resume = each([]<class S>(std::type_identity<S>) { return can_be_resumed<S>; });
  static constexpr bool can_seek = each([]<class S>(std::type_identity<S>) { return detail::can_seek<S>; });
  static constexpr bool are_indexed = each([]<class S>(std::type_identity<S>) { return indexed_source<S>; });
};

template <class Part>
struct facts_of_parts<std::vector<Part>> : facts_of_parts<std::tuple<Part>> {
  using all = std::vector<typename Part::item>;
};

/// Whether some of these samples by position can be announced.
template <class Parts>
inline constexpr bool are_announced = false;
template <class... Samples>
inline constexpr bool are_announced<std::tuple<Samples...>> = (announced_samples<Samples> || ...);
template <class Samples>
inline constexpr bool are_announced<std::vector<Samples>> = announced_samples<Samples>;

/// Throws std::invalid_argument unless there are from 1 to 255.
template <class Parts>
const Parts& checked_parts(const char* kind, const Parts& parts) {
  if (parts.empty() || parts.size() > part_index::most_parts)
    throw std::invalid_argument("feedline::" + std::string(kind) + ": it takes 1 to 255 sources, not " +
                                std::to_string(parts.size()));
  return parts;
}

/// A part_source whose stages all run in the source.
template <class T>
concept listed_part = part_source<T> && !finisher<source_of_t<T>>::has_work;

/// These as parts of a source.
template <listed_part T>
auto listed_sources(const char* kind, std::vector<T> sources) {
  std::vector<sub_source<source_of_t<T>>> parts;
  for (T& each : sources) parts.emplace_back(source_of(std::move(each)));
  checked_parts(kind, parts);
  return parts;
}

/// What concat, mix and zip share: what they answer for their parts, of which each is a sub_source.
template <class Parts>
class source_of_parts {
 public:
  /// Of the part that yielded the sample with that part_index.
  std::string origin(std::uint64_t index) const {
    if (part_index::part_of(index) >= number_of(parts_)) return {};
    return with_part(parts_, part_index::part_of(index), [&](const auto& part) {
      return origin_of(part.described(), part_index::within(index));
    });
  }

  void resumed() {
    for_each_part(parts_, [](auto& part, std::size_t) { part.resumed(); });
  }

  /// The most of any part.
  std::optional<std::size_t> max_item_bytes() const {
    known_bytes largest = 0;
    for_each_part(parts_, [&](const auto& part, std::size_t) {
      const known_bytes its = max_item_bytes_of(part.described());
      if (!its || !largest) largest = std::nullopt;
      else largest = std::max(*largest, *its);
    });
    return largest;
  }

  /// What all parts keep in addition to samples.
  std::size_t bytes_held() const {
    known_bytes sum = 0;
    for_each_part(parts_,
                  [&](const auto& part, std::size_t) { sum = sum_of(sum, bytes_held_by(part.described())); });
    return sum.value_or(~std::size_t{0});
  }

  /// What tells all parts that a run reads them.
  std::shared_ptr<const void> in_run(const std::stop_token& stop) const {
    auto all = std::make_shared<std::vector<std::shared_ptr<const void>>>();
    for_each_part(parts_, [&](const auto& part, std::size_t) {
      all->push_back(detail::in_run(part.described(), stop));
    });
    return all;
  }

  bool seeks() const
    requires(facts_of_parts<Parts>::can_seek)
  {
    bool all = true;
    for_each_part(parts_,
                  [&](const auto& part, std::size_t) { all = all && detail::seeks(part.described()); });
    return all;
  }

  std::uint64_t extent() const noexcept { return number_of(parts_); }

  /// The parameters of all parts.
  std::string parameters() const {
    std::string all;
    for_each_part(
        parts_, [&](const auto& part, std::size_t) { add_parameters(all, parameters_of(part.described())); });
    return all;
  }

  /// Why the server of the first part that has an outage doesn't answer.
  std::string outage() const {
    std::string why;
    for_each_part(parts_, [&](const auto& part, std::size_t) {
      if (why.empty()) why = outage_of(part.described());
    });
    return why;
  }

  /// How many samples the stages of all parts have left out.
  std::uint64_t left_out() const {
    std::uint64_t sum = 0;
    for_each_part(parts_, [&](const auto& part, std::size_t) { sum += part.left_out(); });
    return sum;
  }

  /// The names of the stages of all parts that may leave out samples.
  std::string filters() const {
    std::string names;
    for_each_part(parts_,
                  [&](const auto& part, std::size_t) { add_name(names, filters_in(part.described())); });
    return names;
  }

 protected:
  explicit source_of_parts(Parts parts) : parts_(std::move(parts)) {}

  /// Whether none of the parts [begin, end) would wait.
  bool are_ready(std::size_t begin, std::size_t end) const {
    bool are = true;
    for_each_part(parts_, [&](const auto& part, std::size_t number) {
      if (number >= begin && number < end) are = are && part.ready();
    });
    return are;
  }

  /// A hash of the first `extent` parts.
  std::uint64_t fingerprint_of_parts(std::uint64_t extent, const std::stop_token& stop) const {
    std::uint64_t hash = key(extent);
    for_each_part(parts_, [&](const auto& part, std::size_t number) {
      if (number < extent) hash = key(hash, part.fingerprint(stop));
    });
    return hash;
  }

  Parts parts_;
};

} // namespace feedline::inline FEEDLINE_ABI::detail
