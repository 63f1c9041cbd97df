// SPDX-License-Identifier: MIT
#pragma once
// Composition: source | stage | stage … makes a pipeline, a value that describes the work and starts nothing.
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include <feedline/core/loader.hpp>
#include <feedline/core/memory_plan.hpp>
#include <feedline/core/options.hpp>
#include <feedline/core/plan/composition.hpp>
#include <feedline/core/plan/segments.hpp>
#include <feedline/core/run/pipeline_run.hpp>
#include <feedline/core/run/replay.hpp>
#include <feedline/core/run/run_type.hpp>
#include <feedline/core/run/tables.hpp>
#include <feedline/core/samples_in_order.hpp>
#include <feedline/core/source.hpp>
#include <feedline/core/stage.hpp>
#include <feedline/detail/share.hpp>

namespace feedline::inline FEEDLINE_ABI {

namespace detail {

/// A part of the library, which makes `operator|` apply; the other operand may be a user's plain class.
template <class T>
concept part = requires { typename T::feedline_part; };

/// A pipeline without its types, which a run_type has. Copies share everything.
class described_pipeline {
 public:
  described_pipeline(std::shared_ptr<const void> source, composed_stages&& stages);
  described_pipeline(const described_pipeline&);
  described_pipeline(described_pipeline&&) noexcept;
  described_pipeline& operator=(const described_pipeline&);
  described_pipeline& operator=(described_pipeline&&) noexcept;
  ~described_pipeline();

  /// Starts a run, which `own` takes over.
  std::shared_ptr<owned_run> start(const run_type& type, const run_options& options,
                                   owned_run* (*own)(std::shared_ptr<pipeline_run> planned)) const;

  /// See pipeline.
  memory_plan memory(const run_type& type, const run_options& options) const;
  std::optional<std::uint64_t> size(const run_type& type, const run_options& options) const;

  const std::shared_ptr<const void>& source() const noexcept { return source_; }

  const composed_stages& stages() const noexcept { return stages_; }

 private:
  struct finite_runs;

  std::shared_ptr<const void> source_;
  composed_stages stages_;
  std::shared_ptr<finite_runs> finite_runs_;
};

} // namespace detail

/// Stages without a source: the result of `map(f) | filter(g)`.
template <class... Segments>
struct stage_row {
  using feedline_part = void;
  using segments = detail::segment_list<Segments...>; ///< the stages by the threads that they share

  detail::composed_stages composed; ///< in order
};

/// A source and its stages, grouped into segments that share threads. An inexpensive value: copies share the
/// stages and the source's data. It can be run many times, also concurrently.
template <source Source, class... Segments>
class pipeline {
  static_assert(
      detail::movable_item<source_item_t<Source>>,
      "feedline: the items that this Source yields can't be moved without throwing, so a queue can't "
      "pass them on: declare their move constructor noexcept");

 public:
  using feedline_part = void;
  using segments = detail::segment_list<Segments...>; ///< the stages by the threads that they share
  /// The type of the items that a run yields.
  using item = typename segments::stage_types::template output<source_item_t<Source>>;

  /// For the library; `from(source)` makes a pipeline from a custom source.
  pipeline(std::shared_ptr<const void> source, detail::composed_stages&& stages)
      : described_(std::move(source), std::move(stages)) {}

  /// Starts a run over all of the data, `epochs` times: each sample exactly once per epoch. With several
  /// epochs each has its own order. Stages emit the items that they hold at each epoch's end.
  auto finite(const finite_options& o = {}) const { return start(detail::as_run_options(o)); }

  /// Starts a run that never ends by itself: epoch after epoch, each in its own order, without a pause
  /// between them.
  auto infinite(const infinite_options& o = {}) const { return start(detail::as_run_options(o)); }

  /// Explains that an infinite run has no number of epochs.
  template <std::same_as<finite_options> Options = finite_options>
  detail::refused_pipeline infinite(const Options&) const {
    static_assert(
        !std::is_same_v<Options, finite_options>,
        "feedline: infinite() has no .epochs and no .first_epoch, as its run never ends by itself: use "
        "finite() for a number of epochs, or leave the loop after a number of batches");
    return {};
  }

  /// The most memory that a run with these options can hold, also a finite one. Throws what starting it would
  /// throw.
  memory_plan memory(const infinite_options& o = {}) const {
    return described_.memory(type(), detail::as_run_options(o));
  }

