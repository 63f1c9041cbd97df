// SPDX-License-Identifier: MIT
#pragma once
// A report of a run, as one HTML file.
#include <cstddef>
#include <span>
#include <string>

#include <feedline/core/memory_plan.hpp>
#include <feedline/core/metrics.hpp>
#include <feedline/core/processors.hpp>
#include <feedline/telemetry/recorder.hpp>

namespace feedline::inline FEEDLINE_ABI {

struct shuffle_report; // of shuffle_quality.hpp

/// The report of a run as an HTML page, without scripts or anything from a network. It has findings(total, processors), the
/// pipeline as a picture, times and fills over the recorded intervals, the consumer's waits, failures by cause, and the memory
/// plan beside what was held; `shuffle` adds how well the samples are shuffled. Names and messages may contain any bytes.
std::string to_html(std::span<const recorded_interval> intervals, const interval_metrics& total,
                    const memory_plan& plan, std::size_t processors = feedline::processors(),
                    const shuffle_report* shuffle = nullptr);

/// Writes the report of what the recorder has recorded so far. The file is complete or, after an error, as it was before: it is
/// written under another name, then renamed. Throws std::system_error, which names the file, if that fails.
void html_report(const recorder& run, const std::string& path, const shuffle_report* shuffle = nullptr);

} // namespace feedline::inline FEEDLINE_ABI

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_TELEMETRY)
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <feedline/detail/file_draft.hpp>
#include <feedline/detail/readable_text.hpp>
#include <feedline/telemetry/detail/html_chart.hpp>
#include <feedline/telemetry/detail/report_style.hpp>
#include <feedline/telemetry/findings.hpp>
#include <feedline/telemetry/shuffle_quality.hpp>

namespace feedline::inline FEEDLINE_ABI {

namespace detail {

/// The sections of the page.
class report {
 public:
  report(std::span<const recorded_interval> intervals, const interval_metrics& total, const memory_plan& plan)
      : intervals_(intervals), total_(total), plan_(plan), charts_(intervals) {}

  std::string page(std::size_t processors, const shuffle_report* shuffle) {
    std::string text =
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/><meta name=\"viewport\" "
        "content=\"width=device-width, initial-scale=1\"/><title>feedline: report of a run</title>\n<style>";
    ((text += report_style) += "</style></head>\n<body><main>\n") += summary();
    (text += section("Findings")) += found(processors);
    (text += section("The pipeline")) += picture();
    (text += section("Over the run")) += history();
    (text += section("The consumer's waits")) += waits();
    (text += section("Stages")) += stages();
    if (shuffle) (text += section("The order of the samples")) += order(*shuffle);
    (text += section("Failures by cause")) += failures();
    (text += section("Memory: the plan and what was held")) += memory();
    return text + "</main></body></html>\n";
  }

 private:
  /// The states of a thread, in the order in which charts stack them.
  static constexpr std::string_view state_names[] = {"busy", "waiting", "starved", "blocked", "throttled"};

  /// The part of its time that a segment's threads were in a state; 0 if they had no time.
  static double state_fraction(const segment_metrics& s, std::size_t state) {
    const worker_metrics sum = s.sum();
    const double times[] = {sum.busy, sum.waiting, sum.starved, sum.blocked, sum.throttled};
    return sum.time() > 0 ? times[state] / sum.time() : 0;
  }

  static std::string section(const char* name) { return std::string("<h2>") + name + "</h2>\n"; }

  static std::string quiet(const std::string& text) { return "<p class=\"quiet\">" + text + "</p>\n"; }

  static std::string legend() {
    std::string text = "<p class=\"legend\">";
    const std::string_view meanings[] = {"at work", "in functions", "waits for input", "waits for room",
                                         "by cpu_share"};
    for (std::size_t i = 0; i < std::size(state_names); ++i)
      (((((text += "<span><i class=\"") += state_names[i]) += "\"></i>") += state_names[i]) += ": ") +=
          std::string(meanings[i]) + "</span>";
    return text + "</p>\n";
  }

  double per_second(double count) const { return total_.seconds > 0 ? count / total_.seconds : 0; }

