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

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_CORE)
#include <algorithm>
#include <cmath>

#include <feedline/detail/utf8.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE std::string percent(double fraction) {
  if (!(fraction > 0)) return "0 %";
  return std::to_string(static_cast<int>(std::min(fraction, 1e6) * 100 + 0.5)) + " %";
}

FEEDLINE_INLINE std::string digits(double value) {
  if (!std::isfinite(value)) return "null"; // as JSON has it
  int decimals = 0;
  for (double v = value; v != 0 && v < 100 && decimals < 9; v *= 10) ++decimals;
  std::uint64_t scale = 1;
  for (int i = 0; i < decimals; ++i) scale *= 10;
  const auto scaled = static_cast<std::uint64_t>(value * static_cast<double>(scale) + 0.5);
  std::string fraction = std::to_string(scaled % scale);
  std::string text = std::to_string(scaled / scale);
  if (decimals > 0)
    text += "." + std::string(static_cast<std::size_t>(decimals) - fraction.size(), '0') + fraction;
  return text;
}

FEEDLINE_INLINE std::string signed_digits(double value) {
  return value < 0 && std::isfinite(value) ? "-" + digits(-value) : digits(value);
}

FEEDLINE_INLINE std::string grouped(std::uint64_t number) {
  std::string text = std::to_string(number);
  for (std::size_t at = text.size(); at > 3;) text.insert(at -= 3, 1, ',');
  return text;
}

FEEDLINE_INLINE std::string pad_left(std::string text, std::size_t width) {
  return text.size() < width ? std::string(width - text.size(), ' ') + text : text;
}

FEEDLINE_INLINE std::string pad_right(std::string text, std::size_t width) {
  return text.size() < width ? text + std::string(width - text.size(), ' ') : text;
}

FEEDLINE_INLINE bool awaits_data(const interval_metrics& m, std::size_t segment) {
  return segment == 0 && !m.segments[segment].parallel;
}

FEEDLINE_INLINE std::size_t busiest_segment(const interval_metrics& m) {
  const auto occupied = [&](std::size_t i) {
    const segment_metrics& s = m.segments[i];
    return s.busy_fraction() + s.waiting_fraction() + (awaits_data(m, i) ? s.starved_fraction() : 0);
  };
  std::size_t most = 0;
  for (std::size_t i = 1; i < m.segments.size(); ++i)
    if (occupied(i) > occupied(most)) most = i;
  return most;
}

FEEDLINE_INLINE std::string bottleneck_of(const interval_metrics& m, const std::string& outage) {
  if (!outage.empty() && !m.stages.empty())
    return "the store of " + m.stages.front().name + " limits the pipeline, as it doesn't answer: " + outage;
  if (m.seconds <= 0 || m.consumer.items == 0)
    return "the consumer received no item in this time: the bottleneck is not known";
  const double waits = m.consumer.waited / m.seconds;
  if (waits < 0.05)
    return "the consumer limits the pipeline: items are ready when it asks for them (it waits " +
           percent(waits) + " of the time)";
  const std::size_t busiest_number = busiest_segment(m);
  const segment_metrics* const busiest = &m.segments[busiest_number];
  const segment_metrics *most_preempted = &m.segments.front(), *throttled = most_preempted;
  for (const segment_metrics& s : m.segments) {
    if (s.throttled_fraction() > throttled->throttled_fraction()) throttled = &s;
    if (s.preempted_fraction() > most_preempted->preempted_fraction()) most_preempted = &s;
  }
  if (throttled->throttled_fraction() > 0.1)
    return "cpu_share limits the pipeline: " + throttled->name + " was stopped for " +
           percent(throttled->throttled_fraction()) +
           " of the time, as the run had used its share; the consumer waits " + percent(waits) +
           " of the time";
  const double waiting = busiest->waiting_fraction();
  const double starved = awaits_data(m, busiest_number) ? busiest->starved_fraction() : 0;
  const double occupied = busiest->busy_fraction() + waiting + starved;
  const bool is_waiting = waiting > busiest->busy_fraction();
  std::string text = busiest->name;
  if (starved > std::max(waiting, busiest->busy_fraction()))
    text += " waits for its data " + percent(starved) + " of the time";
  else if (is_waiting) text += " waits in its function " + percent(waiting) + " of the time";
  else text += " is busy " + percent(busiest->busy_fraction());
  if (busiest->parallel) {
    text += busiest->active == 1 ? " on its one worker"
                                 : " on all " + std::to_string(busiest->active) + " workers";
  }
  const double preempted = most_preempted->preempted_fraction();
  if (occupied > 0.5) {
    text += ": it limits the pipeline";
    if (is_waiting && busiest->parallel) text += ", and more workers would help";
  }
  if (occupied <= 0.5 && preempted < 0.1) text += ": nothing in the pipeline is at its limit";
  if (preempted >= 0.1)
    text += "; the threads of " + most_preempted->name + " waited " + percent(preempted) +
            " of the time for a processor: other programs use the processors, or there are more workers than "
            "processors";
  return text + "; the consumer waits " + percent(waits) + " of the time";
}

