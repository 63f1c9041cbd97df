// SPDX-License-Identifier: MIT
#pragma once
// A pipeline at work, with its threads and channels.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include <feedline/core/metrics/preemption.hpp>
#include <feedline/core/options.hpp>
#include <feedline/core/plan/measure.hpp>
#include <feedline/core/plan/segments.hpp>
#include <feedline/core/run/build_chain.hpp>
#include <feedline/core/run/chain.hpp>
#include <feedline/core/run/dealer.hpp>
#include <feedline/core/run/elastic.hpp>
#include <feedline/core/run/feed.hpp>
#include <feedline/core/run/packer.hpp>
#include <feedline/core/run/progress.hpp>
#include <feedline/core/run/read_held.hpp>
#include <feedline/core/run/run_base.hpp>
#include <feedline/core/run/source_loop.hpp>
#include <feedline/core/run/stage_outcomes.hpp>

namespace feedline::inline v0::detail {

template <bool Measured, source Source, class... Segments>
class run : public run_base {
  using segment_types = segment_list<Segments...>;
  using stage_types = typename segment_types::stage_types;

  static constexpr std::size_t segment_count = sizeof...(Segments);

  template <std::size_t I>
  static constexpr segment_traits traits = segment_types::traits[I];

  template <std::size_t I>
  using segment_output = typename stage_types::template output_of_first<segment_types::first_stage[I + 1],
                                                                        source_item_t<Source>>;

  static constexpr bool is_parallel_segment(std::size_t i) {
    return i < segment_count && segment_types::traits[i].parallel;
  }

  // A source that workers directly downstream can read at the same time needs neither thread nor queue.
  static constexpr bool is_dealt = dealt_source<Source> && segment_types::first_stage[1] == 0 &&
                                   !segment_types::traits[0].has_queue && is_parallel_segment(1);

  template <std::size_t I>
  using channel_after = std::conditional_t<
      is_dealt && I == 0, dealer<Source, Measured>,
      channel<traits<I>.drops() ? transport::dropping
                                : transport_between(traits<I>.parallel, is_parallel_segment(I + 1)),
              Measured>>;

  template <std::size_t... I>
  static auto channels_type(std::index_sequence<I...>) -> std::tuple<channel_after<I>...>;

  using channels = decltype(channels_type(std::make_index_sequence<segment_count>()));

 public:
  static constexpr bool is_measured = Measured;
  static constexpr bool is_ordered = (Segments::traits.ordered && ...) && []<class... S>(types<S...>) {
    return !(traits_of<S>().unordered || ...);
  }(stage_types());
  using item = segment_output<segment_count - 1>;
  static constexpr bool is_live = !can_be_resumed<Source>;
  /// Whether some queue may drop samples.
  static constexpr bool drops = segment_types::drops;
  /// Whether samples may be emitted in a later epoch than they arrived in.
  static constexpr bool keeps_over_epochs = []<class... S>(types<S...>) {
    return (detail::keeps_over_epochs<S> || ...);
  }(stage_types());

  [[gnu::cold]] run(const Source& source, const segment_types& stages, const run_options& options)
      : run_base(as_run_of_source(options), &origin_in_source, empty_epochs_of<Source>(options.rank)),
        source_(source),
        stages_(stages),
        sizes_(measurement<Source, segment_types>::of(source_, stages_)),
        capacity_(detail::fitting_capacity(options.memory_budget, options.queue_capacity,
                                           [this](std::size_t capacity) { return memory(capacity); })),
        channels_(make_channels(std::make_index_sequence<segment_count>())) {
    add_places();
    identify();
    add_segments(std::make_index_sequence<segment_count>());
    if constexpr (is_live && is_measured) context().outcomes = &outcomes_;
    if constexpr (is_dealt)
      std::get<0>(channels_).attach(source_, this->options(), context(), places()[0],
                                    segments()[0].workers[0]->stages[0], resumed());
  }

  ~run() { end(); }

  /// Reads the samples again that stages held at the checkpoint, then starts the threads.
  void start() {
    read_all_held(std::make_index_sequence<stages_of_one_sample(stage_types()) + 1>());
    start_segments(std::make_index_sequence<segment_count>());
  }

  /// The most memory that the run holds.
  memory_plan memory() const { return memory(capacity_); }

  /// The queue to the consumer.
  auto& output() { return std::get<segment_count - 1>(channels_); }

