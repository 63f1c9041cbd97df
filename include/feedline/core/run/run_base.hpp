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
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <unistd.h>

#include <feedline/core/checkpoint.hpp>
#include <feedline/core/memory_plan.hpp>
#include <feedline/core/metrics/thread_counters.hpp>
#include <feedline/core/options.hpp>
#include <feedline/core/plan/facts.hpp>
#include <feedline/core/plan/segments.hpp>
#include <feedline/core/processors.hpp>
#include <feedline/core/run/emitter.hpp>
#include <feedline/core/run/feed.hpp>
#include <feedline/core/run/progress.hpp>
#include <feedline/core/snapshot/held.hpp>
#include <feedline/core/snapshot/known_failures.hpp>
#include <feedline/core/snapshot/snapshot.hpp>
#include <feedline/core/state.hpp>
#include <feedline/core/transport/channel.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

class run_plan;
class stage_outcomes;
class worker_pool;

/// A segment of a run, with its threads.
struct segment_record {
  std::size_t first_place; // its first stage in run_base::places
  std::size_t stages;
  bool parallel;
  bool has_threads; // false: a source that the workers downstream read themselves
  worker_range range;
  std::vector<std::shared_ptr<thread_counters>> workers; // the most that there may be
  std::shared_ptr<worker_pool> pool;                     // null: their number is fixed
};

/// Whether a run has checkpoints, or why not.
enum class checkpoints : std::uint8_t {
  always,
  unordered,
  dropping,
  live,
  unknown ///< the run knows it
};

/// The threads of a run, their shared data, queues and counters. The derived class knows the types of its stages.
class run_base {
 public:
  run_base(run_base&&) = delete;
  virtual ~run_base();

  void stop();

  /// The snapshot of a run that delivered `last` last and left out `failed` last. Nothing if these don't determine it.
  virtual std::optional<snapshot> snapshot_behind(const sample_id& last,
                                                  const std::optional<sample_id>& failed) const = 0;

  /// Whether this process is a forked child of the one that started the run.
  bool is_inherited() const noexcept { return ::getpid() != process_; }

  bool stopped() const { return context_.stopped.load(std::memory_order_relaxed); }

  const run_options& options() const { return options_; }

  std::uint32_t empty_epochs() const { return context_.empty_epochs; }

  bool is_endless() const { return options_.epochs == run_options::for_ever; }

  /// Whether a checkpoint of the run can be resumed.
  bool has_checkpoints() const { return has_ == checkpoints::always; }

  /// Whether samples may be emitted in a later epoch than they arrived in.
  bool keeps_over_epochs() const { return after_state_; }

  /// Whether the items that arrive at the consumer are batches.
  bool emits_batches() const;

  /// The names of the stages that may leave out samples.
  const std::string& filters() const { return filters_; }

  /// The source and the stages in order, segment by segment.
  const std::vector<stage_place>& places() const { return places_; }

  const std::vector<segment_record>& segments() const { return segments_; }

  /// The counters of the consumer's thread.
  thread_counters& consumer() { return consumer_; }

  const thread_counters& consumer() const { return consumer_; }

  /// Queue i follows segment i; the last one leads to the consumer.
  const std::vector<std::shared_ptr<channel_base>>& queues() const { return queues_; }

  /// The most memory that the run holds.
  memory_plan memory() const;

  /// The names of a segment's stages.
  std::string name_of(const segment_record& segment) const;

  /// The identity of the run that a checkpoint at that moment stores. It has no hash of the data if an outage, or a stop
  /// during the call, prevents that.
  run_identity identity(const snapshot& at) const;

  /// The state of the earlier run that this one continues.
  const resumption& resumed() const { return resumed_; }

  /// The origin of a sample, as the source names it.
  std::string origin(std::uint64_t index) const { return origin_(*this, index); }

  /// Why the server that the source reads from doesn't answer now; empty if it does.
  std::string outage() const { return outage_(*this); }

  /// An error of the run itself, at no position in the stream: memory ran out, or a stage couldn't be made.
  std::exception_ptr panic() const;

 protected:
  using origin_function = std::string (*)(const run_base&, std::uint64_t);
  using segment_function = void (*)(run_base&, thread_counters&);
  using fingerprint_function = std::uint32_t (*)(const run_base&, std::uint64_t extent,
                                                 const std::stop_token& stop);
  using outage_function = std::string (*)(const run_base&);
  using other_rank_function = std::optional<snapshot> (*)(const run_base&, const checkpoint_state& earlier);

  run_base(const run_options& options, bool is_live, origin_function origin_of_sample,
           std::uint32_t empty_epochs);

  // The derived class calls it before it destroys what its threads use.
  void end();

