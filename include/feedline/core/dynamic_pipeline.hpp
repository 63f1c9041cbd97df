// SPDX-License-Identifier: MIT
#pragma once
// dynamic_pipeline: a pipeline whose stages are chosen while the program runs.
#include <concepts>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <feedline/core/any_loader.hpp>
#include <feedline/core/epoch.hpp>
#include <feedline/core/pipeline.hpp>
#include <feedline/core/plan/composition.hpp>
#include <feedline/core/plan/segments.hpp>
#include <feedline/core/run/read_held.hpp>
#include <feedline/core/run/run_type.hpp>
#include <feedline/core/run/sample_finder.hpp>
#include <feedline/core/run/sample_worker.hpp>
#include <feedline/core/run/tables.hpp>
#include <feedline/core/sample.hpp>
#include <feedline/core/source.hpp>
#include <feedline/core/stage.hpp>
#include <feedline/core/transport/channel.hpp>
#include <feedline/detail/share.hpp>

namespace feedline::inline FEEDLINE_ABI {

namespace detail {

/// Begins to make the samples of an epoch again. Empty: they can't be made from one sample each.
template <class Item>
using start_again = std::function<std::unique_ptr<epoch_of_items<Item>>(
    const held_request& r, const epoch& e, const std::vector<wanted_sample>& wanted)>;

/// A stage that keeps samples, which knows how what it receives is made again.
template <class Stage, class Item>
class knows_upstream : public Stage {
 public:
  knows_upstream(const Stage& stage, start_again<Item> start) : Stage(stage), start_(std::move(start)) {}

  std::string whole_name() const { return stage_name(static_cast<const Stage&>(*this)); }

  const start_again<Item>& start() const noexcept { return start_; }

  knows_upstream for_run() const
    requires requires(const Stage& stage) { stage.for_run(); }
  {
    return {Stage::for_run(), start_};
  }

 private:
  start_again<Item> start_;
};

/// Stage number N of a list as it runs in such a pipeline, whose stages receive items of type Item.
template <class Item, class Stages, std::size_t N>
struct placed_stage {
  using stage = typename Stages::template element<N>;
  using in = typename Stages::template output_of_first<N, Item>;
  // A final class can't: what it held is made by going through all samples before.
  using type = typename std::conditional_t<keeps_samples<stage, in> && !std::is_final_v<stage>,
                                           std::type_identity<knows_upstream<stage, in>>,
                                           std::type_identity<stage>>::type;
};

template <class Stage, class Item>
std::shared_ptr<read_again> read_for(held_request request) {
  const void* const stage = request.stages[request.names.size() - 1].get();
  auto found = owned<read_again>(new samples_read_again<Item>());
  read_each_epoch(std::move(request), as<knows_upstream<Stage, Item>>(stage).start(), *found);
  return found;
}

/// Makes again what the first stages of a pipeline make, and what further stages make of it.
template <source Source, class Stages, class Item>
start_again<Item> again_from(Stages) {
  using first = source_item_t<Source>;
  if constexpr (stages_of_one_sample(Stages()) != Stages::size) return {};
  else
    return [](const held_request& r, const epoch& e, const std::vector<wanted_sample>& wanted) {
      return epoch_behind_first<first, Stages>(
          find_samples<Source, first>(r.source, e, wanted, r.context.stopped));
    };
}

template <class In, class... Stages>
auto again_behind(const start_again<In>& before, stages_before at, types<Stages...>) {
  using out = typename types<Stages...>::template output<In>;
  start_again<out> result;
  if constexpr (sizeof...(Stages) == 0) result = before;
  else if constexpr (stages_of_one_sample(types<Stages...>()) == sizeof...(Stages))
    if (before)
      result = [=](const held_request& r, const epoch& e, const std::vector<wanted_sample>& wanted) {
        return std::make_unique<epoch_behind<In, types<Stages...>>>(before(r, e, wanted), at);
      };
  return result;
}

/// Makes the queue between such a segment and the next one.
inline auto queue_after(const segment_traits& segment, bool to_workers) {
  if (segment.drops()) return &make_channel<transport::dropping>;
  switch (transport_between(segment.parallel, to_workers)) {
  case transport::spread:
    return &make_channel<transport::spread>;
  case transport::ordered:
    return &make_channel<transport::ordered>;
  case transport::ordered_spread:
    return &make_channel<transport::ordered_spread>;
  default:
    return &make_channel<transport::serial>;
  }
}

/// The stages of a dynamic pipeline and their types.
struct dynamic_stages {
  explicit dynamic_stages(const described_pipeline& p, const run_type& type)
      : source(p.source()),
        composed(p.stages()),
        stages(type.stages.begin(), type.stages.end()),
        segments(type.segments.begin(), type.segments.end()),
        run(type) {}