 private:
  // A run of a live source has one epoch.
  static run_options as_run_of_source(run_options options) {
    if (live_source<Source> && options.endless) options.epochs = 1;
    return options;
  }

  static std::string origin_in_source(const run_base& self, std::uint64_t index) {
    return origin_of(static_cast<const run&>(self).source_, index);
  }

  void add_places() {
    context().counts_ranks = !shares_itself<Source> && !options().rank.is_alone();
    add_place(stage_name(source_), false, false, 0);
    bool after_state = false,
         after_opaque = live_source<Source>; // samples of a live source can't be read again
    std::size_t number = 0;
    const auto add = [&]<class S>(const S& s) {
      std::uint64_t hash = key(segment_types::segment_of(number++), is_ordered);
      if constexpr (requires { s.fingerprint(); }) hash = key(hash, s.fingerprint());
      // Where the world size may change, the global batch must stay the same.
      if constexpr (requires { s.fingerprint_of_ranks(1); })
        hash = key(hash, s.fingerprint_of_ranks(is_elastic ? options().rank.world_size : 1));
      add_place(stage_name(s), after_state, after_opaque, hash);
      if (traits_of<S>().ends_epochs) {
        context().may_end_epochs |= !after_state;
        context().may_have_enough |= !after_state || options().epochs != run_options::for_ever;
      }
      after_state |= detail::keeps_over_epochs<S>;
      after_opaque |= !makes_of_one_sample<S>;
    };
    stages_.for_each_stage(add);
  }

 public:
  /// Whether the last delivered sample determines the position of the whole run.
  static constexpr bool is_elastic = detail::is_elastic<Source>(stage_types());

  /// The snapshot of a run that delivered `last` last and left out `failed` last, `failures` samples in all.
  std::optional<snapshot> snapshot_behind(const sample_id& last, const std::optional<sample_id>& failed,
                                          std::uint64_t failures) const {
    return detail::snapshot_behind(source_, options(), last, failed, segment_count, failures);
  }

 private:
  // Sets the identity that a checkpoint must match to be resumed here, and checks the options.
  void identify() {
    set_identity(
        extent_of(source_),
        [](const run_base& self, std::uint64_t first) {
          return static_cast<std::uint32_t>(
              mix(fingerprint_of(static_cast<const run&>(self).source_, first)));
        },
        segment_count);
    if (this->options().resume && is_live) refuse("its source is live, so its samples can't be read again");
    if (this->options().resume && drops) refuse("a queue of its pipeline drops samples");
    if constexpr (splits_files_by_rank<Source> || live_source<Source>)
      if (!this->options().rank.is_alone() && !this->options().endless &&
          this->options().epochs != run_options::for_ever &&
          this->options().rank.remainder != remainder::keep)
        throw std::invalid_argument(
            "feedline: ranks that divide files among themselves have different numbers of samples, so in "
            "finite mode some "
            "would wait for others: use global_shuffle() after the source, infinite() or remainder::keep");
    check_ranks_get_equally_many();
    if (!has_other_ranks()) return;
    const checkpoint_state& earlier = this->options().resume->state();
    const std::string ranks = "it was taken on " + to_string(rank{earlier.run.rank, earlier.run.ranks}) +
                              ", this is " + to_string(this->options().rank);
    if constexpr (is_elastic && data_independent_count) {
      if (earlier.failures > 0)
        refuse(ranks + ", and because of skipped failures the ranks are not equally far");
      const auto at = snapshot_of_other_rank(source_, this->options(), earlier, segment_count);
      if (!at) refuse(ranks + ", and the position is known only for that rank");
      resume_at(*at, segment_count);
    } else {
      refuse(
          ranks +
          ": other ranks can continue only if map, tap and batch are the only stages after global_shuffle()");
    }
  }

  // Ranks receive equally many samples, and must also deliver equally many items.
  void check_ranks_get_equally_many() const {
    const rank& r = options().rank;
    if (r.is_alone() || options().epochs == run_options::for_ever || r.remainder == remainder::keep) return;
    const auto check = []<class S>(const S& stage) {
      if constexpr (!traits_of<S>().data_independent_count)
        throw std::invalid_argument("feedline: " + stage_name(stage) +
                                    " may leave out more samples on one rank than on another, so in finite "
                                    "mode some ranks would wait for others: use infinite() or "
                                    "remainder::keep, or leave out the samples in the source's data");
    };
    stages_.for_each_stage(check);
    if (drops)
      throw std::invalid_argument(
          "feedline: a queue may drop more samples on one rank than on another, so "
          "in finite mode some ranks would wait for others: use infinite() or remainder::keep");
  }

