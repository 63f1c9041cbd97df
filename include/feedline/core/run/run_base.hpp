// SPDX-License-Identifier: MIT
#pragma once
// The part of a run that doesn't depend on its stages.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <unistd.h>

#include <feedline/core/checkpoint.hpp>
#include <feedline/core/failure.hpp>
#include <feedline/core/metrics/thread_counters.hpp>
#include <feedline/core/options.hpp>
#include <feedline/core/processors.hpp>
#include <feedline/core/random.hpp>
#include <feedline/core/run/emitter.hpp>
#include <feedline/core/run/progress.hpp>
#include <feedline/core/run/worker_pool.hpp>
#include <feedline/core/transport/channel.hpp>

namespace feedline::inline v0::detail {

/// A segment of a run, with its threads.
struct segment_record {
  std::size_t first_place; // its first stage in run_base::places
  std::size_t stages;
  bool parallel;
  bool has_threads; // false: a source that the workers downstream read themselves
  worker_range range;
  std::vector<std::unique_ptr<thread_counters>> workers; // the most that there may be
  std::unique_ptr<worker_pool> pool;                     // null: their number is fixed
};

/// The threads of a run, their shared data and their counters. The derived class owns the stages and queues.
class run_base {
 public:
  run_base(run_base&&) = delete;

  void stop() {
    context_.stopped.store(true, std::memory_order_relaxed);
    context_.attention.store(true, std::memory_order_relaxed);
    stopping_.request_stop();
  }

  /// Whether this process is a forked child of the one that started the run.
  bool is_inherited() const noexcept { return ::getpid() != process_; }

  bool stopped() const { return context_.stopped.load(std::memory_order_relaxed); }

  const run_options& options() const { return options_; }

  std::uint32_t empty_epochs() const { return context_.empty_epochs; }

  bool is_endless() const { return options_.epochs == run_options::for_ever; }

  /// The source and the stages in order, segment by segment.
  const std::vector<stage_place>& places() const { return places_; }

  const std::vector<segment_record>& segments() const { return segments_; }

  /// The counters of the consumer's thread.
  thread_counters& consumer() { return consumer_; }

  const thread_counters& consumer() const { return consumer_; }

  /// Queue i follows segment i.
  const std::vector<channel_base*>& queues() const { return queues_; }

  /// The names of a segment's stages.
  std::string name_of(const segment_record& segment) const {
    std::string names;
    for (std::size_t i = 0; i < segment.stages; ++i)
      names += (i == 0 ? "" : " + ") + places_[segment.first_place + i].name;
    return names.empty() ? "prefetch" : names; // without stages it is a queue and its thread
  }

  /// The identity of the run that a checkpoint at that moment stores.
  run_identity identity(const snapshot& at) const {
    run_identity now = identity_;
    if (epoch_of(at) < options_.old_extent_until) {
      now.old_extent = options_.old_extent;
      now.old_extent_until = options_.old_extent_until;
    }
    if (!data_ || data_->first != now.extent) data_ = {now.extent, fingerprint_(*this, now.extent)};
    now.data = data_->second;
    return now;
  }

  /// The state of the earlier run that this one continues.
  const resumption& resumed() const { return resumed_; }

  /// The origin of a sample, as the source names it.
  std::string origin(std::uint64_t index) const { return origin_(*this, index); }

  /// An error of the run itself, at no position in the stream: memory ran out, or a stage couldn't be made.
  std::exception_ptr panic() const {
    const std::lock_guard lock(panic_mutex_);
    return panic_;
  }

 protected:
  using origin_function = std::string (*)(const run_base&, std::uint64_t);
  using segment_function = void (*)(run_base&, thread_counters&);
  using close_function = void (*)(run_base&);

  run_base(const run_options& options, origin_function origin_of_sample, std::uint32_t empty_epochs)
      : options_(options),
        origin_(origin_of_sample),
        context_{.seed = options.seed,
                 .on_error = options.on_error,
                 .drain = options.epochs != run_options::for_ever,
                 .stop = stopping_.get_token(),
                 .failure_limit = options.failure_limit,
                 .empty_epochs = empty_epochs},
        external_stop_(options.stop, stopper{this}) {}

  // The derived class calls end() before it destroys what its threads use.
  ~run_base() = default;

  void end() {
    stop();
    for (std::thread& t : threads_) t.join();
  }

