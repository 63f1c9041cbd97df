// SPDX-License-Identifier: MIT
#pragma once
// Simulates a run of a source, workers and a serial stage on a machine with a processor for each thread, event by event.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <queue>
#include <utility>
#include <vector>

#include <feedline/core/options.hpp>
#include <feedline/core/plan/run_plan.hpp>
#include <feedline/core/random.hpp>
#include <feedline/core/transport/channel.hpp>

/// What each step of a run costs, in ns.
struct step_costs {
  double line;                  ///< a cache line that another processor wrote
  double lock;                  ///< a lock that nobody holds
  double wake_call;             ///< of the thread that wakes another one
  double until_awake;           ///< for that thread
  double clock;                 ///< a look at the clock
  double pause;                 ///< of a thread that spins
  double to_workers;            ///< a packet through the queue to workers, both sides together
  double from_workers;          ///< the same for the queue that restores the order
  std::array<double, 3> item;   ///< an item without work: at the source, a worker and the serial stage
  std::array<double, 3> placed; ///< the same where workers take samples themselves
};

struct run_load {
  std::size_t workers = 1;
  double work_ns = 0;    ///< for an item
  double cpu_ns = 0;     ///< of that; in the rest the worker waits
  bool by_place = false; ///< workers take their samples themselves
};

struct run_outcome {
  double items = 0, ns = 0, cpu_ns = 0;
  const char* limit = by_work; ///< what was in use for the largest part of the time

  static constexpr const char* by_work = "the workers";

  /// Items per second on that many processors.
  double rate(double processors) const { return 1e9 * std::min(items / ns, processors * items / cpu_ns); }
};

template <feedline::detail::transport Transport>
std::shared_ptr<feedline::detail::channel_base> make_queue(feedline::detail::packet_plan plan,
                                                           std::size_t ends) {
  static std::atomic<bool> attention{false};
  return feedline::detail::make_channel<Transport>(
      {plan.packets, plan.items, ends, true, false, feedline::overflow::block, {}, &attention});
}

class simulated_run {
 public:
  simulated_run(const run_load& load, const step_costs& costs)
      : load_(load), costs_(costs), item_(load.by_place ? costs.placed : costs.item), workers_(load.workers) {
    using namespace feedline::detail;
    const auto segment = [](bool parallel, std::size_t threads) {
      return segment_facts{{{.parallel = parallel}, 0, 0, sizeof(std::uint64_t), false, nullptr, nullptr},
                           {threads, threads, false},
                           0};
    };
    const run_plan plan({"source", sizeof(std::uint64_t), 0}, {},
                        {segment(false, 1), segment(true, load.workers), segment(false, 1)}, false,
                        as_run_options(feedline::finite_options{}));
    capacity_ = plan.packets(0).packets;
    slots_.resize(plan.packets(1).packets);
    queue_ = make_queue<transport::spread>(plan.packets(0), load.workers + 2);
    for (int i = 0; i < 40; ++i) report(queue_->target()); // the run has been running for a while
    if (!load.by_place) at(source, 0);
    at(consumer, 0);
    for (std::size_t i = 0; i < load.workers; ++i) at(first_worker + i, 0);
  }

  /// The second half of some thousand packets.
  run_outcome run() {
    const std::size_t packets = 4000 + 30 * load_.workers;
    run_outcome o;
    double began = 0;
    for (std::uint64_t items = 0; head_ < packets;) {
      const auto [now, who] = events_.top();
      events_.pop();
      if (items == 0 && head_ == packets / 2) {
        items = items_, began = now;
        source_ns_ = consumer_ns_ = working_ns_ = cpu_ns_ = places_.used_ns = 0;
        for (shared& line : lines_) line.used_ns = 0;
      }
      if (who == source) give(now);
      else if (who == consumer) consume(now);
      else if (worker_of(who).items == 0) take(who, now);
      else complete(who, now);
      o.ns = now - began, o.items = static_cast<double>(items_ - items);
    }
    o.cpu_ns = source_ns_ + consumer_ns_ + cpu_ns_;
    double most = working_ns_ / static_cast<double>(load_.workers);
    const auto limit = [&](double ns, const char* name) {
      if (ns > most) most = ns, o.limit = name;
    };
    limit(source_ns_, "the source's thread");
    limit(consumer_ns_, "the thread downstream");
    limit(places_.used_ns, "the lock of the places");
    for (const shared& line : lines_) limit(line.used_ns, "a cache line of the queues");
    return o;
  }

 private:
  enum : std::size_t { source, consumer, first_worker }; // threads

  enum : std::size_t { state, order, counts, spares, counts_out, spares_out, lines }; // what lines have

  /// What one thread uses at a time.
  struct shared {
    double free_at = 0, used_ns = 0;
    std::size_t owner = 0;

    double use(std::size_t by, double now, double ns_if_foreign, double ns_if_own = 0) {
      const double ns = std::exchange(owner, by) == by ? ns_if_own : ns_if_foreign;
      used_ns += ns;
      return free_at = std::max(now, free_at) + ns;
    }
  };

  struct worker {
    std::size_t items = 0; // in hand
    std::uint64_t sequence = 0;
    double spins_until = 0; // while it waits
  };

  worker& worker_of(std::size_t who) { return workers_[who - first_worker]; }

  void at(std::size_t who, double when) { events_.push({when, who}); }

