// SPDX-License-Identifier: MIT
#pragma once
// One sample once more, as some run saw it: from the source through the stages, on the caller's thread.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <utility>
#include <vector>

#include <feedline/core/detail/chain.hpp>
#include <feedline/core/detail/find_samples.hpp>
#include <feedline/core/detail/plan.hpp>
#include <feedline/core/detail/progress.hpp>
#include <feedline/core/failure.hpp>
#include <feedline/core/options.hpp>

namespace feedline::detail {

/// Where the chain of a replay ends.
template <class T>
class replay_sink {
 public:
  static constexpr bool is_measured = false;
  static constexpr bool has_room = false;

  replay_sink(segment_progress& progress, std::uint32_t part, std::optional<T>& found, failure_ptr& failed)
      : progress_(progress), part_(part), found_(found), failed_(failed) {}

  flow push(sample<T>&& s) {
    if (s.id.part != part_ || found_) return flow::more;
    found_.emplace(std::move(s.value));
    return flow::stop;
  }

  flow skipped(failure_ptr f) { return fail(std::move(f)); }

  flow fail(failure_ptr f) {
    if (!found_ && !failed_) failed_ = std::move(f);
    return flow::stop;
  }

  flow end_epoch(std::uint32_t, bool) { return flow::stop; }

  flow begin_refill(std::size_t) { return flow::stop; }

  flow end_refill() { return flow::stop; }

  replay_sink& sink() noexcept { return *this; }

  segment_progress& progress() noexcept { return progress_; }

  void attach() noexcept {}

  void load(state_reader&, const std::vector<held>&) noexcept {}

  void begin_packet(std::uint64_t) noexcept {}

  void publish() noexcept {}

 private:
  segment_progress& progress_;
  std::uint32_t part_;
  std::optional<T>& found_;
  failure_ptr& failed_;
};

/// How many stages of a list a replay goes through: up to the first that makes something of several samples.
template <class... Stages>
consteval std::size_t stages_to_replay() {
  constexpr auto replays = []<class S>(const S*) {
    return is_parallel<S> || std::is_same_v<S, queue_place> || stateless<S> || hands_on_unchanged<S>;
  };
  std::size_t count = 0;
  bool all = true;
  ((all = all && replays(static_cast<const Stages*>(nullptr)), count += all), ...);
  return count;
}

/// Builds the chain of the stages from number First on, as far as there are `Last` of them.
template <class In, std::size_t First, std::size_t Last, class List, class Sink>
auto make_replay_chain(const List& list, Sink sink, activity& who, const stage_place* place) {
  if constexpr (First == Last) {
    return sink;
  } else {
    const auto& stage = list.template get<First>();
    using stage_type = std::remove_cvref_t<decltype(stage)>;
    if constexpr (std::is_same_v<stage_type, queue_place>) {
      return make_replay_chain<In, First + 1, Last>(list, std::move(sink), who, place);
    } else {
      using out = typename output_after<In, stage_type>::type;
      const std::size_t number = place->number - 1; // of its counter
      auto rest =
          make_replay_chain<out, First + 1, Last>(list, std::move(sink), who, place + stages_in<stage_type>);
      if constexpr (is_parallel<stage_type>)
        return make_chain<In, 0, std::remove_cvref_t<decltype(stage.stages)>::size>(
            stage.stages, std::move(rest), who, number, place);
      else return make_chain<In, First, 1>(list, std::move(rest), who, number, place);
    }
  }
}

template <source Source, class... Stages>
auto replay(const Source& described, const stage_list<Stages...>& stages, const run_options& options,
            std::uint32_t epoch, std::uint64_t index, std::uint32_t part) {
  constexpr std::size_t count = stages_to_replay<Stages...>();
  using result = typename output_after_first<count, source_item_t<Source>, Stages...>::type;
  const run_context context{options.seed, on_error::fail, false, {}};
  std::vector<stage_place> places{{context, stage_name(described), 0, false, false}};
  const auto add = [&]<class S>(const S& s) {
    places.push_back({context, stage_name(s), places.size(), false, false});
  };
  const auto add_all = [&]<class S>(const S& s) {
    if constexpr (is_parallel<S>) for_each_stage(s.stages, add);
    else if constexpr (!std::is_same_v<S, queue_place>) add(s);
  };
  for_each_stage(stages, add_all);
  activity who(places.size());
  segment_progress progress(0);
  progress.refills = segment_progress::for_replay;
  std::optional<result> found;
  failure_ptr failed;
  places.push_back(places.back()); // so that there is one behind the last stage to point to
  auto chain = make_replay_chain<source_item_t<Source>, 0, count>(
      stages, replay_sink<result>(progress, part, found, failed), who, places.data() + 1);
  chain.begin_packet(~std::uint64_t{0}); // nowhere in a stream
  Source source(described);
  start_source(source, make_epoch(options, epoch, {}, 0));
  find_samples(source, {{index, 1}}, context.stopped, [&](source_item_t<Source>&& value, std::uint64_t at) {
    chain.push(sample<source_item_t<Source>>{std::move(value), {at, 0, epoch}});
    return true;
  });
  if (failed) {
    failed->origin = origin_of(described, index);
    throw_pipeline_error(*failed);
  }
  return found;
}

} // namespace feedline::detail
