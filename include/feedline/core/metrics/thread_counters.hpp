// SPDX-License-Identifier: MIT
#pragma once
// The counters of one thread of a run: its times and its items. Only that thread writes them; any thread may
// read them.
#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include <feedline/core/metrics/gauge_counter.hpp>
#include <feedline/core/metrics/trace_ring.hpp>
#include <feedline/version.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

inline std::uint64_t ns_of_clock(::clockid_t clock) noexcept {
  std::timespec time{};
  ::clock_gettime(clock, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(time.tv_nsec);
}

inline std::uint64_t now_ns() noexcept { return ns_of_clock(CLOCK_MONOTONIC); }

/// The processor time of the calling thread.
inline std::uint64_t thread_ns() noexcept { return ns_of_clock(CLOCK_THREAD_CPUTIME_ID); }

/// Adds to a counter with a single writer, which needs no read-modify-write instruction.
inline void add_relaxed(std::atomic<std::uint64_t>& counter, std::uint64_t amount) noexcept {
  counter.store(counter.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
}

/// Counts durations in buckets that are 1/Steps of a power of two wide.
template <std::size_t Steps, class Count>
class duration_histogram {
  static constexpr unsigned step_bits = std::bit_width(Steps) - 1;

 public:
  static constexpr std::size_t buckets = Steps * (48 - step_bits); // up to 2^47 ns: 39 hours
  using counts = std::array<std::uint64_t, buckets>;

  void add(std::uint64_t ns, std::uint64_t times) noexcept {
    std::atomic<Count>& count = counts_[bucket_of(ns)];
    count.store(static_cast<Count>(count.load(std::memory_order_relaxed) + times), std::memory_order_relaxed);
  }

  counts read() const noexcept {
    counts now{};
    add_to(now);
    return now;
  }

  void add_to(counts& sum) const noexcept {
    for (std::size_t i = 0; i < buckets; ++i) sum[i] += counts_[i].load(std::memory_order_relaxed);
  }

  /// The shortest duration in a bucket, in ns.
  static double lower_end(std::size_t bucket) {
    if (bucket < 2 * Steps) return static_cast<double>(bucket);
    return static_cast<double>(std::uint64_t{Steps + bucket % Steps} << (bucket / Steps - 1));
  }

  /// The duration in ns below which the given fraction of all durations is.
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
    if (ns < Steps) return ns;
    const auto shift = static_cast<unsigned>(std::bit_width(ns)) - step_bits - 1;
    return std::min(buckets - 1, Steps * (shift + 1) + ((ns >> shift) - Steps));
  }

  std::array<std::atomic<Count>, buckets> counts_{};
};

/// Numbers that the user's functions and stages report, by name.
class user_numbers {
 public:
  struct number {
    std::string name;
    bool adds_up = false;          // a sum over time, like a counter; otherwise a gauge
    double total = 0;              // of a counter
    gauge_counter::values gauge{}; // of a gauge
  };

  void count(std::string_view name, std::uint64_t times);

  void set(std::string_view name, double value);

  void set_total(std::string_view name, double value);

  /// Adds the numbers to those of other workers, for a report.
  void report_to(std::vector<number>& all);

 private:
  struct kept_number;

  kept_number& find(std::string_view name, bool adds_up);

  std::mutex mutex_;
  std::vector<std::shared_ptr<kept_number>> all_;
};

/// The `out` that metrics(out) of a source or stage calls with names and numbers.
struct reported_numbers {
  /// Reports a current value.
  void operator()(std::string_view name, double value) const { all.set(name, value); }

  /// Reports a sum since the run began.
  void total(std::string_view name, double value) const { all.set_total(name, value); }

  user_numbers& all;
};

struct thread_counters;

/// The counters of one thread in one stage.
struct stage_counters {
  using histogram = duration_histogram<4, std::uint32_t>;

  std::atomic<std::uint64_t> received{0};
  std::atomic<std::uint64_t> given{0};
  std::atomic<std::uint64_t> failures{0};
  gauge_counter held;                     ///< samples in its buffers
  std::atomic<std::uint64_t> capacity{0}; ///< of its buffers, in samples
  std::atomic<std::uint64_t> timed{0};    ///< number of timed items
  std::atomic<std::uint64_t> timed_ns{0}; ///< total time of the timed items
  histogram times;
  user_numbers numbers;
  thread_counters* thread = nullptr;

  void add_time(std::uint64_t ns) noexcept {
    add_relaxed(timed, 1);
    add_relaxed(timed_ns, ns);
    times.add(ns, 1);
  }
};

/// The kinds of waits. `inside`: a user's function waits, and reports it. `throttled`: the run used its share of the
/// processors.
enum class wait_kind : std::uint32_t { none, starved, blocked, parked, inside, throttled };

inline constexpr std::size_t wait_kinds = 6;

/// What a thread works on. Another thread may see numbers of different moments.
struct work_in_hand {
  /// When it took the packet, or a source began with one; in ns. 0: none yet.
  std::atomic<std::uint64_t> since{0};
  std::atomic<std::uint64_t> packet{0}; ///< its number in the queue that it was taken from
  std::atomic<std::uint64_t> stage{0};  ///< position in the pipeline; 0: the source
  std::atomic<std::uint64_t> index{0};  ///< of the sample, unless the thread is in the source
  /// How many samples after it the thread may be at instead: where each takes little time, it says only where it began.
  std::atomic<std::uint64_t> others{0};

  void take(std::uint64_t number, std::uint64_t now) noexcept {
    packet.store(number, std::memory_order_relaxed);
    since.store(now, std::memory_order_relaxed);
  }

  void enter(std::uint64_t place) noexcept { stage.store(place, std::memory_order_relaxed); }

  void begin_sample(std::uint64_t number) noexcept { index.store(number, std::memory_order_relaxed); }

  /// Several, of which this is the first.
  void begin_samples(std::uint64_t number, std::size_t count) noexcept {
    begin_sample(number);
    others.store(count - 1, std::memory_order_relaxed);
  }
};

/// The counters of one thread. Time counts as busy unless the thread waits.
struct alignas(64) thread_counters {
  explicit thread_counters(std::size_t stage_count, std::size_t number_among_workers = 0);

  const std::size_t number;

  std::atomic<std::uint64_t> began{0};
  std::atomic<std::uint64_t> ended{0};
  std::array<std::atomic<std::uint64_t>, wait_kinds> waits{}; // by kind, in ns
  // A wait in progress: its start in ns, with its kind in the three lowest bits; 0: none.
  std::atomic<std::uint64_t> waiting{0};
  std::atomic<std::uint64_t> changes{0}; // of the two above: it is odd during one
  std::vector<stage_counters> stages;
  std::atomic<int> id{0};                     // the system's; 0: not watched, or ended
  std::atomic<std::uint64_t> preempted_ns{0}; // stored when it ends
  work_in_hand at;
  std::uint64_t paid_ns = 0;              // of its processor time; see cpu_budget
  std::atomic<trace_ring*> ring{nullptr}; // null: it isn't traced
  std::shared_ptr<trace_ring> owned_ring; // once it was traced; guarded by the run's report_mutex()

  std::atomic<std::uint64_t>& waited(wait_kind kind) noexcept {
    return waits[static_cast<std::size_t>(kind)];
  }

  bool is_traced() const noexcept { return ring.load(std::memory_order_relaxed) != nullptr; }

  /// An event that ends now.
  void note(trace_event e) noexcept {
    trace_ring* const to =
        ring.load(std::memory_order_acquire); // pairs with the release of a trace that begins
    if (!to) [[likely]]
      return;
    e.end = now_ns();
    to->add(e);
  }
};

/// Times a wait.
class wait_timer {
 public:
  wait_timer(thread_counters& thread, wait_kind kind) noexcept : thread_(thread), kind_(kind) {
    change([&] {
      begin_ = now_ns();
      thread_.waiting.store((begin_ << 3) | static_cast<std::uint64_t>(kind), std::memory_order_release);
    });
  }

  wait_timer(const wait_timer&) = delete;

  ~wait_timer() {
    change([&] {
      std::atomic<std::uint64_t>& waited = thread_.waited(kind_);
      waited.store(waited.load(std::memory_order_relaxed) + now_ns() - begin_, std::memory_order_release);
      thread_.waiting.store(0, std::memory_order_release);
    });
    thread_.note({begin_, begin_, static_cast<std::uint64_t>(kind_), 0, 0, trace_event::kind::wait});
  }

 private:
  // read_times() sees all of it or nothing.
  template <class Change>
  void change(Change make) noexcept {
    add_relaxed(thread_.changes, 1);
    make();
    thread_.changes.store(thread_.changes.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }

  thread_counters& thread_;
  wait_kind kind_;
  std::uint64_t begin_;
};

/// The counters of the consumer's thread.
struct consumer_counters {
  using histogram = duration_histogram<16, std::uint64_t>;

  std::atomic<std::uint64_t> items{0};
  std::atomic<std::uint64_t> queued_ns{0}; // of all items together
  histogram queued;
  histogram waits; // of packets
};

/// The times of a thread at one moment, including a wait in progress; in ns.
struct worker_times {
  std::uint64_t alive = 0; ///< without the time parked
  std::uint64_t starved = 0;
  std::uint64_t blocked = 0;
  std::uint64_t inside = 0; ///< waits of users' functions
  std::uint64_t throttled = 0;
  std::uint64_t preempted = 0; ///< not from read_times(), as it takes a system call

  std::uint64_t busy() const noexcept {
    return alive - std::min(alive, starved + blocked + inside + throttled);
  }

  /// Corrects what was read while the thread began or ended a wait, in comparison with what was reported before: no time
  /// falls. A wait that counted as work goes on doing so, until the thread has worked for as long.
  void continue_from(const worker_times& before) noexcept;
};

/// `until`: when the run ended; 0: now.
worker_times read_times(const thread_counters& a, std::uint64_t until = 0) noexcept;

} // namespace feedline::inline FEEDLINE_ABI::detail

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_CORE)
#include <sched.h>

