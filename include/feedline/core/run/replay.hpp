// SPDX-License-Identifier: MIT
#pragma once
// Replays one sample as a run processed it: from the source through the stages, on the caller's thread.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <utility>

#include <feedline/core/failure.hpp>
#include <feedline/core/options.hpp>
#include <feedline/core/run/build_chain.hpp>
#include <feedline/core/run/sample_finder.hpp>
#include <feedline/core/sample.hpp>
#include <feedline/core/source.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

template <source Source, class Segments>
auto replay(const Source& described, const Segments& stages, const run_options& options,
            const sample_id& id) {
  using all = typename Segments::stage_types;
  constexpr std::size_t count = stages_of_one_sample(all());
  using item = source_item_t<Source>;
  using result = typename all::template output_of_first<count, item>;
  sample_worker<item, count, Segments> worker(stage_name(described), stages, options.seed, on_error::fail,
                                              options.stop);
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
    outcomes<result>& made = worker.run(std::move(*s));
    for (sample<result>& one : made.values)
      if (one.id.sub_index == id.sub_index && !found) found.emplace(std::move(one.value));
    if (!found && !made.failures.empty()) {
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
