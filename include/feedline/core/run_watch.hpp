// SPDX-License-Identifier: MIT
#pragma once
// Sees what a run does, from any thread and also after its loader's end.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <feedline/core/loader.hpp>
#include <feedline/core/memory_plan.hpp>
#include <feedline/core/metrics.hpp>
#include <feedline/core/metrics/trace_ring.hpp>

namespace feedline::inline FEEDLINE_ABI {

namespace detail {

/// The events of one thread.
struct traced_thread {
  std::string name;    ///< of its stages: "map `decode`"
  std::string worker;  ///< ", worker 2", or empty
  std::size_t segment; ///< it pushes into the queue with this number, and takes from the one before it
  std::shared_ptr<trace_ring> events;
};

/// What the threads of a run note from then on.
struct started_trace {
  std::uint64_t began; ///< in ns, by the clock of the events
  std::vector<traced_thread> threads;
};

/// What a watch and the end of its run share.
struct watched_run;

} // namespace detail

/// What a run does, for code that reports it: a recorder, a view. Its functions may be called by any thread, and don't keep
/// the loader from ending; afterwards they return what was last. Copies share the time of the last call of metrics().
class run_watch {
 public:
  /// A loader that was moved from is one that has ended.
  explicit run_watch(const run_handle& loader);

  /// As the loader's, except that `recent` is since the last call of this watch. The ranges of gauges in it are since the last
  /// call for the run.
  feedline::metrics metrics() const;

  /// As the loader's.
  std::string waiting_for() const;

  /// As the loader's.
  memory_plan memory() const;

  /// Whether the loader was destroyed.
  bool has_ended() const;

 private:
  friend class trace;

  // From now on, threads note what they do. Each keeps its last `events`, unless it was traced earlier and
  // keeps another number. The consumer's thread comes last; none if the loader has ended. Throws std::logic_error if the run
  // is being traced already.
  detail::started_trace start_trace(std::size_t events) const;

  void stop_trace() const;

  std::shared_ptr<detail::watched_run> seen_;
};

} // namespace feedline::inline FEEDLINE_ABI

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_CORE)
#include <mutex>
#include <stdexcept>
#include <utility>

#include <feedline/core/metrics/thread_counters.hpp>
#include <feedline/core/run/delivery.hpp>
#include <feedline/core/run/metrics_collector.hpp>
#include <feedline/core/run/pipeline_run.hpp>
#include <feedline/core/run/run_link.hpp>
#include <feedline/core/run/waiting_for.hpp>

namespace feedline::inline FEEDLINE_ABI {

FEEDLINE_INLINE run_watch::run_watch(const run_handle& loader)
    : seen_(std::make_shared<detail::watched_run>([](detail::watched_run& watch, detail::delivery& of) {
        return watch.collector.report(of.run, of.consumer, *of.failures);
      })) {
  if (!loader.get()) return;
  seen_->link = loader.get()->link;
  seen_->memory = loader.memory();
  seen_->link->add(seen_);
}

FEEDLINE_INLINE metrics run_watch::metrics() const {
  feedline::metrics now;
  const auto read = [&](detail::delivery& of) { now = seen_->report(*seen_, of); };
  if (seen_->link && seen_->link->with_run(read)) return now;
  const std::lock_guard lock(seen_->mutex);
  now = seen_->last;
  seen_->last.recent = {}; // the next call covers no time
  return now;
}

FEEDLINE_INLINE std::string run_watch::waiting_for() const {
  detail::found_wait found{"nothing: the run has ended", {}};
  if (seen_->link)
    seen_->link->with_run([&](const detail::delivery& of) { found = detail::find_wait(of.run); });
  return found.to_string(); // without the lock: the loader's end waits for it
}

FEEDLINE_INLINE memory_plan run_watch::memory() const { return seen_->memory; }

FEEDLINE_INLINE bool run_watch::has_ended() const {
  return !seen_->link || !seen_->link->with_run([](const detail::delivery&) {});
}

FEEDLINE_INLINE detail::started_trace run_watch::start_trace(std::size_t events) const {
  detail::started_trace all{detail::now_ns(), {}};
  std::vector<detail::thread_counters*> threads;
  const auto add = [&](std::string name, std::string thread, std::size_t segment,
                       detail::thread_counters& t) {
    if (!t.owned_ring) t.owned_ring = std::make_shared<detail::trace_ring>(events);
    all.threads.push_back({std::move(name), std::move(thread), segment, t.owned_ring});
    threads.push_back(&t);
  };
  const auto start = [&](const detail::delivery& of) {
    const detail::pipeline_run& run = of.run;
    const std::lock_guard lock(run.report_mutex());
    if (of.run.consumer().ring.load(std::memory_order_relaxed))
      throw std::logic_error("feedline: the run is being traced already");
    for (std::size_t i = 0; i < run.segments().size(); ++i) {
      const detail::segment_record& segment = run.segments()[i];
      if (!segment.has_threads) continue;
      for (const auto& worker : segment.workers)
        add(run.name_of(segment),
            segment.parallel ? ", worker " + std::to_string(worker->number + 1) : std::string(), i, *worker);
    }
    add("consumer", {}, run.segments().size(), of.run.consumer());
    // All of them, or none if there was no memory.
    for (detail::thread_counters* t : threads) t->ring.store(t->owned_ring.get(), std::memory_order_release);
  };
  if (seen_->link) seen_->link->with_run(start);
  return all;
}

FEEDLINE_INLINE void run_watch::stop_trace() const {
  if (seen_->link)
    seen_->link->with_run([&](const detail::delivery& of) {
      const std::lock_guard lock(of.run.report_mutex());
      for (const detail::segment_record& segment : of.run.segments())
        for (const auto& worker : segment.workers) worker->ring.store(nullptr, std::memory_order_relaxed);
      of.run.consumer().ring.store(nullptr, std::memory_order_relaxed);
    });
}

} // namespace feedline::inline FEEDLINE_ABI
#endif
