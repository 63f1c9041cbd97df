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
#include <feedline/core/options.hpp>
#include <feedline/core/plan/segments.hpp>
#include <feedline/core/run/sample_finder.hpp>
#include <feedline/core/run/sample_worker.hpp>
#include <feedline/core/sample.hpp>
#include <feedline/core/source.hpp>
#include <feedline/detail/function_ref.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// `Stages`: the types of all stages.
template <class Stages, source Source>
auto replay(const Source& described, const composed_stages& composed, const run_options& options,
            const sample_id& id) {
  using used = typename Stages::template first<stages_of_one_sample(Stages())>;
  using worker = sample_worker<source_item_t<Source>, used>;
  using result = typename worker::output;
  const std::shared_ptr<const void>* const stages = composed.stages.data();
  const auto is_wanted = [&](const sample_id& made) { return made.sub_index == id.sub_index; };
  const function_ref<bool(const sample_id&)> wanted_part(is_wanted);
  worker through(names_of(stage_name(described), composed, Stages()), stages, options.seed, on_error::fail,
                 options.stop, {.wants = &wanted_part, .only_first = true});
  std::atomic<bool> stopped = false;
  const auto stop = [&] { stopped.store(true, std::memory_order_relaxed); };
  const std::stop_callback<decltype(stop)> at_stop(options.stop, stop);
  Source source(described);
  start_source(source, make_epoch(options, id.epoch, options.stop, 0));
  sample_finder<Source> finder(std::move(source), {{id.index, id.repetition, 1}}, id.epoch, stopped,
                               100'000'000);
  std::optional<result> found;
  if (auto s = finder.next([](const sample_id&) {
        if (is_outage(std::current_exception())) throw;
      })) {
    outcomes<result>& made = through.run(std::move(*s));
    if (!made.values.empty()) {
      found.emplace(std::move(made.values.front().value));
    } else if (!made.failures.empty()) {
      noted_failure& failed = *made.failures.front().failure;
      failed.origin = origin_of(described, id.index);
      throw_pipeline_error(failed);
    }
  }
  if (finder.gave_up())
    throw std::runtime_error("feedline: sample " + std::to_string(id.index) + " of epoch " +
                             std::to_string(id.epoch) + " was not found: the source " + finder.gave_up() +
                             "; if it has that sample, add a seek() to the source");
  return found;
}

} // namespace feedline::inline FEEDLINE_ABI::detail
