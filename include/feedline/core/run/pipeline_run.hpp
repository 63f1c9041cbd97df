// SPDX-License-Identifier: MIT
#pragma once
// A pipeline at work.
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
#include <feedline/core/run/packer.hpp>
#include <feedline/core/run/progress.hpp>
#include <feedline/core/run/run_type.hpp>
#include <feedline/core/snapshot/held.hpp>
#include <feedline/core/snapshot/known_failures.hpp>
#include <feedline/core/snapshot/snapshot.hpp>
#include <feedline/core/state.hpp>
#include <feedline/core/transport/channel.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

class cpu_budget;
class run_plan;
class stage_outcomes;
class worker_pool;
struct elastic_place;

/// A segment of a run, with its threads.
struct segment_record {
  std::size_t first_place; // its first stage in pipeline_run::places
  std::size_t stages;
  bool parallel;
  bool has_threads; // false: a source that the workers downstream read themselves
  worker_range range;
  std::vector<std::shared_ptr<thread_counters>> workers; // the most that there may be
  std::shared_ptr<worker_pool> pool;                     // null: their number is fixed
};

/// A pipeline at work: its threads, their shared data, queues and counters.
class pipeline_run {
 public:
  /// Plans the run, makes its queues, and checks its options. `source` and `composed` have the types that `type` describes.
  /// Throws std::invalid_argument if the options don't suit the pipeline, or the run can't continue the one whose checkpoint
  /// they name.
  pipeline_run(const run_type& type, std::shared_ptr<const void> source, const composed_stages& composed,
               const run_options& options);

  pipeline_run(pipeline_run&&) = delete;

  /// Stops and joins the threads.
  ~pipeline_run();

  /// Reads the samples again that stages held at the checkpoint, then starts the threads.
  void start();

  void stop();

  /// Ends the stream of a live source: what it has yielded is delivered. Throws std::logic_error if the source isn't live.
  void close();

  /// See elastic_run::place_behind(). Says nothing of runs that another rank can't continue.
  elastic_place place_behind(const sample_id& last, const std::optional<sample_id>& failed,
                             std::uint64_t epoch, bool ended) const;

  const void* source() const noexcept { return source_.get(); }

  /// For code that may outlive the run.
  const std::shared_ptr<const void>& shared_source() const noexcept { return source_; }

  const run_type& type() const noexcept { return type_; }

  /// Whether this process is a forked child of the one that started the run.
  bool is_inherited() const noexcept { return ::getpid() != process_; }

  bool stopped() const { return context_.stopped.load(std::memory_order_relaxed); }

  const run_options& options() const { return options_; }

  std::uint32_t empty_epochs() const { return context_.empty_epochs; }

  bool is_endless() const { return options_.epochs == run_options::for_ever; }

  /// Whether a checkpoint of the run can be resumed.
  bool has_checkpoints() const { return type_.has == checkpoints::always; }

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
  std::string origin(std::uint64_t index) const { return type_.source.origin(source(), index); }

  /// Why the server that the source reads from doesn't answer now; empty if it does.
  std::string outage() const { return type_.source.outage(source()); }

  /// An error of the run itself, at no position in the stream: memory ran out, or a stage couldn't be made.
  std::exception_ptr panic() const;

  /// Restores the whole state of a serial segment, if there is an earlier run. The rest of the reader is the source's state.
  state_reader resume_segment(std::size_t segment, packer_base& sink) const;

  /// Feeds the packets that arrive at a segment to a thread's chain, until no more arrive or are wanted.
  void take_packets(std::size_t segment, thread_counters& thread, const packet_chain& chain);

  /// Reports of metrics take turns.
  std::mutex& report_mutex() const { return report_mutex_; }

  run_context& context() { return context_; }

  /// What a thread of the segment builds its chain from.
  chain_parts<packer_parts> parts(std::size_t segment, thread_counters& thread,
                                  const packer_parts& sink) const;

 private:
  std::vector<stage_facts> facts_of_stages(known_bytes bytes_of_source) const;
  std::vector<segment_facts> facts_of_segments() const;
  void make_queues();
  void add_places(std::string source_name);
  void add_place(std::string name, std::uint64_t hash, std::uint64_t size = 0);
  void add_segments();
  void attach_dealer();
  void check_failure_limits() const;
  void make_worker_pools();