FEEDLINE_INLINE std::string json_string(std::string_view text) {
  static constexpr char hex[] = "0123456789abcdef";
  std::string out = "\"";
  while (!text.empty()) {
    const std::string_view character = take_character(text);
    const auto code = static_cast<unsigned char>(character[0]);
    if (code == '"' || code == '\\') out += '\\';
    if (code < 0x20) ((out += "\\u00") += hex[code >> 4]) += hex[code & 15];
    else out += character;
  }
  return out + '"';
}

FEEDLINE_INLINE std::string json_of(const interval_metrics& m) {
  const auto number = [](const char* name, const std::string& value) {
    return json_string(name) + ": " + value;
  };
  const auto list = [](const auto& items, const auto& one) {
    std::string text = "[";
    for (const auto& item : items) text += (text.size() > 1 ? ", " : "") + one(item);
    return text + "]";
  };
  const auto gauge_of = [&](const gauge& g) {
    return "{" + number("latest", signed_digits(g.latest)) + ", " + number("least", signed_digits(g.least)) +
           ", " + number("most", signed_digits(g.most)) + ", " + number("mean", signed_digits(g.mean)) + "}";
  };
  const auto bucket = [&](const time_bucket& b) {
    return "{" + number("up_to", digits(b.up_to)) + ", " + number("items", std::to_string(b.items)) + "}";
  };
  const auto named = [&](const user_metric& n) {
    return "{" + number("name", json_string(n.name)) + ", " + number("value", signed_digits(n.value)) +
           (n.values ? ", " + number("values", gauge_of(*n.values)) : "") + "}";
  };
  const auto stage = [&](const stage_metrics& s) {
    return "{" + number("name", json_string(s.name)) + ", " + number("received", std::to_string(s.received)) +
           ", " + number("emitted", std::to_string(s.emitted)) + ", " +
           number("failures", std::to_string(s.failures)) + ", " +
           number("timed", std::to_string(s.time.timed)) + ", " + number("mean_time", digits(s.time.mean)) +
           ", " + number("percentile90_time", digits(s.time.percentile90)) + ", " +
           number("percentile99_time", digits(s.time.percentile99)) + ", " +
           number("held", gauge_of(s.held)) + ", " + number("capacity", std::to_string(s.capacity)) + ", " +
           number("user_metrics", list(s.user_metrics, named)) + ", " + number("busy", digits(s.busy)) +
           ", " + number("segment", std::to_string(s.segment)) + "}";
  };
  const auto worker = [&](const worker_metrics& w) {
    return "{" + number("busy", digits(w.busy)) + ", " + number("starved", digits(w.starved)) + ", " +
           number("blocked", digits(w.blocked)) + ", " + number("waiting", digits(w.waiting)) + ", " +
           number("preempted", digits(w.preempted)) + ", " + number("throttled", digits(w.throttled)) + "}";
  };
  const auto segment = [&](const segment_metrics& s) {
    return "{" + number("name", json_string(s.name)) + ", " +
           number("parallel", s.parallel ? "true" : "false") + ", " +
           number("active", std::to_string(s.active)) + ", " + number("workers", list(s.workers, worker)) +
           "}";
  };
  const auto queue = [&](const queue_metrics& q) {
    return "{" + number("name", json_string(q.name)) + ", " + number("capacity", std::to_string(q.capacity)) +
           ", " + number("put", std::to_string(q.put)) + ", " + number("taken", std::to_string(q.taken)) +
           ", " + number("dropped", std::to_string(q.dropped)) + ", " + number("fill", gauge_of(q.fill)) +
           "}";
  };
  const auto failed = [&](const failure_count& f) {
    return "{" + number("stage", json_string(f.stage)) + ", " + number("message", json_string(f.message)) +
           ", " + number("count", std::to_string(f.count)) + "}";
  };
  const consumer_metrics& c = m.consumer;
  return "{" + number("seconds", digits(m.seconds)) + ", " + number("stages", list(m.stages, stage)) + ", " +
         number("segments", list(m.segments, segment)) + ", " + number("queues", list(m.queues, queue)) +
         ", " + "\"consumer\": {" + number("items", std::to_string(c.items)) + ", " +
         number("waited", digits(c.waited)) + ", " + number("mean_queued", digits(c.mean_queued)) + ", " +
         number("median_queued", digits(c.median_queued)) + ", " +
         number("percentile99_queued", digits(c.percentile99_queued)) + ", " +
         number("queued", list(c.queued, bucket)) + ", " + number("waits", list(c.waits, bucket)) + "}, " +
         number("failures", list(m.failures, failed)) + ", " +
         number("bottleneck", json_string(m.bottleneck)) + "}";
}

} // namespace feedline::inline FEEDLINE_ABI::detail

