// SPDX-License-Identifier: MIT
#pragma once
// What each thread of a run did and when, for a viewer of traces.
#include <cstddef>
#include <memory>
#include <string>

#include <feedline/core/loader.hpp>

namespace feedline::inline FEEDLINE_ABI {

/// Options of a trace.
struct trace_options {
  std::size_t events = 10'000; ///< the last ones that each thread keeps, at least 1; one takes 48 bytes
};

/// Traces a run into a file for Perfetto (https://ui.perfetto.dev) or chrome://tracing: what each thread did with which packet,
/// its waits, the fill of each queue, and arrows that lead from a packet to those made from it, up to the consumer.
/// The format is Chrome's Trace Event Format. The trace may outlive the loader.
///
///     fl::trace trace(loader, "run.trace.json"); // … its destructor writes the file
class trace {
 public:
  /// Begins. Throws std::invalid_argument for 0 events, and std::logic_error if the run is being traced already.
  trace(const run_handle& loader, std::string path, const trace_options& options = {});

  trace(trace&&) = delete;

  /// Writes the file, unless write() did. A file that can't be written is reported on stderr.
  ~trace();

  /// Ends the trace and writes the file. Throws std::system_error that names a file that can't be written.
  void write();

  /// The events so far, for any thread.
  std::string to_json() const;

 private:
  struct events;

  std::string path_;
  std::unique_ptr<events> events_;
  bool is_written_ = false;
};

} // namespace feedline::inline FEEDLINE_ABI

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_TELEMETRY)
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <map>
#include <set>
#include <span>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

#include <unistd.h>

#include <feedline/core/metrics.hpp>
#include <feedline/core/run_watch.hpp>
#include <feedline/detail/file_draft.hpp>

namespace feedline::inline FEEDLINE_ABI {

namespace detail {

/// Writes events of the Trace Event Format.
class trace_writer {
 public:
  trace_writer(std::span<const traced_thread> threads, std::uint64_t began) : began_(began) {
    for (const traced_thread& t : threads) {
      std::uint64_t lost = 0;
      threads_.push_back({&t, t.events->read(lost), true});
      threads_.back().is_whole = lost == 0;
      lost_ += lost;
      // Those of an earlier trace of the run.
      std::erase_if(threads_.back().events, [&](const trace_event& e) { return e.end < began; });
      for (const trace_event& e : threads_.back().events)
        if (e.what == trace_event::kind::pushed) pushed_.insert({t.segment, e.id});
    }
  }

  std::string write() {
    for (std::size_t i = 0; i < threads_.size(); ++i) write_thread(i + 1, threads_[i]);
    write_queues();
    return "{\"displayTimeUnit\": \"ms\", \"otherData\": {\"lost_events\": " + std::to_string(lost_) +
           "}, \"traceEvents\": [\n" + text_ + "\n]}\n";
  }

 private:
  using kind = trace_event::kind;

  struct traced {
    const traced_thread* is;
    std::vector<trace_event> events;
    bool is_whole; // none was overwritten
  };

  void write_thread(std::size_t id, const traced& t) {
    add("M", "thread_name", id, began_,
        ", \"args\": {\"name\": " + json_string(t.is->name + t.is->worker) + "}");
    // A source's thread has no packets from upstream.
    std::uint64_t source_began = t.is_whole || t.events.empty() ? began_ : t.events.front().end;
    for (const trace_event& e : t.events) {
      if (e.what == kind::wait) {
        slice(wait_name(e.id), id, e.begin, e.end);
      } else if (e.what == kind::packet) {
        slice(t.is->name, id, e.begin, e.end, &e);
        arrow("f", t.is->segment - 1, id, e.begin, e.id);
      } else if (e.what == kind::pushed) {
        if (t.is->segment == 0) slice(t.is->name, id, std::exchange(source_began, e.end), e.begin, &e);
        slice("push", id, e.begin, e.end, &e);
        arrow("s", t.is->segment, id, e.begin, e.id);
      } else {
        slice("take", id, e.begin, e.end, &e);
        arrow("f", t.is->segment - 1, id, e.begin, e.id);
      }
    }
  }

