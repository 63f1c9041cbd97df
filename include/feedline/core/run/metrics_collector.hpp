// SPDX-License-Identifier: MIT
#pragma once
// Computes metrics from the counters of a run's threads.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <feedline/core/failure.hpp>
#include <feedline/core/metrics.hpp>
#include <feedline/core/metrics/thread_counters.hpp>
#include <feedline/core/run/pipeline_run.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

class failure_list;

/// All counters of a run at one moment.
struct counter_values {
  struct stage {
    std::uint64_t received = 0, emitted = 0, failures = 0, capacity = 0, timed = 0, timed_ns = 0;
    gauge_counter::values held;
    stage_counters::histogram::counts times{};
    std::vector<user_numbers::number> numbers;

    void add(stage_counters& c);
  };

  struct queue {
    std::uint64_t put = 0, taken = 0, dropped = 0;
    gauge_counter::values fill;
  };

  std::uint64_t time = 0;
  std::vector<stage> stages;
  std::vector<std::vector<worker_times>> segments;
  std::vector<queue> queues;
  std::uint64_t items = 0, waited = 0, queued_ns = 0;
  consumer_counters::histogram::counts queued{}, waits{};
  std::vector<failure_count> failures;
};

counter_values read_counters(const pipeline_run& run, const consumer_counters& consumer,
                             const failure_list& failures);

inline double seconds(std::uint64_t ns) { return static_cast<double>(ns) * 1e-9; }

// A counter that is being written may yield an older value the second time.
inline std::uint64_t since(std::uint64_t now, std::uint64_t before) {
  return now > before ? now - before : 0;
}

stage_times times_between(const counter_values::stage& a, const counter_values::stage& b);

/// A gauge since the run began (`whole`), or since the last report.
gauge gauge_of(const gauge_counter::values& v, bool whole);

std::vector<user_metric> numbers_between(const std::vector<user_numbers::number>& before,
                                         const std::vector<user_numbers::number>& now, bool whole);

/// The counts of a histogram in powers of two.
std::vector<time_bucket> buckets_of(const consumer_counters::histogram::counts& counts);

/// Shares out what the threads of a segment worked among its stages, by the times that they take. Of a source those aren't
/// known: what the others didn't take is its part.
void share_out_busy(const segment_metrics& segment, std::size_t number, bool has_source,
                    std::span<stage_metrics> stages);

interval_metrics interval_between(const pipeline_run& run, const counter_values& before,
                                  const counter_values& now, bool whole);

/// The counters of a run at its beginning.
counter_values beginning_of(const counter_values& now, std::uint64_t time);

/// Remembers the last report, so that the next one covers the time since then. The range of a gauge is that since the
/// last report of any collector.
class metrics_collector {
 public:
  metrics_collector();
  ~metrics_collector();

  metrics report(const pipeline_run& run, const consumer_counters& consumer, const failure_list& failures);

 private:
  std::unique_ptr<const counter_values> previous_;
};

} // namespace feedline::inline FEEDLINE_ABI::detail

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_CORE_RUN)
#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include <feedline/core/metrics/preemption.hpp>
#include <feedline/core/run/failure_list.hpp>
#include <feedline/core/run/worker_pool.hpp>
#include <feedline/core/transport/channel.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE void counter_values::stage::add(stage_counters& c) {
  const auto read = [](const std::atomic<std::uint64_t>& a) { return a.load(std::memory_order_relaxed); };
  received += read(c.received);
  emitted += read(c.given);
  failures += read(c.failures);
  held.add(c.held.report());
  capacity += read(c.capacity);
  timed += read(c.timed);
  timed_ns += read(c.timed_ns);
  c.times.add_to(times);
  c.numbers.report_to(numbers);
}

FEEDLINE_INLINE counter_values read_counters(const pipeline_run& run, const consumer_counters& consumer,
                                             const failure_list& failures) {
  counter_values s;
  const std::uint64_t ended = run.consumer().ended.load(std::memory_order_relaxed);
  s.time = ended != 0 ? ended : now_ns();
  for (const auto& queue : run.queues()) {
    channel_counters& c = queue->counters();
    const auto read = [](const std::atomic<std::uint64_t>& a) { return a.load(std::memory_order_relaxed); };
    const auto fill = static_cast<double>(queue->fill());
    s.queues.push_back({read(c.put), read(c.taken), read(c.dropped), c.fill.report(fill)});
  }
  s.stages.resize(run.places().size());
  for (const segment_record& record : run.segments()) {
    auto& workers = s.segments.emplace_back();
    for (const auto& a : record.workers) {
      workers.push_back(read_times(*a, ended));
      workers.back().preempted = read_preempted(*a);
      for (std::size_t i = 0; i < record.stages; ++i) s.stages[record.first_place + i].add(a->stages[i]);
    }
    // What a stage emits is what the next one receives, or what was put into the queue.
    for (std::size_t i = 0; i < record.stages; ++i) {
      const std::size_t place = record.first_place + i;
      if (i + 1 == record.stages) s.stages[place].emitted = s.queues[s.segments.size() - 1].put;
      else if (place > 0) s.stages[place].emitted = s.stages[place + 1].received;
    }
  }
  s.items = consumer.items.load(std::memory_order_relaxed);
  s.waited = read_times(run.consumer(), ended).starved;
  s.queued_ns = consumer.queued_ns.load(std::memory_order_relaxed);
  consumer.queued.add_to(s.queued);
  consumer.waits.add_to(s.waits);
  s.failures = failures.copy_counts();
  return s;
}

