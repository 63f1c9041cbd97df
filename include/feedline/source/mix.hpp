// SPDX-License-Identifier: MIT
#pragma once
// mix: a source that chooses the source of each sample at random, by weight.
#include <bit>
#include <limits>

#include <feedline/core/contract.hpp>
#include <feedline/core/pipeline.hpp>
#include <feedline/source/detail/finishing_stage.hpp>
#include <feedline/source/detail/sub_source.hpp>

namespace feedline::inline FEEDLINE_ABI {

/// What happens to an epoch of mix() when one of its sources ends.
enum class when_one_ends {
  stop,                 ///< the epoch ends
  continue_with_others, ///< the epoch continues with the other sources, until all have ended
  repeat,               ///< the source starts again, until each source has ended at least once
};

/// Options of mix.
struct mix_options {
  /// What happens when a source ends. By default an infinite run repeats it, so that the weights hold throughout, and a
  /// finite run, which yields each sample once, continues with the others. So does a run of live sources.
  std::optional<feedline::when_one_ends> when_one_ends{};
};

namespace detail {

template <class Source>
struct weighted_source {
  Source source;
  double weight;
};

template <class T>
inline constexpr bool is_weighted = false;
template <class Source>
inline constexpr bool is_weighted<weighted_source<Source>> = true;

/// A source of a mix, with its weight.
template <source Source>
struct mixed_part : sub_source<Source> {
  mixed_part(Source s, double w) : sub_source<Source>(std::move(s)), weight(w) {}

  std::uint64_t fingerprint(const std::stop_token& stop) const {
    return key(sub_source<Source>::fingerprint(stop), std::bit_cast<std::uint64_t>(weight));
  }

  /// Starts the next pass.
  void repeat() noexcept {
    this->rewind();
    ++pass;
  }

  bool has_ended_once() const noexcept { return pass > 0 || this->has_ended(); }

  double weight;
  std::uint32_t pass = 0; // number of this pass over the source in the epoch
};

/// `Parts`: a tuple or vector of mixed_parts.
template <class Parts>
class mix_source : public source_of_parts<Parts> {
  using base = source_of_parts<Parts>;
  using base::parts_;

  using facts = facts_of_parts<Parts>;
  using item = typename facts::any;

 public:
  static constexpr source_traits traits{.kind = "mix",
                                        .yields_file_names = facts::yield_file_names,
                                        .random_order = true,
                                        .live = facts::are_live};

  mix_source(mix_options options, Parts parts) : base(std::move(parts)), options_(options) {
    double sum = 0;
    for_each_part(parts_, [&](const auto& part, std::size_t) { sum += part.weight; });
    if (sum == std::numeric_limits<double>::infinity())
      throw std::invalid_argument("feedline::mix: the sum of the weights is more than a double can hold");
  }

  void start_epoch(const epoch& e) {
    epoch_ = e;
    const bool may_repeat = e.endless && !traits.live;
    when_one_ends_ = options_.when_one_ends.value_or(may_repeat ? when_one_ends::repeat
                                                                : when_one_ends::continue_with_others);
    choices_ = 0;
    only_.reset();
    for_each_part(parts_, [](auto& part, std::size_t) {
      part.rewind();
      part.pass = 0;
    });
  }

  std::optional<item> next() {
    if (only_) return with_part(parts_, *only_, [this](auto& part) { return next_of(part, *only_); });
    while (!is_over()) {
      const std::size_t number = choose();
      auto value = with_part(parts_, number, [&](auto& part) {
        auto next = next_of(part, number);
        // Keeps the choice: otherwise short sources would be chosen too rarely.
        if (!next && may_repeat(part)) {
          part.repeat();
          next = next_of(part, number);
        }
        return next;
      });
      if (value) return value;
    }
    return std::nullopt;
  }

  std::uint64_t index() const noexcept { return index_; }

  std::uint32_t repetition() const noexcept { return repetition_; }

  bool ready() const
    requires(facts::say_when_ready)
  {
    return this->are_ready(0, number_of(parts_));
  }

  void state(auto& archive)
    requires(facts::can_resume)
  {
    archive(choices_);
    for_each_part(parts_, [&](auto& part, std::size_t number) {
      archive(part.pass);
      part.state(archive, epoch_of_part(epoch_, number, part.pass));
    });
  }

