// SPDX-License-Identifier: MIT
#pragma once
// Describes a pipeline's types to its run.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <utility>

#include <feedline/core/epoch.hpp>
#include <feedline/core/held_samples.hpp>
#include <feedline/core/metrics/thread_counters.hpp>
#include <feedline/core/plan/facts.hpp>
#include <feedline/core/plan/measure.hpp>
#include <feedline/core/plan/rank_share.hpp>
#include <feedline/core/plan/run_options.hpp>
#include <feedline/core/plan/segments.hpp>
#include <feedline/core/run/dealer.hpp>
#include <feedline/core/run/elastic.hpp>
#include <feedline/core/run/feed.hpp>
#include <feedline/core/run/packer.hpp>
#include <feedline/core/run/pipeline_run.hpp>
#include <feedline/core/run/read_held.hpp>
#include <feedline/core/run/run_type.hpp>
#include <feedline/core/run/sample_worker.hpp>
#include <feedline/core/run/source_loop.hpp>
#include <feedline/core/run/source_reader.hpp>
#include <feedline/core/source.hpp>
#include <feedline/core/stage.hpp>
#include <feedline/core/state.hpp>
#include <feedline/core/stored_value.hpp>
#include <feedline/core/transport/channel.hpp>
#include <feedline/core/transport/packet.hpp>
#include <feedline/detail/share.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

template <class T>
const T& as(const void* object) noexcept {
  return *static_cast<const T*>(object);
}

/// The number of samples that a source yields in the first epoch; nothing if it isn't known.
template <source Source>
std::optional<std::uint64_t> samples_in_epoch(const void* source_object, const run_options& options) {
  const Source& described = as<Source>(source_object);
  const epoch e = make_epoch(options, 0, options.stop, options.rank.number);
  if constexpr (dealt_source<Source>) {
    Source source(described);
    start_source(source, e);
    return source.share().size;
  } else if constexpr (requires { std::uint64_t{described.size()}; } && !live_source<Source>) {
    if (division_among(options.rank, division_of<Source>()) == rank_division::by_run)
      return rank_share(described.size(), e).size;
    if (options.rank.is_alone()) return described.size();
  }
  return std::nullopt;
}

template <source Source>
consteval source_type type_of_source() {
  source_type t{
      .is_live = live_source<Source>,
      .can_be_resumed = can_be_resumed<Source>,
      .division = division_of<Source>(),
      .size = [](const void* source) { return size_of_source(as<Source>(source)); },
      .extent = [](const void* source) { return extent_of(as<Source>(source)); },
      .samples_in_epoch = &samples_in_epoch<Source>,
      .origin = [](const void* source, std::uint64_t index) { return origin_of(as<Source>(source), index); },
      .fingerprint =
          [](const void* source, std::uint64_t extent, const std::stop_token& stop) {
            return fingerprint_of(as<Source>(source), extent, stop);
          },
      .parameters = [](const void* source) { return parameters_of(as<Source>(source)); },
      .outage = [](const void* source) { return outage_of(as<Source>(source)); },
      .in_run = [](const void* source,
                   const std::stop_token& stop) { return in_run(as<Source>(source), stop); },
      .reader = nullptr,
      .places = nullptr,
      .number_of = nullptr};
  if constexpr (dealt_source<Source>)
    t.reader = [](const void* source, const run_options& options, const run_context& context,
                  source_place& at) {
      return owned<source_reader>(new source_reader_of<Source>(as<Source>(source), options, context, at));
    };
  if constexpr (has_numbers<Source>) {
    t.places = [](const void* source, const epoch& e) {
      Source own(as<Source>(source));
      own.start_epoch(e);
      return own.share().places;
    };
    t.number_of = [](const void* source, const epoch& e, std::uint64_t index) {
      Source own(as<Source>(source));
      own.start_epoch(e);
      const std::uint64_t place = own.number_of(index);
      return e.rank.remainder == remainder::wrap ? own.share().before_wrap(place) : place;
    };
  }
  return t;
}

template <source Source>
struct source_table {
  static const source_type value;
};

template <source Source>
constinit const source_type source_table<Source>::value = type_of_source<Source>();

/// A stage whose state may have buffers of the samples that it receives.
template <class Stage, class In>
concept keeps_samples = may_hold_samples<Stage> && has_state<bound_t<Stage, In>>;

/// The type of a stage that receives items of type In and reads no samples again.
template <class In, class Stage>
consteval stage_type type_of_stage() {
  stage_type t{.facts = &facts_of_stage<In, Stage>,
               .output_count = nullptr,
               .is_stored = storable<In>,
               .for_run = nullptr,
               .from_values = nullptr,
               .from_source = nullptr};
  if constexpr (requires(const Stage& s) { s.output_count(0, true); })
    t.output_count = [](const void* s, std::uint64_t items, bool drains) -> std::uint64_t {
      return as<Stage>(s).output_count(items, drains);
    };
  else if constexpr (traits_of<Stage>().one_to_one)
    t.output_count = [](const void*, std::uint64_t items, bool) { return items; };
  if constexpr (requires(const Stage& s) { s.for_run(); })
    t.for_run = [](const void* s) { return share(as<Stage>(s).for_run()); };
  if constexpr (keeps_samples<Stage, In> && storable<In>) t.from_values = &stored_samples<In>;
  return t;
}

