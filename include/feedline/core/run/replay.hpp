// SPDX-License-Identifier: MIT
#pragma once
// Replays one sample as a run processed it: from the source through the stages, on the caller's thread.
#include <atomic>
#include <exception>
#include <memory>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <utility>

#include <feedline/core/failure.hpp>
#include <feedline/core/plan/run_options.hpp>
#include <feedline/core/plan/segments.hpp>
#include <feedline/core/run/sample_finder.hpp>
#include <feedline/core/run/sample_worker.hpp>
#include <feedline/core/sample.hpp>
#include <feedline/core/source.hpp>
#include <feedline/core/stage.hpp>
#include <feedline/detail/function_ref.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// The place of the last of these stages that may make several items of one sample; 0: none does.
template <class... Stages>
consteval std::size_t last_that_makes_parts(types<Stages...>) {
  std::size_t place = 0, last = 0;
  ((++place, last = makes_parts<Stages> ? place : last), ...);
  return last;
}

/// Whether an item that wasn't made would have been made of what failed, as far as their identities tell. After the last stage that
/// makes parts of a sample, each part has its own failures.
inline bool concerns(const noted_failure& f, const sample_id& id, std::size_t last_that_makes_parts) {
  return f.is_outage || f.call.place <= last_that_makes_parts || f.call.id.sub_index == id.sub_index;
}

/// `Stages`: the types of all stages. The other parts of the sample may fail, whatever `on_error` is: a run that skips failures
/// delivered this one.
template <class Stages, source Source>
auto replay(const Source& described, const composed_stages& composed, const run_options& options,
            const sample_id& id) {
  using used = typename Stages::template first<stages_of_one_sample(Stages())>;
  using worker = sample_worker<source_item_t<Source>, used>;
  using result = typename worker::output;
  const std::shared_ptr<const void>* const stages = composed.stages.data();
  const auto is_wanted = [&](const sample_id& made) { return made.sub_index == id.sub_index; };
  const function_ref<bool(const sample_id&)> wanted_part(is_wanted);
  worker through(names_of(stage_name(described), composed, Stages()), stages, options.seed, on_error::skip,
                 options.stop, {.wants = &wanted_part, .only_first = true});
  std::atomic<bool> stopped = false;
  const auto stop = [&] { stopped.store(true, std::memory_order_relaxed); };
  const std::stop_callback<decltype(stop)> at_stop(options.stop, stop);
  const auto finder = find_samples<Source, source_item_t<Source>>(
      &described, make_epoch(options, id.epoch, options.stop, 0), {{id.index, id.repetition, 1}}, stopped);
  std::optional<result> found;
  if (auto s = finder->next([](const sample_id&) {
        if (is_outage(std::current_exception())) throw;
      })) {
    outcomes<result>& made = through.run(std::move(*s));
    if (!made.values.empty()) {
      found.emplace(std::move(made.values.front().value));
    } else {
      for (const auto& [position, failed] : made.failures) {
        if (!concerns(*failed, id, last_that_makes_parts(used()))) continue;
        failed->origin = origin_of(described, id.index);
        throw_pipeline_error(*failed);
      }
    }
  }
  if (finder->gave_up())
    throw std::runtime_error("feedline: sample " + std::to_string(id.index) + " of epoch " +
                             std::to_string(id.epoch) + " was not found: the source " + finder->gave_up() +
                             "; if it has that sample, add a seek() to the source");
  return found;
}

} // namespace feedline::inline FEEDLINE_ABI::detail