  /// The number of items in an epoch of a run with these options, if nothing fails. Nothing if it can't be
  /// known without running, because the source doesn't know its number of samples or a stage leaves out some.
  /// May read a data set's index; throws what starting a run would throw.
  std::optional<std::uint64_t> size(const finite_options& o = {}) const {
    return described_.size(type(), detail::as_run_options(o));
  }

  /// The same on average, rounded down, because batches continue from one epoch into the next.
  std::optional<std::uint64_t> size(const infinite_options& o) const {
    return described_.size(type(), detail::as_run_options(o));
  }

  /// One sample as a run with that seed processed it in its epoch, with the same random numbers. `id`: as in
  /// `batch.ids()`. The sample passes through the stages up to the first that combines several samples, as batch does.
  /// Returns nothing if it was filtered out, the source can't
  /// yield a sample with that index, or the options' token requested a stop. Other parts of the sample, as flat_map makes them, may
  /// fail. Throws pipeline_error for an error with which a stage of the run would have failed on this one, and
  /// std::runtime_error if the source, which may never end, has yielded 100 million other samples or has failed 100,000
  /// times in a row.
  auto replay(std::uint64_t seed, const sample_id& id) const {
    if constexpr (requires { Source::traits; })
      static_assert(
          !Source::traits.depends_on_file_order,
          "feedline: a zip of files pairs other samples in another mode: pass replay() the options of the "
          "run instead of its seed");
    infinite_options options;
    options.seed = seed;
    return replay(options, id);
  }

  /// The same for a run with these options. A finite run of one epoch reads files in another order than any
  /// other run, so a `zip` of them makes other pairs.
  auto replay(const infinite_options& options, const sample_id& id) const {
    return detail::replay<stage_types>(source(), composed(), detail::as_run_options(options), id);
  }

  /// The same for a finite run with these options.
  auto replay(const finite_options& options, const sample_id& id) const {
    return detail::replay<stage_types>(source(), composed(), detail::as_run_options(options), id);
  }

  /// Explains that a pipeline must run before it can be iterated over.
  template <class Iterating = void>
  detail::refused_iterator begin() const {
    static_assert(
        !std::is_void_v<Iterating>,
        "feedline: a pipeline only describes the work: iterate over the loader that its finite() or "
        "infinite() returns");
    return {};
  }

  detail::refused_iterator end() const { return {}; }

  /// The source, as described.
  const Source& source() const& { return *static_cast<const Source*>(described_.source().get()); }

  /// The stages, as described.
  const detail::composed_stages& composed() const noexcept { return described_.stages(); }

  ///@{
  /// For the library: what the pipeline consists of, and of which types.
  const detail::described_pipeline& described() const noexcept { return described_; }

  static constexpr const detail::run_type& type() noexcept {
    return detail::tables<Source, Segments...>::run;
  }

  ///@}

 private:
  using stage_types = typename segments::stage_types;

  auto start(const detail::run_options& options) const {
    return loader<item, type().has>(described_.start(type(), options, &detail::own<item>));
  }