  void add_place(std::string name, bool after_state, bool after_opaque, std::uint64_t hash) {
    identity_.stages.push_back(static_cast<std::uint8_t>(key(stable_hash(name), hash)));
    identity_.pipeline = static_cast<std::uint16_t>(key(identity_.pipeline, stable_hash(name), hash));
    places_.push_back({context_, std::move(name), places_.size(), after_state, after_opaque});
  }

  /// `items`: the most that may be in flight after it.
  void add_segment(std::size_t first_place, std::size_t stages, bool parallel, bool has_threads,
                   worker_range workers, std::size_t items, channel_base& queue) {
    if (parallel)
      for (std::size_t i = 0; i < stages; ++i) places_[first_place + i].items_in_flight = items;
    segment_record& record =
        segments_.emplace_back(segment_record{first_place, stages, parallel, has_threads, workers, {}, {}});
    for (std::size_t i = 0; i < workers.most; ++i)
      record.workers.push_back(std::make_unique<thread_counters>(stages, i));
    if (!queues_.empty()) queue.set_upstream(queues_.back());
    queues_.push_back(&queue);
  }

  using fingerprint_function = std::uint32_t (*)(const run_base&, std::uint64_t extent);

  /// Throws std::invalid_argument if the run can't continue the one whose checkpoint its options name.
  void set_identity(std::uint64_t extent, fingerprint_function fingerprint, std::size_t segments) {
    identity_.seed = options_.seed;
    identity_.for_ever = options_.epochs == run_options::for_ever;
    identity_.several_epochs = options_.epochs != 1;
    identity_.extent = extent;
    identity_.rank = options_.rank.number;
    identity_.ranks = options_.rank.world_size;
    identity_.remainder =
        options_.rank.is_alone() || identity_.for_ever ? remainder::drop : options_.rank.remainder;
    fingerprint_ = fingerprint;
    options_.rank.check();
    if (!options_.resume) return;
    const run_identity& earlier = options_.resume->state().run;
    check_same_run(earlier);
    if (extent < earlier.extent)
      refuse("the data set of " + places_[0].name + " has shrunk from " + std::to_string(earlier.extent) +
             " to " + std::to_string(extent) + " parts since the checkpoint");
    if (fingerprint_(*this, earlier.extent) != earlier.data)
      refuse("the data set of " + places_[0].name +
             " has changed since the checkpoint: a file was replaced or removed");
    resume_at(options_.resume->state().at, segments);
    if (extent == earlier.extent) {
      options_.old_extent = earlier.old_extent;
      options_.old_extent_until = earlier.old_extent_until;
      return;
    }
    if (!options_.allow_grown_data)
      refuse("the data set of " + places_[0].name + " has grown from " + std::to_string(earlier.extent) +
             " to " + std::to_string(extent) +
             " parts since the checkpoint: set allow_grown_data to continue");
    if (resumed_.is_beginning()) return;
    if (earlier.old_extent_until > 0)
      refuse("the data set of " + places_[0].name +
             " has grown again within the epoch in which it grew before: resume without the newest parts "
             "until that epoch has ended");
    options_.old_extent = earlier.extent;
    options_.old_extent_until = resumed_.last_epoch() + 1;
  }

  /// Whether the checkpoint was taken on another rank or with another world size.
  bool has_other_ranks() const {
    return options_.resume && (options_.resume->state().run.rank != identity_.rank ||
                               options_.resume->state().run.ranks != identity_.ranks);
  }

  /// Sets the snapshot from which the run continues.
  void resume_at(const snapshot& at, std::size_t segments) {
    resumed_ = resumption(at, segments);
    known_ = std::make_unique<known_failures>(resumed_.failures());
    context_.known = known_->is_empty() ? nullptr : known_.get();
  }

  void found_again(std::size_t place, std::unique_ptr<read_again> samples) {
    resumed_.found_again(place, std::move(samples));
  }

  [[noreturn]] static void refuse(const std::string& why) {
    throw std::invalid_argument("feedline: can't resume from this checkpoint: " + why);
  }

  /// Called once all segments were added.
  void make_worker_pools() {
    for (std::size_t i = 0; i < segments_.size(); ++i) {
      segment_record& record = segments_[i];
      if (record.range.is_fixed()) continue;
      std::vector<const thread_counters*> takers;
      if (i + 1 == segments_.size()) takers.push_back(&consumer_);
      else
        for (const auto& a : segments_[i + 1].workers) takers.push_back(a.get());
      record.pool = std::make_unique<worker_pool>(record.range, processors_, record.workers,
                                                  std::move(takers), consumer_, context_.stop);
    }
  }

  std::size_t processors() const { return processors_; }

