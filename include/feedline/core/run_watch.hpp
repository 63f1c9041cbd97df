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

#ifndef FEEDLINE_COMPILED
#include <feedline/core/run_watch.ipp>
#endif
