// SPDX-License-Identifier: MIT
#pragma once
// One sample once more, as some run saw it: from the source through the stages, on the caller's thread.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <type_traits>
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

  replay_sink(segment_progress& progress, std::uint64_t part, std::optional<T>& found, failure_ptr& failed)
      : progress_(progress), part_(part), found_(found), failed_(failed) {}

  flow push(sample<T>&& s) {
    if (s.id.part != part_ || found_) return flow::more;
    found_.emplace(std::move(s.value));
    return flow::stop;
  }

  flow skipped(failure_ptr f) { return fail(std::move(f)); }

  void begin_failure(std::size_t, bool, const noted_failure&) noexcept {}

  flow fail(failure_ptr f) {
    if (!found_ && !failed_) failed_ = std::move(f);
    return flow::stop;
  }

  flow end_epoch(const epoch_end&, bool) { return flow::stop; }

  flow begin_refill(std::size_t) { return flow::stop; }

  flow end_refill() { return flow::stop; }

  replay_sink& sink() noexcept { return *this; }

  segment_progress& progress() noexcept { return progress_; }

  void attach() noexcept {}

  void load(state_reader&, const held_parts&) noexcept {}

  void begin_packet(std::uint64_t) noexcept {}

  void publish() noexcept {}

 private:
  segment_progress& progress_;
  std::uint64_t part_;
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
            std::uint32_t epoch, std::uint64_t index, std::uint64_t part) {
  constexpr std::size_t count = stages_to_replay<Stages...>();
  using result = typename output_after_first<count, source_item_t<Source>, Stages...>::type;
  run_context context{options.seed, on_error::fail, false, options.stop};
  const auto stop = [&context] { context.stopped.store(true, std::memory_order_relaxed); };
  const std::stop_callback<decltype(stop)> at_stop(options.stop, stop);
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
  start_source(source, make_epoch(options, epoch, options.stop, 0));
  const auto take = [&](source_item_t<Source>&& value, std::uint64_t at) {
    chain.push(sample<source_item_t<Source>>{std::move(value), {at, 0, epoch}});
    return true;
  };
  const char* const gave_up = find_samples(source, {{index, 1}}, context.stopped, 100'000'000, take, [] {});
  if (gave_up)
    throw std::runtime_error("feedline: sample " + std::to_string(index) + " of epoch " +
                             std::to_string(epoch) + " was not found: the source " + gave_up +
                             "; if it has that sample, give the source a go_near()");
  if (failed) {
    failed->origin = origin_of(described, index);
    throw_pipeline_error(*failed);
  }
  return found;
}

} // namespace feedline::detail
