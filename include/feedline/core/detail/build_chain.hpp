// SPDX-License-Identifier: MIT
#pragma once
// Builds chains of stages: for a segment of a run, or for samples that go their own way.
#include <cstddef>
#include <cstdint>
#include <stop_token>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <feedline/core/detail/activity.hpp>
#include <feedline/core/detail/chain.hpp>
#include <feedline/core/detail/plan.hpp>
#include <feedline/core/detail/progress.hpp>
#include <feedline/core/failure.hpp>
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
          return stage.template bind<In>(
              stage_info{place->random_key(), place->run.stop, place->items_behind});
        else return stage;
      } catch (...) {
        throw pipeline_error(current_failure(place->name, {}));
      }
    };
    constexpr node_traits traits{.is_stateless = stateless<stage_type>,
                                 .is_one_to_one = one_to_one<stage_type>,
                                 .keeps_over_epochs = keeps_over_epochs<stage_type>,
                                 .is_own = is_own_stage<stage_type>};
    return node<running, In, decltype(next), traits>(start(), *place, who.stages[counter], std::move(next));
  }
}

/// Calls f with each stage of a list, those inside parallel_stages one by one.
template <class List, class F>
void for_each_single_stage(const List& stages, F& f) {
  const auto one_or_more = [&]<class S>(const S& s) {
    if constexpr (is_parallel<S>) for_each_stage(s.stages, f);
    else if constexpr (!std::is_same_v<S, queue_place>) f(s);
  };
  for_each_stage(stages, one_or_more);
}

/// How many stages of a list make something of one sample alone: those before the first that makes it of several.
template <class... Stages>
consteval std::size_t stages_of_one_sample() {
  constexpr auto replays = []<class S>(const S*) {
    return is_parallel<S> || std::is_same_v<S, queue_place> || stateless<S> || hands_on_unchanged<S>;
  };
  std::size_t count = 0;
  bool all = true;
  ((all = all && replays(static_cast<const Stages*>(nullptr)), count += all), ...);
  return count;
}

/// Builds the chain of the stages from number First on, as far as there are `Last` of them, without those that hand
/// samples on as they are.
template <class In, std::size_t First, std::size_t Last, class List, class Sink>
auto make_sample_chain(const List& list, Sink sink, activity& who, const stage_place* place) {
  if constexpr (First == Last) {
    return sink;
  } else {
    const auto& stage = list.template get<First>();
    using stage_type = std::remove_cvref_t<decltype(stage)>;
    if constexpr (std::is_same_v<stage_type, queue_place> || hands_on_unchanged<stage_type>) {
      return make_sample_chain<In, First + 1, Last>(list, std::move(sink), who,
                                                    place + stages_in<stage_type>);
    } else {
      using out = typename output_after<In, stage_type>::type;
      const std::size_t number = place->number - 1; // of its counter
      auto rest =
          make_sample_chain<out, First + 1, Last>(list, std::move(sink), who, place + stages_in<stage_type>);
      if constexpr (is_parallel<stage_type>)
        return make_chain<In, 0, std::remove_cvref_t<decltype(stage.stages)>::size>(
            stage.stages, std::move(rest), who, number, place);
      else return make_chain<In, First, 1>(list, std::move(rest), who, number, place);
    }
  }
}

/// What the end of a chain is that belongs to no run.
class sample_sink {
 public:
  static constexpr bool is_measured = false;
  static constexpr bool has_room = false;

  explicit sample_sink(segment_progress& progress) : progress_(progress) {}

  sample_sink& sink() noexcept { return *this; }

  segment_progress& progress() noexcept { return progress_; }

  void begin_failure(std::size_t, bool, const noted_failure&) noexcept {}

  flow settle() noexcept { return flow::more; }

  void note_owed_cut() noexcept {}

  void begin_packet(std::uint64_t) noexcept {}

 private:
  segment_progress& progress_;
};

/// One thread's own copy of the first `Last` stages of a list, for samples that go through them outside of a run: to
/// be replayed, to be read again, or inside another stage. What is made of a sample goes to a Sink.
template <class In, std::size_t Last, class Sink, class... Stages>
class sample_worker {
 public:
  /// `rest`: the sink's arguments behind its segment_progress.
  template <class... Rest>
  sample_worker(std::string source_name, const stage_list<Stages...>& stages, std::uint64_t seed,
                on_error how, const std::stop_token& stop, Rest&&... rest)
      : context_{seed, how, false, stop},
        places_(make_places(std::move(source_name), stages)),
        who_(places_.size()),
        progress_(0),
        chain_(make_sample_chain<In, 0, Last>(stages, Sink(progress_, std::forward<Rest>(rest)...), who_,
                                              places_.data() + 1)) {
    chain_.begin_packet(~std::uint64_t{0}); // nowhere in a stream
  }

  sample_worker(sample_worker&&) = delete;

  flow push(sample<In>&& s) { return chain_.push(std::move(s)); }

  run_context& context() noexcept { return context_; }

 private:
  // Number 0 stands for the source; and behind the last stage there is one to point to.
  std::vector<stage_place> make_places(std::string source_name, const stage_list<Stages...>& stages) const {
    std::vector<stage_place> places{{context_, std::move(source_name), 0, false, false}};
    const auto add = [&](const auto& s) {
      places.push_back({context_, stage_name(s), places.size(), false, false});
    };
    for_each_single_stage(stages, add);
    places.push_back(places.back());
    return places;
  }

  using chain = decltype(make_sample_chain<In, 0, Last>(std::declval<const stage_list<Stages...>&>(),
                                                        std::declval<Sink>(), std::declval<activity&>(),
                                                        std::declval<const stage_place*>()));

  run_context context_;
  std::vector<stage_place> places_;
  activity who_;
  segment_progress progress_;
  chain chain_;
};

} // namespace feedline::detail
