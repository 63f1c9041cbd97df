// SPDX-License-Identifier: MIT
#pragma once
// Builds chains of stages: for a segment of a run, or for samples that are processed outside of a run.
#include <cstddef>
#include <cstdint>
#include <stdexcept>
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
#include <feedline/core/run/node_base.hpp>
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

/// Builds the chain of stages First to Last - 1 of some segments, which ends in the sink that `make_sink` returns. `place` is
/// that of the first stage. `SkipUnchanged` leaves out stages that only pass samples on.
template <class In, std::size_t First, std::size_t Last, bool SkipUnchanged = false, class Segments,
          class MakeSink>
auto make_chain(const Segments& segments, const MakeSink& make_sink, thread_counters& thread,
                std::size_t counter, const stage_place* place) {
  if constexpr (First == Last) {
    return make_sink();
  } else {
    const auto& stage = segments.template stage<First>();
    using stage_type = std::remove_cvref_t<decltype(stage)>;
    using running = bound_t<stage_type, In>;
    const auto make_next = [&] {
      return make_chain<typename running::output, First + 1, Last, SkipUnchanged>(segments, make_sink, thread,
                                                                                  counter + 1, place + 1);
    };
    if constexpr (SkipUnchanged && traits_of<stage_type>().unchanged) {
      return make_next();
    } else {
      constexpr node_traits traits{
          .is_stateless = stateless<stage_type>,
          .position_from_last_sample = traits_of<stage_type>().position_from_last_sample,
          .keeps_over_epochs = keeps_over_epochs<stage_type>,
          .checkpoints_mid_call = traits_of<stage_type>().checkpoints_mid_call,
          .can_fail_again = stateless<stage_type> && traits_of<stage_type>().position_from_last_sample &&
                            !runs_stages_inside<running>};
      return node<running, In, decltype(make_next()), traits>(*place, thread.stages[counter], make_next,
                                                              [&] { return started<In>(stage, *place); });
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

/// What stages make of one sample: values and failures, in their order.
template <class T>
struct outcomes {
  struct failed {
    std::size_t position; // the number of values before it
    failure_ptr failure;
  };

  std::vector<sample<T>> values;
  std::vector<failed> failures;

  void clear() noexcept {
    values.clear();
    failures.clear();
  }
};

/// The end of a chain outside of a run.
template <class T>
class outcome_sink final : public chain_end {
 public:
  static constexpr bool is_measured = false;
  static constexpr bool has_room = false;

  /// `max_values`: the most values of a sample; 0: no limit.
  outcome_sink(segment_progress& progress, outcomes<T>& into, const std::stop_token& stop,
               std::size_t max_values)
      : chain_end(progress), into_(into), stop_(stop), max_values_(max_values) {}

  outcome_sink& sink() noexcept { return *this; }

  flow push(sample<T>&& s) {
    if (max_values_ > 0 && into_.values.size() == max_values_)
      throw std::length_error("its sample becomes more than the " + std::to_string(max_values_) +
                              " items that items_per_sample of the cache allows");
    into_.values.push_back(std::move(s));
    return stop_.stop_requested() ? flow::stop : flow::more;
  }

  flow skipped(failure_ptr f) override {
    into_.failures.push_back({into_.values.size(), std::move(f)});
    return flow::more;
  }

  flow fail(failure_ptr f) override { return skipped(std::move(f)); }

  flow settle() noexcept { return flow::more; }

  flow hand_over_in_call() noexcept { return flow::more; }

  void take_owed_snapshot() noexcept {}

 private:
  outcomes<T>& into_;
  const std::stop_token& stop_;
  std::size_t max_values_;
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
/// a run: to replay them, to read them again, or inside another stage or source.
template <class In, std::size_t Last, class Segments>
class sample_worker {
 public:
  using output = typename Segments::stage_types::template output_of_first<Last, In>;

  /// The stages must outlive it. `max_values`: the most values that a sample may become, as otherwise it fails; 0: no limit.
  sample_worker(std::string source_name, const Segments& stages, std::uint64_t seed, on_error how,
                const std::stop_token& stop, std::size_t max_values = 0)
      : context_{.seed = seed, .on_error = how, .drain = false, .stop = stop},
        places_(places_outside_run(context_, names_of(std::move(source_name), stages))),
        thread_(places_.size()),
        progress_(0),
        chain_(make_chain<In, 0, Last, true>(stages, sink_maker{*this, max_values}, thread_, 0,
                                             places_.data() + 1)) {
    chain_.sink().begin_packet(~std::uint64_t{0}); // no position in a stream
  }

  sample_worker(sample_worker&&) = delete;

  /// What the stages make of the sample; valid until the next call.
  outcomes<output>& run(sample<In>&& s) {
    made_.clear();
    chain_.push(std::move(s));
    return made_;
  }

  outcomes<output>& made() noexcept { return made_; }

  bool is_stopped() const noexcept { return context_.stop.stop_requested(); }

 private:
  struct sink_maker {
    sample_worker& self;
    std::size_t max_values;

    outcome_sink<output> operator()() const {
      return {self.progress_, self.made_, self.context_.stop, max_values};
    }
  };

  using chain = decltype(make_chain<In, 0, Last, true>(
      std::declval<const Segments&>(), std::declval<const sink_maker&>(), std::declval<thread_counters&>(), 0,
      std::declval<const stage_place*>()));

  run_context context_;
  std::vector<stage_place> places_;
  thread_counters thread_;
  segment_progress progress_;
  outcomes<output> made_;
  chain chain_;
};

} // namespace feedline::inline FEEDLINE_ABI::detail

#ifndef FEEDLINE_COMPILED
#include <feedline/core/run/build_chain.ipp>
#endif
