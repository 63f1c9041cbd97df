// SPDX-License-Identifier: MIT
#pragma once
// What every run is and does, whatever its stages.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <feedline/core/detail/activity.hpp>
#include <feedline/core/detail/edge.hpp>
#include <feedline/core/detail/emitter.hpp>
#include <feedline/core/options.hpp>

namespace feedline::detail {

/// A segment as metrics see it.
struct segment_record {
  std::size_t first_place; // its first stage in run_base::places
  std::size_t stages;
  bool parallel;
  bool has_threads; // false: it is a source that the workers behind it ask themselves
  std::vector<std::unique_ptr<activity>> workers;
};

/// The threads of a run, what they share, and their accounts. Stages and queues are the derived class's.
class run_base {
 public:
  run_base(run_base&&) = delete;

  void stop() {
    context_.stopped.store(true, std::memory_order_relaxed);
    context_.attention.store(true, std::memory_order_relaxed);
    stopping_.request_stop();
  }

  bool stopped() const { return context_.stopped.load(std::memory_order_relaxed); }

  const run_options& options() const { return options_; }

  /// The source and the stages in order, those inside parallel_stages one by one.
  const std::vector<stage_place>& places() const { return places_; }

  const std::vector<segment_record>& segments() const { return segments_; }

  /// Queue i lies behind segment i.
  const std::vector<edge_base*>& queues() const { return queues_; }

  /// The source's name for a sample.
  std::string origin(std::uint64_t index) const { return origin_(*this, index); }

  /// An error of the run itself, out of place: memory that ran out, a stage that couldn't be made.
  std::exception_ptr panic() const {
    const std::lock_guard lock(panic_mutex_);
    return panic_;
  }

 protected:
  using origin_function = std::string (*)(const run_base&, std::uint64_t);
  using segment_function = void (*)(run_base&, activity&);
  using close_function = void (*)(run_base&);

  run_base(const run_options& options, origin_function origin_of_sample)
      : options_(options),
        origin_(origin_of_sample),
        context_{options.seed, options.on_error, options.epochs != run_options::for_ever,
                 stopping_.get_token()},
        external_stop_(options.stop, stopper{this}) {}

  // The derived class calls end() before what its threads use is gone.
  ~run_base() = default;

  void end() {
    stop();
    for (std::thread& t : threads_) t.join();
  }

  void add_place(std::string name, bool behind_state) {
    places_.push_back({context_, std::move(name), places_.size(), behind_state});
  }

  void add_segment(std::size_t first_place, std::size_t stages, bool parallel, bool has_threads,
                   std::size_t workers, edge_base& behind) {
    segment_record& record =
        segments_.emplace_back(segment_record{first_place, stages, parallel, has_threads, {}});
    for (std::size_t i = 0; i < workers; ++i) record.workers.push_back(std::make_unique<activity>(stages));
    if (!queues_.empty()) behind.set_upstream(queues_.back());
    queues_.push_back(&behind);
  }

  /// Starts the threads of a segment; the last one to end closes the queue behind it.
  void start_segment(std::size_t number, segment_function body, close_function close) {
    segment_record& record = segments_[number];
    auto working = std::make_shared<std::atomic<std::size_t>>(record.workers.size());
    for (const auto& worker : record.workers)
      threads_.emplace_back([=, this, &who = *worker] { run_thread(who, body, close, *working); });
  }

  run_context& context() { return context_; }

 private:
  struct stopper {
    run_base* self;

    void operator()() const { self->stop(); }
  };

  void run_thread(activity& who, segment_function body, close_function close,
                  std::atomic<std::size_t>& working) {
    who.began.store(now_ns(), std::memory_order_relaxed);
    try {
      body(*this, who);
    } catch (...) {
      {
        const std::lock_guard lock(panic_mutex_);
        if (!panic_) panic_ = std::current_exception();
      }
      stop();
    }
    if (working.fetch_sub(1, std::memory_order_acq_rel) == 1) close(*this);
    who.ended.store(now_ns(), std::memory_order_relaxed);
  }

  run_options options_;
  origin_function origin_;
  std::stop_source stopping_;
  run_context context_;
  std::vector<stage_place> places_;
  std::vector<segment_record> segments_;
  std::vector<edge_base*> queues_;
  mutable std::mutex panic_mutex_;
  std::exception_ptr panic_;
  std::vector<std::thread> threads_;
  std::stop_callback<stopper> external_stop_;
};

} // namespace feedline::detail
