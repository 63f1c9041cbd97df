// SPDX-License-Identifier: MIT
#pragma once
// A pipeline at work: its threads, its queues, and the accounts of both.
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

#include <feedline/core/detail/chain.hpp>
#include <feedline/core/detail/dealer.hpp>
#include <feedline/core/detail/packer.hpp>
#include <feedline/core/detail/plan.hpp>
#include <feedline/core/detail/run_base.hpp>
#include <feedline/core/options.hpp>

namespace feedline::detail {

/// Builds the chain of `Count` stages of a list, from number First on, in front of a sink.
template <class In, std::size_t First, std::size_t Count, class List, class Sink>
auto make_chain(const List& list, Sink sink, activity& who, std::size_t counter, const stage_place* place) {
  if constexpr (Count == 0) {
    return sink;
  } else {
    const auto& stage = list.template get<First>();
    using stage_type = std::remove_cvref_t<decltype(stage)>;
    using running = bound_t<stage_type, In>;
    auto next = make_chain<typename running::output, First + 1, Count - 1>(list, std::move(sink), who,
                                                                           counter + 1, place + 1);
    const auto start = [&]() -> running {
      try {
        if constexpr (binds_to<stage_type, In>)
          return stage.template bind<In>(stage_info{place->random_key(), place->run.stop});
        else return stage;
      } catch (...) {
        throw pipeline_error(current_failure(place->name, {}));
      }
    };
    return node<running, In, decltype(next)>(start(), *place, who.stages[counter], std::move(next));
  }
}

template <bool Measured, source Source, class... Stages>
class run : public run_base {
  static constexpr auto plan = make_plan<Stages...>();
  static constexpr std::size_t segment_count = plan.count;

  template <std::size_t I>
  using segment_output = typename output_after_first<plan.segments[I].first + plan.segments[I].count,
                                                     source_item_t<Source>, Stages...>::type;

  static constexpr bool is_parallel_segment(std::size_t i) {
    return i < plan.count && plan.segments[i].parallel;
  }

  // Where workers stand right behind a source that can be asked by several, it needs neither thread nor queue.
  static constexpr bool is_dealt = dealt_source<Source> && plan.segments[0].count == 0 &&
                                   plan.segments[0].capacity_given == segment_plan::none &&
                                   is_parallel_segment(1);

  template <std::size_t I>
  using edge_behind =
      std::conditional_t<is_dealt && I == 0, dealer<Source, Measured>,
                         edge<transport_between(plan.segments[I], is_parallel_segment(I + 1)), Measured>>;

  template <std::size_t... I>
  static auto edges_type(std::index_sequence<I...>) -> std::tuple<edge_behind<I>...>;

  using edges = decltype(edges_type(std::make_index_sequence<segment_count>()));

 public:
  static constexpr bool is_measured = Measured;
  using item = segment_output<segment_count - 1>;

  [[gnu::cold]] run(const Source& source, const stage_list<Stages...>& stages, const run_options& options)
      : run_base(options, &origin_in_source),
        source_(source),
        stages_(stages),
        edges_(make_edges(std::make_index_sequence<segment_count>())) {
    add_places();
    add_segments(std::make_index_sequence<segment_count>());
    if constexpr (is_dealt)
      std::get<0>(edges_).attach(source_, this->options(), context(), places()[0],
                                 segments()[0].workers[0]->stages[0]);
  }

  ~run() { end(); }

  void start() { start_segments(std::make_index_sequence<segment_count>()); }

  /// The queue to the caller.
  auto& output() { return std::get<segment_count - 1>(edges_); }

 private:
  static std::string origin_in_source(const run_base& self, std::uint64_t index) {
    return origin_of(static_cast<const run&>(self).source_, index);
  }

  void add_places() {
    add_place(stage_name(source_), false);
    bool behind_state = false;
    const auto add = [&]<class S>(const S& s) {
      add_place(stage_name(s), behind_state);
      if constexpr (!stateless<S> && !requires { S::begins_anew; }) behind_state = true;
    };
    const auto add_all = [&]<class S>(const S& s) {
      if constexpr (is_parallel<S>) for_each_stage(s.stages, add);
      else if constexpr (!std::is_same_v<S, queue_place>) add(s);
    };
    for_each_stage(stages_, add_all);
  }

  template <std::size_t I>
  std::size_t workers_of() const {
    if constexpr (is_parallel_segment(I)) return stages_.template get<plan.segments[I].first>().workers;
    else return 1;
  }