  /// What a run knows of its pipeline as a whole.
  struct pipeline_facts {
    bool is_dealt; // workers read the source themselves
    checkpoints has;
    fingerprint_function fingerprint;
    outage_function outage;
    other_rank_function at_other_rank; // null: the position of other ranks is unknown
  };

  /// Plans the run, makes its queues, and checks its options. Throws std::invalid_argument if the options don't suit
  /// the pipeline, or the run can't continue the one whose checkpoint they name.
  void prepare(source_facts source, std::vector<stage_facts> stages, std::vector<segment_facts> segments,
               const pipeline_facts& all);

  void found_again(std::size_t place, std::shared_ptr<read_again> samples);

  std::size_t processors() const { return processors_; }

  /// The number of threads on which the first `stages` stages may run outside of the run.
  std::size_t threads_for(std::size_t stages) const;

  /// Restores the progress of a serial segment, if there is an earlier run. The rest of the reader is the state of its parts.
  state_reader resume_progress(std::size_t segment, segment_progress& progress) const;

  /// Restores the whole state of a serial segment, if there is an earlier run. The rest of the reader is the source's state.
  state_reader resume_segment(std::size_t segment, packer_base& sink) const;

  /// Feeds the packets that arrive at a segment to a thread's chain, until no more arrive or are wanted.
  void take_packets(std::size_t segment, thread_counters& thread, const packet_chain& chain);

  /// Starts the threads of a segment, unless `body` is null; the last one to end closes the queue after it.
  void start_segment(std::size_t number, segment_function body);

  run_context& context() { return context_; }

 private:
  void make_queues();
  void add_places(const source_facts& source);
  void add_place(std::string name, std::uint64_t hash, std::uint64_t size = 0);
  void add_segments(bool source_is_dealt);
  void check_failure_limits() const;
  void make_worker_pools();

  // Sets the identity that a checkpoint must match to be resumed here, and checks the rank.
  void identify(const source_facts& source, const pipeline_facts& all);
  void check_ranks(const source_facts& source) const;

  // Whether some queue may drop samples.
  bool drops() const;

  // Continues the run of a checkpoint. Throws std::invalid_argument if this is another one.
  void resume(const checkpoint_state& earlier, const source_facts& source, const pipeline_facts& all);
  void check_same_run(const run_identity& earlier) const;
  std::string difference_of_stage(const run_identity& earlier, std::size_t number) const;
  void check_data(const run_identity& earlier); // none of it is missing
  void resume_on_other_rank(const checkpoint_state& earlier, const pipeline_facts& all);

  // Sets the snapshot from which the run continues.
  void resume_at(const snapshot& at);

  [[noreturn]] static void refuse(const std::string& why);

  struct data_hash {
    std::uint32_t hash;
    std::uint64_t parts; // of the data
  };

  struct stopper {
    run_base* self;

    void operator()() const { self->stop(); }
  };

  // A worker processes one packet. False if no more is wanted. `used_before`: the thread's processor time at the last
  // measurement.
  bool work(const packet_chain& chain, packet& p, channel_base& from, std::uint64_t began,
            std::uint64_t& used_before) const;

  void run_thread(std::size_t segment, thread_counters& thread, segment_function body,
                  std::atomic<std::size_t>& working);

  // The exception being handled, with the names of the stages on whose thread it occurred.
  std::exception_ptr error_of(const segment_record& segment) const noexcept;

  const ::pid_t process_ = ::getpid();
  const std::size_t processors_ = feedline::processors();
  run_options options_;
  run_identity identity_; // without the hash of the data
  fingerprint_function fingerprint_ = nullptr;
  outage_function outage_ = nullptr;
  mutable std::optional<data_hash> data_; // as computed last
  origin_function origin_;
  resumption resumed_;
  std::shared_ptr<known_failures> known_;
  std::shared_ptr<stage_outcomes> outcomes_; // of samples that can't be read again
  std::stop_source stopping_;
  run_context context_;
  std::vector<stage_place> places_;
  std::string filters_;
  checkpoints has_ = checkpoints::always;
  bool after_state_ = false; // some stage so far keeps samples over epochs
  thread_counters consumer_{0};
  std::vector<segment_record> segments_;
  std::shared_ptr<const run_plan> plan_;
  std::vector<std::shared_ptr<channel_base>> queues_;
  mutable std::mutex panic_mutex_;
  std::exception_ptr panic_;
  std::vector<std::thread> threads_;
  std::stop_callback<stopper> external_stop_;
};

} // namespace feedline::inline FEEDLINE_ABI::detail

#ifndef FEEDLINE_COMPILED
#include <feedline/core/run/run_base.ipp>
#endif
