// SPDX-License-Identifier: MIT
#pragma once
// Finds out what the consumer of a run waits for.
#include <cstdint>
#include <memory>
#include <string>

#include <feedline/core/sample.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

class pipeline_run;

/// What the consumer waits for. It doesn't need the run.
struct found_wait {
  std::string before, after;                 ///< around the sample's name
  std::uint64_t index = sample_id::no_index; ///< of the sample; no_index: it names none
  std::shared_ptr<const void> source{};
  std::string (*origin)(const void* source, std::uint64_t index) = nullptr;

  /// The sentence. Asks the source for the sample's name, which may take long.
  std::string to_string() const;
};

/// See run_handle::waiting_for(). Any thread may call it while the run exists.
found_wait find_wait(const pipeline_run& run);

} // namespace feedline::inline FEEDLINE_ABI::detail

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_CORE_RUN)
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <optional>
#include <stop_token>
#include <vector>

#include <feedline/core/callback.hpp>
#include <feedline/core/metrics.hpp>
#include <feedline/core/metrics/thread_counters.hpp>
#include <feedline/core/run/pipeline_run.hpp>
#include <feedline/core/transport/channel.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// What a thread does, as another one sees it.
struct seen_thread {
  explicit seen_thread(const thread_counters& t)
      : number(t.number),
        since(t.at.since.load(std::memory_order_relaxed)),
        packet(t.at.packet.load(std::memory_order_relaxed)),
        stage(t.at.stage.load(std::memory_order_relaxed)),
        index(t.at.index.load(std::memory_order_relaxed)),
        others(t.at.others.load(std::memory_order_relaxed)) {
    const std::uint64_t waiting = t.waiting.load(std::memory_order_acquire);
    wait = static_cast<wait_kind>(waiting & 7);
    if (waiting != 0) waits_since = waiting >> 3;
    is_alive = t.began.load(std::memory_order_relaxed) != 0 && t.ended.load(std::memory_order_relaxed) == 0;
  }

  bool is_at_work() const noexcept { return wait == wait_kind::none || wait == wait_kind::inside; }

  std::size_t number;
  std::uint64_t since, packet, stage, index, others;
  wait_kind wait;
  std::uint64_t waits_since = 0; // 0: it doesn't wait
  bool is_alive;
};

/// Looks at the segments from the consumer upstream.
class wait_finder {
 public:
  explicit wait_finder(const pipeline_run& run) : run_(run), now_(now_ns()) {}

  found_wait find() const {
    const seen_thread consumer(run_.consumer());
    if (run_.stopped()) return {"nothing: the run was stopped", {}};
    if (run_.consumer().ended.load(std::memory_order_relaxed) != 0) return {"nothing: the run has ended", {}};
    const bool waits = consumer.wait == wait_kind::starved;
    if (!waits && is_something_ready(consumer)) return {describe_consumer(consumer), {}};
    for (std::size_t i = run_.segments().size(); i-- > 0;)
      if (run_.segments()[i].has_threads)
        if (std::optional<found_wait> found = look_at(i)) return *std::move(found);
    return {"nothing: each thread of the run waits for another one, which is about to go on", {}};
  }

 private:
  std::vector<seen_thread> threads_of(const segment_record& segment) const {
    std::vector<seen_thread> all;
    for (const auto& worker : segment.workers)
      if (const seen_thread t(*worker); t.is_alive) all.push_back(t);
    return all;
  }

  // Whether the next packet in order is in the last queue, as far as that can be known.
  bool is_something_ready(const seen_thread& consumer) const {
    if (run_.queues().back()->fill() == 0) return false;
    const segment_record& last = run_.segments().back();
    const std::vector<seen_thread> workers = threads_of(last);
    return !last.parallel || run_.queues().back()->config().unordered ||
           std::none_of(workers.begin(), workers.end(), [&](const seen_thread& t) {
             return t.is_at_work() && t.since != 0 && t.packet <= consumer.packet + (consumer.since != 0);
           });
  }

  std::string describe_consumer(const seen_thread& consumer) const {
    const std::string ready = std::to_string(run_.queues().back()->fill()) + " items are ready";
    if (consumer.since == 0) return "nothing: the consumer hasn't asked for an item yet; " + ready;
    return "nothing: the consumer took the last packet " + seconds_since(consumer.since) +
           " ago and hasn't asked for another one; " + ready;
  }