  detail::described_pipeline described_;
};

/// The type that `pipeline.infinite()` and `pipeline.finite()` return, for a member or a parameter.
template <class Pipeline>
using loader_of = decltype(std::declval<const Pipeline&>().finite());

namespace detail {

template <class T>
inline constexpr bool is_pipeline = false;
template <class Source, class... Segments>
inline constexpr bool is_pipeline<pipeline<Source, Segments...>> = true;

template <class T>
concept starts_pipeline = is_pipeline<T> || source<T> || only_indexed<T>;

/// Whether the order of samples doesn't matter to any of the stages, so that they may follow a stage that
/// changes it.
template <class... Stages>
consteval bool keep_any_order(types<Stages...>) {
  return ((stateless<Stages> && traits_of<Stages>().position_from_last_sample) && ...);
}

/// The pipeline with another source.
template <class NewSource, class Source, class... Segments>
pipeline<NewSource, Segments...> with_source(NewSource source, const pipeline<Source, Segments...>& p) {
  return {share(std::move(source)), composed_stages(p.composed())};
}

/// The source, or the last stage if there are stages.
template <class Last, class... Rest>
struct last_of {
  using type = Last;
};

template <class Before, class S, class... Rest>
struct last_of<Before, S, Rest...> : last_of<S, Rest...> {};

template <class Source, class... Stages>
std::type_identity<typename last_of<Source, Stages...>::type> last_stage(types<Stages...>);

template <class... Segments>
stage_row<Segments...> row_of(types<Segments...>, composed_stages&& stages) {
  return {std::move(stages)};
}

template <class... Segments>
stage_row<Segments...> as_row(stage_row<Segments...> row) {
  return row;
}

template <class S>
stage_row<segment<segment_traits{}, S>> as_row(S stage) {
  return {detail::serial(std::move(stage))};
}

template <class... Before, class... After>
auto append(const stage_row<Before...>& before, const stage_row<After...>& after) {
  return row_of(typename joined_segments<types<>, Before..., After...>::type(),
                joined(before.composed, after.composed));
}

template <class Source, class... Segments>
pipeline<Source, Segments...> pipeline_of(const std::shared_ptr<const void>& source, types<Segments...>,
                                          composed_stages&& stages) {
  return {source, std::move(stages)};
}

template <class Source, class... Before, class... After>
auto append(const pipeline<Source, Before...>& p, const stage_row<After...>& after) {
  using before = pipeline<Source, Before...>;
  using last = typename decltype(last_stage<Source>(typename before::segments::stage_types()))::type;
  using stages = typename stage_row<After...>::segments::stage_types;
  using whole = typename composition_of<last, typename before::item, stages>::type;
  if constexpr (!movable_item<source_item_t<Source>>) { // the pipeline upstream says so
    return refused_pipeline();
  } else if constexpr (whole::fits) {
    return pipeline_of<Source>(p.described().source(),
                               typename joined_segments<types<>, Before..., After...>::type(),
                               joined(p.composed(), after.composed));
  } else {
    static_cast<void>(sizeof(typename whole::check));
    return refused_pipeline();
  }
}

/// Not a stage: it makes another pipeline from the one upstream.
template <class T>
concept changes_source = requires { typename T::feedline_changes_source; };

/// A row with at least one part that isn't a stage: it is composed once a pipeline is upstream of it.
template <class Left, class Right>
struct row_with_change {
  using feedline_part = void;
  using feedline_changes_source = void;

  template <class Source, class... Segments>
  auto changed(const pipeline<Source, Segments...>& p) const {
    return p | left | right;
  }

  Left left;
  Right right;
};

template <class T>
auto as_pipeline(T source) {
  if constexpr (is_pipeline<T>) return source;
  else if constexpr (only_indexed<T>)
    return pipeline<samples_in_order<T>, segment<segment_traits{}>>(
        share(samples_in_order<T>(std::move(source))), serial());
  else return pipeline<T, segment<segment_traits{}>>(share(std::move(source)), serial());
}

template <class T>
concept container = !starts_pipeline<T> && !part<T> && requires(const T& t) { t.begin() != t.end(); };

} // namespace detail

/// Appends a stage to a source, a pipeline or another stage.
template <class Left, class Right>
  requires detail::part<std::remove_cvref_t<Left>> || detail::part<std::remove_cvref_t<Right>>
[[gnu::cold,
  nodiscard("a pipeline only describes the work: iterate over the loader that its finite() or infinite() "
            "returns")]] auto
operator|(Left&& left, Right&& right) {
  using L = std::remove_cvref_t<Left>;
  using R = std::remove_cvref_t<Right>;
  static_assert(!detail::starts_pipeline<R> || !detail::starts_pipeline<L>,
                "feedline: Right is a second source: a pipeline has only one, at its beginning");
  static_assert(!detail::starts_pipeline<R> || detail::starts_pipeline<L>,
                "feedline: Right is a source and must come before Left, which is a stage");
  static_assert(!detail::container<L>,
                "feedline: Left is a container, not a source: begin the pipeline with from(container)");
  if constexpr (std::is_same_v<L, detail::refused_pipeline> || std::is_same_v<R, detail::refused_pipeline> ||
                detail::starts_pipeline<R> || detail::container<L>)
    return detail::refused_pipeline();
  else if constexpr (detail::starts_pipeline<L> && detail::changes_source<R>)
    return right.changed(detail::as_pipeline(L(std::forward<Left>(left))));
  else if constexpr (detail::changes_source<L> || detail::changes_source<R>)
    return detail::row_with_change<L, R>{std::forward<Left>(left), std::forward<Right>(right)};
  else if constexpr (detail::is_pipeline<L>)
    return detail::append(left, detail::as_row(R(std::forward<Right>(right))));
  else if constexpr (detail::starts_pipeline<L>)
    return detail::append(detail::as_pipeline(L(std::forward<Left>(left))),
                          detail::as_row(R(std::forward<Right>(right))));
  else
    return detail::append(detail::as_row(L(std::forward<Left>(left))),
                          detail::as_row(R(std::forward<Right>(right))));
}

namespace detail {

using feedline::operator|; // for a user's source upstream of a stage, whose class is in this namespace

} // namespace detail

} // namespace feedline::inline FEEDLINE_ABI

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_CORE)
#include <atomic>
#include <new>