  // Otherwise the pass isn't known.
  void seek(std::uint64_t index, std::uint32_t repetition)
    requires(facts::can_seek && !facts::have_repetition)
  {
    only_ = std::min(part_index::part_of(index), number_of(parts_) - 1);
    with_part(parts_, *only_, [&](auto& part) {
      if (std::exchange(part.pass, repetition) != repetition) part.rewind();
      part.seek(part_index::within(index), 0, epoch_of_part(epoch_, *only_, repetition));
    });
  }

  /// A mix with the same weights of the sources that `f` makes of these.
  template <class F>
  auto with_parts(F f) const {
    auto parts =
        made_of_parts(parts_, [&](const auto& part) { return mixed_part(f(part.described()), part.weight); });
    return mix_source<decltype(parts)>(options_, std::move(parts));
  }

  std::string parameters() const {
    std::vector<double> weights;
    for_each_part(parts_, [&](const auto& part, std::size_t) { weights.push_back(part.weight); });
    constexpr const char* names[] = {"stop", "continue_with_others", "repeat"};
    std::string all = text_of_weights("mix.weights", weights);
    if (options_.when_one_ends)
      add_parameters(all,
                     std::string("mix.when_one_ends: ") + names[static_cast<int>(*options_.when_one_ends)]);
    add_parameters(all, base::parameters());
    return all;
  }

  std::uint64_t fingerprint(std::uint64_t, const std::stop_token& stop = {}) const {
    const auto chosen = options_.when_one_ends ? static_cast<int>(*options_.when_one_ends) : -1;
    return key(chosen, this->fingerprint_of_parts(number_of(parts_), stop));
  }

 private:
  bool repeats() const noexcept { return when_one_ends_ == when_one_ends::repeat; }

  // A source that yielded nothing in a whole pass isn't repeated.
  bool may_repeat(const auto& part) const noexcept { return repeats() && !is_over() && part.given() > 0; }

  bool is_over() const noexcept {
    std::size_t ended = 0;
    for_each_part(parts_, [&](const auto& part, std::size_t) {
      ended += repeats() ? part.has_ended_once() : part.has_ended();
    });
    return ended == number_of(parts_) || (ended > 0 && when_one_ends_ == when_one_ends::stop);
  }

  // Chooses one of the sources that have not ended, by weight. The choice depends only on (seed, epoch,
  // number of the choice) and on which sources have ended.
  std::size_t choose() noexcept {
    // The sum of the weights before each end, of those that have not ended.
    const auto sum_until = [this](auto passes) {
      double sum = 0;
      bool is_found = false;
      for_each_part(parts_, [&](const auto& part, std::size_t number) {
        if (is_found || part.has_ended()) return;
        sum += part.weight;
        is_found = passes(number, sum);
      });
      return sum;
    };
    const double sum = sum_until([](std::size_t, double) { return false; });
    const double place = sum * random_generator(key(epoch_.seed, epoch_.number, choices_++)).uniform();
    std::size_t chosen = 0;
    sum_until([&](std::size_t number, double end) {
      chosen = number;
      return place < end;
    });
    return chosen;
  }

  std::optional<item> next_of(auto& part, std::size_t number) {
    if (part.is_idle()) part.start(epoch_of_part(epoch_, number, part.pass));
    auto value = part.next();
    if (!value) return std::nullopt;
    index_ = part_index::join(number, part.index());
    repetition_ = part.repetition();
    // A source that repeats samples by itself numbers the repetitions of each pass from 0.
    if (part.pass > 0)
      repetition_ =
          facts::have_repetition ? static_cast<std::uint32_t>(key(part.pass, repetition_)) : part.pass;
    return as_any<item>(std::move(*value));
  }