  /// Starts the threads of a segment; the last one to end closes the queue after it.
  void start_segment(std::size_t number, segment_function body, close_function close) {
    segment_record& record = segments_[number];
    auto working = std::make_shared<std::atomic<std::size_t>>(record.workers.size());
    for (const auto& worker : record.workers) {
      try {
        threads_.emplace_back(
            [=, this, &record, &thread = *worker] { run_thread(record, thread, body, close, *working); });
      } catch (const std::system_error& error) {
        std::size_t all = 0;
        for (const segment_record& s : segments_) all += s.has_threads ? s.workers.size() : 0;
        throw std::system_error(error.code(),
                                "feedline: can't start thread " + std::to_string(threads_.size() + 1) +
                                    " of " + std::to_string(all) +
                                    ": use fewer workers, or raise the limit of threads (ulimit -u)");
      }
    }
  }

  run_context& context() { return context_; }

  const run_context& context() const { return context_; }

 private:
  void check_same_run(const run_identity& earlier) const {
    if (earlier.for_ever != identity_.for_ever)
      refuse(std::string("it was taken from ") + (earlier.for_ever ? "an infinite" : "a finite") +
             " run, but this is " + (identity_.for_ever ? "an infinite" : "a finite") + " one");
    if (earlier.several_epochs != identity_.several_epochs)
      refuse(std::string("it was taken from a run over ") +
             (earlier.several_epochs ? "several epochs" : "one epoch") + ", but this is one over " +
             (identity_.several_epochs ? "several" : "one"));
    if (earlier.remainder != identity_.remainder) refuse("its ranks treated the remainder differently");
    if (earlier.seed != identity_.seed)
      refuse("it was taken from a run with seed " + std::to_string(earlier.seed) + ", this one has " +
             std::to_string(identity_.seed));
    if (earlier.stages.size() != identity_.stages.size())
      refuse("its pipeline has " + std::to_string(earlier.stages.size() - 1) + " stages, this one has " +
             std::to_string(identity_.stages.size() - 1));
    for (std::size_t i = 0; i < identity_.stages.size(); ++i)
      if (earlier.stages[i] != identity_.stages[i])
        refuse("its pipeline differs from this one at position " + std::to_string(i) +
               ", where this one has " + places_[i].name +
               ": the stage, its name, a parameter or the division into threads is different");
    if (earlier.pipeline != identity_.pipeline) refuse("it was taken from another pipeline");
  }

  struct stopper {
    run_base* self;

    void operator()() const { self->stop(); }
  };

  void run_thread(const segment_record& segment, thread_counters& thread, segment_function body,
                  close_function close, std::atomic<std::size_t>& working) {
    thread.began.store(now_ns(), std::memory_order_relaxed);
    try {
      body(*this, thread);
    } catch (...) {
      const std::exception_ptr error = error_of(segment);
      {
        const std::lock_guard lock(panic_mutex_);
        if (!panic_) panic_ = error;
      }
      stop();
    }
    if (working.fetch_sub(1, std::memory_order_acq_rel) == 1) close(*this);
    thread.ended.store(now_ns(), std::memory_order_relaxed);
  }

  // The exception being handled, with the names of the stages on whose thread it occurred.
  std::exception_ptr error_of(const segment_record& segment) const noexcept {
    const std::exception_ptr error = std::current_exception();
    try {
      throw;
    } catch (const pipeline_error&) {
      return error;
    } catch (...) {
      try {
        throw pipeline_error(current_failure(name_of(segment), {}));
      } catch (const pipeline_error&) {
        return std::current_exception();
      } catch (...) { // there is no memory for that
        return error;
      }
    }
  }

  const ::pid_t process_ = ::getpid();
  const std::size_t processors_ = feedline::processors();
  run_options options_;
  run_identity identity_; // without the hash of the data
  fingerprint_function fingerprint_ = nullptr;
  mutable std::optional<std::pair<std::uint64_t, std::uint32_t>> data_; // a number of parts, and their hash
  origin_function origin_;
  resumption resumed_;
  std::unique_ptr<known_failures> known_;
  std::stop_source stopping_;
  run_context context_;
  std::vector<stage_place> places_;
  thread_counters consumer_{0};
  std::vector<segment_record> segments_;
  std::vector<channel_base*> queues_;
  mutable std::mutex panic_mutex_;
  std::exception_ptr panic_;
  std::vector<std::thread> threads_;
  std::stop_callback<stopper> external_stop_;
};

} // namespace feedline::inline v0::detail
