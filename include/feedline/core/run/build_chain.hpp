// SPDX-License-Identifier: MIT
#pragma once
// Builds chains of stages: for a segment of a run, or for samples that are processed outside of a run.
#include <cstddef>
#include <cstdint>
#include <stop_token>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <feedline/core/failure.hpp>
#include <feedline/core/metrics/thread_counters.hpp>
#include <feedline/core/plan/segments.hpp>
#include <feedline/core/run/chain.hpp>
#include <feedline/core/run/emitter.hpp>
#include <feedline/core/run/progress.hpp>
#include <feedline/core/sample.hpp>
#include <feedline/core/stage.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// A thread's copy of a stage. Throws pipeline_error if it can't be made.
template <class In, class Stage>
bound_t<Stage, In> started(const Stage& stage, const stage_place& place) {
  try {
    if constexpr (binds_to<Stage, In>)
      return stage.template bind<In>(
          stage_info{place.random_key(), place.run.stop, place.items_in_flight, place.run.first_epoch});
    else return stage;
  } catch (...) {
    throw pipeline_error(current_failure(place.name, {}));
  }
}

/// Builds the chain of stages First to Last - 1 of some segments, which ends in a sink. `place` is that of the
/// first stage. `SkipUnchanged` leaves out stages that only pass samples on.
template <class In, std::size_t First, std::size_t Last, bool SkipUnchanged = false, class Segments,
          class Sink>
auto make_chain(const Segments& segments, Sink sink, thread_counters& thread, std::size_t counter,
                const stage_place* place) {
  if constexpr (First == Last) {
    return sink;
  } else {
    const auto& stage = segments.template stage<First>();
    using stage_type = std::remove_cvref_t<decltype(stage)>;
    using running = bound_t<stage_type, In>;
    auto next = make_chain<typename running::output, First + 1, Last, SkipUnchanged>(
        segments, std::move(sink), thread, counter + 1, place + 1);
    if constexpr (SkipUnchanged && traits_of<stage_type>().unchanged) {
      return next;
    } else {
      constexpr node_traits traits{.is_stateless = stateless<stage_type>,
                                   .position_from_last_sample =
                                       traits_of<stage_type>().position_from_last_sample,
                                   .keeps_over_epochs = keeps_over_epochs<stage_type>,
                                   .checkpoints_mid_call = traits_of<stage_type>().checkpoints_mid_call};
      return node<running, In, decltype(next), traits>(started<In>(stage, *place), *place,
                                                       thread.stages[counter], std::move(next));
    }
  }
}

/// The number of leading stages that make their output from one sample alone.
template <class... Stages>
consteval std::size_t stages_of_one_sample(types<Stages...>) {
  std::size_t count = 0;
  bool all = true;
  ((all = all && makes_of_one_sample<Stages>, count += all), ...);
  return count;
}

/// The base of sinks at the end of a chain outside of a run.
class sample_sink {
 public:
  static constexpr bool is_measured = false;
  static constexpr bool has_room = false;

  explicit sample_sink(segment_progress& progress) : progress_(progress) {}

  sample_sink& sink() noexcept { return *this; }

  segment_progress& progress() noexcept { return progress_; }

  flow settle() noexcept { return flow::more; }

  flow hand_over_in_call() noexcept { return flow::more; }

  void take_owed_snapshot() noexcept {}

  void begin_packet(std::uint64_t) noexcept {}

 private:
  segment_progress& progress_;
};

/// The names of the source and all stages.
template <class Segments>
std::vector<std::string> names_of(std::string source_name, const Segments& stages) {
  std::vector<std::string> names{std::move(source_name)};
  const auto add = [&](const auto& s) { names.push_back(stage_name(s)); };
  stages.for_each_stage(add);
  return names;
}

/// Numbers the names that several places have, "map (1 of 2)", so that a message tells which of them it means.
void number_equal_names(std::vector<stage_place>& places);

/// The places of a source and stages with these names. An additional one at the end keeps pointers to the last one
/// valid.
std::vector<stage_place> places_outside_run(const run_context& context, std::vector<std::string> names);

/// One thread's copy of the first `Last` stages of some segments, for samples that pass through them outside of
/// a run: to replay them, to read them again, or inside another stage. A Sink receives the output.
template <class In, std::size_t Last, class Sink, class Segments>
class sample_worker {
 public:
  /// `rest`: the sink's arguments after its segment_progress.
  template <class... Rest>
  sample_worker(std::string source_name, const Segments& stages, std::uint64_t seed, on_error how,
                const std::stop_token& stop, Rest&&... rest)
      : context_{seed, how, false, stop},
        places_(places_outside_run(context_, names_of(std::move(source_name), stages))),
        thread_(places_.size()),
        progress_(0),
        chain_(make_chain<In, 0, Last, true>(stages, Sink(progress_, std::forward<Rest>(rest)...), thread_, 0,
                                             places_.data() + 1)) {
    chain_.begin_packet(~std::uint64_t{0}); // no position in a stream
  }

  sample_worker(sample_worker&&) = delete;

  flow push(sample<In>&& s) { return chain_.push(std::move(s)); }

  run_context& context() noexcept { return context_; }

 private:
  using chain = decltype(make_chain<In, 0, Last, true>(std::declval<const Segments&>(), std::declval<Sink>(),
                                                       std::declval<thread_counters&>(), 0,
                                                       std::declval<const stage_place*>()));

  run_context context_;
  std::vector<stage_place> places_;
  thread_counters thread_;
  segment_progress progress_;
  chain chain_;
};

} // namespace feedline::inline FEEDLINE_ABI::detail

#ifndef FEEDLINE_COMPILED
#include <feedline/core/run/build_chain.ipp>
#endif