  // Ranks that delivered equally many items have taken equally many samples.
  static constexpr bool data_independent_count = []<class... S>(types<S...>) {
    return (traits_of<S>().data_independent_count && ...);
  }(stage_types());

  template <std::size_t I>
  worker_range workers_of() const {
    return stages_.template get<I>().workers.on(processors());
  }

  template <std::size_t I>
  std::size_t takers_of() const {
    if constexpr (I + 1 < segment_count) return workers_of<I + 1>().most;
    else return 1;
  }

  template <std::size_t I>
  packet_plan packets_of(std::size_t capacity) const {
    return plan_packets<segment_output<I>>(workers_of<I>().most, takers_of<I>(),
                                           stages_.template get<I>().capacity, capacity, sizes_[I].bytes);
  }

  // The most memory with queues of at most `capacity` items.
  memory_plan memory(std::size_t capacity) const {
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      const std::array<queue_size, segment_count> queues{queue_size_after<I>(capacity)...};
      return plan_of(sizes_, queues);
    }(std::make_index_sequence<segment_count>());
  }

  // Each thread on both sides of a queue may hold a packet.
  template <std::size_t I>
  queue_size queue_size_after(std::size_t capacity) const {
    const packet_plan p = packets_of<I>(capacity);
    const std::size_t givers = workers_of<I>().most, takers = takers_of<I>();
    if (is_dealt && I == 0) return {takers, p.items, takers, givers, takers};
    return {p.packets + givers + takers, p.items, p.packets, givers, takers};
  }

  template <std::size_t I>
  std::size_t items_in_flight(std::size_t capacity) const {
    const queue_size q = queue_size_after<I>(capacity);
    return q.packets * q.items;
  }

  template <std::size_t I>
  channel_config config_of() {
    const packet_plan p = packets_of<I>(capacity_);
    return {.giver = sizes_[I].name.c_str(),
            .packets = p.packets,
            .packet_items = p.items,
            .ends = takers_of<I>() + workers_of<I>().most + 1,
            .to_workers = is_parallel_segment(I + 1),
            .unordered = !traits<I>.ordered,
            .overflow = traits<I>.overflow,
            .stop = context().stop,
            .attention = &context().attention};
  }

  template <std::size_t... I>
  channels make_channels(std::index_sequence<I...>) {
    return channels(config_of<I>()...);
  }

  template <std::size_t... I>
  void add_segments(std::index_sequence<I...>) {
    // The source is at position 0, before the first stage.
    (add_segment(I == 0 ? 0 : segment_types::first_stage[I] + 1, Segments::size + (I == 0),
                 traits<I>.parallel, !(is_dealt && I == 0), workers_of<I>(), items_in_flight<I>(capacity_),
                 std::get<I>(channels_)),
     ...);
    make_worker_pools();
  }

  template <std::size_t... I>
  void read_all_held(std::index_sequence<I...>) {
    (read_held_by<I>(), ...);
  }

  // Reads the samples again that stage number N held, if that is possible.
  template <std::size_t N>
  void read_held_by() {
    if constexpr (N < segment_types::stage_count) {
      using stage = std::remove_cvref_t<decltype(stages_.template stage<N>())>;
      using in = typename stage_types::template output_of_first<N, source_item_t<Source>>;
      if constexpr (may_hold_samples<stage> && has_state<bound_t<stage, in>>) {
        const std::vector<sample_id> ids = resumed().held_by(N + 1);
        if (!ids.empty())
          found_again(N + 1, read_held<N>(source_, stages_, options(), ids, threads_for<N>(), context().stop,
                                          context().stopped));
      }
    }
  }

  // The number of threads on which the first `Count` stages may run: one if a stage among them that changes
  // samples is serial in the run; otherwise as many as the largest segment has, or as wait in a stage at once.
  template <std::size_t Count>
  std::size_t threads_for() const {
    constexpr std::size_t most_waiting = 64;
    bool are_parallel = true;
    std::size_t number = 0, most = 1;
    const auto add = [&]<class S>(const S& s) {
      if (number == Count) return;
      const std::size_t segment = segment_types::segment_of(number++);
      if constexpr (requires { s.items_at_once(); })
        most = std::max(most, std::min<std::size_t>(s.items_at_once(), most_waiting));
      else are_parallel &= traits_of<S>().unchanged || segment_types::traits[segment].parallel;
    };
    stages_.for_each_stage(add);
    for (const segment_record& s : segments())
      most = std::max(most, s.pool ? s.pool->active() : s.workers.size());
    return are_parallel ? most : 1;
  }