  std::string summary() const {
    const auto items = static_cast<double>(total_.consumer.items);
    std::uint64_t failed = 0;
    for (const stage_metrics& s : total_.stages) failed += s.failures;
    const auto bytes = plan_.bytes();
    std::string text = "<h1>Report of a run</h1>\n" + quiet(html_text(total_.bottleneck)) + "<dl>";
    const auto add = [&](const char* name, const std::string& value) {
      text += std::string("<div><dt>") + name + "</dt><dd>" + value + "</dd></div>\n";
    };
    add("Time", seconds_text(total_.seconds));
    add("Items delivered", grouped(total_.consumer.items));
    add("Items per second", short_number(per_second(items)));
    add("Consumer waits", percent(per_second(total_.consumer.waited)));
    add("Failures", grouped(failed));
    add("Memory, at most", bytes ? bytes_text(*bytes) : "unknown");
    return text + "</dl>\n";
  }

  std::string found(std::size_t processors) const {
    std::string text = "<ul class=\"findings\">\n";
    for (const finding& f : findings(total_, processors))
      text += "<li>" +
              (f.speedup >= 1.05 ? "<b>× " + short_number(std::round(f.speedup * 10) / 10) + "</b>" : "") +
              html_text(f.sentence) + ".</li>\n";
    return text + "</ul>\n" +
           quiet("Predictions are from the measured times of the whole run. They assume that these times "
                 "stay as they are, "
                 "and know no limit outside of the pipeline, such as a disk.");
  }

  std::string picture() const {
    if (total_.segments.empty()) return quiet("The run has no threads.");
    double most = 0;
    for (const queue_metrics& q : total_.queues) most = std::max(most, static_cast<double>(q.taken));
    std::string text = legend() + "<ol class=\"flow\">\n";
    for (std::size_t i = 0; i < total_.segments.size(); ++i) {
      const segment_metrics& s = total_.segments[i];
      std::size_t longest = 0;
      std::string states, bar;
      double left = 0;
      for (std::size_t k = 0; k < std::size(state_names); ++k) {
        const double part = state_fraction(s, k);
        if (part > state_fraction(s, longest)) longest = k;
        if (part < 0.005) continue;
        states += (states.empty() ? "" : ", ") + std::string(state_names[k]) + " " + percent(part);
        bar += "<rect class=\"" + std::string(state_names[k]) + "\" x=\"" + short_number(left) +
               "\" y=\"0\" width=\"" + short_number(part * 100) + "\" height=\"1\"/>";
        left += part * 100;
      }
      if (s.preempted_fraction() >= 0.005)
        states += ", without a processor " + percent(s.preempted_fraction());
      text += "<li class=\"" + std::string(state_names[longest]) + "\"><div><b>" + html_text(s.name) +
              "</b><span class=\"quiet\">" + std::to_string(s.active) +
              (s.active == 1 ? " thread" : " threads") +
              "</span><svg class=\"state\" role=\"img\" viewBox=\"0 0 100 1\" "
              "preserveAspectRatio=\"none\"><title>" +
              states + "</title>" + bar + "</svg><span class=\"quiet\">" + states + "</span></div>\n";
      text += i < total_.queues.size() ? connection(total_.queues[i], most) : "";
      text += "</li>\n";
    }
    const double waits = std::min(1.0, per_second(total_.consumer.waited));
    text += std::string("<li class=\"") + (waits > 0.5 ? "starved" : "busy") +
            "\"><div><b>consumer</b><span class=\"quiet\">waits " + percent(waits) +
            " of the time</span></div></li>\n</ol>\n";
    return text +
           quiet("A connection is as wide as the square root of its items per second; a batch is one item.");
  }

  /// An arrow as wide as the throughput of a queue.
  std::string connection(const queue_metrics& q, double most) const {
    const double width = most > 0 ? std::max(1.0, 16 * std::sqrt(static_cast<double>(q.taken) / most)) : 1;
    const std::string rate = short_number(per_second(static_cast<double>(q.taken))) +
                             " items/s; queue filled to " + short_number(q.fill.mean) + " of " +
                             grouped(q.capacity) + " on average" +
                             (q.dropped > 0 ? "; " + grouped(q.dropped) + " dropped" : "");
    const auto at = [](double x) { return short_number(24 + x); };
    return "<p><svg viewBox=\"0 0 48 48\" preserveAspectRatio=\"none\" aria-hidden=\"true\"><path d=\"M" +
           at(-width / 2) + ",0H" + at(width / 2) + "V36H" + at(width / 2 + 6) + "L24,48L" +
           at(-width / 2 - 6) + ",36H" + at(-width / 2) + "Z\"/></svg><span class=\"quiet\">" + rate +
           "</span></p>\n";
  }

