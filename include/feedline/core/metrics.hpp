// SPDX-License-Identifier: MIT
#pragma once
// The metrics of a run: counts, times and fill levels of every stage, worker and queue.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <feedline/core/failure.hpp>

namespace feedline::inline FEEDLINE_ABI {

/// How long a stage takes for an item, in seconds, without the stages downstream. About one item of each packet is timed.
/// A source has none: its time is that of its thread.
struct stage_times {
  std::uint64_t timed = 0; ///< items timed
  double mean = 0;         ///< of the items timed
  double percentile90 = 0; ///< to within 25 %
  double percentile99 = 0; ///< to within 25 %
};

/// A number that rises and falls, during an interval. The values of several workers are added up, so that `least` and `most`
/// are then bounds. All of them are `latest` if it had no new value.
struct gauge {
  double latest = 0; ///< the last value, also if it is from before the interval
  double least = 0;  ///< the smallest value
  double most = 0;   ///< the largest value
  double mean = 0;   ///< of all values, each counted once
};

/// A counter or a gauge. Functions report it by context::count() and context::gauge(), sources and stages by metrics(out).
struct user_metric {
  std::string name; ///< as reported
  /// Of a counter what was added in the interval, by all workers; of a gauge its latest value.
  double value = 0;
  std::optional<feedline::gauge> values{}; ///< of a gauge; none: it is a counter
};

/// One stage or the source. Counts are in items (samples, or batches after a batching stage) and are updated once per
/// packet.
struct stage_metrics {
  std::string name;                        ///< "map `decode`"
  std::uint64_t received = 0;              ///< items in; 0 for a source
  std::uint64_t emitted = 0;               ///< items out
  std::uint64_t failures = 0;              ///< calls that threw
  stage_times time{};                      ///< of one item
  gauge held{};                            ///< samples in its buffers (held_samples), after each packet
  std::uint64_t capacity = 0;              ///< the most samples that its buffers hold
  std::vector<user_metric> user_metrics{}; ///< counters and gauges of its functions
  /// Seconds of all its threads together. Threads that it shares with other stages are divided by the times above.
  double busy = 0;
  std::size_t segment = 0; ///< index of its threads in interval_metrics::segments
};

/// How a thread spent its time, in seconds. All but `preempted` add up to all of it. `preempted`
/// is the part of that sum in which the thread was ready to run but had no processor. The system counts it (in
/// /proc/self/task/`ID`/schedstat); where it doesn't, `preempted` is 0.
struct worker_metrics {
  double busy = 0;      ///< in the stages' code
  double starved = 0;   ///< waiting for input
  double blocked = 0;   ///< waiting for room downstream
  double waiting = 0;   ///< in functions that declared a wait with context::waiting()
  double preempted = 0; ///< ready to run, without a processor
  double throttled = 0; ///< because the run had used its cpu_share

  /// All of its time.
  double time() const { return busy + starved + blocked + waiting + throttled; }
};

/// Neighbouring stages that share threads.
struct segment_metrics {
  std::string name;                    ///< its stages: "shuffle + batch"
  bool parallel = false;               ///< whether it has workers
  std::size_t active = 0;              ///< workers in use now: all of them, unless their number is automatic
  std::vector<worker_metrics> workers; ///< one entry per thread

  /// The times of all workers together.
  worker_metrics sum() const {
    worker_metrics all;
    for (const worker_metrics& w : workers) {
      all.busy += w.busy;
      all.starved += w.starved;
      all.blocked += w.blocked;
      all.waiting += w.waiting;
      all.preempted += w.preempted;
      all.throttled += w.throttled;
    }
    return all;
  }

  /// The part of the workers' time that was busy, 0 to 1.
  double busy_fraction() const { return fraction(&worker_metrics::busy); }

  /// The part of the workers' time in which they waited for input, 0 to 1. The input of a source is its data.
  double starved_fraction() const { return fraction(&worker_metrics::starved); }

  /// The part of the workers' time in which they waited inside functions (context::waiting()), 0 to 1.
  double waiting_fraction() const { return fraction(&worker_metrics::waiting); }

  /// The part of the workers' time in which they waited for a processor, 0 to 1.
  double preempted_fraction() const { return fraction(&worker_metrics::preempted); }