  // Writes these lines in turn. Returns when that is done.
  double write(std::size_t who, double now, std::initializer_list<std::size_t> all) {
    for (const std::size_t line : all) now = lines_[line].use(who, now, costs_.line);
    return now;
  }

  // As detail::patience: a thread spins first, but not if that was in vain several times in a row.
  double spins_until(unsigned failures, double now) const {
    return now + (failures < 4 || failures % 16 == 0 ? 1024 : 16) * costs_.pause;
  }

  // A thread goes on that spins until then, and sleeps later. Returns when the one that wakes it does.
  double wake(std::size_t who, unsigned& failures, double spun_until, double now) {
    const bool sleeps = now > spun_until;
    failures = sleeps ? failures + 1 : 0;
    at(who, now + (sleeps ? costs_.until_awake : 0));
    return now + (sleeps ? costs_.wake_call : 0);
  }

  void report(std::size_t items) {
    const double ns = static_cast<double>(items) * load_.work_ns;
    queue_->worked(static_cast<std::uint64_t>(ns), items, load_.cpu_ns < load_.work_ns / 4);
  }

  // The source pushes a packet.
  void give(double now) {
    if (queued_.size() == capacity_) return void(source_waits_ = spins_until(for_room_, now));
    const std::size_t items = queue_->target();
    const double began = now;
    now += costs_.to_workers / 2 + 3 * costs_.clock + static_cast<double>(items) * item_[source];
    now = write(source, now, {spares, state, order, state, counts, counts});
    queued_.push(items);
    if (!idle_.empty()) {
      now = wake(idle_.back(), for_packets_, worker_of(idle_.back()).spins_until, now);
      idle_.pop_back();
    }
    source_ns_ += now - began;
    at(source, now);
  }

  // A worker takes a packet, or its next places, and works.
  void take(std::size_t who, double now) {
    worker& w = worker_of(who);
    const double began = now;
    if (load_.by_place) {
      now = places_.use(who, now, costs_.lock + 2 * costs_.line, costs_.lock);
      w.items = queue_->target();
      now = write(who, now, {spares, counts, counts, order});
    } else if (queued_.empty()) {
      w.spins_until = spins_until(for_packets_, now);
      return idle_.push_back(who);
    } else {
      w.items = queued_.front();
      queued_.pop();
      now = write(who, now, {state, order, state, counts});
      if (source_waits_) now = wake(source, for_room_, *std::exchange(source_waits_, {}), now);
    }
    w.sequence = sequence_++;
    now += (costs_.to_workers + costs_.from_workers) / 2 + 4 * costs_.clock +
           static_cast<double>(w.items) * item_[1];
    const double work = static_cast<double>(w.items) * load_.work_ns * random_.uniform(0.9, 1.1);
    working_ns_ += work;
    cpu_ns_ += now - began + work * load_.cpu_ns / load_.work_ns;
    at(who, now + work);
  }

  // A worker pushes its packet and returns the one that it took.
  void complete(std::size_t who, double now) {
    worker& w = worker_of(who);
    if (w.sequence >= head_ + slots_.size()) {
      w.spins_until = spins_until(for_slots_, now);
      return blocked_.push_back(who);
    }
    report(w.items);
    const double began = now;
    now = write(who, now, {spares_out, counts_out, counts_out, spares});
    slots_[w.sequence % slots_.size()] = std::exchange(w.items, 0);
    if (consumer_waits_ && w.sequence == head_)
      now = wake(consumer, for_next_, *std::exchange(consumer_waits_, {}), now);
    cpu_ns_ += now - began;
    at(who, now);
  }

  // The thread downstream takes the next packet in order.
  void consume(double now) {
    std::size_t& slot = slots_[head_ % slots_.size()];
    if (slot == 0) return void(consumer_waits_ = spins_until(for_next_, now));
    const double began = now;
    now += costs_.line + costs_.from_workers / 2 + 2 * costs_.clock + static_cast<double>(slot) * item_[2];
    now = write(consumer, now, {counts_out, spares_out});
    items_ += std::exchange(slot, 0);
    ++head_;
    std::erase_if(blocked_, [&](std::size_t who) {
      if (worker_of(who).sequence >= head_ + slots_.size()) return false;
      now = wake(who, for_slots_, worker_of(who).spins_until, now);
      return true;
    });
    consumer_ns_ += now - began;
    at(consumer, now);
  }

  using event = std::pair<double, std::size_t>;

  const run_load load_;
  const step_costs& costs_;
  const std::array<double, 3> item_;
  std::vector<worker> workers_;
  std::size_t capacity_ = 0;
  std::shared_ptr<feedline::detail::channel_base> queue_; // for its rules
  std::queue<std::size_t> queued_;                        // the items of the packets to workers
  std::vector<std::size_t> slots_;                        // the items of those from workers; 0: not there
  std::vector<std::size_t> idle_, blocked_;               // workers
  std::optional<double> source_waits_, consumer_waits_;   // they spin until then
  std::uint64_t sequence_ = 0, head_ = 0, items_ = 0;
  shared places_;
  unsigned for_room_ = 0, for_packets_ = 0, for_slots_ = 0, for_next_ = 0; // waits: failures of spinning
  std::array<shared, lines> lines_;
  double source_ns_ = 0, consumer_ns_ = 0, working_ns_ = 0, cpu_ns_ = 0;
  feedline::random_generator random_{1};
  std::priority_queue<event, std::vector<event>, std::greater<>> events_;
};
