// SPDX-License-Identifier: MIT
#pragma once
// tune: finds by trial which numbers of workers, capacities of queues and variants of a pipeline are fastest.
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <feedline/core/loader.hpp>
#include <feedline/core/options.hpp>
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

#ifndef FEEDLINE_COMPILED
#include <feedline/telemetry/tune.ipp>
#endif
