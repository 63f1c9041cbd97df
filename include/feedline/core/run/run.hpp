// SPDX-License-Identifier: MIT
#pragma once
// A pipeline at work, with its threads and channels.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <feedline/core/checkpoint.hpp>
#include <feedline/core/metrics/thread_counters.hpp>
#include <feedline/core/options.hpp>
#include <feedline/core/plan/facts.hpp>
#include <feedline/core/plan/segments.hpp>
#include <feedline/core/rank.hpp>
#include <feedline/core/run/build_chain.hpp>
#include <feedline/core/run/dealer.hpp>
#include <feedline/core/run/elastic.hpp>
#include <feedline/core/run/emitter.hpp>
#include <feedline/core/run/feed.hpp>
#include <feedline/core/run/packer.hpp>
#include <feedline/core/run/progress.hpp>
#include <feedline/core/run/read_held.hpp>
#include <feedline/core/run/run_base.hpp>
#include <feedline/core/run/source_loop.hpp>
#include <feedline/core/run/source_reader.hpp>
#include <feedline/core/sample.hpp>
#include <feedline/core/snapshot/snapshot.hpp>
#include <feedline/core/source.hpp>
#include <feedline/core/stage.hpp>
#include <feedline/core/state.hpp>
#include <feedline/core/transport/channel.hpp>
#include <feedline/core/transport/packet.hpp>
#include <feedline/detail/share.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

template <source Source, class... Segments>
class run final : public run_base {
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

  template <std::size_t I>
  static constexpr transport transport_after =
      traits<I>.drops() ? transport::dropping
                        : transport_between(traits<I>.parallel, is_parallel_segment(I + 1));

  // A source that workers directly downstream can read at the same time needs neither thread nor queue.
  static constexpr bool is_dealt = dealt_source<Source> && segment_types::first_stage[1] == 0 &&
                                   !segment_types::traits[0].has_queue && is_parallel_segment(1);

  static constexpr bool is_ordered = (Segments::traits.ordered && ...) && []<class... S>(types<S...>) {
    return !(traits_of<S>().unordered || ...);
  }(stage_types());
  static constexpr bool is_live = !can_be_resumed<Source>;
  // Whether some queue may drop samples.
  static constexpr bool drops = segment_types::drops;
  // Whether the last delivered sample determines the position of the whole run.
  static constexpr bool is_elastic = detail::is_elastic<Source>(stage_types());

 public:
  static constexpr checkpoints has = !is_ordered ? checkpoints::unordered
                                     : drops     ? checkpoints::dropping
                                     : is_live   ? checkpoints::live
                                                 : checkpoints::always;

  [[gnu::cold]] run(const Source& source, const composed_stages& composed, const run_options& options)
      : run_base(options, live_source<Source>, &origin_in_source, empty_epochs_of<Source>(options.rank)),
        source_(source),
        composed_(composed) {
    take_stages_of_run(std::make_index_sequence<segment_types::stage_count>());
    source_facts facts = facts_of_source(source_);
    const known_bytes bytes = facts.size.bytes;
    prepare(std::move(facts),
            // Where the world size may change, the global batch must stay the same.
            facts_of_stages<source_item_t<Source>>(stages(), bytes, is_elastic ? options.rank.world_size : 1,
                                                   live_source<Source>),
            facts_of_segments(std::make_index_sequence<segment_count>()),
            {.is_dealt = is_dealt,
             .has = has,
             .fingerprint = &fingerprint_at,
             .outage = &outage_in_source,
             .at_other_rank = other_rank()});
    if constexpr (is_dealt) {
      segment_progress begin(0, this->options().rank, this->options().first_epoch.value_or(0));
      resume_progress(0, begin);
      static_cast<dealer_of<Source>&>(*queues()[0])
          .attach(source_, this->options(), context(), places()[0], segments()[0].workers[0]->stages[0],
                  begin.source);
    }
  }

  ~run() override { end(); }

  /// Reads the samples again that stages held at the checkpoint, then starts the threads.
  void start() {
    if constexpr (requires { source_.run_begins(); }) source_.run_begins();
    try {
      read_all_held(std::make_index_sequence<segment_types::stage_count>());
      start_segment(0, body_of<0>());
    } catch (...) { // the source's thread, from which it would learn of the run's end, wasn't started
      if constexpr (requires { source_.run_failed_to_begin(); }) source_.run_failed_to_begin();
      throw;
    }
    start_segments_after_first(std::make_index_sequence<segment_count - 1>());
  }

  std::optional<snapshot> snapshot_behind(const sample_id& last,
                                          const std::optional<sample_id>& failed) const override {
    if constexpr (is_elastic) return detail::snapshot_behind(source_, options(), last, failed, segment_count);
    else return std::nullopt;
  }

 private:
  static std::string origin_in_source(const run_base& self, std::uint64_t index) {
    return origin_of(static_cast<const run&>(self).source_, index);
  }

