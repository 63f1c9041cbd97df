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
#include <feedline/core/plan/facts.hpp>
#include <feedline/core/plan/run_options.hpp>
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

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_CORE_RUN)
#include <algorithm>
#include <chrono>
#include <new>
#include <stdexcept>
#include <system_error>
#include <utility>

#include <feedline/core/callback.hpp>
#include <feedline/core/failure.hpp>
#include <feedline/core/item_bytes.hpp>
#include <feedline/core/metrics.hpp>
#include <feedline/core/metrics/preemption.hpp>
#include <feedline/core/plan/run_plan.hpp>
#include <feedline/core/random.hpp>
#include <feedline/core/rank.hpp>
#include <feedline/core/run/cpu_budget.hpp>
#include <feedline/core/run/dealer.hpp>
#include <feedline/core/run/elastic.hpp>
#include <feedline/core/run/failure_list.hpp>
#include <feedline/core/run/sample_worker.hpp>
#include <feedline/core/run/stage_outcomes.hpp>
#include <feedline/core/run/worker_pool.hpp>
#include <feedline/detail/kernel.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// The number of consecutive empty epochs after which a rank is sure to stay empty. There may be fewer
/// samples than ranks; and by chance a rank may get only empty files in several consecutive epochs.
FEEDLINE_INLINE std::uint32_t empty_epochs_of(const rank& r, rank_division division) noexcept {
  if (r.is_alone()) return 1;
  return division == rank_division::by_file ? 64 + 64 * r.world_size : r.world_size;
}

FEEDLINE_INLINE void pipeline_run::stop() {
  context_.stopped.store(true, std::memory_order_relaxed);
  context_.attention.store(true, std::memory_order_relaxed);
  stopping_.request_stop();
  closing_.request_stop();
}

FEEDLINE_INLINE void pipeline_run::close() {
  if (!type_.source.is_live)
    throw std::logic_error("feedline: close() ends the stream of a live source, but " + places_[0].name +
                           " isn't live: use stop()");
  closing_.request_stop();
}

FEEDLINE_INLINE bool pipeline_run::emits_batches() const { return plan_->segments().back().emits_batches; }

FEEDLINE_INLINE memory_plan pipeline_run::memory() const { return plan_->memory(); }

FEEDLINE_INLINE std::string pipeline_run::name_of(const segment_record& segment) const {
  std::string names;
  for (std::size_t i = 0; i < segment.stages; ++i)
    names += (i == 0 ? "" : " + ") + places_[segment.first_place + i].name;
  if (!names.empty()) return names;
  // Without stages it is a queue and its thread.
  const auto is_queue = [](const segment_record& s) { return s.stages == 0; };
  const auto all = std::count_if(segments_.begin(), segments_.end(), is_queue);
  const auto before = std::count_if(segments_.data(), &segment, is_queue);
  return all == 1 ? "prefetch"
                  : "prefetch (" + std::to_string(before + 1) + " of " + std::to_string(all) + ")";
}

FEEDLINE_INLINE run_identity pipeline_run::identity(const snapshot& at) const {
  run_identity now = identity_;
  if (epoch_of(at, context_.first_epoch) < options_.old_extent_until) {
    now.old_extent = options_.old_extent;
    now.old_extent_until = options_.old_extent_until;
  }
  if (!data_ || data_->parts != now.extent) {
    const bool was_stopped = stopped(); // a checkpoint after a stop is whole
    try {
      data_ = {fingerprint(now.extent, was_stopped ? std::stop_token() : context_.stop), now.extent};
    } catch (...) {
      if (!is_outage(std::current_exception()) && was_stopped == stopped()) throw;
      now.data = run_identity::unknown_data;
      return now;
    }
  }
  now.data = data_->hash;
  return now;
}

FEEDLINE_INLINE std::exception_ptr pipeline_run::panic() const {
  const std::lock_guard lock(panic_mutex_);
  return panic_;
}

