// SPDX-License-Identifier: MIT
#pragma once
// Makes metrics of what the threads of a run have noted.
#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <feedline/core/detail/activity.hpp>
#include <feedline/core/detail/edge.hpp>
#include <feedline/core/detail/run_base.hpp>
#include <feedline/core/metrics.hpp>

namespace feedline::detail {

/// Counts durations in buckets that are 1/16 of a power of two wide.
class duration_histogram {
 public:
  static constexpr std::size_t buckets = 16 * 44; // up to 2^47 ns: 39 hours
  using counts = std::array<std::uint64_t, buckets>;

  void add(std::uint64_t ns, std::uint64_t times) noexcept { add_relaxed(counts_[bucket_of(ns)], times); }

  counts read() const {
    counts now;
    for (std::size_t i = 0; i < buckets; ++i) now[i] = counts_[i].load(std::memory_order_relaxed);
    return now;
  }

  /// The duration in ns below which the given part of them lie.
  static double quantile(const counts& c, double part) {
    std::uint64_t all = 0;
    for (const std::uint64_t n : c) all += n;
    const double wanted = part * static_cast<double>(all);
    double below = 0;
    for (std::size_t i = 0; i < buckets; ++i) {
      below += static_cast<double>(c[i]);
      if (c[i] > 0 && below >= wanted) return (lower_end(i) + lower_end(i + 1)) / 2;
    }
    return 0;
  }

 private:
  static std::size_t bucket_of(std::uint64_t ns) noexcept {
    if (ns < 16) return ns;
    const auto shift = static_cast<unsigned>(std::bit_width(ns)) - 5;
    return std::min(buckets - 1, std::size_t{16} * (shift + 1) + ((ns >> shift) - 16));
  }

  static double lower_end(std::size_t bucket) {
    if (bucket < 32) return static_cast<double>(bucket);
    return static_cast<double>(std::uint64_t{16 + bucket % 16} << (bucket / 16 - 1));
  }

  std::array<std::atomic<std::uint64_t>, buckets> counts_{};
};

/// What the caller's thread notes.
struct consumer_activity {
  std::atomic<std::uint64_t> items{0};
  std::atomic<std::uint64_t> queued_ns{0}; // of all items together
  duration_histogram queued;
};

/// All counters of a run at one moment.
struct snapshot {
  struct stage {
    std::uint64_t received = 0, given = 0, failures = 0;
  };

  struct queue {
    std::uint64_t put = 0, taken = 0, puts = 0, fill_sum = 0, peak = 0, recent_peak = 0;
  };