  // Of each queue the samples in it, when a packet was pushed or taken.
  void write_queues() {
    std::map<std::size_t, std::vector<std::pair<std::uint64_t, std::uint64_t>>>
        fills; // by queue: when, and how many
    for (const traced& t : threads_) {
      for (const trace_event& e : t.events) {
        if (e.what == kind::pushed) fills[t.is->segment].push_back({e.end, e.fill});
        else if (e.what != kind::wait) fills[t.is->segment - 1].push_back({e.begin, e.fill});
      }
    }
    for (auto& [queue, all] : fills) {
      std::sort(all.begin(), all.end());
      for (const auto& [when, fill] : all)
        add("C", "queue " + std::to_string(queue + 1), 0, when,
            ", \"args\": {\"samples\": " + std::to_string(fill) + "}");
    }
  }

  static std::string wait_name(std::uint64_t kind) {
    constexpr std::array<std::string_view, 6> names{"",       "starved", "blocked",
                                                    "parked", "waiting", "throttled"};
    return std::string(names[std::min<std::size_t>(kind, names.size() - 1)]);
  }

  void slice(const std::string& name, std::size_t thread, std::uint64_t begin, std::uint64_t end,
             const trace_event* packet = nullptr) {
    begin = std::max(begin, began_);
    add("X", name, thread, begin,
        ", \"dur\": " + microseconds(end - std::min(begin, end)) +
            (packet ? ", \"args\": {\"items\": " + std::to_string(packet->items) + "}" : ""));
  }

  // Between the slices in which a packet was pushed and taken.
  void arrow(std::string_view phase, std::size_t queue, std::size_t thread, std::uint64_t when,
             std::uint64_t packet) {
    if (!pushed_.contains({queue, packet})) return;                     // its beginning was overwritten
    if (phase == "s" && !begun_.insert({queue, packet}).second) return; // two packets at the same time
    add(phase, "packet", thread, when,
        ", \"cat\": \"flow\", \"bp\": \"e\", \"id\": \"" + std::to_string(queue) + "-" +
            std::to_string(packet) + "\"");
  }

  void add(std::string_view phase, const std::string& name, std::size_t thread, std::uint64_t when,
           const std::string& rest) {
    text_ += text_.empty() ? "" : ",\n";
    text_ += "{\"ph\": \"";
    text_ += phase;
    text_ += "\", \"name\": " + json_string(name) + ", \"pid\": 1, \"tid\": " + std::to_string(thread) +
             ", \"ts\": " + microseconds(std::max(when, began_) - began_) + rest + "}";
  }

  static std::string microseconds(std::uint64_t ns) {
    const std::string fraction = std::to_string(1000 + ns % 1000).substr(1);
    return std::to_string(ns / 1000) + "." + fraction;
  }

  std::uint64_t began_;
  std::uint64_t lost_ = 0;
  std::vector<traced> threads_;
  std::set<std::pair<std::size_t, std::uint64_t>> pushed_, begun_; // packets by queue
  std::string text_;
};

} // namespace detail

struct trace::events {
  ::pid_t process;
  run_watch watch;
  detail::started_trace noted;
};

FEEDLINE_INLINE trace::trace(const run_handle& loader, std::string path, const trace_options& options)
    : path_(std::move(path)) {
  if (options.events == 0)
    throw std::invalid_argument("feedline::trace: a thread must keep at least 1 event");
  const run_watch watch(loader);
  events_ = std::unique_ptr<events>(new events{::getpid(), watch, watch.start_trace(options.events)});
}

FEEDLINE_INLINE trace::~trace() {
  if (::getpid() != events_->process) { // in a forked child, which has none of the threads
    static_cast<void>(events_.release());
    return;
  }
  try {
    write();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "feedline::trace: %s\n", error.what());
  }
}

FEEDLINE_INLINE void trace::write() {
  if (is_written_ || ::getpid() != events_->process) return;
  events_->watch.stop_trace();
  const std::string json = to_json();
  detail::replace_file(path_, std::as_bytes(std::span(json)));
  is_written_ = true;
}

FEEDLINE_INLINE std::string trace::to_json() const {
  return detail::trace_writer(events_->noted.threads, events_->noted.began).write();
}

} // namespace feedline::inline FEEDLINE_ABI
#endif