  template <std::size_t... I>
  void start_segments(std::index_sequence<I...>) {
    (start_segment_number<I>(), ...);
  }

  template <std::size_t I>
  void start_segment_number() {
    if constexpr (!(is_dealt && I == 0))
      start_segment(
          I,
          [](run_base& self, thread_counters& thread) {
            static_cast<run&>(self).template run_segment<I>(thread);
          },
          [](run_base& self) { std::get<I>(static_cast<run&>(self).channels_).close(); });
  }

  template <std::size_t I>
  void run_segment(thread_counters& thread) {
    // After a stop the held samples may not have been read again. A live source runs nevertheless, so that it
    // learns of the run's begin and end.
    if (stopped() && !(is_live && I == 0)) return;
    std::optional<preemption_watch> watch;
    if constexpr (Measured) watch.emplace(thread);
    segment_progress progress(I, options().rank);
    packer<segment_output<I>, channel_after<I>, traits<I>.parallel> sink(std::get<I>(channels_), thread,
                                                                         progress);
    if constexpr (I == 0) {
      auto chain = chain_of<I, source_item_t<Source>>(sink, thread, 1);
      const state_reader rest = take_up<I>(chain);
      source_loop(source_, options(), context(), places()[0], chain, thread).run(rest);
    } else {
      auto& from = std::get<I - 1>(channels_);
      const pool_member member(segments()[I].pool.get(), thread);
      member.wait_turn();
      auto chain = chain_of<I, segment_output<I - 1>>(sink, thread, 0);
      if constexpr (!is_parallel_segment(I)) take_up<I>(chain);
      bool wanted = true;
      std::uint64_t used = 0;
      while (wanted) {
        member.wait_turn();
        auto p = from.pop(thread, [&] { chain.sink().hand_over(); });
        if (!p) return;
        if constexpr (is_parallel_segment(I))
          wanted =
              work<segment_output<I - 1>>(chain, *p, from, is_dealt && I == 1 ? p->put_at : now_ns(), used);
        else wanted = feed<segment_output<I - 1>>(chain, *p, from, context()) != flow::stop;
        member.worked(p->size());
        from.recycle(std::move(p));
        chain.publish();
      }
      from.stop(); // no thread may wait for room in a queue that nothing is taken from
    }
  }

  // Restores the state that a chain had in the earlier run, if there is one. The rest of the reader is the
  // source's state.
  template <std::size_t I, class Chain>
  state_reader take_up(Chain& chain) {
    chain.attach();
    state_reader reader(resumed().words(I));
    if (!resumed().has(I)) return reader;
    const std::size_t first = segments()[I].first_place;
    chain.progress().load(reader, resumed().before(I, first), I > 0 && places()[first].after_state);
    chain.load(reader, resumed());
    return reader;
  }

  /// A worker processes one packet. False if no more is wanted. `used_before`: the thread's processor time at
  /// the last measurement.
  template <class In, class Chain>
  bool work(Chain& chain, packet& p, channel_base& from, std::uint64_t began, std::uint64_t& used_before) {
    chain.sink().open(p);
    chain.begin_packet(p.first_place);
    const flow result = feed<In>(chain, p, from, context());
    const std::uint64_t ns = now_ns() - began;
    bool waited = false;
    if (ns > channel_base::slow_packet_ns) { // otherwise it doesn't matter, and measuring takes time
      const std::uint64_t used = thread_ns();
      waited = used - std::exchange(used_before, used) < ns / 4;
    }
    from.worked(ns, p.size(), waited);
    return chain.sink().complete(p) && result != flow::stop;
  }

  template <std::size_t I, class In, class Sink>
  auto chain_of(Sink& sink, thread_counters& thread, std::size_t counter) {
    const stage_place* place = places().data() + segments()[I].first_place + counter;
    return make_chain<In, segment_types::first_stage[I], segment_types::first_stage[I + 1]>(
        stages_, std::move(sink), thread, counter, place);
  }

  Source source_;
  segment_types stages_;
  typename measurement<Source, segment_types>::sizes sizes_;
  std::size_t capacity_; // of queues, in items; 0: chosen to suit the workers
  channels channels_;
  stage_outcomes outcomes_{*this};
};

} // namespace feedline::inline v0::detail