  /// The part of the workers' time in which the run had used its cpu_share, 0 to 1.
  double throttled_fraction() const { return fraction(&worker_metrics::throttled); }

 private:
  double fraction(double worker_metrics::*part) const {
    const worker_metrics all = sum();
    return all.time() > 0 ? all.*part / all.time() : 0;
  }
};

/// The queue after a segment. Fill levels and capacity are in items. Small items cross it in packets; the capacity
/// assumes packets as large as the largest so far.
struct queue_metrics {
  std::string name;           ///< "map `decode` -> shuffle + batch"
  std::uint64_t capacity = 0; ///< the most items that it holds
  std::uint64_t put = 0;      ///< including those that were dropped later
  std::uint64_t taken = 0;    ///< items that left it
  std::uint64_t dropped = 0;  ///< because the queue was full
  gauge fill{};               ///< after each push and pop; its mean is that after each push
};

/// How many items took up to a certain time, but longer than the bucket before this one says.
struct time_bucket {
  double up_to = 0;        ///< seconds
  std::uint64_t items = 0; ///< not counting those of shorter times
};

/// The consumer; times in seconds.
struct consumer_metrics {
  std::uint64_t items = 0;        ///< taken from the last queue
  double waited = 0;              ///< for items, in total
  double mean_queued = 0;         ///< how long an item was ready in the last queue before it was taken
  double median_queued = 0;       ///< to within 6 %
  double percentile99_queued = 0; ///< to within 6 %
  /// How long the items were ready, in powers of two from about a microsecond, up to the longest.
  std::vector<time_bucket> queued{};
  /// How long each wait for items took, in the same way: one for each packet of them, of 0 s if it was ready.
  std::vector<time_bucket> waits{};
};

/// What happened during an interval of time.
struct interval_metrics {
  double seconds = 0;                    ///< its length
  std::vector<stage_metrics> stages;     ///< in order, the source first
  std::vector<segment_metrics> segments; ///< from the source on
  std::vector<queue_metrics> queues;     ///< queue i is after segment i
  consumer_metrics consumer;             ///< the caller's end
  /// Failures that the consumer received, by stage and message.
  std::vector<failure_count> failures{};
  std::string bottleneck; ///< a sentence that says what limits the pipeline
};

/// What the threads, stages and queues of a run did.
struct metrics {
  interval_metrics total;  ///< since the start
  interval_metrics recent; ///< since the last call of `loader.metrics()`
};

namespace detail {

std::string percent(double fraction);

/// A number with three significant digits, without an exponent.
std::string digits(double value);

std::string signed_digits(double value);

/// 1234567 as "1,234,567".
std::string grouped(std::uint64_t number);

std::string pad_left(std::string text, std::size_t width);

std::string pad_right(std::string text, std::size_t width);

/// Whether the data of the source is what a segment's thread waits for: nothing in the pipeline is upstream of it.
bool awaits_data(const interval_metrics& m, std::size_t segment);

/// The index of the segment whose threads were occupied for the largest part of their time: at work, in waits inside functions,
/// or waiting for their source's data.
std::size_t busiest_segment(const interval_metrics& m);

/// `outage`: why the source's server doesn't answer; empty if it does.
std::string bottleneck_of(const interval_metrics& m, const std::string& outage = {});

/// Text as a JSON string, control characters escaped.
std::string json_string(std::string_view text);

std::string json_of(const interval_metrics& m);

} // namespace detail

/// A table of an interval, for people.
std::string to_string(const interval_metrics& m);

/// A table of the whole run so far.
inline std::string to_string(const metrics& m) { return to_string(m.total); }

/// Prints the table of the whole run so far.
template <class Stream>
  requires requires(Stream& out, const std::string& text) { out << text; }
Stream& operator<<(Stream& out, const metrics& m) {
  out << to_string(m);
  return out;
}

/// {"total": {…}, "recent": {…}} with the members of the structs above; times in seconds.
std::string to_json(const metrics& m);

} // namespace feedline::inline FEEDLINE_ABI

#ifndef FEEDLINE_COMPILED
#include <feedline/core/metrics.ipp>
#endif