FEEDLINE_INLINE pipeline_run::pipeline_run(const run_type& type, std::shared_ptr<const void> source,
                                           const composed_stages& composed, const run_options& options)
    : type_(type),
      source_(std::move(source)),
      composed_(composed),
      options_([&] {
        run_options own = options;
        if (type.source.is_live && own.endless) own.epochs = 1; // a live source has only one
        return own;
      }()),
      context_{.seed = options.seed,
               .on_error = options.on_error,
               .drain = options_.epochs != run_options::for_ever,
               .stop = stopping_.get_token(),
               .first_epoch = options.first_epoch.value_or(0),
               .empty_epochs = empty_epochs_of(options.rank, division()),
               .source_stop = closing_.get_token()},
      external_stop_(options.stop, stopper{this}) {
  for (std::size_t i = 0; i < type.stages.size(); ++i)
    if (type.stages[i].for_run) composed_.stages[i] = type.stages[i].for_run(composed_.stages[i].get());
  const segment_size size = type.source.size(this->source());
  plan_ = std::make_shared<const run_plan>(size, facts_of_stages(size.bytes), facts_of_segments(),
                                           type.source.is_live, options_);
  if (!type.source.can_be_resumed) {
    outcomes_ = std::make_shared<stage_outcomes>(*this);
    context_.outcomes = outcomes_.get();
  }
  make_queues();
  add_places(size.name);
  check_failure_limits();
  identify();
  if (options_.resume) resume(options_.resume->state());
  add_segments();
  if (!type.segments[0].body) attach_dealer();
}

FEEDLINE_INLINE pipeline_run::~pipeline_run() {
  stop();
  for (std::thread& t : threads_) t.join();
  queues_.clear(); // items in them may use what the stages have
}

FEEDLINE_INLINE std::vector<stage_facts> pipeline_run::facts_of_stages(known_bytes bytes) const {
  // Where the world size may change, the global batch must stay the same.
  const std::uint64_t ranks = type_.is_elastic ? options_.rank.world_size : 1;
  bool after_opaque = type_.source.is_live;
  std::vector<stage_facts> all;
  for (std::size_t i = 0; i < type_.stages.size(); ++i) {
    stage_facts facts = type_.stages[i].facts(composed_.stages[i].get(), bytes, ranks);
    facts.after_opaque = after_opaque;
    // What it holds is also, by value, in two snapshots and in the checkpoint from which the run was resumed.
    if (type_.stages[i].is_stored && after_opaque)
      facts.size.kept = sum_of(facts.size.kept, product_of(3 * facts.size.held, bytes));
    after_opaque |= !facts.makes_of_one_sample;
    bytes = facts.size.emitted;
    all.push_back(std::move(facts));
  }
  return all;
}

FEEDLINE_INLINE std::vector<segment_facts> pipeline_run::facts_of_segments() const {
  std::vector<segment_facts> all;
  for (std::size_t i = 0; i < type_.segments.size(); ++i) {
    const segment_description& described = composed_.segments[i];
    all.push_back({type_.segments[i], described.workers.on(processors_), described.capacity});
  }
  return all;
}

FEEDLINE_INLINE void pipeline_run::make_queues() {
  for (std::size_t i = 0; i < plan_->segments().size(); ++i) {
    const segment_facts& s = plan_->segments()[i];
    const packet_plan p = plan_->packets(i);
    const channel_config config{.packets = p.packets,
                                .packet_items = p.items,
                                .ends = plan_->takers(i) + s.workers.most + 1,
                                .to_workers = plan_->is_parallel(i + 1),
                                .unordered = !s.traits.ordered,
                                .overflow = s.traits.overflow,
                                .stop = context_.stop,
                                .attention = &context_.attention};
    try {
      queues_.push_back(s.make_queue(config));
    } catch (const std::bad_alloc&) {
      throw pipeline_error(current_failure("the queue after " + plan_->name(i), {}));
    } catch (const std::invalid_argument&) {
      throw std::invalid_argument("feedline: the queue after " + plan_->name(i) +
                                  " can't hold so many items: choose a smaller queue_capacity");
    }
    if (i > 0) queues_[i]->set_upstream(queues_[i - 1].get());
  }
}

