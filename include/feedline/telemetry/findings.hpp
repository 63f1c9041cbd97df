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

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_TELEMETRY)
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string_view>
#include <utility>

#include <feedline/detail/readable_text.hpp>

namespace feedline::inline FEEDLINE_ABI {

namespace detail {

/// The threads of a segment, all processors, or the consumer.
struct run_part {
  std::string name;
  double demand;  ///< seconds of work for an item that the consumer takes
  double servers; ///< how many do such work at the same time

  /// The most items per second.
  double bound() const { return demand > 0 ? servers / demand : std::numeric_limits<double>::infinity(); }
};

/// The parts of a run: the segments, the processors and the consumer, in this order.
struct run_parts {
  std::vector<run_part> all;

  /// The part with the smallest bound; of equal ones the last.
  const run_part& limit() const {
    const run_part* smallest = &all.front();
    for (const run_part& p : all)
      if (p.bound() <= 1.0001 * smallest->bound()) smallest = &p;
    return *smallest;
  }

  /// The same if a part takes another time for an item.
  run_parts with_demand(std::size_t part, double demand) const {
    run_parts changed = *this;
    changed.all[part].demand = demand;
    return changed;
  }
};

/// What is known of a run, and the words for it.
class run_analysis {
 public:
  run_analysis(const interval_metrics& m, std::size_t processors)
      : m_(m), processors_(static_cast<double>(processors)), rate_(rate_of(m)) {
    double computed = 0;
    for (std::size_t i = 0; i < m.segments.size(); ++i) {
      const segment_metrics& s = m.segments[i];
      const worker_metrics sum = s.sum();
      // Assumes that a thread lacks a processor equally often when it works and when it wakes from a wait.
      const double runs = sum.busy * (1 - std::min(1.0, s.preempted_fraction()));
      const double demand = per_item(runs + sum.waiting + data_wait(i));
      parts_.all.push_back({s.name, demand, std::max(static_cast<double>(s.active), rate_ * demand)});
      computed += runs;
    }
    if (m.seconds > 0) used_ = computed / (m.seconds * processors_);
    // If they were busy for longer than the processors have time, their functions wait without saying so.
    parts_.all.push_back({"the processors", used_ > 1.05 ? 0 : per_item(computed), processors_});
    parts_.all.push_back({"the consumer", per_item(std::max(0.0, m.seconds - m.consumer.waited)), 1});
  }

  static double rate_of(const interval_metrics& m) {
    return m.seconds > 0 ? static_cast<double>(m.consumer.items) / m.seconds : 0;
  }

  finding limit() const {
    const double waits = m_.consumer.waited / m_.seconds;
    if (waits < 0.05)
      return {"The consumer limits: it waits " + percent(waits) +
                  " of the time for items. A faster pipeline would not help",
              {}};
    const segment_metrics *throttled = &m_.segments.front(), *preempted = throttled;
    for (const segment_metrics& s : m_.segments) {
      if (s.throttled_fraction() > throttled->throttled_fraction()) throttled = &s;
      if (s.preempted_fraction() > preempted->preempted_fraction()) preempted = &s;
    }
    if (throttled->throttled_fraction() > 0.1)
      return released("cpu_share limits: " + throttled->name + " was stopped for " +
                          percent(throttled->throttled_fraction()) + " of the time. With a larger cpu_share",
                      throttled->name);
    const run_part& limit = parts_.limit();
    const auto part = static_cast<std::size_t>(&limit - parts_.all.data());
    const bool is_preempted = preempted->preempted_fraction() >= 0.1;
    if (used_ > 0.8 && used_ <= 1.05 && (is_preempted || part == m_.segments.size()))
      return too_few_processors();
    if (is_preempted && parts_.limit().bound() > 1.1 * rate_)
      return released("Other programs, or the consumer, use the processors: the threads of " +
                          preempted->name + " waited " + percent(preempted->preempted_fraction()) +
                          " of the time for one. With processors of its own",
                      preempted->name);
    if (part >= m_.segments.size() || limit.demand * rate_ < 0.5 * limit.servers)
      return {"Nothing is at its limit: " + limit.name +
                  (part == m_.segments.size() ? " are in use " : " is in use ") +
                  percent(limit.demand > 0 ? limit.demand * rate_ / limit.servers : 0) +
                  " of the time, and the consumer waits " + percent(waits) +
                  ". The run was short, or the times of its items differ much",
              limit.name};
    return m_.segments[part].parallel ? too_few_workers(part) : one_thread(part);
  }

