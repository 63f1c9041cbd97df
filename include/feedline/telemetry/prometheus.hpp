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

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_TELEMETRY)
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <utility>

#include <feedline/detail/utf8.hpp>

namespace feedline::inline FEEDLINE_ABI {

namespace detail {

/// A label's value in quotes.
FEEDLINE_INLINE std::string prometheus_label(std::string_view text) {
  std::string quoted = "\"";
  while (!text.empty()) {
    const std::string_view character = take_character(text);
    if (character == "\"" || character == "\\") quoted += '\\';
    quoted += character == "\n" ? "\\n" : character;
  }
  return quoted + '"';
}

FEEDLINE_INLINE std::string prometheus_number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

/// A text in Prometheus's format, of one family of numbers after another.
class prometheus_text {
  using labels = std::initializer_list<std::pair<std::string_view, std::string_view>>;

 public:
  explicit prometheus_text(std::span<const named_metrics> loaders) : loaders_(loaders) {}

  /// Adds a family; each(m, add) calls add(labels, value, suffix of the name) for each of its numbers.
  template <class Each>
  void family(std::string_view name, std::string_view type, std::string_view help, Each each) {
    std::string numbers;
    for (const named_metrics& l : loaders_)
      each(l.metrics.total, [&](labels all, double value, std::string_view suffix = {}) {
        (numbers += name) += suffix;
        char open = '{';
        const auto add = [&](std::string_view label, std::string_view text) {
          ((numbers += open) += label) += '=';
          numbers += prometheus_label(text);
          open = ',';
        };
        if (!l.loader.empty()) add("loader", l.loader);
        for (const auto& [label, text] : all) add(label, text);
        if (open == ',') numbers += '}';
        ((numbers += ' ') += prometheus_number(value)) += '\n';
      });
    if (numbers.empty()) return;
    (((text_ += "# HELP ") += name) += ' ') += help;
    (((text_ += "\n# TYPE ") += name) += ' ') += type;
    (text_ += '\n') += numbers;
  }

  /// Adds a family with one number for each element of a list of the metrics, which `of` computes.
  template <class List, class Of>
  void family(std::string_view name, std::string_view type, std::string_view help, std::string_view label,
              List interval_metrics::*list, Of of) {
    family(name, type, help, [&](const interval_metrics& m, auto add) {
      for (const auto& element : m.*list) add({{label, element.name}}, static_cast<double>(of(element)));
    });
  }

  const std::string& text() const noexcept { return text_; }

