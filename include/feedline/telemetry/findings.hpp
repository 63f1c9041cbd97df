// SPDX-License-Identifier: MIT
#pragma once
// What limits a run, in sentences, with the change that helps and its predicted effect.
#include <cstddef>
#include <string>
#include <vector>

#include <feedline/core/metrics.hpp>
#include <feedline/core/processors.hpp>

namespace feedline::inline FEEDLINE_ABI {

/// Something that limits a run, or that loses samples.
struct finding {
  /// "map `decode` limits: its 2 workers are busy 96 % of the time. With 2 more workers about 1.8 times as fast; then the
  /// consumer limits"
  std::string sentence;
  std::string stage;  ///< the stage, segment or queue that it is about; empty: the consumer, or the whole run
  double speedup = 1; ///< predicted: items per second with the change, divided by those without; 1: no gain
  std::size_t workers = 0; ///< how many workers the stage needs for that; 0: the change is another one
};

/// What limits a run during an interval; the main limit comes first. Never empty.
///
/// The prediction is that of operational analysis (P. J. Denning and J. P. Buzen, The Operational Analysis of Queueing Network
/// Models, ACM Computing Surveys 10 (3), 1978): by the utilization law, a part that works D seconds for each item that the
/// consumer takes, on w threads, allows at most w / D items per second, and the part with the smallest bound limits the run.
///
/// - of a segment, D is its busy and waiting time, without the time in which it had no processor; a source on one thread also
///   waits for its data
/// - of the processors, D is the busy time of all segments, and w is `processors`
/// - of the consumer, D is the time in which it doesn't wait
///
/// The speedup is the smallest bound with the change, divided by that without. This assumes that a change leaves the times
/// for an item as they are, and that the limiting part is used as well as the limiting part now. Not known are: a limit
/// that workers share, such as a disk, a server, the memory's bandwidth or a lock; the processors that the consumer and
/// other programs use; and a wait that a function doesn't declare with context::waiting(), which looks like work for a
/// processor. Where two parts have nearly the same bound, the run is slower than either allows. Metrics of less than a
/// hundred items, or of a run that mostly begins and ends, predict little.
std::vector<finding> findings(const interval_metrics& m, std::size_t processors = feedline::processors());

} // namespace feedline::inline FEEDLINE_ABI

#ifndef FEEDLINE_COMPILED
#include <feedline/telemetry/findings.ipp>
#endif