  /// A queue that is often full and often empty: a larger one would even that out.
  void add_queue(std::vector<finding>& to) const {
    const double gain = parts_.limit().bound() / rate_;
    double most = 0.1;
    const queue_metrics* found = nullptr;
    for (std::size_t i = 0; i < std::min(m_.queues.size(), m_.segments.size()); ++i) {
      const worker_metrics up = m_.segments[i].sum();
      const double starved = i + 1 < m_.segments.size() ? m_.segments[i + 1].starved_fraction()
                                                        : m_.consumer.waited / m_.seconds;
      const double both = std::min(up.time() > 0 ? up.blocked / up.time() : 0, starved);
      if (both > most) found = &m_.queues[i];
      most = std::max(most, both);
    }
    if (!found || gain < 1.1 || !std::isfinite(gain)) return;
    to.push_back({"The queue " + found->name + " is full at times and empty at times (each " + percent(most) +
                      " of the time or more). With a larger queue_capacity at most " + times(gain) +
                      " times as fast",
                  found->name, gain});
  }

  void add_failures(std::vector<finding>& to) const {
    for (const stage_metrics& s : m_.stages) {
      const double calls = static_cast<double>(std::max(s.received, s.emitted + s.failures));
      if (calls <= 0 || static_cast<double>(s.failures) < 0.01 * calls) continue;
      const failure_count* most = nullptr;
      for (const failure_count& f : m_.failures)
        if (f.stage == s.name && (!most || f.count > most->count)) most = &f;
      std::string text = s.name + " failed for " + percent(static_cast<double>(s.failures) / calls) +
                         " of its items (" + std::to_string(s.failures) + ")";
      if (most) text += ", most often (" + std::to_string(most->count) + " times) with: " + most->message;
      to.push_back({text + ". These samples are missing in training", s.name});
    }
  }

 private:
  double per_item(double seconds) const {
    return m_.consumer.items > 0 ? seconds / static_cast<double>(m_.consumer.items) : 0;
  }

  double data_wait(std::size_t segment) const {
    return awaits_data(m_, segment) ? m_.segments[segment].sum().starved : 0;
  }

  static std::string times(double factor) {
    const auto tenths = static_cast<std::uint64_t>(std::min(factor, 1e6) * 10 + 0.5);
    return std::to_string(tenths / 10) + (tenths < 100 ? "." + std::to_string(tenths % 10) : "");
  }

  /// Adds the effect of a change to a sentence that ends in the change.
  finding predicted(std::string sentence, std::string stage, double before, const run_parts& after,
                    const std::string& changed, std::size_t workers = 0,
                    const char* certainty = " about ") const {
    const run_part& next = after.limit();
    if (!std::isfinite(next.bound() / before))
      return {sentence + " the run would be much faster", std::move(stage), 1, workers};
    const double speedup = std::max(1.0, next.bound() / before);
    const bool is_same = next.name == changed;
    const std::string verb = next.name == "the processors" ? " limit" : " limits";
    const std::string then = !is_same           ? next.name + verb
                             : verb == " limit" ? "they still limit"
                                                : "it still limits";
    if (speedup < 1.05) sentence += " hardly faster, as " + then + (is_same ? "" : " too");
    else sentence += certainty + times(speedup) + " times as fast; then " + then;
    return {std::move(sentence), std::move(stage), speedup, workers};
  }

  /// The run without a limit from outside.
  finding released(std::string sentence, std::string stage) const {
    return predicted(std::move(sentence), std::move(stage), rate_, parts_, {}, 0, " at most ");
  }

  finding too_few_processors() const {
    run_parts twice = parts_;
    double threads = 0;
    for (std::size_t i = 0; i < m_.segments.size(); ++i) {
      if (m_.segments[i].parallel) twice.all[i].servers *= 2;
      threads += m_.segments[i].sum().busy / m_.seconds;
    }
    twice.all[m_.segments.size()].servers *= 2;
    std::string text = "The processors limit: the pipeline uses " + percent(used_) + " of " +
                       std::to_string(static_cast<int>(processors_));
    if (threads > 1.5 * processors_) text += ", and fewer workers would be as fast";
    text +=
        ". Less work for an item would help (if a function waits, it must say so with context::waiting()); "
        "with twice the processors and workers";
    return predicted(std::move(text), {}, parts_.limit().bound(), twice, "the processors");
  }