  // How the ranks of this run divide the samples.
  rank_division division() const noexcept { return division_among(options_.rank, type_.source.division); }

  // Sets the identity that a checkpoint must match to be resumed here, and checks the rank.
  void identify();
  void check_ranks() const;

  // Continues the run of a checkpoint. Throws std::invalid_argument if this is another one.
  void resume(const checkpoint_state& earlier);
  void check_same_run(const run_identity& earlier) const;
  std::string difference_of_stage(const run_identity& earlier, std::size_t number) const;
  void check_data(const run_identity& earlier); // none of it is missing
  std::string difference_of_ranks(const run_identity& earlier) const;
  void resume_on_other_rank(const checkpoint_state& earlier);

  // Where this rank begins.
  source_place begin() const;

  // Restores the progress of a serial segment, if there is an earlier run. The rest of the reader is the state of its parts.
  state_reader resume_progress(std::size_t segment, segment_progress& progress) const;

  void read_held();

  // The number of threads on which the first `stages` stages may run outside of the run.
  std::size_t threads_for(std::size_t stages) const;

  // A hash of the first `extent` parts of the data.
  std::uint32_t fingerprint(std::uint64_t extent, const std::stop_token& stop) const;

  // Starts the threads of a segment; the last one to end closes the queue after it.
  void start_segment(std::size_t number);

  // Sets the snapshot from which the run continues.
  void resume_at(const snapshot& at);

  [[noreturn]] static void refuse(const std::string& why);

  struct data_hash {
    std::uint32_t hash;
    std::uint64_t parts; // of the data
  };

  struct stopper {
    pipeline_run* self;

    void operator()() const { self->stop(); }
  };

  // A worker processes one packet. False if no more is wanted. `used_before`: the thread's processor time at the last
  // measurement.
  bool work(const packet_chain& chain, packet& p, channel_base& from, std::uint64_t began,
            std::uint64_t& used_before) const;

  // The watchdog's thread.
  void watch() const;

  // Sets the priority and the processors of the calling thread.
  void prepare_thread(const cpu_list& cpus) const;

  void run_thread(std::size_t segment, thread_counters& thread, std::atomic<std::size_t>& working);

  // The exception being handled, with the names of the stages on whose thread it occurred.
  std::exception_ptr error_of(const segment_record& segment) const noexcept;

  const run_type& type_;
  const std::shared_ptr<const void> source_;
  composed_stages composed_;
  const ::pid_t process_ = ::getpid();
  const std::size_t processors_ = feedline::processors();
  run_options options_;
  run_identity identity_;                 // without the hash of the data
  mutable std::optional<data_hash> data_; // as computed last
  resumption resumed_;
  std::shared_ptr<known_failures> known_;
  std::shared_ptr<stage_outcomes> outcomes_; // of samples that can't be read again
  std::stop_source stopping_;
  std::stop_source closing_;
  run_context context_;
  std::vector<stage_place> places_;
  std::string filters_;
  bool after_state_ = false; // some stage so far keeps samples over epochs
  thread_counters consumer_{0};
  std::vector<segment_record> segments_;
  std::shared_ptr<const run_plan> plan_;
  std::vector<std::shared_ptr<channel_base>> queues_;
  std::shared_ptr<cpu_budget> budget_; // null: no limit
  mutable std::mutex report_mutex_;
  mutable std::mutex panic_mutex_;
  std::exception_ptr panic_;
  std::shared_ptr<const void> in_run_; // of the source
  std::vector<std::thread> threads_;
  std::stop_callback<stopper> external_stop_;
};

/// What a thread of a segment builds its chain from.
struct segment_thread {
  segment_thread(pipeline_run& run, std::size_t segment, thread_counters& thread);
  segment_thread(segment_thread&&) = delete;

  segment_progress progress;
  const packer_parts sink;
  const chain_parts<packer_parts> parts;
};

} // namespace feedline::inline FEEDLINE_ABI::detail

#ifndef FEEDLINE_COMPILED
#include <feedline/core/run/pipeline_run.ipp>
#endif
