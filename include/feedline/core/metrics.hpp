// SPDX-License-Identifier: MIT
#pragma once
// What a run says of itself: counts, times and fills of every stage, worker and queue.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace feedline::inline v0 {

/// How long a stage takes for an item, in seconds, without the stages behind it: of items that were timed, about one of
/// each packet. (Of a source: nothing, as its time is that of its thread.)
struct stage_times {
  std::uint64_t timed = 0; ///< items
  double mean = 0;
  double percentile90 = 0; ///< to within 25 %
  double percentile99 = 0;
};

/// A counter or a gauge: what functions report by context::count(), sources and stages by metrics(out).
/// Of several workers it is the sum.
struct user_metric {
  std::string name;
  double value = 0;
};

/// Items of one stage (samples, or batches behind a batcher). Counts are brought up to date packet by packet.
struct stage_metrics {
  std::string name;           ///< "map `decode`"
  std::uint64_t received = 0; ///< items in; for a source: 0
  std::uint64_t given = 0;    ///< items out
  std::uint64_t failures = 0; ///< calls that threw
  stage_times time{};
  std::uint64_t held = 0;     ///< samples in its buffers (held_samples) now, …
  std::uint64_t capacity = 0; ///< which have room for so many
  std::vector<user_metric> numbers{};
};

/// Where a thread's time went, in seconds.
struct worker_metrics {
  double busy = 0;    ///< in the stages' code
  double starved = 0; ///< waiting for input
  double blocked = 0; ///< waiting for room behind it
  double waiting = 0; ///< in functions that said so by context::waiting()
};

/// A run of stages that share threads.
struct segment_metrics {
  std::string name; ///< its stages: "shuffle + batch"
  bool parallel = false;
  std::size_t active = 0; ///< workers at work now: all of them, unless their number is automatic
  std::vector<worker_metrics> workers;

  /// The part of the workers' time that was busy, 0 to 1.
  double busy_fraction() const {
    double busy = 0, all = 0;
    for (const worker_metrics& w : workers) {
      busy += w.busy;
      all += w.busy + w.starved + w.blocked + w.waiting;
    }
    return all > 0 ? busy / all : 0;
  }
};

/// A queue behind a segment. Fills and capacity are in items; small items cross in packets, and the capacity
/// is that of packets as large as the largest so far.
struct queue_metrics {
  std::string name; ///< "map `decode` -> shuffle + batch"
  std::uint64_t capacity = 0;
  std::uint64_t put = 0; ///< also those that were dropped then
  std::uint64_t taken = 0;
  std::uint64_t dropped = 0; ///< as the queue was full
  double mean_fill = 0;      ///< as found after each push
  std::uint64_t peak_fill = 0;
};

/// The caller's end of the pipeline; times in seconds.
struct consumer_metrics {
  std::uint64_t items = 0;  ///< that left the last queue
  double waited = 0;        ///< the consumer for items, in all
  double mean_queued = 0;   ///< an item in the last queue: ready, but not asked for yet
  double median_queued = 0; ///< to within 6 %
  double percentile99_queued = 0;
};

/// One span of time.
struct interval_metrics {
  double seconds = 0;
  std::vector<stage_metrics> stages; ///< from the source on
  std::vector<segment_metrics> segments;
  std::vector<queue_metrics> queues; ///< queue i lies behind segment i
  consumer_metrics consumer;
  std::string bottleneck; ///< a sentence: what limits the pipeline
};

struct metrics {
  interval_metrics total;  ///< since the start
  interval_metrics recent; ///< since the last call of `loader.metrics()`
};