  void add_stage(const stage_type& type, const std::shared_ptr<const void>& described) {
    stages.push_back(type);
    composed.stages.push_back(described);
  }

  /// A stage that keeps samples.
  template <class In, class Stage>
  void add_holding(const std::shared_ptr<const void>& described, start_again<In> upstream) {
    using placed = knows_upstream<Stage, In>;
    stage_type type = type_of_stage<In, placed>();
    if (upstream) type.from_source = &read_for<Stage, In>;
    add_stage(type, share(placed(as<Stage>(described.get()), std::move(upstream))));
  }

  /// A segment has threads of its own, also if it is serial and the one before it is, too. A queue without stages belongs to the
  /// segment before it.
  void add_segment(const segment_type& type, const segment_description& described) {
    segment_type& last = segments.back();
    segment_description& last_described = composed.segments.back();
    if (type.stages == 0 && joins(last.traits, type.traits, 0)) {
      last.traits = last_described.traits = joined(last.traits, type.traits);
      last_described.capacity = described.capacity;
      last.make_queue = queue_after(last.traits, false);
      return;
    }
    last.make_queue = queue_after(last.traits, type.traits.parallel);
    segments.push_back(type);
    segments.back().make_queue = queue_after(type.traits, false);
    composed.segments.push_back(described);
  }

  /// Notes what these segments and stages change in the whole run.
  template <class... Segments, class... Stages>
  void add_facts(segment_list<Segments...> list, types<Stages...> all) {
    run.stages = stages;
    run.segments = segments;
    if (!are_ordered(list, all)) run.has = checkpoints::unordered;
    else if (list.drops && run.has != checkpoints::unordered) run.has = checkpoints::dropping;
    run.has_random_order |= have_random_order(all);
    run.drops |= list.drops;
    run.is_elastic &= (traits_of<Stages>().position_from_last_sample && ...);
  }

  std::shared_ptr<const void> source;
  composed_stages composed;
  stages_before before;
  std::vector<stage_type> stages;
  std::vector<segment_type> segments;
  run_type run; // refers to the lists
};

} // namespace detail

/// A pipeline to which stages are appended while the program runs, as a configuration or a script wants it: each stage is compiled
/// once for the type of its items, and follows any other that emits them.
///
///     fl::dynamic_pipeline<photo> photos(fl::tar_samples(shards) | fl::map(decode, fl::workers{4}));
///     if (shuffles) photos = photos.append(fl::shuffle({.capacity = 1'000}));
///     if (crops) photos = photos.append(fl::map(crop, fl::workers{2}));
///     fl::any_pipeline<fl::batch_of<photo>> batches = photos.append(fl::batch(32));
///
/// Its runs yield the same items as those of a pipeline with these stages, and fail with the same messages. Each call of append()
/// adds a queue and threads for its stages. An inexpensive value.
template <class Item>
class dynamic_pipeline {
 public:
  using item = Item; ///< the type of the items that a run yields

  /// Takes over the beginning of a pipeline.
  template <class Source, class... Segments>
    requires std::same_as<typename pipeline<Source, Segments...>::item, Item>
  explicit dynamic_pipeline(const pipeline<Source, Segments...>& p)
      : again_(
            detail::again_from<Source, typename pipeline<Source, Segments...>::segments::stage_types, Item>(
                {})) {
    const auto all = std::make_shared<detail::dynamic_stages>(p.described(), p.type());
    all->add_facts(detail::segment_list<>(), detail::types<>());
    [&]<class... Stages>(detail::types<Stages...>) {
      (all->before.add({detail::traits_of<Stages>().belongs_to_source, detail::makes_parts<Stages>}), ...);
    }(typename pipeline<Source, Segments...>::segments::stage_types());
    all_ = all;
  }