namespace feedline::inline FEEDLINE_ABI {

FEEDLINE_INLINE std::string to_string(const interval_metrics& m) {
  using detail::digits, detail::pad_left, detail::pad_right, detail::percent;
  std::size_t width = 24;
  for (const stage_metrics& s : m.stages) width = std::max(width, s.name.size() + 2);
  for (const segment_metrics& s : m.segments) width = std::max(width, s.name.size() + 2);
  for (const queue_metrics& q : m.queues) width = std::max(width, q.name.size() + 2);

  std::string text = pad_right("stage", width) + "          in         out  failures   mean us    99th %\n";
  for (const stage_metrics& s : m.stages) {
    text += pad_right(s.name, width) + pad_left(std::to_string(s.received), 12) +
            pad_left(std::to_string(s.emitted), 12) + pad_left(std::to_string(s.failures), 10);
    if (s.time.timed > 0)
      text += pad_left(digits(s.time.mean * 1e6), 10) + pad_left(digits(s.time.percentile99 * 1e6), 10);
    if (s.capacity > 0) text += "  holds " + digits(s.held.latest) + " of " + std::to_string(s.capacity);
    for (const user_metric& n : s.user_metrics) text += "  " + n.name + " " + detail::signed_digits(n.value);
    text += "\n";
  }
  text += pad_right("threads", width) + "       count        busy   starved   blocked   waiting preempted\n";
  for (const segment_metrics& s : m.segments) {
    const worker_metrics sum = s.sum();
    const double all = std::max(sum.time(), 1e-9);
    text += pad_right(s.name, width) + pad_left(std::to_string(s.active), 12) +
            pad_left(percent(sum.busy / all), 12) + pad_left(percent(sum.starved / all), 10) +
            pad_left(percent(sum.blocked / all), 10) + pad_left(percent(sum.waiting / all), 10) +
            pad_left(percent(sum.preempted / all), 10) +
            (sum.throttled > 0 ? "  throttled " + percent(sum.throttled / all) : "") + "\n";
  }
  text += pad_right("queue", width) + "    capacity        fill     least      mean      most\n";
  for (const queue_metrics& q : m.queues)
    text += pad_right(q.name, width) + pad_left(std::to_string(q.capacity), 12) +
            pad_left(digits(q.fill.latest), 12) + pad_left(digits(q.fill.least), 10) +
            pad_left(digits(q.fill.mean), 10) + pad_left(digits(q.fill.most), 10) +
            (q.dropped > 0 ? "  dropped " + std::to_string(q.dropped) : "") + "\n";
  text += "consumer: " + std::to_string(m.consumer.items) + " items in " + digits(m.seconds) + " s, waited " +
          digits(m.consumer.waited) + " s; items were ready for " + digits(m.consumer.median_queued * 1e3) +
          " ms (median), " + digits(m.consumer.percentile99_queued * 1e3) + " ms (99th percentile)\n";
  return text + m.bottleneck + "\n";
}

FEEDLINE_INLINE std::string to_json(const metrics& m) {
  return "{\"total\": " + detail::json_of(m.total) + ", \"recent\": " + detail::json_of(m.recent) + "}";
}

} // namespace feedline::inline FEEDLINE_ABI
#endif