  /// The number of workers at which another part limits; at most four times as many as now, to which times for an item
  /// can be extrapolated.
  static std::size_t enough_workers(double demand, double others, double now) {
    const double wanted = std::ceil(std::min(demand * others, 1e6) - 1e-6);
    return static_cast<std::size_t>(std::min({std::max(wanted, now + 1), 4 * now, 256.0}));
  }

  finding too_few_workers(std::size_t part) const {
    const run_part& limit = parts_.all[part];
    const double others = parts_.with_demand(part, 0).limit().bound();
    const std::size_t workers = enough_workers(limit.demand, others, limit.servers);
    const segment_metrics& s = m_.segments[part];
    const std::size_t active = s.active;
    const bool waits = s.waiting_fraction() > s.busy_fraction();
    std::string text = limit.name + " limits: its ";
    if (active == 1) text += waits ? "one worker waits in its function " : "one worker is busy ";
    else text += std::to_string(active) + (waits ? " workers wait in their function " : " workers are busy ");
    text += percent(waits ? s.waiting_fraction() : s.busy_fraction()) + " of the time";
    if (used_ > 1.05) text += " (longer than the processors: it waits without context::waiting())";
    if (workers <= active) return {text + ", and it has as many as possible", limit.name};
    run_parts after = parts_;
    after.all[part].servers = static_cast<double>(workers);
    const std::size_t more = workers - active;
    text += ". With " + std::to_string(more) + (more == 1 ? " more worker" : " more workers");
    return predicted(std::move(text), limit.name, limit.bound(), after, limit.name, workers);
  }

  finding one_thread(std::size_t part) const {
    const run_part& limit = parts_.all[part];
    std::string text = limit.name + " limits: its thread";
    double timed = 0;
    const stage_metrics* longest = nullptr;
    for (const stage_metrics& s : m_.stages) {
      if (s.segment != part) continue;
      timed += s.busy;
      if (!longest || s.busy > longest->busy) longest = &s;
    }
    if (!longest) return {text + " is always in use", limit.name};
    const double data = per_item(data_wait(part));
    const double most = (limit.demand - data) * (timed > 0 ? longest->busy / timed : 1);
    run_parts after = parts_.with_demand(part, std::max(0.0, limit.demand - std::max(data, most)));
    if (data > most) {
      text = limit.name + " limits: its source waits for data " +
             percent(m_.segments[part].starved_fraction()) +
             " of the time. Faster storage, or a source that reads more at once, helps; if data were always "
             "there";
      return predicted(std::move(text), limit.name, limit.bound(), after, limit.name, 0, " at most ");
    }
    text += " is in use " + percent(limit.demand * rate_) + " of the time, most of it by " + longest->name;
    const std::string_view name = longest->name;
    const std::string_view kind = name.substr(0, name.find(' '));
    const bool may_have_workers = kind == "map" || kind == "filter" || kind == "flat_map" || kind == "tap";
    if (!may_have_workers)
      return predicted(text + ", which can't have workers. If that took no time", longest->name,
                       limit.bound(), after, limit.name, 0, " at most ");
    const std::size_t workers = std::max<std::size_t>(2, enough_workers(most, after.limit().bound(), 1));
    after.all.insert(after.all.begin(), {longest->name, most, static_cast<double>(workers)});
    return predicted(text + ". With workers{" + std::to_string(workers) + "} for it", longest->name,
                     limit.bound(), after, longest->name, workers);
  }

  const interval_metrics& m_;
  const double processors_;
  const double rate_; // items per second
  double used_ = 0;   // the part of the processors that the pipeline uses
  run_parts parts_;
};

} // namespace detail

FEEDLINE_INLINE std::vector<finding> findings(const interval_metrics& m, std::size_t processors) {
  std::vector<finding> all;
  const bool has_items = detail::run_analysis::rate_of(m) > 0 && !m.segments.empty();
  const detail::run_analysis run(m, std::max<std::size_t>(1, processors));
  if (has_items) {
    all.push_back(run.limit());
    run.add_queue(all);
  } else {
    all.push_back({"The consumer received no item in this time: what limits the run is not known", {}});
  }
  run.add_failures(all);
  for (finding& f : all) f.sentence = detail::readable(f.sentence);
  return all;
}

} // namespace feedline::inline FEEDLINE_ABI
#endif