  std::string history() {
    if (intervals_.empty()) return quiet("No interval was recorded.");
    std::string text = "<div class=\"charts\">\n";
    const auto plain = [](double v) { return short_number(v); };
    const auto one = [](double v) { return std::optional(feedline::gauge{v, v, v, v}); };
    text += charts_.curve("Items per second, to the consumer", plain, [&](const interval_metrics& m) {
      return one(m.seconds > 0 ? static_cast<double>(m.consumer.items) / m.seconds : 0);
    });
    text += charts_.curve(
        "Part of the time that the consumer waits", [](double v) { return percent(v); },
        [&](const interval_metrics& m) {
          return one(m.seconds > 0 ? std::min(1.0, m.consumer.waited / m.seconds) : 0);
        },
        1);
    text += "</div>\n<h3>What threads do</h3>\n" + legend() + "<div class=\"charts\">\n";
    for (std::size_t i = 0; i < total_.segments.size(); ++i)
      text += charts_.areas(total_.segments[i].name, state_names,
                            [&](const interval_metrics& m, std::size_t state) {
                              const bool has_time = i < m.segments.size() && m.segments[i].sum().time() > 0;
                              return has_time ? state_fraction(m.segments[i], state) : std::nan("");
                            });
    text += "</div>\n<h3>Time of a stage for an item</h3>\n<div class=\"charts\">\n";
    for (std::size_t i = 0; i < total_.stages.size(); ++i)
      if (total_.stages[i].time.timed > 0)
        text += charts_.curve(
            total_.stages[i].name, [](double v) { return seconds_text(v); },
            [&](const interval_metrics& m) -> std::optional<feedline::gauge> {
              if (i >= m.stages.size() || m.stages[i].time.timed == 0) return {};
              return one(m.stages[i].time.mean);
            });
    text += "</div>\n<h3>Items in queues</h3>\n<div class=\"charts\">\n";
    for (std::size_t i = 0; i < total_.queues.size(); ++i)
      text += charts_.curve(
          total_.queues[i].name, plain,
          [&](const interval_metrics& m) -> std::optional<feedline::gauge> {
            if (i >= m.queues.size()) return {};
            return m.queues[i].fill;
          },
          static_cast<double>(total_.queues[i].capacity));
    return text + "</div>\n" + quiet("A point is the mean of its intervals, the pale band their range.");
  }

  std::string waits() {
    const auto bars = [&](const char* title, const char* axis, const std::vector<time_bucket>& buckets) {
      std::vector<std::pair<std::string, std::uint64_t>> all;
      for (const time_bucket& b : buckets) all.emplace_back("≤ " + seconds_text(b.up_to), b.items);
      return charts_.bars(title, axis, all);
    };
    return "<div class=\"charts\">\n" +
           bars("Packets of items by how long the consumer waited for them", "time waited",
                total_.consumer.waits) +
           bars("Items by how long they were ready before they were taken", "time ready",
                total_.consumer.queued) +
           "</div>\n" +
           quiet("The consumer waited " + seconds_text(total_.consumer.waited) +
                 " in total. Items were ready for " + seconds_text(total_.consumer.median_queued) +
                 " (median), " + seconds_text(total_.consumer.percentile99_queued) + " (99th percentile).");
  }

  std::string stages() const {
    std::vector<std::vector<std::string>> rows;
    for (const stage_metrics& s : total_.stages) {
      const bool timed = s.time.timed > 0;
      rows.push_back({html_text(s.name), grouped(s.received), grouped(s.emitted), grouped(s.failures),
                      timed ? seconds_text(s.time.mean) : "–",
                      timed ? seconds_text(s.time.percentile99) : "–", seconds_text(s.busy)});
    }
    const std::string_view head[] = {"stage",     "items in",        "items out",   "failures",
                                     "mean time", "99th percentile", "busy, in all"};
    return html_table(head, rows);
  }