FEEDLINE_INLINE stage_times times_between(const counter_values::stage& a, const counter_values::stage& b) {
  using histogram = stage_counters::histogram;
  const std::uint64_t timed = since(b.timed, a.timed);
  if (timed == 0) return {};
  histogram::counts times;
  for (std::size_t k = 0; k < times.size(); ++k) times[k] = since(b.times[k], a.times[k]);
  return {timed, seconds(since(b.timed_ns, a.timed_ns)) / static_cast<double>(timed),
          histogram::quantile(times, 0.9) * 1e-9, histogram::quantile(times, 0.99) * 1e-9};
}

FEEDLINE_INLINE gauge gauge_of(const gauge_counter::values& v, bool whole) {
  if (whole) return {v.latest, v.least, v.most, v.mean};
  return {v.latest, v.recent_least, v.recent_most, v.recent_mean};
}

FEEDLINE_INLINE std::vector<user_metric> numbers_between(const std::vector<user_numbers::number>& before,
                                                         const std::vector<user_numbers::number>& now,
                                                         bool whole) {
  std::vector<user_metric> all;
  for (const user_numbers::number& n : now) {
    if (!n.adds_up) {
      all.push_back({n.name, n.gauge.latest, gauge_of(n.gauge, whole)});
      continue;
    }
    double value = n.total;
    for (const user_numbers::number& b : before)
      if (b.adds_up && b.name == n.name) value -= b.total;
    all.push_back({n.name, value});
  }
  return all;
}

FEEDLINE_INLINE std::vector<time_bucket> buckets_of(const consumer_counters::histogram::counts& counts) {
  std::vector<time_bucket> all;
  std::uint64_t items = 0;
  double up_to = 1024; // ns
  for (std::size_t i = 0; i < counts.size(); ++i) {
    for (; consumer_counters::histogram::lower_end(i) >= up_to; up_to *= 2)
      all.push_back({up_to * 1e-9, std::exchange(items, 0)});
    items += counts[i];
  }
  all.push_back({up_to * 1e-9, items});
  while (!all.empty() && all.back().items == 0) all.pop_back();
  return all;
}

FEEDLINE_INLINE void share_out_busy(const segment_metrics& segment, std::size_t number, bool has_source,
                                    std::span<stage_metrics> stages) {
  double busy = 0, timed = 0;
  for (const worker_metrics& w : segment.workers) busy += w.busy;
  for (stage_metrics& s : stages) {
    s.segment = number;
    s.busy = s.time.mean * static_cast<double>(s.received);
    timed += s.busy;
  }
  if (stages.empty()) return;
  // Times of some items may add up to more than there was.
  const double part = timed > busy || (timed > 0 && !has_source) ? busy / timed : 1;
  for (stage_metrics& s : stages) s.busy *= part;
  stages.front().busy += std::max(0.0, busy - timed * part);
}