  template <std::size_t I>
  edge_config config_of() {
    using T = segment_output<I>;
    constexpr std::size_t queue_place_number = plan.segments[I].capacity_given;
    std::size_t takers = 1;
    if constexpr (I + 1 < segment_count) takers = workers_of<I + 1>();
    const std::size_t givers = workers_of<I>();
    std::size_t prefetch = 0;
    if constexpr (queue_place_number != segment_plan::none)
      prefetch = stages_.template get<queue_place_number>().capacity;
    const packet_plan p = plan_packets<T>(givers, takers, prefetch, options().queue_capacity);
    return {.packets = p.packets,
            .packet_items = p.items,
            .ends = takers + givers + 1,
            .to_workers = is_parallel_segment(I + 1),
            .unordered = !plan.segments[I].ordered,
            .stop = context().stop,
            .attention = &context().attention};
  }

  template <std::size_t... I>
  edges make_edges(std::index_sequence<I...>) {
    return edges(config_of<I>()...);
  }

  template <std::size_t... I>
  void add_segments(std::index_sequence<I...>) {
    // The source is place 0, in front of the first stage.
    (add_segment(I == 0 ? 0 : places_before<I>() + 1, places_before<I + 1>() - places_before<I>() + (I == 0),
                 plan.segments[I].parallel, !(is_dealt && I == 0), workers_of<I>(), std::get<I>(edges_)),
     ...);
  }

  /// How many stages stand before segment I, those inside parallel_stages counted one by one.
  template <std::size_t I>
  static consteval std::size_t places_before() {
    constexpr std::array<std::size_t, sizeof...(Stages) + 1> sizes{stages_in<Stages>..., 0};
    const std::size_t end = I < segment_count ? plan.segments[I].first : sizeof...(Stages);
    std::size_t before = 0;
    for (std::size_t i = 0; i < end; ++i) before += sizes[i];
    return before;
  }

  template <std::size_t... I>
  void start_segments(std::index_sequence<I...>) {
    (start_segment_number<I>(), ...);
  }

  template <std::size_t I>
  void start_segment_number() {
    if constexpr (!(is_dealt && I == 0))
      start_segment(
          I, [](run_base& self, activity& who) { static_cast<run&>(self).template run_segment<I>(who); },
          [](run_base& self) { std::get<I>(static_cast<run&>(self).edges_).close(); });
  }

  template <std::size_t I>
  void run_segment(activity& who) {
    packer<segment_output<I>, edge_behind<I>> sink(std::get<I>(edges_), who);
    if constexpr (I == 0) {
      auto chain = chain_of<I, source_item_t<Source>>(sink, who, 1);
      run_source(chain, who);
    } else {
      auto& from = std::get<I - 1>(edges_);
      auto chain = chain_of<I, segment_output<I - 1>>(sink, who, 0);
      bool wanted = true;
      while (wanted) {
        auto p = from.pop(who, [&] { chain.sink().hand_over(); });
        if (!p) return;
        if constexpr (is_parallel_segment(I))
          wanted = work<segment_output<I - 1>>(chain, *p, from, is_dealt && I == 1 ? p->put_at : now_ns());
        else wanted = feed<segment_output<I - 1>>(chain, *p, from, context()) != flow::stop;
        from.recycle(std::move(p));
        chain.publish();
      }
      from.stop(); // nobody may wait for room in what isn't taken from any more
    }
  }

  /// A worker's share: one packet in, one out. False: no more is wanted.
  template <class In, class Chain>
  bool work(Chain& chain, packet& p, edge_base& from, std::uint64_t began) {
    chain.sink().open(p.sequence, p.generation);
    const flow result = feed<In>(chain, p, from, context());
    from.worked(now_ns() - began, p.size());
    return chain.sink().complete() && result != flow::stop;
  }

  template <std::size_t I, class In, class Sink>
  auto chain_of(Sink& sink, activity& who, std::size_t counter) {
    constexpr segment_plan p = plan.segments[I];
    const stage_place* place = places().data() + segments()[I].first_place + counter;
    if constexpr (p.parallel) {
      const auto& inner = stages_.template get<p.first>().stages;
      return make_chain<In, 0, std::remove_cvref_t<decltype(inner)>::size>(inner, std::move(sink), who,
                                                                           counter, place);
    } else {
      return make_chain<In, p.first, p.count>(stages_, std::move(sink), who, counter, place);
    }
  }

  /// The source in one epoch.
  struct source_pass {
    std::uint32_t epoch;
    std::optional<Source> source;
    std::uint64_t given = 0; // samples
    bool ended = false;
    failure_ptr failed;
  };