 private:
  std::span<const named_metrics> loaders_;
  std::string text_;
};

FEEDLINE_INLINE void add_stages(prometheus_text& to) {
  const auto each = [&](std::string_view name, std::string_view type, std::string_view help, auto of) {
    to.family(name, type, help, "stage", &interval_metrics::stages, of);
  };
  each("feedline_stage_received_items_total", "counter", "Items that a stage has received.",
       [](const stage_metrics& s) { return s.received; });
  each("feedline_stage_emitted_items_total", "counter", "Items that a stage or source has emitted.",
       [](const stage_metrics& s) { return s.emitted; });
  each("feedline_stage_failures_total", "counter", "Calls of a stage or source that threw.",
       [](const stage_metrics& s) { return s.failures; });
  each("feedline_stage_busy_seconds", "gauge",
       "Time that all threads of a stage worked in it, estimated from some of its items.",
       [](const stage_metrics& s) { return s.busy; });
  to.family("feedline_failures_total", "counter", "Failures that the consumer received.",
            [](const interval_metrics& m, auto add) {
              for (const failure_count& f : m.failures)
                add({{"stage", f.stage}, {"cause", f.message}}, static_cast<double>(f.count));
            });
  const auto buffers = [&](std::string_view name, std::string_view help, auto of) {
    to.family(name, "gauge", help, [&](const interval_metrics& m, auto add) {
      for (const stage_metrics& s : m.stages)
        if (s.capacity > 0) add({{"stage", s.name}}, static_cast<double>(of(s)));
    });
  };
  buffers("feedline_stage_held_samples", "Samples in the buffers of a stage.",
          [](const stage_metrics& s) { return s.held.latest; });
  buffers("feedline_stage_capacity_samples", "The most samples that the buffers of a stage hold.",
          [](const stage_metrics& s) { return s.capacity; });
  to.family("feedline_stage_item_seconds", "summary",
            "Time of a stage for an item, without the stages downstream, of about one item of each packet.",
            [](const interval_metrics& m, auto add) {
              for (const stage_metrics& s : m.stages) {
                if (s.time.timed == 0) continue;
                const auto count = static_cast<double>(s.time.timed);
                add({{"stage", s.name}, {"quantile", "0.9"}}, s.time.percentile90);
                add({{"stage", s.name}, {"quantile", "0.99"}}, s.time.percentile99);
                add({{"stage", s.name}}, s.time.mean * count, "_sum");
                add({{"stage", s.name}}, count, "_count");
              }
            });
  const auto numbers = [&](std::string_view name, std::string_view type, std::string_view help,
                           bool is_gauge) {
    to.family(name, type, help, [&](const interval_metrics& m, auto add) {
      for (const stage_metrics& s : m.stages)
        for (const user_metric& n : s.user_metrics)
          if (n.values.has_value() == is_gauge) add({{"stage", s.name}, {"name", n.name}}, n.value);
    });
  };
  numbers("feedline_user_events_total", "counter", "Counters of functions, stages and sources.", false);
  numbers("feedline_user_value", "gauge", "Gauges of functions, stages and sources.", true);
}

FEEDLINE_INLINE void add_workers(prometheus_text& to) {
  const auto each_worker = [&](std::string_view name, std::string_view help, auto each) {
    to.family(name, "counter", help, [&](const interval_metrics& m, auto add) {
      for (const segment_metrics& s : m.segments)
        for (std::size_t i = 0; i < s.workers.size(); ++i) each(s.name, std::to_string(i), s.workers[i], add);
    });
  };
  to.family("feedline_workers", "gauge", "Threads in use.", "threads", &interval_metrics::segments,
            [](const segment_metrics& s) { return s.active; });
  each_worker("feedline_worker_seconds_total", "Time of a thread in each state.",
              [](const std::string& threads, const std::string& worker, const worker_metrics& w, auto add) {
                const auto state = [&](std::string_view name, double seconds) {
                  add({{"threads", threads}, {"worker", worker}, {"state", name}}, seconds);
                };
                state("busy", w.busy);
                state("starved", w.starved);
                state("blocked", w.blocked);
                state("waiting", w.waiting);
                state("throttled", w.throttled);
              });
  each_worker("feedline_worker_preempted_seconds_total",
              "The part of a thread's time in which it was ready to run, but had no processor.",
              [](const std::string& threads, const std::string& worker, const worker_metrics& w, auto add) {
                add({{"threads", threads}, {"worker", worker}}, w.preempted);
              });
}

FEEDLINE_INLINE void add_queues(prometheus_text& to) {
  const auto each = [&](std::string_view name, std::string_view type, std::string_view help, auto of) {
    to.family(name, type, help, "queue", &interval_metrics::queues, of);
  };
  each("feedline_queue_put_items_total", "counter", "Items put into a queue.",
       [](const queue_metrics& q) { return q.put; });
  each("feedline_queue_taken_items_total", "counter", "Items taken from a queue.",
       [](const queue_metrics& q) { return q.taken; });
  each("feedline_queue_dropped_items_total", "counter", "Items dropped because a queue was full.",
       [](const queue_metrics& q) { return q.dropped; });
  each("feedline_queue_fill_items", "gauge", "Items in a queue.",
       [](const queue_metrics& q) { return q.fill.latest; });
  each("feedline_queue_capacity_items", "gauge", "The most items that a queue holds.",
       [](const queue_metrics& q) { return q.capacity; });
}

FEEDLINE_INLINE void add_consumer(prometheus_text& to) {
  const auto one = [&](std::string_view name, std::string_view type, std::string_view help, auto of) {
    to.family(name, type, help,
              [&](const interval_metrics& m, auto add) { add({}, static_cast<double>(of(m))); });
  };
  one("feedline_run_seconds", "gauge", "Time since the run began.",
      [](const interval_metrics& m) { return m.seconds; });
  one("feedline_consumer_items_total", "counter", "Items that the consumer has taken.",
      [](const interval_metrics& m) { return m.consumer.items; });
  one("feedline_consumer_wait_seconds_total", "counter", "Time that the consumer has waited for items.",
      [](const interval_metrics& m) { return m.consumer.waited; });
  to.family("feedline_consumer_queued_seconds", "histogram",
            "How long items were ready before the consumer took them.",
            [](const interval_metrics& m, auto add) {
              // Always the same bounds, a microsecond to a minute, so that series don't begin in the middle.
              std::uint64_t items = 0;
              auto next = m.consumer.queued.begin();
              for (double bound = 0x1p10 * 1e-9; bound < 100; bound *= 4) {
                for (; next != m.consumer.queued.end() && next->up_to < bound * 1.5; ++next)
                  items += next->items;
                add({{"le", prometheus_number(bound)}}, static_cast<double>(items), "_bucket");
              }
              for (; next != m.consumer.queued.end(); ++next) items += next->items;
              const auto count = static_cast<double>(items);
              add({{"le", "+Inf"}}, count, "_bucket");
              add({}, m.consumer.mean_queued * count, "_sum");
              add({}, count, "_count");
            });
}

} // namespace detail

FEEDLINE_INLINE std::string to_prometheus(std::span<const named_metrics> loaders) {
  detail::prometheus_text text(loaders);
  detail::add_consumer(text);
  detail::add_stages(text);
  detail::add_workers(text);
  detail::add_queues(text);
  return text.text();
}

FEEDLINE_INLINE std::string to_prometheus(const metrics& m) {
  const named_metrics one[] = {{{}, m}};
  return to_prometheus(std::span(one));
}

} // namespace feedline::inline FEEDLINE_ABI
#endif