#include <feedline/core/callback.hpp>
#include <feedline/core/failure.hpp>
#include <feedline/core/random.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// A loop over `finite()` with the same options trains on the same random order in every pass, which is rarely intended: one
/// notice for each pipeline, on stderr one in all, says so.
struct described_pipeline::finite_runs {
  void note(const run_options& options) {
    if (options.endless || options.first_epoch || options.resume) return;
    static std::atomic<bool> was_printed{false};
    const std::uint64_t order = key(options.seed, options.rank.number);
    const std::uint64_t before = order_.exchange(order);
    if (!has_run_.exchange(true) || before != order || was_noticed_.exchange(true)) return;
    if (!options.on_notice && was_printed.exchange(true)) return;
    notify(options.on_notice,
           "feedline: a pipeline with a random order runs once more with finite() and the same seed: it "
           "repeats the order and the random numbers of the run before; in a loop over epochs pass "
           ".first_epoch = epoch");
  }

 private:
  std::atomic<bool> has_run_{false};
  std::atomic<std::uint64_t> order_{0}; // hash of what determines it
  std::atomic<bool> was_noticed_{false};
};

FEEDLINE_INLINE described_pipeline::described_pipeline(std::shared_ptr<const void> source,
                                                       composed_stages&& stages)
    : source_(std::move(source)), stages_(std::move(stages)), finite_runs_(std::make_shared<finite_runs>()) {}

FEEDLINE_INLINE described_pipeline::described_pipeline(const described_pipeline&) = default;
FEEDLINE_INLINE described_pipeline::described_pipeline(described_pipeline&&) noexcept = default;
FEEDLINE_INLINE described_pipeline& described_pipeline::operator=(const described_pipeline&) = default;
FEEDLINE_INLINE described_pipeline& described_pipeline::operator=(described_pipeline&&) noexcept = default;
FEEDLINE_INLINE described_pipeline::~described_pipeline() = default;

FEEDLINE_INLINE std::shared_ptr<owned_run>
described_pipeline::start(const run_type& type, const run_options& options,
                          owned_run* (*own)(std::shared_ptr<pipeline_run> planned)) const {
  try {
    owned_run* const run = own(std::make_shared<pipeline_run>(type, source_, stages_, options));
    // A child of fork() inherits the run without its threads, whose locks may never be released: it leaves the memory as it is.
    const std::shared_ptr<owned_run> started(run, [](owned_run* r) {
      if (!r->run->is_inherited()) delete r;
    });
    if (type.has_random_order) finite_runs_->note(options);
    return started;
  } catch (const std::bad_alloc&) {
    throw pipeline_error(current_failure("the start of the run", {}));
  }
}

FEEDLINE_INLINE memory_plan described_pipeline::memory(const run_type& type,
                                                       const run_options& options) const {
  return pipeline_run(type, source_, stages_, options).memory();
}

FEEDLINE_INLINE std::optional<std::uint64_t> described_pipeline::size(const run_type& type,
                                                                      const run_options& options) const {
  if (type.drops) return std::nullopt;
  for (const stage_type& s : type.stages)
    if (!s.output_count) return std::nullopt;
  std::optional<std::uint64_t> items = type.source.samples_in_epoch(source_.get(), options);
  const bool drains = options.epochs != run_options::for_ever;
  for (std::size_t i = 0; items && i < type.stages.size(); ++i)
    items = type.stages[i].output_count(stages_.stages[i].get(), *items, drains);
  return items;
}

} // namespace feedline::inline FEEDLINE_ABI::detail
#endif