FEEDLINE_INLINE interval_metrics interval_between(const pipeline_run& run, const counter_values& before,
                                                  const counter_values& now, bool whole) {
  interval_metrics m;
  m.seconds = seconds(since(now.time, before.time));
  for (std::size_t i = 0; i < now.stages.size(); ++i) {
    const counter_values::stage &a = before.stages[i], &b = now.stages[i];
    m.stages.push_back({run.places()[i].name, since(b.received, a.received), since(b.emitted, a.emitted),
                        since(b.failures, a.failures), times_between(a, b), gauge_of(b.held, whole),
                        b.capacity, numbers_between(a.numbers, b.numbers, whole)});
  }
  std::string asked;     // the source's name, if the workers read it themselves
  std::size_t first = 0; // the segment's first stage
  for (std::size_t i = 0; i < now.segments.size(); ++i) {
    const segment_record& record = run.segments()[i];
    if (!record.has_threads) {
      asked = run.places()[record.first_place].name;
      continue;
    }
    segment_metrics segment{(asked.empty() ? asked : std::exchange(asked, {}) + " + ") + run.name_of(record),
                            record.parallel,
                            record.pool ? record.pool->active() : record.workers.size(),
                            {}};
    for (std::size_t w = 0; w < now.segments[i].size(); ++w) {
      const worker_times &a = before.segments[i][w], &b = now.segments[i][w];
      const double starved = seconds(since(b.starved, a.starved));
      const double blocked = seconds(since(b.blocked, a.blocked));
      const double waiting = seconds(since(b.inside, a.inside));
      const double throttled = seconds(since(b.throttled, a.throttled));
      const double alive = seconds(since(b.alive, a.alive));
      const double preempted = std::min(alive, seconds(since(b.preempted, a.preempted)));
      segment.workers.push_back({std::max(0.0, alive - starved - blocked - waiting - throttled), starved,
                                 blocked, waiting, preempted, throttled});
    }
    const std::size_t end = record.first_place + record.stages;
    share_out_busy(segment, m.segments.size(), first == 0, std::span(m.stages).subspan(first, end - first));
    first = end;
    m.segments.push_back(std::move(segment));
  }
  for (std::size_t i = 0; i < now.queues.size(); ++i) {
    if (!run.segments()[i].has_threads) continue; // then it has no queue either
    const channel_base& e = *run.queues()[i];
    const counter_values::queue &a = before.queues[i], &b = now.queues[i];
    const std::size_t upstream = m.queues.size();
    const std::string downstream =
        upstream + 1 < m.segments.size() ? m.segments[upstream + 1].name : "consumer";
    m.queues.push_back({m.segments[upstream].name + " -> " + downstream,
                        e.config().packets * e.counters().largest.load(std::memory_order_relaxed),
                        since(b.put, a.put), since(b.taken, a.taken), since(b.dropped, a.dropped),
                        gauge_of(b.fill, whole)});
  }
  using histogram = consumer_counters::histogram;
  histogram::counts queued, waits;
  for (std::size_t k = 0; k < queued.size(); ++k) {
    queued[k] = since(now.queued[k], before.queued[k]);
    waits[k] = since(now.waits[k], before.waits[k]);
  }
  const std::uint64_t items = since(now.items, before.items);
  // Small items count when their packet is taken.
  const std::uint64_t ready = std::accumulate(queued.begin(), queued.end(), std::uint64_t{0});
  m.consumer = {items,
                seconds(since(now.waited, before.waited)),
                ready > 0 ? seconds(since(now.queued_ns, before.queued_ns)) / static_cast<double>(ready) : 0,
                histogram::quantile(queued, 0.5) * 1e-9,
                histogram::quantile(queued, 0.99) * 1e-9,
                buckets_of(queued),
                buckets_of(waits)};
  for (const failure_count& f : now.failures) {
    const auto earlier = std::find_if(before.failures.begin(), before.failures.end(), [&](const auto& b) {
      return b.stage == f.stage && b.message == f.message;
    });
    const std::uint64_t count = f.count - (earlier != before.failures.end() ? earlier->count : 0);
    if (count > 0) m.failures.push_back({f.stage, f.message, count});
  }
  m.bottleneck = bottleneck_of(m, run.outage());
  return m;
}

FEEDLINE_INLINE counter_values beginning_of(const counter_values& now, std::uint64_t time) {
  counter_values s;
  s.time = time;
  s.stages.resize(now.stages.size());
  for (const auto& workers : now.segments) s.segments.emplace_back(workers.size());
  s.queues.resize(now.queues.size());
  return s;
}

FEEDLINE_INLINE metrics_collector::metrics_collector() = default;

FEEDLINE_INLINE metrics_collector::~metrics_collector() = default;

FEEDLINE_INLINE metrics metrics_collector::report(const pipeline_run& run, const consumer_counters& consumer,
                                                  const failure_list& failures) {
  const std::lock_guard lock(run.report_mutex());
  counter_values now = read_counters(run, consumer, failures);
  for (std::size_t i = 0; previous_ && i < now.segments.size(); ++i)
    for (std::size_t w = 0; w < now.segments[i].size(); ++w)
      now.segments[i][w].continue_from(previous_->segments[i][w]);
  if (previous_) now.waited = std::max(now.waited, previous_->waited);
  const counter_values start = beginning_of(now, run.consumer().began.load(std::memory_order_relaxed));
  metrics m{interval_between(run, start, now, true),
            interval_between(run, previous_ ? *previous_ : start, now, false)};
  previous_ = std::make_unique<counter_values>(std::move(now));
  return m;
}

} // namespace feedline::inline FEEDLINE_ABI::detail
#endif