  static std::string order(const shuffle_report& r) {
    std::vector<std::vector<std::string>> rows;
    if (r.displacement) {
      const auto& [mean, by_buffer, by_permutation] = *r.displacement;
      rows.push_back({"positions by which a sample moves", short_number(mean),
                      short_number(by_buffer > 0 ? by_buffer : by_permutation)});
    }
    const auto add = [&](const group_mixing& mixing, const std::string& name) {
      if (mixing.groups == 0) return;
      rows.push_back({name + " in a batch, of " + grouped(mixing.groups), short_number(mixing.per_batch),
                      short_number(mixing.by_chance)});
      rows.push_back(
          {"autocorrelation of " + name + " from batch to batch", short_number(mixing.autocorrelation), "0"});
    };
    add(r.shards, "shards");
    add(r.labels, "labels");
    if (r.away.returns > 0) rows.push_back({"epochs until a sample returns", short_number(r.away.mean), "1"});
    const std::string_view head[] = {"", "measured", "by chance, or as the buffer allows"};
    std::string text = html_table(head, rows) + "<ul class=\"findings\">\n";
    for (const std::string& problem : r.problems()) text += "<li>" + html_text(problem) + ".</li>\n";
    text += "</ul>\n";
    for (const std::string& note : r.notes) text += quiet(html_text(note));
    return text;
  }

  std::string failures() const {
    if (total_.failures.empty()) return quiet("None.");
    std::vector<const failure_count*> all;
    for (const failure_count& f : total_.failures) all.push_back(&f);
    std::stable_sort(all.begin(), all.end(),
                     [](const auto* a, const auto* b) { return a->count > b->count; });
    const std::size_t shown = std::min<std::size_t>(all.size(), 50);
    std::vector<std::vector<std::string>> rows;
    for (std::size_t i = 0; i < shown; ++i)
      rows.push_back({html_text(all[i]->message), html_text(all[i]->stage), grouped(all[i]->count)});
    const std::string_view head[] = {"cause", "stage", "count"};
    return html_table(head, rows) + (shown < all.size() ? quiet(grouped(all.size() - shown) +
                                                                " more causes, each rarer, aren't shown.")
                                                        : "");
  }

  /// The most items that a part of the plan held; nothing: metrics don't count them.
  std::optional<double> held(const std::string& part) const {
    for (const stage_metrics& s : total_.stages)
      if (part == "held by " + s.name) return s.held.most;
    for (std::size_t i = 0; i < total_.queues.size(); ++i) {
      std::string up, down = "caller"; // the last stages of both segments, as in the plan
      for (const stage_metrics& s : total_.stages) {
        if (s.segment == i) up = s.name;
        if (s.segment == i + 1) down = s.name;
      }
      if (part == up + " -> " + down) return total_.queues[i].fill.most;
    }
    return {};
  }

  std::string memory() const {
    std::vector<std::vector<std::string>> rows;
    for (const memory_plan::part& p : plan_.parts) {
      const auto bytes = bytes_of(p);
      const auto most = held(p.name);
      rows.push_back({html_text(p.name) +
                          (p.bytes ? "" : "<br/><span class=\"quiet\">" + html_text(p.unknown) + "</span>"),
                      grouped(p.items), p.bytes ? bytes_text(*p.bytes) : "?",
                      bytes ? bytes_text(*bytes) : "?", most ? short_number(*most) : "–",
                      most && p.bytes ? bytes_text(static_cast<std::size_t>(
                                            std::clamp(*most * static_cast<double>(*p.bytes), 0.0, 1e18)))
                                      : "–"});
    }
    const auto sum = plan_.bytes();
    rows.push_back({"total", "", "", sum ? bytes_text(*sum) : "?", "", ""});
    const std::string_view head[] = {"part",           "items, at most", "bytes of each",
                                     "bytes, at most", "items held",     "bytes held"};
    return html_table(head, rows) + quiet("Held: the most at any time, as far as metrics count it, with the "
                                          "plan's bytes for each item. –: not counted.");
  }

  std::span<const recorded_interval> intervals_;
  const interval_metrics& total_;
  const memory_plan& plan_;
  chart_page charts_;
};

} // namespace detail

FEEDLINE_INLINE std::string to_html(std::span<const recorded_interval> intervals,
                                    const interval_metrics& total, const memory_plan& plan,
                                    std::size_t processors, const shuffle_report* shuffle) {
  return detail::report(intervals, total, plan).page(processors, shuffle);
}

FEEDLINE_INLINE void html_report(const recorder& run, const std::string& path,
                                 const shuffle_report* shuffle) {
  const std::string page =
      to_html(run.intervals(), run.total(), run.memory(), feedline::processors(), shuffle);
  try {
    detail::replace_file(path, std::as_bytes(std::span(page)));
  } catch (const std::system_error& error) {
    throw std::system_error(error.code(), "can't write the report " + detail::readable(path));
  }
}

} // namespace feedline::inline FEEDLINE_ABI
#endif