namespace detail {

inline std::string percent(double fraction) {
  return std::to_string(static_cast<int>(fraction * 100 + 0.5)) + " %";
}

/// A number with three digits that count, in plain notation.
inline std::string digits(double value) {
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

inline std::string signed_digits(double value) { return value < 0 ? "-" + digits(-value) : digits(value); }

inline std::string pad_left(std::string text, std::size_t width) {
  return text.size() < width ? std::string(width - text.size(), ' ') + text : text;
}

inline std::string pad_right(std::string text, std::size_t width) {
  return text.size() < width ? text + std::string(width - text.size(), ' ') : text;
}

inline std::string bottleneck_of(const interval_metrics& m) {
  if (m.seconds <= 0 || m.consumer.items == 0)
    return "nothing has come out yet: there is no bottleneck to name";
  const double waits = m.consumer.waited / m.seconds;
  if (waits < 0.05)
    return "the consumer limits the pipeline: items are ready when it asks (it waits " + percent(waits) +
           " of the time)";
  const segment_metrics* busiest = &m.segments.front();
  for (const segment_metrics& s : m.segments)
    if (s.busy_fraction() > busiest->busy_fraction()) busiest = &s;
  std::string text = busiest->name + " is busy " + percent(busiest->busy_fraction());
  if (busiest->parallel) {
    text += busiest->active == 1 ? " on its one worker"
                                 : " on all " + std::to_string(busiest->active) + " workers";
  }
  text += busiest->busy_fraction() > 0.5 ? ": it limits the pipeline"
                                         : ": nothing in the pipeline is at its limit";
  return text + "; the consumer waits " + percent(waits) + " of the time";
}

/// Text as a JSON string, control characters escaped.
inline std::string json_string(const std::string& text) {
  static constexpr char hex[] = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (code < 0x20) {
      out += "\\u00";
      out += hex[code >> 4];
      out += hex[code & 15];
    } else {
      out += c;
    }
  }
  return out + '"';
}

inline std::string json_of(const interval_metrics& m) {
  const auto number = [](const char* name, const std::string& value) {
    return json_string(name) + ": " + value;
  };
  const auto list = [](const auto& items, const auto& one) {
    std::string text = "[";
    for (const auto& item : items) text += (text.size() > 1 ? ", " : "") + one(item);
    return text + "]";
  };
  const auto named = [&](const user_metric& n) {
    return "{" + number("name", json_string(n.name)) + ", " + number("value", signed_digits(n.value)) + "}";
  };
  const auto stage = [&](const stage_metrics& s) {
    return "{" + number("name", json_string(s.name)) + ", " + number("received", std::to_string(s.received)) +
           ", " + number("given", std::to_string(s.given)) + ", " +
           number("failures", std::to_string(s.failures)) + ", " +
           number("timed", std::to_string(s.time.timed)) + ", " + number("mean_time", digits(s.time.mean)) +
           ", " + number("percentile90_time", digits(s.time.percentile90)) + ", " +
           number("percentile99_time", digits(s.time.percentile99)) + ", " +
           number("held", std::to_string(s.held)) + ", " + number("capacity", std::to_string(s.capacity)) +
           ", " + number("numbers", list(s.numbers, named)) + "}";
  };
  const auto worker = [&](const worker_metrics& w) {
    return "{" + number("busy", digits(w.busy)) + ", " + number("starved", digits(w.starved)) + ", " +
           number("blocked", digits(w.blocked)) + ", " + number("waiting", digits(w.waiting)) + "}";
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
           ", " + number("dropped", std::to_string(q.dropped)) + ", " +
           number("mean_fill", digits(q.mean_fill)) + ", " +
           number("peak_fill", std::to_string(q.peak_fill)) + "}";
  };
  const consumer_metrics& c = m.consumer;
  return "{" + number("seconds", digits(m.seconds)) + ", " + number("stages", list(m.stages, stage)) + ", " +
         number("segments", list(m.segments, segment)) + ", " + number("queues", list(m.queues, queue)) +
         ", " + "\"consumer\": {" + number("items", std::to_string(c.items)) + ", " +
         number("waited", digits(c.waited)) + ", " + number("mean_queued", digits(c.mean_queued)) + ", " +
         number("median_queued", digits(c.median_queued)) + ", " +
         number("percentile99_queued", digits(c.percentile99_queued)) + "}, " +
         number("bottleneck", json_string(m.bottleneck)) + "}";
}

} // namespace detail

/// A table of a span of time, for people.
inline std::string to_string(const interval_metrics& m) {
  using detail::digits, detail::pad_left, detail::pad_right, detail::percent;
  std::size_t width = 24;
  for (const stage_metrics& s : m.stages) width = std::max(width, s.name.size() + 2);
  for (const segment_metrics& s : m.segments) width = std::max(width, s.name.size() + 2);
  for (const queue_metrics& q : m.queues) width = std::max(width, q.name.size() + 2);

  std::string text = pad_right("stage", width) + "          in         out  failures   mean us    99th %\n";
  for (const stage_metrics& s : m.stages) {
    text += pad_right(s.name, width) + pad_left(std::to_string(s.received), 12) +
            pad_left(std::to_string(s.given), 12) + pad_left(std::to_string(s.failures), 10);
    if (s.time.timed > 0)
      text += pad_left(digits(s.time.mean * 1e6), 10) + pad_left(digits(s.time.percentile99 * 1e6), 10);
    if (s.capacity > 0) text += "  holds " + std::to_string(s.held) + " of " + std::to_string(s.capacity);
    for (const user_metric& n : s.numbers) text += "  " + n.name + " " + detail::signed_digits(n.value);
    text += "\n";
  }
  text += pad_right("threads", width) + "       count        busy   starved   blocked   waiting\n";
  for (const segment_metrics& s : m.segments) {
    worker_metrics sum;
    for (const worker_metrics& w : s.workers) {
      sum.busy += w.busy;
      sum.starved += w.starved;
      sum.blocked += w.blocked;
      sum.waiting += w.waiting;
    }
    const double all = std::max(sum.busy + sum.starved + sum.blocked + sum.waiting, 1e-9);
    text += pad_right(s.name, width) + pad_left(std::to_string(s.active), 12) +
            pad_left(percent(sum.busy / all), 12) + pad_left(percent(sum.starved / all), 10) +
            pad_left(percent(sum.blocked / all), 10) + pad_left(percent(sum.waiting / all), 10) + "\n";
  }
  text += pad_right("queue", width) + "    capacity   mean fill      peak\n";
  for (const queue_metrics& q : m.queues)
    text += pad_right(q.name, width) + pad_left(std::to_string(q.capacity), 12) +
            pad_left(digits(q.mean_fill), 12) + pad_left(std::to_string(q.peak_fill), 10) +
            (q.dropped > 0 ? "  dropped " + std::to_string(q.dropped) : "") + "\n";
  text += "consumer: " + std::to_string(m.consumer.items) + " items in " + digits(m.seconds) + " s, waited " +
          digits(m.consumer.waited) + " s; items lay ready for " + digits(m.consumer.median_queued * 1e3) +
          " ms (median), " + digits(m.consumer.percentile99_queued * 1e3) + " ms (99th percentile)\n";
  return text + m.bottleneck + "\n";
}

/// The table of the whole run so far.
inline std::string to_string(const metrics& m) { return to_string(m.total); }

template <class Stream>
  requires requires(Stream& out, const std::string& text) { out << text; }
Stream& operator<<(Stream& out, const metrics& m) {
  out << to_string(m);
  return out;
}

/// {"total": {…}, "recent": {…}} with the members of the structs above; times in seconds.
inline std::string to_json(const metrics& m) {
  return "{\"total\": " + detail::json_of(m.total) + ", \"recent\": " + detail::json_of(m.recent) + "}";
}

} // namespace feedline::inline v0