FEEDLINE_INLINE void pipeline_run::add_places(std::string source_name) {
  context_.counts_ranks = division() == rank_division::by_run && !options_.rank.is_alone();
  add_place(std::move(source_name), 0);
  std::size_t of_source = 0;
  bool of_parts = false;
  for (std::size_t i = 0; i < plan_->stages().size(); ++i) {
    const stage_facts& stage = plan_->stages()[i];
    std::uint64_t hash = key(plan_->segment_of(i), type_.has != checkpoints::unordered);
    if (stage.fingerprint) hash = key(hash, *stage.fingerprint);
    if (stage.fingerprint_of_ranks) hash = key(hash, *stage.fingerprint_of_ranks);
    // What goes into one item of a batch is also its size.
    add_place(stage.size.name, hash, std::max(stage.size.samples_in_one.value_or(0), stage.size.held));
    places_.back().after_opaque = stage.after_opaque;
    places_.back().of_source = of_source;
    places_.back().of_parts = of_parts;
    of_source += stage.traits.belongs_to_source;
    of_parts |= stage.makes_parts;
    if (!stage.traits.data_independent_count) add_name(filters_, stage.size.name);
    if (stage.traits.ends_epochs) {
      context_.may_end_epochs |= !after_state_;
      context_.may_have_enough |= !after_state_ || !is_endless();
    }
    after_state_ |= stage.keeps_over_epochs;
  }
  number_equal_names(places_);
}

// A notice, because the limit may also name a stage inside the source.
FEEDLINE_INLINE void pipeline_run::check_failure_limits() const {
  for (const stage_failure_limit& limit : options_.stage_failure_limits) {
    const auto is_meant = [&](const stage_place& p) { return failure_list::concerns(limit, p.name); };
    if (std::any_of(places_.begin(), places_.end(), is_meant)) continue;
    std::string names;
    for (const stage_place& p : places_) names += (names.empty() ? "" : ", ") + p.name;
    notify(options_.on_notice, "feedline: stage_failure_limits names the stage \"" + limit.stage +
                                   "\", but the pipeline consists of " + names);
  }
}

FEEDLINE_INLINE void pipeline_run::add_place(std::string name, std::uint64_t hash, std::uint64_t size) {
  identity_.stages.push_back({static_cast<std::uint8_t>(key(stable_hash(name), hash)), size});
  identity_.pipeline = static_cast<std::uint16_t>(key(identity_.pipeline, stable_hash(name), hash));
  places_.push_back({context_, std::move(name), places_.size(), after_state_});
  places_.back().filters = filters_;
}

FEEDLINE_INLINE void pipeline_run::add_segments() {
  for (std::size_t i = 0; i < plan_->segments().size(); ++i) {
    const segment_facts& s = plan_->segments()[i];
    // The source is at position 0, before the first stage.
    const std::size_t first_place = i == 0 ? 0 : s.first_stage + 1, stages = s.stages + (i == 0);
    if (s.traits.parallel)
      for (std::size_t n = 0; n < stages; ++n)
        places_[first_place + n].items_in_flight = plan_->items_in_flight(i);
    segment_record& record = segments_.emplace_back(
        segment_record{first_place, stages, s.traits.parallel, s.body != nullptr, s.workers, {}, {}});
    for (std::size_t n = 0; n < s.workers.most; ++n)
      record.workers.push_back(std::make_shared<thread_counters>(stages, n));
  }
  make_worker_pools();
}

FEEDLINE_INLINE chain_parts<packer_parts> pipeline_run::parts(std::size_t segment, thread_counters& thread,
                                                              const packer_parts& sink) const {
  // The source is at the first place and has the first counter.
  const std::size_t first = type_.segments[segment].first_stage;
  return {composed_.stages.data() + first, places_.data() + 1 + first, thread, segment == 0 ? 1u : 0u, sink};
}

FEEDLINE_INLINE void pipeline_run::attach_dealer() {
  static_cast<dealer&>(*queues_[0])
      .attach(type_.source, source(), options_, context_, places_[0], segments_[0].workers[0]->stages[0],
              begin());
}

FEEDLINE_INLINE void pipeline_run::start() {
  if (options_.cpu_share > 0)
    budget_ =
        std::make_shared<cpu_budget>(options_.cpu_share * static_cast<double>(processors_), context_.stop);
  context_.budget = budget_.get();
  in_run_ = type_.source.in_run(source(), context_.stop);
  read_held();
  start_segment(0);
  for (std::size_t i = 1; i < segments_.size(); ++i) start_segment(i);
  if (options_.watchdog.value().count() > 0)
    threads_.emplace_back([this] { options_.watchdog.function()(*this); });
}