  // Nothing: all its threads wait for input, or have ended.
  std::optional<found_wait> look_at(std::size_t number) const {
    const segment_record& segment = run_.segments()[number];
    std::vector<seen_thread> threads = threads_of(segment);
    const bool is_source = number == 0;
    const bool unordered = run_.queues()[number]->config().unordered;
    const auto is_meant = [&](const seen_thread& t) {
      return t.wait != wait_kind::parked && (is_source || t.wait != wait_kind::starved);
    };
    std::erase_if(threads, [&](const seen_thread& t) { return !is_meant(t); });
    if (threads.empty()) return std::nullopt;
    // Of ordered workers the one with the earliest packet holds up the others.
    const seen_thread& t =
        *std::min_element(threads.begin(), threads.end(), [&](const auto& a, const auto& b) {
          if (a.is_at_work() != b.is_at_work()) return a.is_at_work();
          if ((a.since != 0) != (b.since != 0)) return a.since != 0;
          return unordered ? a.since < b.since : a.packet < b.packet;
        });
    const std::string worker = segment.parallel ? "worker " + std::to_string(t.number + 1) + " of " : "";
    if (!is_source && t.since == 0) return found_wait{worker + run_.name_of(segment) + " is starting", {}};
    if (t.stage == 0 && (is_source || t.index == sample_id::no_index))
      return found_wait{describe_source(t), {}};
    const std::string& stage = run_.places()[t.stage].name;
    const std::string where = is_source          ? "the source's thread is in "
                              : segment.parallel ? "packet " + grouped(t.packet) + " is with worker " +
                                                       std::to_string(t.number + 1) + " in "
                                                 : "packet " + grouped(t.packet) + " is in ";
    return found_wait{where + stage,
                      (t.others > 0 ? " or one of the " + std::to_string(t.others) + " after it" : "") +
                          what_it_waits_for(t) + ", for " +
                          seconds_since(t.waits_since != 0 ? t.waits_since : t.since),
                      t.index, run_.shared_source(), run_.type().source.origin};
  }

  std::string describe_source(const seen_thread& t) const {
    const std::uint64_t since = t.waits_since != 0 ? t.waits_since : t.since;
    std::string text = run_.places()[0].name;
    text += t.wait == wait_kind::starved ? " waits for" : " reads";
    text += " its next sample" + what_it_waits_for(t);
    return since == 0 ? text : text + ", for " + seconds_since(since);
  }

  static std::string what_it_waits_for(const seen_thread& t) {
    if (t.wait == wait_kind::inside)
      return t.stage == 0 ? ", waiting for its data" : ", which waits inside its function";
    if (t.wait == wait_kind::blocked) return ", waiting for room downstream";
    return t.wait == wait_kind::throttled ? ", stopped as the run has used its cpu_share" : "";
  }

  std::string seconds_since(std::uint64_t when) const {
    const std::uint64_t ns = now_ - std::min(now_, when);
    return ns < 1'000'000 ? "less than 0.001 s" : digits(static_cast<double>(ns) * 1e-9) + " s";
  }

  const pipeline_run& run_;
  const std::uint64_t now_;
};

FEEDLINE_INLINE std::string found_wait::to_string() const {
  if (index == sample_id::no_index) return before + after;
  std::string sample = ", on sample " + grouped(index);
  try {
    if (const std::string name = origin(source.get(), index); !name.empty()) sample += " (" + name + ")";
  } catch (...) { // the source can't say, for example as it is remote
  }
  return before + sample + after;
}

FEEDLINE_INLINE found_wait find_wait(const pipeline_run& run) { return wait_finder(run).find(); }

FEEDLINE_INLINE void watch_waits(pipeline_run& run) {
  constexpr std::uint64_t hour = 3'600'000'000'000; // ns
  const std::stop_token& stop = run.context().stop;
  const thread_counters& consumer = run.consumer();
  std::mutex mutex;
  std::condition_variable
      stopped; // condition_variable_any allocates, and nobody would catch what this thread throws
  const auto wake = [&] {
    const std::lock_guard lock(mutex);
    stopped.notify_one();
  };
  const std::stop_callback<decltype(wake)> at_stop(stop, wake);
  std::unique_lock lock(mutex);
  const auto longest = static_cast<std::uint64_t>(run.options().watchdog.value().count());
  std::uint64_t reported = 0; // the beginning of that wait
  while (consumer.ended.load(std::memory_order_relaxed) == 0) {
    const std::uint64_t waiting = consumer.waiting.load(std::memory_order_acquire);
    const bool waits = static_cast<wait_kind>(waiting & 7) == wait_kind::starved;
    const std::uint64_t since = waits ? waiting >> 3 : 0, now = now_ns();
    const bool is_new = since != 0 && since != reported;
    const std::uint64_t passed = is_new ? now - std::min(now, since) : 0;
    if (passed < longest) {
      const auto pause = std::chrono::nanoseconds(std::min(longest - passed, hour));
      if (!stop.stop_requested()) stopped.wait_for(lock, pause);
      if (stop.stop_requested()) return;
      continue;
    }
    reported = since;
    lock.unlock(); // on_notice may stop the run, and a stop takes the lock
    try {
      notify(run.options().on_notice, "feedline: no item came for " +
                                          digits(static_cast<double>(passed) * 1e-9) +
                                          " s. Waiting for: " + find_wait(run).to_string());
    } catch (...) { // there is nobody to tell
    }
    lock.lock();
  }
}

} // namespace feedline::inline FEEDLINE_ABI::detail
#endif