  template <class Chain>
  void run_source(Chain& chain, activity& who) {
    const bool for_ever = options().epochs == run_options::for_ever;
    for (std::uint32_t number = 0; for_ever || number < options().epochs; ++number) {
      source_pass pass{number, {}, 0, false, {}};
      bool began = false;
      try {
        pass.source.emplace(source_);
        if constexpr (requires(const epoch& e) { pass.source->start_epoch(e); })
          pass.source->start_epoch(epoch{options().seed, number, context().stop, options().epochs != 1});
        began = true;
      } catch (...) {
        if (chain.fail(source_failure(who, number)) == flow::stop) return;
      }
      if (began && !run_epoch(chain, pass, who)) return;
      if (began && pass.given == 0 && for_ever) {
        try {
          throw empty_epoch();
        } catch (...) {
          if (chain.fail(source_failure(who, number)) == flow::stop) return;
        }
      }
      if (chain.end_epoch(number, context().drain) == flow::stop) return;
      chain.publish();
    }
  }

  /// Gives the samples of one epoch. False: no more is wanted.
  template <class Chain>
  bool run_epoch(Chain& chain, source_pass& pass, activity& who) {
    std::atomic<std::uint64_t>& counter = who.stages[0].given;
    const std::uint64_t given_before = counter.load(std::memory_order_relaxed);
    for (flow wanted = flow::more; wanted == flow::more && !pass.ended;) {
      if (stopped()) return false;
      if constexpr (Chain::has_room && !requires { pass.source->index(); })
        wanted = give_row(chain, pass, who);
      else wanted = give_each(chain, pass, who);
      // Stages that let little through must not hide that nobody wants more, nor hold back what they let.
      if (wanted == flow::more) wanted = chain.sink().wanted();
      if (wanted == flow::more) wanted = chain.sink().hand_over_if_late();
      if (pass.failed && wanted == flow::more) wanted = give_failure(chain, pass);
      if (wanted == flow::stop) return false;
      counter.store(given_before + pass.given, std::memory_order_relaxed);
      chain.publish();
    }
    return true;
  }

  /// Gives one sample at a time until a packet is full, but not too many without a look around.
  template <class Chain>
  flow give_each(Chain& chain, source_pass& pass, activity& who) {
    Source& source = *pass.source;
    const auto next = [&]() -> decltype(source.next()) {
      try {
        return source.next();
      } catch (...) {
        pass.failed = source_failure(who, pass.epoch);
        return std::nullopt;
      }
    };
    const std::uint64_t pushes = chain.sink().pushes();
    const std::uint64_t most = pass.given + 256;
    std::uint64_t given = pass.given;
    flow wanted = flow::more;
    while (wanted == flow::more && given != most && !stopped() && pushes == chain.sink().pushes()) {
      auto value = next();
      if (!value) {
        pass.ended = !pass.failed;
        break;
      }
      const sample_id id{index_of(source, given), 0, pass.epoch};
      ++given;
      wanted = chain.push(sample<source_item_t<Source>>{std::move(*value), id});
    }
    pass.given = given;
    return wanted;
  }

  /// As many as go straight to where the next stage has room.
  template <class Chain>
  flow give_row(Chain& chain, source_pass& pass, activity& who) {
    std::span<source_item_t<Source>> target;
    if (const flow wanted = chain.room(target); wanted != flow::more) return wanted;
    if (target.empty()) return give_each(chain, pass, who);
    std::size_t count = 0;
    try {
      while (count < target.size() && !stopped()) {
        auto value = pass.source->next();
        pass.ended = !value;
        if (!value) break;
        std::construct_at(&target[count], std::move(*value));
        ++count;
      }
    } catch (...) {
      pass.failed = source_failure(who, pass.epoch);
    }
    const sample_id first{pass.given, 0, pass.epoch};
    pass.given += count;
    return chain.commit(count, {first});
  }

  template <class Chain>
  flow give_failure(Chain& chain, source_pass& pass) {
    if (context().on_error == on_error::skip) return chain.skipped(std::move(pass.failed));
    ++pass.given; // so to speak: the epoch wasn't empty
    return chain.fail(std::move(pass.failed)) == flow::stop ? flow::stop : flow::enough;
  }

  static std::uint64_t index_of(const Source& source, std::uint64_t ordinal) {
    if constexpr (requires { source.index(); }) return source.index();
    else return ordinal;
  }

  failure_ptr source_failure(activity& who, std::uint32_t epoch) {
    add_relaxed(who.stages[0].failures, 1);
    return std::make_unique<failure>(current_failure(places()[0].name, {.epoch = epoch}));
  }

  Source source_;
  stage_list<Stages...> stages_;
  edges edges_;
};

} // namespace feedline::detail
