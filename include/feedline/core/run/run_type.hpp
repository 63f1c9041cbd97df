// SPDX-License-Identifier: MIT
#pragma once
// What a run knows of the types in its pipeline: tables of functions, one for each source, stage and segment.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include <feedline/core/epoch.hpp>
#include <feedline/core/plan/facts.hpp>
#include <feedline/core/plan/measure.hpp>
#include <feedline/core/plan/run_options.hpp>
#include <feedline/core/run/emitter.hpp>
#include <feedline/core/run/progress.hpp>
#include <feedline/core/sample.hpp>
#include <feedline/core/snapshot/held.hpp>
#include <feedline/core/source.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

class source_reader;

/// Whether a run has checkpoints, or why not.
enum class checkpoints : std::uint8_t {
  always,
  unordered,
  dropping,
  live,
  unknown ///< the run knows it
};

struct source_type {
  bool is_live;
  bool can_be_resumed; // its samples can be read again
  rank_division division;
  segment_size (*size)(const void* source); // with its name
  std::uint64_t (*extent)(const void* source);
  /// How many samples it yields in the first epoch; nothing if that isn't known.
  std::optional<std::uint64_t> (*samples_in_epoch)(const void* source, const run_options& options);
  std::string (*origin)(const void* source, std::uint64_t index);
  std::uint64_t (*fingerprint)(const void* source, std::uint64_t extent, const std::stop_token& stop);
  std::string (*parameters)(const void* source);
  std::string (*outage)(const void* source);
  std::shared_ptr<const void> (*in_run)(const void* source, const std::stop_token& stop);
  /// Reads it for workers; null if they can't read it at the same time. The references must stay valid.
  std::shared_ptr<source_reader> (*reader)(const void* source, const run_options& options,
                                           const run_context& context, source_place& at);
  /// The number of positions of an epoch; null, with the next one, if a sample doesn't determine a position.
  std::uint64_t (*places)(const void* source, const epoch& e);
  /// The position, in the epoch's order, of the sample with that index, which belongs to the rank. One that has wrapped around
  /// counts after all others.
  std::uint64_t (*number_of)(const void* source, const epoch& e, std::uint64_t index);
};

/// Samples that a stage held at a checkpoint, to be read again.
struct held_request {
  const void* source;
  const std::shared_ptr<const void>* stages;
  std::vector<std::string> names; // of the source and of the stages up to that one
  std::vector<sample_id> ids;
  std::size_t threads; // at most
  const run_options& options;
  const run_context& context;
};

struct stage_type {
  stage_facts (*facts)(const void* stage, known_bytes in, std::uint64_t ranks);
  /// How many items it emits in an epoch in which it receives `items`; null: that isn't known.
  std::uint64_t (*output_count)(const void* stage, std::uint64_t items, bool drains);
  bool is_stored; // checkpoints can contain the items that it receives
  std::shared_ptr<const void> (*for_run)(const void* stage); // null: all runs share it
  /// The samples that it held, from a checkpoint with their values; null if there is none.
  std::shared_ptr<read_again> (*from_values)(const held_parts& held, std::size_t place);
  /// The same, read from the source; null if they can't be.
  std::shared_ptr<read_again> (*from_source)(held_request request);
};

/// What a run knows of its pipeline's type.
struct run_type {
  const source_type& source;
  std::span<const stage_type> stages;
  std::span<const segment_type> segments;
  checkpoints has;
  bool has_random_order;
  bool drops;      // some queue may drop samples
  bool is_elastic; // the last delivered sample determines the position of the whole run
};

} // namespace feedline::inline FEEDLINE_ABI::detail
