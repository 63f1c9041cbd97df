// SPDX-License-Identifier: MIT
#pragma once
// Reads the samples again that stages held at a checkpoint, before the resumed run begins.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include <feedline/core/failure.hpp>
#include <feedline/core/held_samples.hpp>
#include <feedline/core/options.hpp>
#include <feedline/core/run/build_chain.hpp>
#include <feedline/core/run/emitter.hpp>
#include <feedline/core/run/progress.hpp>
#include <feedline/core/run/sample_finder.hpp>
#include <feedline/core/sample.hpp>
#include <feedline/core/source.hpp>
#include <feedline/detail/function_ref.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// The end of the chains through which samples are read again: keeps those that are wanted.
template <class T>
class held_sink : public sample_sink {
 public:
  /// `wanted` must be sorted.
  held_sink(segment_progress& progress, const std::vector<sample_id>& wanted, std::vector<sample<T>>& found,
            std::string& why_lost)
      : sample_sink(progress), wanted_(wanted), found_(found), why_lost_(why_lost) {}

  flow push(sample<T>&& s) {
    if (std::binary_search(wanted_.begin(), wanted_.end(), s.id)) found_.push_back(std::move(s));
    return flow::more;
  }

  flow skipped(failure_ptr f) {
    if (f->is_outage) throw_pipeline_error(*f);
    if (why_lost_.empty()) why_lost_ = to_string(*f);
    return flow::more;
  }

  flow fail(failure_ptr f) { return skipped(std::move(f)); }

 private:
  const std::vector<sample_id>& wanted_;
  std::vector<sample<T>>& found_;
  std::string& why_lost_;
};

/// Calls `work` on `count` threads at once, including the caller's, and returns when all have finished.
/// Rethrows an error of one of them.
void run_on_threads(std::size_t count, function_ref<void()> work);

/// Reads the samples with these identities again, as they arrive at the stage after the first `Count`, on up to
/// `threads` threads. Leaves out samples that can't be read, but passes on an outage. `stop` and `stopped` are the run's.
template <std::size_t Count, source Source, class Segments>
auto read_held(const Source& described, const Segments& stages, const run_options& options,
               std::vector<sample_id> ids, std::size_t threads, const std::stop_token& stop,
               const std::atomic<bool>& stopped) {
  using item = source_item_t<Source>;
  using result = typename Segments::stage_types::template output_of_first<Count, item>;
  const std::string name = stage_name(described);
  const auto by_epoch = wanted_by_epoch(ids);
  std::sort(ids.begin(), ids.end());
  std::mutex mutex;
  std::vector<sample<result>> all;
  all.reserve(ids.size());
  std::string why_lost;
  const auto lost = [&](const std::string& why) {
    if (why_lost.empty()) why_lost = why;
  };
  for (const auto& [epoch, wanted] : by_epoch) {
    try {
      Source source(described);
      start_source(source, make_epoch(options, epoch, stop, 0));
      sample_finder<Source> finder(std::move(source), wanted, epoch, stopped, 100'000'000);
      run_on_threads(std::min(threads, wanted.size()), [&] {
        std::vector<sample<result>> found;
        std::string why;
        sample_worker<item, Count, held_sink<result>, Segments> worker(name, stages, options.seed,
                                                                       on_error::skip, stop, ids, found, why);
        const auto failed = [&](const sample_id& id) {
          if (is_outage(std::current_exception())) throw;
          if (why.empty()) why = to_string(current_failure(name, id));
        };
        while (auto s = finder.next(failed)) worker.push(std::move(*s));
        const std::lock_guard lock(mutex);
        lost(why);
        std::move(found.begin(), found.end(), std::back_inserter(all));
      });
      if (finder.gave_up()) lost(std::string("the source ") + finder.gave_up());
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const pipeline_error&) { // the outage of a stage
      throw;
    } catch (...) { // no sample of this epoch can be read
      const failure f = current_failure(name, {.epoch = epoch});
      if (is_outage(f.error)) throw_pipeline_error(f);
      lost(to_string(f));
    }
  }
  auto found = std::make_unique<samples_read_again<result>>(std::move(all));
  found->why_lost = std::move(why_lost);
  return found;
}

} // namespace feedline::inline FEEDLINE_ABI::detail

#ifndef FEEDLINE_COMPILED
#include <feedline/core/run/read_held.ipp>
#endif
