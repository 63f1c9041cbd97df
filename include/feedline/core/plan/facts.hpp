// SPDX-License-Identifier: MIT
#pragma once
// What a run knows of its source, stages and segments without their types.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <feedline/core/item_bytes.hpp>
#include <feedline/core/plan/measure.hpp>
#include <feedline/core/plan/segments.hpp>
#include <feedline/core/stage.hpp>
#include <feedline/core/transport/channel.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

struct stage_facts {
  stage_size size;                                   // with its name
  std::optional<std::uint64_t> fingerprint;          // of its parameters
  std::optional<std::uint64_t> fingerprint_of_ranks; // likewise, with the number of ranks
  std::optional<std::size_t> items_at_once;          // for which it waits
  stage_traits traits;
  bool keeps_over_epochs;
  bool makes_of_one_sample;
  bool makes_parts;
  bool after_opaque = false; // what it receives can't be made again from a single sample
};

/// The facts of a stage of type S that receives items of type In with `in` bytes. `ranks`: their number in the run.
template <class In, class S>
stage_facts facts_of_stage(const void* described, known_bytes in, std::uint64_t ranks) {
  const S& stage = *static_cast<const S*>(described);
  stage_facts facts{.size = size_of_stage<In>(stage, in),
                    .fingerprint = {},
                    .fingerprint_of_ranks = {},
                    .items_at_once = {},
                    .traits = traits_of<S>(),
                    .keeps_over_epochs = keeps_over_epochs<S>,
                    .makes_of_one_sample = makes_of_one_sample<S>,
                    .makes_parts = makes_parts<S>};
  if constexpr (requires { stage.fingerprint(); }) facts.fingerprint = stage.fingerprint();
  if constexpr (requires { stage.fingerprint_of_ranks(ranks); })
    facts.fingerprint_of_ranks = stage.fingerprint_of_ranks(ranks);
  if constexpr (requires { stage.items_at_once(); }) facts.items_at_once = stage.items_at_once();
  return facts;
}

/// The facts of stages outside of a run, the first of which receives items of type In with `in` bytes.
template <class In, class... Stages>
std::vector<stage_facts> facts_of(types<Stages...>, const composed_stages& composed, known_bytes in) {
  std::vector<stage_facts> all;
  const auto add = [&](stage_facts facts) {
    in = facts.size.emitted;
    all.push_back(std::move(facts));
  };
  [&]<std::size_t... N>(std::index_sequence<N...>) {
    using list = types<Stages...>;
    (add(facts_of_stage<typename list::template output_of_first<N, In>, Stages>(composed.stages[N].get(), in,
                                                                                1)),
     ...);
  }(std::index_sequence_for<Stages...>());
  return all;
}

/// The bytes of the items between those stages and after the last, and of what the stages gather.
inline known_bytes bytes_inside(const std::vector<stage_facts>& stages) {
  known_bytes sum = 0;
  for (const stage_facts& f : stages) {
    sum = sum_of(sum, f.size.emitted);
    if (f.size.gathered) sum = sum_of(sum, f.size.gathered->bytes);
  }
  return sum;
}

/// The bytes that stages keep, for all workers together.
template <class... Stages>
known_bytes bytes_held_by(types<Stages...>, const composed_stages& composed) {
  known_bytes sum = 0;
  types<Stages...>::visit(composed, [&](const auto& stage) {
    if constexpr (requires { stage.bytes_held(); }) sum = sum_of(sum, stage.bytes_held());
  });
  return sum;
}

class pipeline_run;
struct thread_counters;

struct segment_type {
  segment_traits traits;
  std::size_t first_stage;
  std::size_t stages;
  std::size_t item_size; // of the type that it emits
  bool emits_batches;
  std::shared_ptr<channel_base> (*make_queue)(const channel_config&);
  /// What one of its threads does; null: it has no threads, because workers read the source themselves.
  void (*body)(pipeline_run& run, std::size_t segment, thread_counters& thread);
};

struct segment_facts : segment_type {
  worker_range workers;
  std::size_t capacity; // of the user's queue, in items
};

} // namespace feedline::inline FEEDLINE_ABI::detail
