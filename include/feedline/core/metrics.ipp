// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/core/metrics.hpp>

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