FEEDLINE_INLINE void pipeline_run::read_held() {
  for (std::size_t i = 0; i < type_.stages.size(); ++i) {
    const stage_type& stage = type_.stages[i];
    const std::size_t place = i + 1;
    if (resumed_.has_values_of(place)) {
      if (stage.from_values) resumed_.found_again(place, stage.from_values(resumed_.held(), place));
    } else if (stage.from_source) {
      held_request request{
          source(), composed_.stages.data(), {}, resumed_.held_by(place), threads_for(i), options_, context_};
      if (request.ids.empty()) continue;
      for (std::size_t p = 0; p < place; ++p) request.names.push_back(places_[p].name);
      resumed_.found_again(place, stage.from_source(std::move(request)));
    }
  }
}

FEEDLINE_INLINE elastic_place pipeline_run::place_behind(const sample_id& last,
                                                         const std::optional<sample_id>& failed,
                                                         std::uint64_t epoch, bool ended) const {
  if (!type_.is_elastic) return {};
  elastic_place place =
      elastic_run{type_, source(), composed_, options_, begin()}.place_behind(last, failed, epoch, ended);
  place.is_common &= !options_.resume || options_.resume->state().is_common;
  return place;
}

FEEDLINE_INLINE source_place pipeline_run::begin() const {
  segment_progress at(0, options_.rank, options_.first_epoch.value_or(0));
  resume_progress(0, at);
  return at.source;
}

FEEDLINE_INLINE std::uint32_t pipeline_run::fingerprint(std::uint64_t extent,
                                                        const std::stop_token& stop) const {
  return static_cast<std::uint32_t>(mix(type_.source.fingerprint(source(), extent, stop)));
}

FEEDLINE_INLINE std::size_t pipeline_run::threads_for(std::size_t stages) const {
  std::size_t most = 1;
  for (const segment_record& s : segments_)
    most = std::max(most, s.pool ? s.pool->active() : s.workers.size());
  return plan_->threads_for(stages, most);
}

FEEDLINE_INLINE void pipeline_run::identify() {
  options_.rank.check();
  identity_.seed = options_.seed;
  identity_.for_ever = options_.epochs == run_options::for_ever;
  identity_.several_epochs = options_.epochs != 1;
  identity_.first_epoch = options_.first_epoch;
  identity_.parameters = type_.source.parameters(source());
  identity_.extent = type_.source.extent(source());
  identity_.rank = options_.rank.number;
  identity_.ranks = options_.rank.world_size;
  identity_.remainder =
      options_.rank.is_alone() || identity_.for_ever ? remainder::drop : options_.rank.remainder;
  identity_.by_sample = !options_.rank.is_alone() && division() != type_.source.division;
  check_ranks();
}

// Ranks receive equally many samples, and must also deliver equally many items.
FEEDLINE_INLINE void pipeline_run::check_ranks() const {
  if (options_.rank.is_alone() || is_endless() || options_.rank.remainder == remainder::keep) return;
  if (!options_.endless && (division() == rank_division::by_file || type_.source.is_live))
    throw std::invalid_argument(
        "feedline: ranks that divide files among themselves have different numbers of samples, so in finite "
        "mode some "
        "would wait for others: use rank::by_sample, global_shuffle() after the source, infinite() or "
        "remainder::keep");
  for (const stage_facts& stage : plan_->stages())
    if (!stage.traits.data_independent_count)
      throw std::invalid_argument(
          "feedline: " + stage.size.name +
          " may leave out more samples on one rank than on another, so in finite mode some ranks would wait "
          "for others: "
          "use infinite() or remainder::keep, or leave out the samples in the source's data");
  if (type_.drops)
    throw std::invalid_argument("feedline: a queue may drop more samples on one rank than on another, so in "
                                "finite mode some ranks would wait "
                                "for others: use infinite() or remainder::keep");
}

FEEDLINE_INLINE std::string pipeline_run::difference_of_ranks(const run_identity& earlier) const {
  return "it was taken on " + to_string(rank{earlier.rank, earlier.ranks}) + ", this is " +
         to_string(options_.rank);
}

FEEDLINE_INLINE void pipeline_run::resume_on_other_rank(const checkpoint_state& earlier) {
  const std::string ranks = difference_of_ranks(earlier.run);
  if (earlier.failed.count() > 0)
    refuse(ranks + ", and because of skipped failures the ranks are not equally far");
  if (!earlier.is_common)
    refuse(ranks +
           ", and with remainder::keep the ranks have had unequal numbers of items in an epoch, so they are "
           "not equally far: resume each rank from its own checkpoint, with the same world size");
  const auto at = snapshot_of_other_rank(type_.source, source(), options_, earlier, type_.segments.size());
  if (!at) refuse(ranks + ", and the position is known only for that rank");
  resume_at(*at);
}

