// SPDX-License-Identifier: MIT
#pragma once
// Metrics as Prometheus reads them.
#include <span>
#include <string>

#include <feedline/core/metrics.hpp>

namespace feedline::inline FEEDLINE_ABI {

/// The metrics of one of several loaders.
struct named_metrics {
  std::string loader; ///< the value of the label `loader`: "training"; empty: none. Each loader needs its own
  feedline::metrics metrics; ///< as its metrics() returns them
};

/// Prometheus's text format (0.0.4, https://prometheus.io/docs/instrumenting/exposition_formats/): what was counted since each
/// run began, and the current values. Times are in seconds. Serve it as `text/plain; version=0.0.4`.
///
/// - `feedline_stage_…{stage}`: received, emitted and failed items, the time of an item, busy seconds, samples held
/// - `feedline_failures_total{stage, cause}`: failures by message, at most 1,000 different ones
/// - `feedline_user_events_total`, `feedline_user_value{stage, name}`: counters and gauges of functions, stages and sources
/// - `feedline_worker_seconds_total{threads, worker, state}`, `feedline_workers{threads}`
/// - `feedline_queue_…{queue}`: items put, taken and dropped, and the fill
/// - `feedline_consumer_…`: items, seconds waited, and a histogram of how long items were ready
std::string to_prometheus(std::span<const named_metrics> loaders);

/// The same of one loader, without the label.
std::string to_prometheus(const metrics& m);

} // namespace feedline::inline FEEDLINE_ABI

#ifndef FEEDLINE_COMPILED
#include <feedline/telemetry/prometheus.ipp>
#endif
