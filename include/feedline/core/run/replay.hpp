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
#include <feedline/core/run/emitter.hpp>
#include <feedline/core/run/progress.hpp>
#include <feedline/core/run/sample_finder.hpp>
#include <feedline/core/sample.hpp>
#include <feedline/core/source.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// The end of the chain of a replay.
template <class T>
class replay_sink : public sample_sink {
 public:
  replay_sink(segment_progress& progress, std::uint64_t part, std::optional<T>& found, failure_ptr& failed)
      : sample_sink(progress), part_(part), found_(found), failed_(failed) {}

  flow push(sample<T>&& s) {
    if (s.id.sub_index != part_ || found_) return flow::more;
    found_.emplace(std::move(s.value));
    return flow::stop;
  }

  flow skipped(failure_ptr f) { return fail(std::move(f)); }

  flow fail(failure_ptr f) {
    if (!found_ && !failed_) failed_ = std::move(f);
    return flow::stop;
  }

 private:
  std::uint64_t part_;
  std::optional<T>& found_;
  failure_ptr& failed_;
};

template <source Source, class Segments>
auto replay(const Source& described, const Segments& stages, const run_options& options,
            const sample_id& id) {
  using all = typename Segments::stage_types;
  constexpr std::size_t count = stages_of_one_sample(all());
  using item = source_item_t<Source>;
  using result = typename all::template output_of_first<count, item>;
  std::optional<result> found;
  failure_ptr failed;
  sample_worker<item, count, replay_sink<result>, Segments> worker(
      stage_name(described), stages, options.seed, on_error::fail, options.stop, id.sub_index, found, failed);
  std::atomic<bool>& stopped = worker.context().stopped;
  const auto stop = [&] { stopped.store(true, std::memory_order_relaxed); };
  const std::stop_callback<decltype(stop)> at_stop(options.stop, stop);
  Source source(described);
  start_source(source, make_epoch(options, id.epoch, options.stop, 0));
  sample_finder<Source> finder(std::move(source), {{id.index, id.repetition, 1}}, id.epoch, stopped,
                               100'000'000);
  if (auto s = finder.next([](const sample_id&) {
        if (is_outage(std::current_exception())) throw;
      }))
    worker.push(std::move(*s));
  if (finder.gave_up())
    throw std::runtime_error("feedline: sample " + std::to_string(id.index) + " of epoch " +
                             std::to_string(id.epoch) + " was not found: the source " + finder.gave_up() +
                             "; if it has that sample, add a seek() to the source");
  if (failed) {
    failed->origin = origin_of(described, id.index);
    throw_pipeline_error(*failed);
  }
  return found;
}

} // namespace feedline::inline FEEDLINE_ABI::detail