FEEDLINE_INLINE void pipeline_run::resume(const checkpoint_state& earlier) {
  check_same_run(earlier.run);
  if (!type_.source.can_be_resumed) refuse("its source is live, so its samples can't be read again");
  if (type_.drops) refuse("a queue of its pipeline drops samples");
  resume_at(earlier.at);
  check_data(earlier.run);
  if (earlier.run.rank != identity_.rank || earlier.run.ranks != identity_.ranks)
    resume_on_other_rank(earlier);
}

FEEDLINE_INLINE void pipeline_run::check_data(const run_identity& earlier) {
  const std::uint64_t extent = identity_.extent;
  if (extent < earlier.extent)
    refuse("the data set of " + places_[0].name + " has shrunk from " + std::to_string(earlier.extent) +
           " to " + std::to_string(extent) + " parts since the checkpoint");
  if (earlier.data != run_identity::unknown_data &&
      fingerprint(earlier.extent, context_.stop) != earlier.data) {
    if (!earlier.parameters.empty() && earlier.parameters != identity_.parameters)
      refuse(difference_of_parameters(earlier.parameters, identity_.parameters));
    refuse("the data set of " + places_[0].name +
           " has changed since the checkpoint: a file was replaced or removed, or is read in another way");
  }
  if (extent == earlier.extent) {
    options_.old_extent = earlier.old_extent;
    options_.old_extent_until = earlier.old_extent_until;
    return;
  }
  if (!options_.allow_grown_data)
    refuse("the data set of " + places_[0].name + " has grown from " + std::to_string(earlier.extent) +
           " to " + std::to_string(extent) + " parts since the checkpoint: set allow_grown_data to continue");
  if (resumed_.is_beginning()) return;
  if (earlier.old_extent_until > 0)
    refuse("the data set of " + places_[0].name +
           " has grown again within the epoch in which it grew before: resume without the newest parts "
           "until that epoch has ended");
  options_.old_extent = earlier.extent;
  options_.old_extent_until = resumed_.last_epoch(context_.first_epoch) + 1;
}

FEEDLINE_INLINE void pipeline_run::resume_at(const snapshot& at) {
  resumed_ = resumption(at, plan_->segments().size());
  known_ = std::make_shared<known_failures>(resumed_.failures());
  context_.known = known_->is_empty() ? nullptr : known_.get();
}

FEEDLINE_INLINE void pipeline_run::refuse(const std::string& why) {
  throw std::invalid_argument("feedline: can't resume from this checkpoint: " + why);
}

FEEDLINE_INLINE void pipeline_run::make_worker_pools() {
  for (std::size_t i = 0; i < segments_.size(); ++i) {
    segment_record& record = segments_[i];
    if (record.range.is_fixed()) continue;
    std::vector<const thread_counters*> takers;
    if (i + 1 == segments_.size()) takers.push_back(&consumer_);
    else
      for (const auto& a : segments_[i + 1].workers) takers.push_back(a.get());
    record.pool = std::make_shared<worker_pool>(record.range, processors_, record.workers, std::move(takers),
                                                consumer_, context_.stop);
  }
}

FEEDLINE_INLINE void pipeline_run::start_segment(std::size_t number) {
  segment_record& record = segments_[number];
  if (!record.has_threads) return;
  auto working = std::make_shared<std::atomic<std::size_t>>(record.workers.size());
  for (const auto& worker : record.workers) {
    try {
      threads_.emplace_back([=, this, &thread = *worker] { run_thread(number, thread, *working); });
    } catch (const std::system_error& error) {
      std::size_t all = 0;
      for (const segment_record& s : segments_) all += s.has_threads ? s.workers.size() : 0;
      throw std::system_error(error.code(),
                              "feedline: can't start thread " + std::to_string(threads_.size() + 1) + " of " +
                                  std::to_string(all) +
                                  ": use fewer workers, or raise the limit of threads (ulimit -u)");
    }
  }
}

FEEDLINE_INLINE state_reader pipeline_run::resume_progress(std::size_t segment,
                                                           segment_progress& progress) const {
  state_reader reader(resumed_.words(segment));
  if (!resumed_.has(segment)) return reader;
  const std::size_t first = segments_[segment].first_place;
  progress.load(reader, resumed_.before(segment, first), segment > 0 && places_[first].after_state);
  return reader;
}