  std::uint64_t time = 0;
  std::vector<stage> stages;
  std::vector<std::vector<worker_times>> segments;
  std::vector<queue> queues;
  std::uint64_t items = 0, waited = 0, queued_ns = 0;
  duration_histogram::counts queued{};
};

inline snapshot take_snapshot(const run_base& run, const consumer_activity& consumer) {
  snapshot s;
  const std::uint64_t ended = run.consumer().ended.load(std::memory_order_relaxed);
  s.time = ended != 0 ? ended : now_ns();
  for (edge_base* const queue : run.queues()) {
    edge_base& e = *queue;
    edge_counters& c = e.counters();
    const auto read = [](const std::atomic<std::uint64_t>& a) { return a.load(std::memory_order_relaxed); };
    const std::uint64_t put = read(c.put), taken = read(c.taken);
    s.queues.push_back({put, taken, read(c.puts), read(c.fill_sum), read(c.peak),
                        c.recent_peak.exchange(put > taken ? put - taken : 0, std::memory_order_relaxed)});
  }
  s.stages.resize(run.places().size());
  for (const segment_record& record : run.segments()) {
    auto& workers = s.segments.emplace_back();
    for (const auto& a : record.workers) {
      workers.push_back(read_times(*a, s.time));
      for (std::size_t i = 0; i < record.stages; ++i) {
        snapshot::stage& stage = s.stages[record.first_place + i];
        stage.received += a->stages[i].received.load(std::memory_order_relaxed);
        stage.given += a->stages[i].given.load(std::memory_order_relaxed);
        stage.failures += a->stages[i].failures.load(std::memory_order_relaxed);
      }
    }
    // What a stage gives is what the next one receives, or what was put into the queue.
    for (std::size_t i = 0; i < record.stages; ++i) {
      const std::size_t place = record.first_place + i;
      if (i + 1 == record.stages) s.stages[place].given = s.queues[s.segments.size() - 1].put;
      else if (place > 0) s.stages[place].given = s.stages[place + 1].received;
    }
  }
  s.items = consumer.items.load(std::memory_order_relaxed);
  s.waited = read_times(run.consumer(), s.time).starved;
  s.queued_ns = consumer.queued_ns.load(std::memory_order_relaxed);
  s.queued = consumer.queued.read();
  return s;
}

inline double seconds(std::uint64_t ns) { return static_cast<double>(ns) * 1e-9; }

// A counter that is being written may be read a little older the second time.
inline std::uint64_t since(std::uint64_t now, std::uint64_t before) {
  return now > before ? now - before : 0;
}

inline interval_metrics interval_between(const run_base& run, const snapshot& before, const snapshot& now,
                                         bool whole) {
  interval_metrics m;
  m.seconds = seconds(since(now.time, before.time));
  for (std::size_t i = 0; i < now.stages.size(); ++i) {
    const snapshot::stage &a = before.stages[i], &b = now.stages[i];
    m.stages.push_back({run.places()[i].name, since(b.received, a.received), since(b.given, a.given),
                        since(b.failures, a.failures)});
  }
  std::string asked; // the source, if the workers ask it themselves
  for (std::size_t i = 0; i < now.segments.size(); ++i) {
    const segment_record& record = run.segments()[i];
    if (!record.has_threads) {
      asked = run.places()[record.first_place].name;
      continue;
    }
    segment_metrics segment{std::exchange(asked, {}),
                            record.parallel,
                            record.team ? record.team->active() : record.workers.size(),
                            {}};
    for (std::size_t place = record.first_place; place < record.first_place + record.stages; ++place)
      segment.name += (segment.name.empty() ? "" : " + ") + run.places()[place].name;
    for (std::size_t w = 0; w < now.segments[i].size(); ++w) {
      const worker_times &a = before.segments[i][w], &b = now.segments[i][w];
      const double starved = seconds(since(b.starved, a.starved)),
                   blocked = seconds(since(b.blocked, a.blocked));
      segment.workers.push_back(
          {std::max(0.0, seconds(since(b.alive, a.alive)) - starved - blocked), starved, blocked});
    }
    m.segments.push_back(std::move(segment));
  }
  for (std::size_t i = 0; i < now.queues.size(); ++i) {
    if (!run.segments()[i].has_threads) continue; // nor is there a queue behind it
    const edge_base& e = *run.queues()[i];
    const snapshot::queue &a = before.queues[i], &b = now.queues[i];
    const std::uint64_t puts = since(b.puts, a.puts);
    const std::size_t in_front = m.queues.size();
    const std::string behind = in_front + 1 < m.segments.size() ? m.segments[in_front + 1].name : "consumer";
    m.queues.push_back(
        {m.segments[in_front].name + " -> " + behind,
         e.config().packets * e.counters().largest.load(std::memory_order_relaxed), since(b.put, a.put),
         since(b.taken, a.taken),
         puts > 0 ? static_cast<double>(since(b.fill_sum, a.fill_sum)) / static_cast<double>(puts) : 0,
         whole ? b.peak : b.recent_peak});
  }
  duration_histogram::counts queued;
  for (std::size_t k = 0; k < queued.size(); ++k) queued[k] = since(now.queued[k], before.queued[k]);
  const std::uint64_t items = since(now.items, before.items);
  m.consumer = {items, seconds(since(now.waited, before.waited)),
                items > 0 ? seconds(since(now.queued_ns, before.queued_ns)) / static_cast<double>(items) : 0,
                duration_histogram::quantile(queued, 0.5) * 1e-9,
                duration_histogram::quantile(queued, 0.99) * 1e-9};
  m.bottleneck = bottleneck_of(m);
  return m;
}

/// All counters of a run before it did anything.
inline snapshot beginning_of(const snapshot& now, std::uint64_t time) {
  snapshot s;
  s.time = time;
  s.stages.resize(now.stages.size());
  for (const auto& workers : now.segments) s.segments.emplace_back(workers.size());
  s.queues.resize(now.queues.size());
  return s;
}

/// Remembers the last report, so that the next one can tell what has come since.
class accounts {
 public:
  metrics report(const run_base& run, const consumer_activity& consumer) {
    const std::lock_guard lock(mutex_);
    snapshot now = take_snapshot(run, consumer);
    const snapshot start = beginning_of(now, run.consumer().began.load(std::memory_order_relaxed));
    metrics m{interval_between(run, start, now, true),
              interval_between(run, previous_ ? *previous_ : start, now, false)};
    previous_ = std::make_unique<snapshot>(std::move(now));
    return m;
  }

 private:
  std::mutex mutex_;
  std::unique_ptr<const snapshot> previous_;
};

} // namespace feedline::detail