  mix_options options_;
  feedline::when_one_ends when_one_ends_{};
  epoch epoch_;
  std::uint64_t choices_ = 0;         // made in this epoch
  std::optional<std::size_t> only_{}; // the only source to read, after seek()
  std::uint64_t index_ = 0;           // of the last sample
  std::uint32_t repetition_ = 0;      // likewise
};

/// Sources with weights, optionally followed by options.
template <class... Arguments>
struct mix_arguments {
  static constexpr bool has_options = (std::is_same_v<Arguments, mix_options> || ...);
  static constexpr std::size_t sources = sizeof...(Arguments) - has_options;
  static constexpr bool fit = [] {
    std::size_t number = 0;
    return sources > 0 &&
           (... && (number++ < sources ? is_weighted<Arguments> : std::is_same_v<Arguments, mix_options>));
  }();
};

template <class... Source>
auto make_mix(mix_options options, weighted_source<Source>... sources) {
  static_assert(sizeof...(Source) <= part_index::most_parts, "feedline::mix: it takes 1 to 255 sources");
  return with_workers_of_parts<false>(
      mix_source(options,
                 std::tuple<mixed_part<Source>...>(mixed_part<Source>(sources.source, sources.weight)...)),
      sources.source...);
}

} // namespace detail

/// A source for mix(), optionally followed by map, filter or tap, and its weight: how often it is chosen, in
/// any unit, above 0. The last stages, map or tap, may have workers, which process its samples downstream of the whole mix
/// together with those of its other sources: what comes out is the same.
template <class Source>
auto weighted(Source source, double weight) {
  if (!(weight > 0) || weight == std::numeric_limits<double>::infinity())
    throw std::invalid_argument("feedline::mix: a weight must be a finite number above 0, not " +
                                std::to_string(weight));
  if constexpr (!detail::part_source<Source>) {
    static_assert(
        detail::part_source<Source>,
        "feedline::weighted: it takes a source, optionally followed by map, filter or tap, the last of which "
        "may be map or tap with workers: put other stages after mix()");
    return detail::refused_pipeline();
  } else {
    return detail::weighted_source<detail::source_of_t<Source>>{detail::source_of(std::move(source)), weight};
  }
}

/// Yields samples of several sources. The source of each sample is chosen at random by weight.
///
/// Takes:   up to 255 sources with their weights (see weighted), optionally followed by mix_options: when one source ends,
///          the epoch can repeat it until each has ended once (the default in an infinite run), continue with the
///          others, whose weights stay in proportion (the default in a finite run), or stop
/// Gives:   their items, as a std::variant if the types differ. A sample's index is
///          `number of its source << 56 | its index there`, sources counted from 0; its repetition is the number
///          of the pass over its source in the epoch, from 0
/// Order:   of sources: random, the same for the same seed and epoch; within a source: that of the source.
///          Each source, and each pass over it, has a different seed
/// Throws:  std::invalid_argument for an invalid weight, or weights whose sum is infinite; what the sources
///          throw, when it happens; std::length_error instead of a sample whose index in its
///          source needs more than 56 bits. A source
///          that can't start counts as ended; one that yields nothing in a whole pass isn't repeated
/// Example: `mix(weighted(web, 0.7), weighted(books, 0.3)) | batch(32)`
template <class... Arguments>
auto mix(Arguments... arguments) {
  using given = detail::mix_arguments<Arguments...>;
  if constexpr ((std::is_same_v<Arguments, detail::refused_pipeline> || ...)) {
    return detail::refused_pipeline();
  } else if constexpr (!given::fit) {
    static_assert(given::fit,
                  "feedline::mix: it takes sources with their weights, weighted(source, 0.5), optionally "
                  "followed by mix_options");
    return detail::refused_pipeline();
  } else {
    std::tuple<Arguments...> all(std::move(arguments)...);
    mix_options options;
    if constexpr (given::has_options) options = std::get<mix_options>(all);
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      return detail::make_mix(options, std::get<I>(std::move(all))...);
    }(std::make_index_sequence<given::sources>());
  }
}

/// The same for sources of one type, whose number is known when the program runs. Their stages, if any, have no workers.
template <class Source>
  requires(!detail::finisher<Source>::has_work)
auto mix(const std::vector<detail::weighted_source<Source>>& sources, mix_options options = {}) {
  std::vector<detail::mixed_part<Source>> parts;
  for (const auto& part : detail::checked_parts("mix", sources)) parts.emplace_back(part.source, part.weight);
  return detail::as_pipeline(detail::mix_source(options, std::move(parts)));
}

} // namespace feedline::inline FEEDLINE_ABI
