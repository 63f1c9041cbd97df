// SPDX-License-Identifier: MIT
#pragma once
// tune: finds by trial which numbers of workers, capacities of queues and variants of a pipeline are fastest.
#include <chrono>

#include <feedline/core/contract.hpp>
#include <feedline/core/loader.hpp>
#include <feedline/core/pipeline.hpp>
#include <feedline/core/workers.hpp>

namespace feedline::inline FEEDLINE_ABI {

/// Options of tune().
struct tune_options {
  double seconds = 20; ///< how long it tries at most, without the time that the last run takes to stop
  /// The most workers of a parallel stage. 0: the number of processors (see processors()), but 256 for a stage that is
  /// `io_bound`, or that waits in context::waiting() longer than it computes.
  std::size_t max_workers = 0;
  /// Tunes live sources too. Each run must find data again that lasts until its measurement ends, as with a sliding window
  /// pool of files that are there already.
  bool accept_live = false;
  /// The options of each run. A `queue_capacity` given here is kept. After a stop through its token, tune() returns what was
  /// measured so far. Of configurations that exceed the memory_budget only the first one, as the pipeline is given, throws.
  infinite_options run{};
};

/// Numbers of workers and a capacity of queues, for one of the variants, and how fast a run with them was.
struct tuned_configuration {
  /// The workers of a parallel stage, or of stages that share them.
  struct stage_workers {
    std::string stage;         ///< "map `decode`"
    feedline::workers workers; ///< as in map(f, workers{…})
  };

  std::string variant;                ///< as named by the caller; empty: the only pipeline
  std::vector<stage_workers> workers; ///< of the parallel stages, in the order of the pipeline
  std::size_t queue_capacity = 0;     ///< as in infinite_options; 0: automatic
  double items_per_second = 0;        ///< the median of the measurements, of two the lower one
  double samples_per_second = 0;      ///< the same for the samples in batches
  std::size_t measurements = 0;       ///< how often it was measured
  std::optional<std::size_t> bytes{}; ///< the most memory that the run holds; nothing: not known
  std::string bottleneck;             ///< a sentence that says what limited the last measurement
};

/// What tune() has tried.
struct tune_result {
  std::vector<tuned_configuration> tried; ///< in this order; each variant first as it is given
  /// Index of the configuration with the fewest workers, then the least memory, then an automatic queue_capacity, among
  /// those that deliver at least 97 % of the samples per second of the fastest.
  std::size_t best_index = 0;

  /// The configuration to copy.
  const tuned_configuration& best() const { return tried[best_index]; }
};

namespace detail {

/// Takes the next item of a run of such items. Gives the number of samples in it.
template <class Item>
next_result<std::size_t> take_samples(owned_run& run, std::chrono::nanoseconds longest) {
  const auto item = static_cast<owned_run_of<Item>&>(run).take(longest);
  if (!item) return {std::nullopt, item.has_ended()};
  if constexpr (comes_in_batches<Item>) return {std::in_place, item->ids().size()};
  else return {std::in_place, 1};
}

class tuner;

} // namespace detail

/// One of several pipelines to compare, which may differ in anything, such as the options of a decoder.
class tune_variant {
 public:
  /// `name`: for the table.
  template <class Source, class... Segments>
  tune_variant(std::string name, const pipeline<Source, Segments...>& p)
      : name_(std::move(name)),
        type_(&p.type()),
        described_(p.described()),
        own_(&detail::own<typename pipeline<Source, Segments...>::item>),
        take_(&detail::take_samples<typename pipeline<Source, Segments...>::item>) {}

 private:
  friend class detail::tuner;

  std::string name_;
  const detail::run_type* type_;
  detail::described_pipeline described_;
  detail::owned_run* (*own_)(std::shared_ptr<detail::pipeline_run> planned);
  next_result<std::size_t> (*take_)(detail::owned_run& run, std::chrono::nanoseconds longest);
};

/// Runs pipelines with several numbers of workers and capacities of queues, one run at a time, and measures how many samples
/// each delivers to a consumer that only takes them.
///
/// Takes:   pipelines with names, whose data is read as by infinite()
/// Gives:   all that was tried; print `to_string(result)` for a table and the options to copy
/// Search:  each variant as it is given, and from there, in turns, with twice as many workers in the stage that limits it,
///          until other threads do; the same from 1 worker per parallel stage; then, around the fastest, fewer workers and
///          queues of half and twice the length. The last third of the time measures the fastest ones again, in turns, up
///          to 5 times each
/// Throws:  what starting a run and next() throw; std::invalid_argument for options without sense and for a live source;
///          std::runtime_error if no run delivered items in that time, or a live source had too few
/// Note:    each run begins with the same samples, which the system may have in memory after the first run. What a run holds
///          before its first item, such as a shuffle buffer, must be filled each time: it takes from the time for the search
/// Example: `std::puts(to_string(fl::tune({{"full size", full}, {"scaled decode", scaled}}, {.seconds = 20})).c_str())`
tune_result tune(std::vector<tune_variant> variants, const tune_options& options = {});

/// The same with one pipeline.
template <class Source, class... Segments>
tune_result tune(const pipeline<Source, Segments...>& p, const tune_options& options = {}) {
  return tune(std::vector<tune_variant>{tune_variant({}, p)}, options);
}

/// A table of what was tried, and the options to copy.
std::string to_string(const tune_result& result);

} // namespace feedline::inline FEEDLINE_ABI

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_TELEMETRY)
#include <bit>
#include <system_error>