FEEDLINE_INLINE state_reader pipeline_run::resume_segment(std::size_t segment, packer_base& sink) const {
  for (node_base* n = sink.first_node(); n; n = n->next_node()) n->attach();
  state_reader reader = resume_progress(segment, sink.progress());
  if (resumed_.has(segment))
    for (node_base* n = sink.first_node(); n; n = n->next_node()) n->load(reader, resumed_);
  return reader;
}

FEEDLINE_INLINE void pipeline_run::take_packets(std::size_t segment, thread_counters& thread,
                                                const packet_chain& chain) {
  if (!segments_[segment].parallel) resume_segment(segment, chain.sink);
  worker_pool* const pool = segments_[segment].pool.get();
  const bool reads_source = !segments_[segment - 1].has_threads;
  channel_base& from = *queues_[segment - 1];
  std::uint64_t used = 0;
  for (bool wanted = true; wanted;) {
    if (pool) pool->wait_turn(thread);
    packet_ptr p = from.pop(thread, [&] { chain.sink.hand_over(); });
    if (!p) return;
    const std::uint64_t began = reads_source ? p->put_at : now_ns();
    thread.at.take(p->sequence, began);
    trace_event done{began, began, p->put_at, p->size(), 0, trace_event::kind::packet};
    if (thread.is_traced()) [[unlikely]]
      done.fill = from.fill();
    if (segments_[segment].parallel) wanted = work(chain, *p, from, began, used);
    else wanted = feed(chain, *p, from, context_) != flow::stop;
    thread.note(done);
    if (pool) pool->worked(p->size());
    from.recycle(std::move(p));
    chain.sink.publish();
    if (budget_) budget_->pay(thread);
  }
  from.stop(); // no thread may wait for room in a queue that nothing is taken from
}

FEEDLINE_INLINE bool pipeline_run::work(const packet_chain& chain, packet& p, channel_base& from,
                                        std::uint64_t began, std::uint64_t& used_before) const {
  chain.sink.open(p);
  const flow result = feed(chain, p, from, context_);
  const std::uint64_t ns = now_ns() - began;
  bool waited = false;
  if (ns > channel_base::slow_work_ns / 4) { // otherwise it doesn't matter, and measuring takes time
    const std::uint64_t used = thread_ns();
    waited = used - std::exchange(used_before, used) < ns / 4;
  }
  from.worked(ns, p.size(), waited);
  return chain.sink.complete(p) && result != flow::stop;
}

FEEDLINE_INLINE void pipeline_run::check_same_run(const run_identity& earlier) const {
  if (earlier.for_ever != identity_.for_ever)
    refuse(std::string("it was taken from ") + (earlier.for_ever ? "an infinite" : "a finite") +
           " run, but this is " + (identity_.for_ever ? "an infinite" : "a finite") + " one");
  if (earlier.several_epochs != identity_.several_epochs)
    refuse(std::string("it was taken from a run over ") +
           (earlier.several_epochs ? "several epochs" : "one epoch") + ", but this is one over " +
           (identity_.several_epochs ? "several" : "one"));
  const auto name = [](const std::optional<std::uint32_t>& first) {
    return first ? "first_epoch " + std::to_string(*first) : std::string("no first_epoch");
  };
  if (earlier.first_epoch != identity_.first_epoch)
    refuse("it was taken from a run with " + name(earlier.first_epoch) + ", this one has " +
           name(identity_.first_epoch));
  if (earlier.ranks > 1 && identity_.ranks > 1 && earlier.by_sample != identity_.by_sample)
    refuse(std::string("its ranks divided ") + (earlier.by_sample ? "the samples" : "the files") +
           ", here they divide " + (identity_.by_sample ? "the samples" : "the files") +
           " (rank::by_sample)");
  const auto name_of = [](remainder r) {
    return r == remainder::drop ? "drop" : r == remainder::wrap ? "wrap" : "keep";
  };
  if (earlier.ranks > 1 && identity_.ranks > 1 && earlier.remainder != identity_.remainder)
    refuse(std::string("its ranks had remainder::") + name_of(earlier.remainder) +
           ", here they have remainder::" + name_of(identity_.remainder));
  if (earlier.seed != identity_.seed)
    refuse("it was taken from a run with seed " + std::to_string(earlier.seed) + ", this one has " +
           std::to_string(identity_.seed) +
           (earlier.rank != identity_.rank ? ": all ranks must have the same seed" : ""));
  if (earlier.rank != identity_.rank || earlier.ranks != identity_.ranks) {
    // Ranks that delivered equally many items have taken equally many samples.
    bool take_equally_many = type_.is_elastic;
    for (const stage_facts& stage : plan_->stages()) take_equally_many &= stage.traits.data_independent_count;
    if (!take_equally_many)
      refuse(difference_of_ranks(earlier) +
             ": other ranks can continue only if map, tap and batch are the only stages after "
             "global_shuffle()");
  }
  if (earlier.stages.size() != identity_.stages.size())
    refuse("its pipeline has " + std::to_string(earlier.stages.size() - 1) + " stages, this one has " +
           std::to_string(identity_.stages.size() - 1));
  for (std::size_t i = 0; i < identity_.stages.size(); ++i)
    if (earlier.stages[i].hash != identity_.stages[i].hash)
      refuse("its pipeline differs from this one at position " + std::to_string(i) + ", where this one has " +
             places_[i].name + ": " + difference_of_stage(earlier, i));
  if (earlier.pipeline != identity_.pipeline) refuse("it was taken from another pipeline");
}