  /// The pipeline with further stages: one, or several that are joined by `|`, which share threads as in any pipeline.
  template <class Part>
  auto append(Part part) const {
    static_assert(
        !detail::changes_source<Part>,
        "feedline: `Part` isn't a stage, but changes the source: let it follow the source, and make the "
        "dynamic_pipeline of the result");
    if constexpr (detail::changes_source<Part>) return detail::refused_pipeline();
    else return append_row(detail::as_row(std::move(part)));
  }

  /// To run it.
  operator any_pipeline<Item>() const {
    return {all_->run,
            {std::shared_ptr<const void>(all_, all_->source.get()), detail::composed_stages(all_->composed)}};
  }

 private:
  template <class>
  friend class dynamic_pipeline;

  using shared_stages = std::shared_ptr<const detail::dynamic_stages>;

  dynamic_pipeline(shared_stages all, detail::start_again<Item> again)
      : all_(std::move(all)), again_(std::move(again)) {}

  template <class... Segments>
  auto append_row(const stage_row<Segments...>& row) const {
    using list = detail::segment_list<Segments...>;
    using stages = typename list::stage_types;
    using whole = typename detail::composition_of<dynamic_pipeline, Item, stages>::type;
    if constexpr (!whole::fits) {
      static_cast<void>(sizeof(typename whole::check));
      return detail::refused_pipeline();
    } else {
      const auto all = std::make_shared<detail::dynamic_stages>(*all_);
      [&]<std::size_t... I>(std::index_sequence<I...>) {
        (add_segment<list, I>(*all, row.composed.segments[I]), ...);
      }(std::make_index_sequence<list::size>());
      [&]<std::size_t... N>(std::index_sequence<N...>) {
        (add_stage<stages, N>(*all, row.composed.stages[N]), ...);
      }(std::make_index_sequence<stages::size>());
      all->add_facts(list(), stages());
      return dynamic_pipeline<typename stages::template output<Item>>(
          all, detail::again_behind(again_, all_->before, stages()));
    }
  }

  template <class List, std::size_t I>
  void add_segment(detail::dynamic_stages& all, const detail::segment_description& described) const {
    using stages = typename List::stage_types;
    constexpr std::size_t first = List::first_stage[I], end = List::first_stage[I + 1];
    using in = typename stages::template output_of_first<first, Item>;
    using out = typename stages::template output_of_first<end, Item>;
    [&]<std::size_t... N>(std::index_sequence<N...>) {
      using chain =
          typename detail::chain_of<in, detail::packer<out>, false,
                                    typename detail::placed_stage<Item, stages, first + N>::type...>::type;
      all.add_segment({.traits = List::traits[I],
                       .first_stage = all_->stages.size() + first,
                       .stages = end - first,
                       .item_size = sizeof(out),
                       .emits_batches = detail::comes_in_batches<out>,
                       .make_queue = nullptr,
                       .body = &detail::run_stages<in, chain>},
                      described);
    }(std::make_index_sequence<end - first>());
  }

  template <class Stages, std::size_t N>
  void add_stage(detail::dynamic_stages& all, const std::shared_ptr<const void>& described) const {
    using placed = detail::placed_stage<Item, Stages, N>;
    using stage = typename placed::stage;
    using in = typename placed::in;
    if constexpr (std::is_same_v<typename placed::type, stage>)
      all.add_stage(detail::type_of_stage<in, stage>(), described);
    else
      all.add_holding<in, stage>(
          described, detail::again_behind(again_, all_->before, typename Stages::template first<N>()));
    all.before.add({detail::traits_of<stage>().belongs_to_source, detail::makes_parts<stage>});
  }

  shared_stages all_;
  detail::start_again<Item> again_;
};

/// A dynamic pipeline that begins with this one.
template <class Source, class... Segments>
dynamic_pipeline(const pipeline<Source, Segments...>&)
    -> dynamic_pipeline<typename pipeline<Source, Segments...>::item>;

} // namespace feedline::inline FEEDLINE_ABI