#include <feedline/core/metrics.hpp>
#include <feedline/detail/given_size.hpp>

namespace feedline::inline FEEDLINE_ABI {

namespace detail {

/// A run of any items.
struct tuned_run : run_handle {
  explicit tuned_run(std::shared_ptr<owned_run> run) noexcept : run_handle(std::move(run)) {}

  using run_handle::get;
};

/// The median of at least one value; the lower one of two, which may have been lucky otherwise.
FEEDLINE_INLINE double median_of(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// The index of the segment whose threads are occupied most; nothing if the consumer limits the run.
FEEDLINE_INLINE std::optional<std::size_t> limiting_segment(const interval_metrics& m) {
  if (m.consumer.waited < 0.05 * m.seconds) return std::nullopt;
  return busiest_segment(m);
}

/// The stages of a segment: "map `decode` + filter".
FEEDLINE_INLINE std::string stages_of_segment(const interval_metrics& m, std::size_t segment) {
  std::string names;
  for (std::size_t i = 1; i < m.stages.size(); ++i) // without the source, which workers may read themselves
    if (m.stages[i].segment == segment) names += (names.empty() ? "" : " + ") + m.stages[i].name;
  return names;
}

/// A search over configurations.
class tuner {
  using clock = std::chrono::steady_clock;
  using counts = std::vector<worker_range>; // of each segment

  /// A configuration that was measured at least once.
  struct attempt {
    std::size_t variant;
    counts workers;
    std::size_t capacity;
    std::vector<double> items, samples; // per second, of each measurement
    std::optional<std::size_t> bytes{};
    interval_metrics last{};

    double rate() const { return median_of(samples); }

    /// The segments without threads, before those of the metrics.
    std::size_t idle_segments() const { return workers.size() - last.segments.size(); }
  };

 public:
  /// Throws std::invalid_argument for variants and options that make no sense.
  static void check(const std::vector<tune_variant>& variants, const tune_options& options) {
    const auto refuse = [](const std::string& why) { throw std::invalid_argument("feedline::tune: " + why); };
    if (!(options.seconds > 0) || options.seconds > 1e6)
      refuse("the time must be more than 0 and at most 1,000,000 seconds, but is " +
             signed_digits(options.seconds));
    refuse_negative(options.max_workers, "feedline::tune: max_workers");
    if (options.max_workers > workers::limit)
      refuse("max_workers is " + std::to_string(options.max_workers) + ", but a stage can't have more than " +
             std::to_string(workers::limit));
    if (variants.empty()) refuse("there is no pipeline to run: pass at least one variant");
    for (auto v = variants.begin(); v != variants.end(); ++v) {
      for (auto other = variants.begin(); other != v; ++other)
        if (other->name_ == v->name_)
          refuse("two variants have the name `" + v->name_ + "`: give each its own");
      if (v->type_->source.is_live && !options.accept_live)
        refuse("the source is live: each of the runs would take items that the next ones can't read again; "
               "if each "
               "run begins again with enough data, set accept_live");
    }
  }

  tuner(std::vector<tune_variant> variants, const tune_options& options)
      : variants_(std::move(variants)),
        options_(options),
        search_end_(clock::now() + ticks(options.seconds * 0.7)),
        deadline_(clock::now() + ticks(options.seconds)),
        slice_(ticks(options.seconds * 0.5 / planned_measurements())) {}

  tune_result search() {
    for (std::size_t v = 0; v < variants_.size(); ++v) attempt_with(v, given(v), options_.run.queue_capacity);
    add_workers([&](std::size_t v) { return given(v); });
    add_workers([&](std::size_t v) { return with_one_worker(v); });
    if (!tried_.empty()) vary(best());
    measure_fastest_again();
    return result();
  }

 private:
  static constexpr double noise = 0.03; // smaller differences don't count

  static clock::duration ticks(double seconds) {
    return std::chrono::duration_cast<clock::duration>(std::chrono::duration<double>(seconds));
  }

  bool is_over() const { return clock::now() >= deadline_ || options_.run.stop.stop_requested(); }

  /// The numbers of workers that the variant has.
  counts given(std::size_t variant) const {
    counts all;
    for (const auto& s : variants_[variant].described_.stages().segments) all.push_back(s.workers);
    return all;
  }

  bool is_parallel(std::size_t variant, std::size_t segment) const {
    return variants_[variant].described_.stages().segments[segment].traits.parallel;
  }

  /// The most workers to try in a segment; `waits`: more than it computes.
  std::size_t most_workers(bool waits) const {
    if (options_.max_workers > 0) return options_.max_workers;
    return waits ? workers::limit : std::min(processors_, workers::limit);
  }

  /// How many different configurations the search may try.
  double planned_measurements() const {
    double all = 0;
    for (std::size_t v = 0; v < variants_.size(); ++v) {
      all += 4; // as given, with 1 worker, and half of the queues' capacities
      const counts workers = given(v);
      for (std::size_t i = 0; i < workers.size(); ++i)
        if (is_parallel(v, i)) all += static_cast<double>(std::bit_width(most_workers(workers[i].io_bound)));
    }
    return all;
  }

  counts with_one_worker(std::size_t variant) const {
    counts one = given(variant);
    for (std::size_t i = 0; i < one.size(); ++i)
      if (is_parallel(variant, i)) one[i].least = one[i].most = 1;
    return one;
  }

  /// Doubles the workers of the segment that limits each variant, in turns, until another one does or it isn't faster.
  /// `start`: the numbers with which a variant begins.
  template <class Start>
  void add_workers(Start start) {
    struct climb {
      std::optional<std::size_t> at; // the current attempt; nothing: at its end
      double highest;
      std::size_t patience; // how many more additions may fail to be faster
    };

    std::vector<climb> climbs;
    for (std::size_t v = 0; v < variants_.size(); ++v) {
      const counts workers = start(v);
      climbs.push_back({attempt_with(v, workers, options_.run.queue_capacity), 0, workers.size()});
    }
    const auto is_climbing = [](const climb& c) { return c.at.has_value(); };
    while (std::any_of(climbs.begin(), climbs.end(), is_climbing))
      for (climb& c : climbs) {
        if (!c.at) continue;
        const attempt& now = tried_[*c.at];
        if (now.rate() > c.highest * (1 + noise)) {
          c.highest = now.rate();
          c.patience = now.workers.size();
        } else if (--c.patience == 0) {
          c.at.reset();
          continue;
        }
        const std::optional<counts> more = with_more_workers(now);
        c.at = more ? attempt_with(now.variant, *more, now.capacity) : std::nullopt;
      }
  }

  /// Twice as many workers in the segment that limits the attempt. Nothing if they can't help.
  std::optional<counts> with_more_workers(const attempt& a) const {
    const std::optional<std::size_t> limiting = limiting_segment(a.last);
    if (!limiting || !a.last.segments[*limiting].parallel) return std::nullopt;
    const segment_metrics& busiest = a.last.segments[*limiting];
    counts more = a.workers;
    worker_range& range = more[*limiting + a.idle_segments()];
    const bool waits = range.io_bound || busiest.waiting_fraction() > busiest.busy_fraction();
    const std::size_t count = std::min(2 * range.most, most_workers(waits));
    if (count <= range.most) return std::nullopt;
    range.least = range.most = count;
    return more;
  }

  /// Tries a quarter of the workers fewer in each segment, then shorter and longer queues.
  void vary(std::size_t number) {
    const std::size_t variant = tried_[number].variant, capacity = tried_[number].capacity;
    const counts workers = tried_[number].workers;
    for (std::size_t i = 0; i < workers.size(); ++i) {
      if (!workers[i].is_fixed() || workers[i].most < 3) continue;
      const std::size_t fewer = workers[i].most - std::max<std::size_t>(1, workers[i].most / 4);
      counts other = workers;
      other[i].least = other[i].most = fewer;
      attempt_with(variant, other, capacity);
    }
    if (capacity > 0) return;
    // The shortest queue counts: a longer one may hold small samples, but this one holds batches.
    std::uint64_t shortest = ~std::uint64_t{0};
    for (const queue_metrics& q : tried_[number].last.queues) shortest = std::min(shortest, q.capacity);
    for (const std::uint64_t other : {shortest / 2, shortest * 2})
      if (other > 0) attempt_with(variant, workers, other);
  }

  /// Uses the remaining time for the attempts that may be the best one, and for the variants as given: always for the one
  /// measured least often, of several for the fastest.
  void measure_fastest_again() {
    for (constexpr std::size_t most = 5; !tried_.empty() && !is_over();) {
      const double highest = tried_[fastest()].rate();
      const auto order = [](const attempt& a) { return std::tuple(a.samples.size(), -a.rate()); };
      attempt* next = nullptr;
      for (std::size_t i = 0; i < tried_.size(); ++i)
        if ((i < variants_.size() || tried_[i].rate() > 0.9 * highest) && tried_[i].samples.size() < most &&
            (!next || order(tried_[i]) < order(*next)))
          next = &tried_[i];
      if (!next) return;
      measure(*next);
    }
  }

  /// Measures a configuration, unless it was tried before. Its index; nothing if it can't be measured.
  std::optional<std::size_t> attempt_with(std::size_t variant, const counts& workers, std::size_t capacity) {
    const auto same = [](const worker_range& a, const worker_range& b) {
      return a.least == b.least && a.most == b.most;
    };
    for (std::size_t i = 0; i < tried_.size(); ++i)
      if (tried_[i].variant == variant && tried_[i].capacity == capacity &&
          std::equal(workers.begin(), workers.end(), tried_[i].workers.begin(), same))
        return i;
    const bool is_given = tried_.size() < variants_.size();
    if (is_over() || (!is_given && clock::now() >= search_end_)) return std::nullopt;
    attempt a{variant, workers, capacity, {}, {}};
    try {
      if (!measure(a)) return std::nullopt;
    } catch (const std::invalid_argument&) { // it exceeds the memory_budget
      if (is_given || options_.run.memory_budget == 0) throw;
      return std::nullopt;
    } catch (const std::system_error&) { // so many threads can't be started
      if (is_given) throw;
      return std::nullopt;
    }
    tried_.push_back(std::move(a));
    return tried_.size() - 1;
  }

  /// Runs an attempt for a slice of the time, and adds what it delivered. False if that wasn't enough.
  bool measure(attempt& a) {
    const tune_variant& variant = variants_[a.variant];
    infinite_options options = options_.run;
    options.queue_capacity = a.capacity;
    composed_stages stages = variant.described_.stages();
    for (std::size_t i = 0; i < a.workers.size(); ++i) stages.segments[i].workers = a.workers[i];
    tuned_run run(described_pipeline(variant.described_.source(), std::move(stages))
                      .start(*variant.type_, as_run_options(options), variant.own_));

    std::size_t items = 0, samples = 0;
    clock::time_point now;
    const auto take_until = [&](clock::time_point end, auto is_enough) {
      for (now = clock::now(); now < end;) {
        const auto taken = variant.take_(*run.get(), end - now);
        now = clock::now();
        if (taken.has_ended() && !options_.run.stop.stop_requested())
          throw std::runtime_error("feedline::tune: the source ended before a run was measured: tune needs a "
                                   "source that yields more, or shorter `seconds`");
        if (taken.has_ended()) return false;
        if (!taken) continue;
        ++items;
        samples += *taken;
        if (is_enough()) return true;
      }
      return false;
    };
    clock::time_point began;
    const bool is_known = !a.samples.empty() || tried_.size() < variants_.size();
    const bool is_warm =
        take_until(is_known ? deadline_ : std::min(deadline_, std::max(search_end_, clock::now())), [&] {
          if (items == 1) began = now;
          return now - began >= slice_ / 4;
        });
    if (!is_warm) return false;
    run.metrics();
    began = now;
    items = samples = 0;
    if (!take_until(std::max(deadline_, now + slice_), [&] { return now - began >= slice_; })) return false;
    const double time = std::chrono::duration<double>(now - began).count();
    a.last = run.metrics().recent;
    a.items.push_back(static_cast<double>(items) / time);
    a.samples.push_back(static_cast<double>(samples) / time);
    a.bytes = run.memory().bytes();
    return true;
  }

  std::size_t fastest() const {
    const auto slower = [](const attempt& a, const attempt& b) { return a.rate() < b.rate(); };
    return static_cast<std::size_t>(std::max_element(tried_.begin(), tried_.end(), slower) - tried_.begin());
  }

  /// See tune_result::best_index.
  std::size_t best() const {
    const auto cost = [&](const attempt& a) {
      std::size_t threads = 0;
      for (const worker_range& w : a.workers) threads += w.on(processors_).most;
      return std::tuple(threads, a.bytes.value_or(~std::size_t{0}), a.capacity);
    };
    std::size_t best = fastest();
    const double least = (1 - noise) * tried_[best].rate();
    for (std::size_t i = 0; i < tried_.size(); ++i)
      if (tried_[i].rate() >= least && cost(tried_[i]) < cost(tried_[best])) best = i;
    return best;
  }

  tune_result result() const {
    if (tried_.empty())
      throw std::runtime_error(options_.run.stop.stop_requested()
                                   ? "feedline::tune: it was stopped before anything was measured"
                                   : "feedline::tune: too few items arrived within " +
                                         digits(options_.seconds) + " seconds: give it more `seconds`");
    tune_result all{{}, best()};
    for (const attempt& a : tried_) {
      std::vector<tuned_configuration::stage_workers> workers;
      for (std::size_t i = 0; i < a.workers.size(); ++i)
        if (const worker_range& w = a.workers[i]; is_parallel(a.variant, i))
          workers.push_back({stages_of_segment(a.last, i - a.idle_segments()),
                             {.count = w.least,
                              .max = w.is_fixed() ? 0 : w.most,
                              .io_bound = w.io_bound,
                              .cpus = variants_[a.variant].described_.stages().segments[i].cpus}});
      all.tried.push_back({variants_[a.variant].name_, std::move(workers), a.capacity, median_of(a.items),
                           a.rate(), a.samples.size(), a.bytes, a.last.bottleneck});
    }
    return all;
  }

  std::vector<tune_variant> variants_;
  const tune_options& options_;
  const std::size_t processors_ = processors();
  const clock::time_point search_end_; // later only known configurations are measured
  const clock::time_point deadline_;
  const clock::duration slice_; // of each measurement
  std::vector<attempt> tried_;
};

/// "workers{3}", as in code.
FEEDLINE_INLINE std::string workers_text(const workers& w) {
  const std::string on = w.cpus.is_empty() ? "" : ".on(…)"; // the same processors
  const std::string io_bound = std::string(w.io_bound ? ", .io_bound = true}" : "}") + on;
  if (w.max == 0) return (w.io_bound ? "workers{.count = " : "workers{") + std::to_string(w.count) + io_bound;
  if (w.count == 1 && w.max == workers::limit && !w.io_bound) return "workers::automatic";
  return "workers{.count = " + std::to_string(w.count) + ", .max = " + std::to_string(w.max) + io_bound;
}

} // namespace detail

FEEDLINE_INLINE tune_result tune(std::vector<tune_variant> variants, const tune_options& options) {
  detail::tuner::check(variants, options);
  return detail::tuner(std::move(variants), options).search();
}

FEEDLINE_INLINE std::string to_string(const tune_result& result) {
  using detail::pad_left, detail::pad_right, detail::digits;
  if (result.tried.empty()) return "nothing was tried\n";
  const auto name_of = [](const tuned_configuration& c) {
    std::string name = c.variant;
    for (const auto& [stage, workers] : c.workers)
      name += (name.empty() ? "" : ", ") + stage + ": " + detail::workers_text(workers);
    return name.empty() ? "as given" : name;
  };
  std::size_t width = 13;
  for (const tuned_configuration& c : result.tried) width = std::max(width, name_of(c).size());
  std::string text =
      pad_right("configuration", width + 2) + "    queues   items/s samples/s      memory  what limits\n";
  for (const tuned_configuration& c : result.tried)
    text += (&c == &result.best() ? "* " : "  ") + pad_right(name_of(c), width) +
            pad_left(c.queue_capacity == 0 ? "automatic" : std::to_string(c.queue_capacity), 10) +
            pad_left(digits(c.items_per_second), 10) + pad_left(digits(c.samples_per_second), 10) +
            pad_left(c.bytes ? detail::bytes_text(*c.bytes) : "unknown", 12) + "  " + c.bottleneck + "\n";
  const tuned_configuration& best = result.best();
  text += "The best:\n";
  if (!best.variant.empty()) text += "  variant `" + best.variant + "`\n";
  for (const auto& [stage, workers] : best.workers)
    text += "  " + stage + ": " + detail::workers_text(workers) + "\n";
  return text + "  queue_capacity: " + std::to_string(best.queue_capacity) +
         (best.queue_capacity == 0 ? " (automatic)\n" : "\n");
}

} // namespace feedline::inline FEEDLINE_ABI
#endif