FEEDLINE_INLINE std::string pipeline_run::difference_of_stage(const run_identity& earlier,
                                                              std::size_t number) const {
  const std::uint64_t before = earlier.stages[number].size, now = identity_.stages[number].size;
  // A batch that is divided among ranks.
  const bool is_shared = number > 0 && plan_->stages()[number - 1].fingerprint_of_ranks;
  if (is_shared && earlier.ranks != identity_.ranks && before != 0) {
    const std::uint64_t all = before * earlier.ranks;
    const std::string ranks = std::to_string(earlier.ranks) + " ranks with " + std::to_string(before) +
                              " samples each, here are " + std::to_string(identity_.ranks) + " ranks with " +
                              std::to_string(now);
    if (all % identity_.ranks != 0) return ranks + ", which no size makes equal";
    if (all / identity_.ranks != now)
      return ranks + ": use a size of " + std::to_string(all / identity_.ranks);
  }
  if (before != now) return "its size was " + std::to_string(before) + ", here it is " + std::to_string(now);
  return "the stage, its name, a parameter or the division into threads is different";
}

FEEDLINE_INLINE void pipeline_run::run_thread(std::size_t segment, thread_counters& thread,
                                              std::atomic<std::size_t>& working) {
  thread.began.store(now_ns(), std::memory_order_relaxed);
  thread.id.store(thread_number(), std::memory_order_relaxed);
  worker_pool* const pool = segments_[segment].pool.get();
  try {
    prepare_thread(composed_.segments[segment].cpus);
    if (pool) pool->wait_turn(thread);
    // After a stop the held samples may not have been read again. A live source runs nevertheless, so that what
    // it reads learns of the run's begin and end.
    if (!stopped() || (segment == 0 && outcomes_)) type_.segments[segment].body(*this, segment, thread);
  } catch (...) {
    const std::exception_ptr error = error_of(segments_[segment]);
    {
      const std::lock_guard lock(panic_mutex_);
      if (!panic_) panic_ = error;
    }
    stop();
  }
  store_preempted(thread);
  if (pool) pool->end(); // there is no more work for the others either
  if (working.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    if (segment == 0) in_run_.reset(); // before the consumer sees the end
    queues_[segment]->close();
  }
  thread.ended.store(now_ns(), std::memory_order_relaxed);
}

FEEDLINE_INLINE void pipeline_run::prepare_thread(const cpu_list& cpus) const {
  if (options_.nice != 0)
    if (const int error = lower_priority(options_.nice); error != 0)
      throw std::system_error(error, std::generic_category(), "can't set the priority of a thread");
  if (!cpus.is_empty()) cpus.pin_thread();
}

FEEDLINE_INLINE std::exception_ptr pipeline_run::error_of(const segment_record& segment) const noexcept {
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

FEEDLINE_INLINE segment_thread::segment_thread(pipeline_run& run, std::size_t segment,
                                               thread_counters& thread)
    : progress(segment, run.options().rank, run.options().first_epoch.value_or(0)),
      sink{progress, *run.queues()[segment], run.segments()[segment].parallel},
      parts(run.parts(segment, thread, sink)) {}

} // namespace feedline::inline FEEDLINE_ABI::detail
#endif