namespace feedline::inline FEEDLINE_ABI::detail {

struct user_numbers::kept_number {
  std::string name;
  bool adds_up;
  double total = 0;
  gauge_counter gauge{};
};

FEEDLINE_INLINE void user_numbers::count(std::string_view name, std::uint64_t times) {
  const std::lock_guard lock(mutex_);
  find(name, true).total += static_cast<double>(times);
}

FEEDLINE_INLINE void user_numbers::set(std::string_view name, double value) {
  const std::lock_guard lock(mutex_);
  find(name, false).gauge.set(value);
}

FEEDLINE_INLINE void user_numbers::set_total(std::string_view name, double value) {
  const std::lock_guard lock(mutex_);
  find(name, true).total = value;
}

FEEDLINE_INLINE void user_numbers::report_to(std::vector<number>& all) {
  const std::lock_guard lock(mutex_);
  for (const auto& kept : all_) {
    auto same = std::find_if(all.begin(), all.end(), [&](const number& n) {
      return n.adds_up == kept->adds_up && n.name == kept->name;
    });
    if (same == all.end()) same = all.insert(all.end(), {kept->name, kept->adds_up});
    same->total += kept->total;
    same->gauge.add(kept->gauge.report());
  }
}

FEEDLINE_INLINE user_numbers::kept_number& user_numbers::find(std::string_view name, bool adds_up) {
  for (const auto& kept : all_)
    if (kept->adds_up == adds_up && kept->name == name) return *kept;
  return *all_.emplace_back(std::shared_ptr<kept_number>(new kept_number{std::string(name), adds_up}));
}

FEEDLINE_INLINE thread_counters::thread_counters(std::size_t stage_count, std::size_t number_among_workers)
    : number(number_among_workers), stages(stage_count) {
  for (stage_counters& s : stages) s.thread = this;
}

FEEDLINE_INLINE worker_times read_times(const thread_counters& a, std::uint64_t until) noexcept {
  const std::uint64_t began = a.began.load(std::memory_order_relaxed);
  if (began == 0) return {};
  std::array<std::uint64_t, wait_kinds> waited{};
  std::uint64_t now = 0;
  for (int left = 1000; left > 0;
       --left) { // a thread that lost its processor in the middle isn't waited for long
    const std::uint64_t changes = a.changes.load(std::memory_order_acquire);
    for (std::size_t kind = 0; kind < waited.size(); ++kind)
      waited[kind] = a.waits[kind].load(std::memory_order_acquire);
    const std::uint64_t waiting = a.waiting.load(std::memory_order_acquire);
    now = until != 0 ? until : now_ns();
    if (const std::uint64_t begin = waiting >> 3; now > begin && begin > 0)
      waited[waiting & 7] += now - begin;
    if (changes % 2 == 0 && changes == a.changes.load(std::memory_order_relaxed)) break;
    if (left % 32 == 0) ::sched_yield(); // it may have lost its processor to this thread
  }
  const std::uint64_t ended = a.ended.load(std::memory_order_relaxed);
  const auto of = [&](wait_kind kind) { return waited[static_cast<std::size_t>(kind)]; };
  const std::uint64_t alive = std::max(ended ? ended : now, began) - began;
  return {alive - std::min(alive, of(wait_kind::parked)),
          of(wait_kind::starved),
          of(wait_kind::blocked),
          of(wait_kind::inside),
          of(wait_kind::throttled),
          0};
}

FEEDLINE_INLINE void worker_times::continue_from(const worker_times& before) noexcept {
  constexpr std::uint64_t worker_times::*kinds[] = {&worker_times::starved, &worker_times::blocked,
                                                    &worker_times::inside, &worker_times::throttled};
  alive = std::max(alive, before.alive);
  for (const auto kind : kinds) this->*kind = std::max(this->*kind, before.*kind);
  for (const auto kind : kinds)
    if (busy() < before.busy()) this->*kind -= std::min(this->*kind - before.*kind, before.busy() - busy());
}

} // namespace feedline::inline FEEDLINE_ABI::detail
#endif