/// The type of stage number N.
template <source Source, class Stages, std::size_t N>
consteval stage_type type_of_stage() {
  using stage = typename Stages::template element<N>;
  using in = typename Stages::template output_of_first<N, source_item_t<Source>>;
  stage_type t = type_of_stage<in, stage>();
  if constexpr (keeps_samples<stage, in> && N <= stages_of_one_sample(Stages()))
    t.from_source = &read_held<Source, typename Stages::template first<N>>;
  return t;
}

/// The thread of a source and its segment's stages.
template <class Source, class Chain>
[[gnu::cold]] void run_source(pipeline_run& run, std::size_t segment, thread_counters& thread) {
  segment_thread here(run, segment, thread);
  Chain chain(here.parts);
  const state_reader rest = run.resume_segment(segment, chain.sink());
  source_reader_of<Source> reader(as<Source>(run.source()), run.options(), run.context(),
                                  here.progress.source);
  source_loop_of<Source, Chain>(run.options(), run.context(), run.places()[0], chain, reader, thread)
      .run(rest);
}

/// A thread of a segment's stages, the first of which receives items of type In.
template <class In, class Chain>
[[gnu::cold]] void run_stages(pipeline_run& run, std::size_t segment, thread_counters& thread) {
  segment_thread here(run, segment, thread);
  Chain chain(here.parts);
  run.take_packets(segment, thread, {chain.sink(), &chain, &feed_chain<In, Chain>});
}

template <source Source>
std::shared_ptr<channel_base> make_dealer(const channel_config& config) {
  return owned<channel_base>(new dealer_of<Source>(config));
}

/// Whether all items keep the order of the samples.
template <class... Segments, class... Stages>
consteval bool are_ordered(segment_list<Segments...>, types<Stages...>) {
  return (Segments::traits.ordered && ...) && !(traits_of<Stages>().unordered || ...);
}

template <class... Stages>
consteval bool have_random_order(types<Stages...>) {
  return (traits_of<Stages>().random_order || ...);
}

/// The tables of a pipeline.
template <source Source, class... Segments>
class tables {
  using list = segment_list<Segments...>;
  using stages = typename list::stage_types;
  using item = source_item_t<Source>;

  static constexpr bool is_parallel(std::size_t i) { return i < list::size && list::traits[i].parallel; }

  // A source that workers directly downstream can read at the same time needs neither thread nor queue.
  static constexpr bool is_dealt =
      dealt_source<Source> && list::first_stage[1] == 0 && !list::traits[0].has_queue && is_parallel(1);

  template <std::size_t I, class... Stages>
  static constexpr segment_type type_of_segment(types<Stages...> own) {
    constexpr segment_traits traits = list::traits[I];
    using in = typename stages::template output_of_first<list::first_stage[I], item>;
    using out = typename types<Stages...>::template output<in>;
    constexpr transport after =
        traits.drops() ? transport::dropping : transport_between(traits.parallel, is_parallel(I + 1));
    segment_type t{.traits = traits,
                   .first_stage = list::first_stage[I],
                   .stages = own.size,
                   .item_size = sizeof(out),
                   .emits_batches = comes_in_batches<out>,
                   .make_queue = nullptr,
                   .body = nullptr};
    if constexpr (is_dealt && I == 0) {
      t.make_queue = &make_dealer<Source>;
    } else {
      using chain = typename chain_of<in, packer<out>, false, Stages...>::type;
      t.make_queue = &make_channel<after>;
      if constexpr (I == 0) t.body = &run_source<Source, chain>;
      else t.body = &run_stages<in, chain>;
    }
    return t;
  }

  template <std::size_t... N>
  static constexpr std::array<stage_type, sizeof...(N)> all_stages(std::index_sequence<N...>) {
    return {type_of_stage<Source, stages, N>()...};
  }

  template <std::size_t... I>
  static constexpr std::array<segment_type, sizeof...(I)> all_segments(std::index_sequence<I...>) {
    return {type_of_segment<I>(decltype(stages_of(static_cast<const Segments*>(nullptr)))())...};
  }

  static constexpr std::array stages_ = all_stages(std::make_index_sequence<list::stage_count>());
  static constexpr std::array segments_ = all_segments(std::make_index_sequence<list::size>());

 public:
  static constexpr run_type run{.source = source_table<Source>::value,
                                .stages = stages_,
                                .segments = segments_,
                                .has = !are_ordered(list(), stages()) ? checkpoints::unordered
                                       : list::drops                  ? checkpoints::dropping
                                       : !can_be_resumed<Source>      ? checkpoints::live
                                                                      : checkpoints::always,
                                .has_random_order =
                                    source_traits_of<Source>().random_order || have_random_order(stages()),
                                .drops = list::drops,
                                .is_elastic = detail::is_elastic<Source>(stages())};
};

} // namespace feedline::inline FEEDLINE_ABI::detail
