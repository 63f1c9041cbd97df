// SPDX-License-Identifier: MIT
#pragma once
// Passes samples through stages outside of a run.
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <string>
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
#include <feedline/detail/function_ref.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

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

/// Which of a sample's values are kept.
struct outcome_limits {
  std::size_t max_values = 0; ///< more fail the sample: the option of a cache; 0: no limit
  const function_ref<bool(const sample_id&)>* wants = nullptr; ///< null: all of them
  bool only_first = false;                                     ///< no more are made after it
};

/// What the end of a chain outside of a run is built from.
template <class T>
struct outcome_parts {
  segment_progress& progress;
  outcomes<T>& into;
  const std::stop_token& stop;
  outcome_limits limits;
};

/// The end of a chain outside of a run.
template <class T>
class outcome_sink final : public chain_end {
 public:
  static constexpr bool is_measured = false;
  static constexpr bool has_room = false;
  static constexpr bool takes_rows = false;

  explicit outcome_sink(const chain_parts<outcome_parts<T>>& from)
      : chain_end(from.sink.progress), parts_(from.sink) {}

  outcome_sink& sink() noexcept { return *this; }

  flow push(sample<T>&& s) {
    const outcome_limits& limits = parts_.limits;
    std::vector<sample<T>>& values = parts_.into.values;
    if (limits.wants && !(*limits.wants)(s.id)) return flow::more;
    if (limits.max_values > 0 && values.size() == limits.max_values)
      throw std::length_error("its sample becomes more than the " + std::to_string(limits.max_values) +
                              " items that items_per_sample of the cache allows");
    values.push_back(std::move(s));
    return limits.only_first || parts_.stop.stop_requested() ? flow::stop : flow::more;
  }

  flow push(sample<slot<T>>&& s)
    requires is_large_item<T>
  {
    return push(std::move(s.value.named(s.id)));
  }

  flow skipped(failure_ptr f) override {
    parts_.into.failures.push_back({parts_.into.values.size(), std::move(f)});
    return flow::more;
  }

  flow fail(failure_ptr f) override { return skipped(std::move(f)); }

  flow settle() noexcept { return flow::more; }

  flow hand_over_in_call() noexcept { return flow::more; }

  void take_owed_snapshot() noexcept {}

 private:
  const outcome_parts<T>& parts_;
};

/// The names of the source and of stages with these types.
template <class Stages>
std::vector<std::string> names_of(std::string source_name, const composed_stages& stages, Stages) {
  std::vector<std::string> names{std::move(source_name)};
  Stages::visit(stages, [&](const auto& stage) { names.push_back(stage_name(stage)); });
  return names;
}

/// Numbers the names that several places have, "map (1 of 2)", so that a message tells which of them it means.
void number_equal_names(std::vector<stage_place>& places);

/// A stage outside of a run.
struct stage_outside {
  bool belongs_to_source;
  bool makes_parts;
};

/// The stages of the pipeline before such stages.
struct stages_before {
  std::size_t count = 0;
  std::size_t of_source = 0; ///< how many of them belong to the source
  bool make_parts = false;   ///< some may make several items of a sample

  void add(const stage_outside& stage) noexcept {
    ++count;
    of_source += stage.belongs_to_source;
    make_parts |= stage.makes_parts;
  }
};

/// The places of a source and stages with these names. `stages`: those after `before`. An additional place at the
/// end keeps pointers to the last one valid.
std::vector<stage_place> places_outside_run(const run_context& context, std::vector<std::string> names,
                                            stages_before before,
                                            std::initializer_list<stage_outside> stages);

/// One thread's copy of stages, for samples that pass through them outside of a run: to replay them, to read them again,
/// or inside another stage or source.
template <class In, class Stages>
class sample_worker;

template <class In, class... Stages>
class sample_worker<In, types<Stages...>> {
 public:
  using output = typename types<Stages...>::template output<In>;

  /// `names`: of the source, the stages `before`, and these stages, which must outlive it, as what the limits refer to.
  sample_worker(std::vector<std::string> names, const std::shared_ptr<const void>* stages, std::uint64_t seed,
                on_error how, const std::stop_token& stop, outcome_limits limits = {},
                stages_before before = {})
      : context_{.seed = seed, .on_error = how, .drain = false, .stop = stop},
        places_(places_outside_run(
            context_, std::move(names), before,
            {stage_outside{traits_of<Stages>().belongs_to_source, makes_parts<Stages>}...})),
        thread_(places_.size()),
        progress_(0),
        end_{progress_, made_, context_.stop, limits},
        chain_(chain_parts<outcome_parts<output>>{stages, places_.data() + 1 + before.count, thread_, 0, end_}
                   .behind(chain::skipped)) {
    chain_.sink().begin_packet(~std::uint64_t{0}); // no position in a stream
  }

  sample_worker(sample_worker&&) = delete;

  /// What the stages, which emit at most one item for each, make of the sample. Throws failure_inside.
  std::optional<sample<output>> run_for_one(sample<In>&& s) {
    run(std::move(s));
    if (!made_.failures.empty()) throw failure_inside(std::move(*made_.failures.back().failure));
    if (made_.values.empty()) return std::nullopt;
    return std::move(made_.values.back());
  }

  /// What the stages make of the sample; valid until the next call.
  outcomes<output>& run(sample<In>&& s) {
    made_.clear();
    chain_.push(std::move(s));
    return made_;
  }

  outcomes<output>& made() noexcept { return made_; }

  bool is_stopped() const noexcept { return context_.stop.stop_requested(); }

 private:
  using chain = chain_of<In, outcome_sink<output>, true, Stages...>;

  run_context context_;
  std::vector<stage_place> places_;
  thread_counters thread_;
  segment_progress progress_;
  outcomes<output> made_;
  outcome_parts<output> end_;
  typename chain::type chain_;
};

} // namespace feedline::inline FEEDLINE_ABI::detail

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_CORE_RUN)
#include <algorithm>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE void number_equal_names(std::vector<stage_place>& places) {
  std::vector<std::string> names;
  for (const stage_place& p : places) names.push_back(p.name);
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto all = std::count(names.begin(), names.end(), names[i]);
    const auto before = std::count(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(i), names[i]);
    if (all > 1) places[i].name += " (" + std::to_string(before + 1) + " of " + std::to_string(all) + ")";
  }
}

FEEDLINE_INLINE std::vector<stage_place> places_outside_run(const run_context& context,
                                                            std::vector<std::string> names,
                                                            stages_before before,
                                                            std::initializer_list<stage_outside> stages) {
  std::vector<stage_place> places;
  for (std::string& name : names) places.push_back({context, std::move(name), places.size(), false});
  number_equal_names(places);
  for (const stage_outside& stage : stages) {
    stage_place& place = places[1 + before.count];
    place.of_source = before.of_source;
    place.of_parts = before.make_parts;
    before.add(stage);
  }
  places.push_back(places.back());
  return places;
}

} // namespace feedline::inline FEEDLINE_ABI::detail
#endif