  static std::uint32_t fingerprint_at(const run_base& self, std::uint64_t extent,
                                      const std::stop_token& stop) {
    return static_cast<std::uint32_t>(
        mix(fingerprint_of(static_cast<const run&>(self).source_, extent, stop)));
  }

  static std::string outage_in_source(const run_base& self) {
    return outage_of(static_cast<const run&>(self).source_);
  }

  static constexpr other_rank_function other_rank() {
    if constexpr (is_elastic)
      return [](const run_base& self, const checkpoint_state& earlier) {
        return snapshot_of_other_rank(static_cast<const run&>(self).source_, self.options(), earlier,
                                      segment_count);
      };
    else return nullptr;
  }

  static std::shared_ptr<channel_base> make_dealer(const channel_config& config) {
    if constexpr (is_dealt) return owned<channel_base>(new dealer_of<Source>(config));
    else return nullptr;
  }

  template <std::size_t... N>
  void take_stages_of_run(std::index_sequence<N...>) {
    [[maybe_unused]] const auto take = []<class S>(std::shared_ptr<const void>& shared, const S& stage) {
      if constexpr (requires { stage.for_run(); }) shared = detail::share(stage.for_run());
    };
    (take(composed_.stages[N], stages().template stage<N>()), ...);
  }

  template <std::size_t... I>
  std::vector<segment_facts> facts_of_segments(std::index_sequence<I...>) const {
    const std::vector<segment_description>& described = composed_.segments;
    return {segment_facts{.traits = traits<I>,
                          .first_stage = segment_types::first_stage[I],
                          .stages = Segments::size,
                          .workers = described[I].workers.on(processors()),
                          .capacity = described[I].capacity,
                          .item_size = sizeof(segment_output<I>),
                          .emits_batches = comes_in_batches<segment_output<I>>,
                          .make_queue =
                              is_dealt && I == 0 ? &make_dealer : &make_channel<transport_after<I>>}...};
  }

  template <std::size_t... I>
  void read_all_held(std::index_sequence<I...>) {
    (read_held_by<I>(), ...);
  }

  // Reads the samples again that stage number N held, if that is possible.
  template <std::size_t N>
  void read_held_by() {
    if constexpr (N < segment_types::stage_count) {
      using stage = std::remove_cvref_t<decltype(stages().template stage<N>())>;
      using in = typename stage_types::template output_of_first<N, source_item_t<Source>>;
      if constexpr (may_hold_samples<stage> && has_state<bound_t<stage, in>>) {
        if (resumed().has_values_of(N + 1)) {
          if constexpr (storable<in>) found_again(N + 1, stored_samples<in>(resumed().held(), N + 1));
        } else if constexpr (N <= stages_of_one_sample(stage_types())) {
          const std::vector<sample_id> ids = resumed().held_by(N + 1);
          if (!ids.empty())
            found_again(N + 1, read_held<N>(source_, stages(), options(), ids, threads_for(N), context().stop,
                                            context().stopped));
        }
      }
    }
  }

  template <std::size_t... I>
  void start_segments_after_first(std::index_sequence<I...>) {
    (start_segment(I + 1, body_of<I + 1>()), ...);
  }

  // What the threads of a segment do. Null: it has no threads.
  template <std::size_t I>
  static constexpr segment_function body_of() {
    if constexpr (is_dealt && I == 0) return nullptr;
    else return &thread_of<I>;
  }

  template <std::size_t I>
  static void thread_of(run_base& self, thread_counters& thread) {
    static_cast<run&>(self).template run_segment<I>(thread);
  }

  template <std::size_t I>
  [[gnu::cold]] void run_segment(thread_counters& thread) {
    // After a stop the held samples may not have been read again. A live source runs nevertheless, so that it
    // learns of the run's begin and end.
    if (stopped() && !(is_live && I == 0)) return;
    segment_progress progress(I, options().rank, options().first_epoch.value_or(0));
    const auto make_sink = [&] {
      return packer<segment_output<I>>(traits<I>.parallel, *queues()[I], thread, progress);
    };
    const stage_place* place = places().data() + segments()[I].first_place + (I == 0);
    constexpr std::size_t first = segment_types::first_stage[I], last = segment_types::first_stage[I + 1];
    if constexpr (I == 0) {
      auto chain = make_chain<source_item_t<Source>, first, last>(stages(), make_sink, thread, 1, place);
      const state_reader rest = resume_segment(I, chain.sink());
      source_reader_of<Source> reader(source_, options(), context(), progress.source);
      source_loop_of(options(), context(), places()[0], chain, reader, thread).run(rest);
    } else {
      using in = segment_output<I - 1>;
      auto chain = make_chain<in, first, last>(stages(), make_sink, thread, 0, place);
      if constexpr (!is_parallel_segment(I)) resume_segment(I, chain.sink());
      take_packets(I, thread, {chain.sink(), &chain, &feed_chain<in, decltype(chain)>});
    }
  }

  segment_types stages() const noexcept { return segment_types(composed_); }

  Source source_;
  composed_stages composed_;
};

} // namespace feedline::inline FEEDLINE_ABI::detail
