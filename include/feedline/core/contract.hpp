// SPDX-License-Identifier: MIT
#pragma once
// What a source or a stage includes of the core, besides pipeline.hpp where it makes pipelines: the contracts of both, what they
// are made of, and standard headers that many of them use.
//
// What sources and stages have is described at the concepts `source`, `indexed_samples` and `stage_for`, and at their traits. The
// library's own have some of the following too, which may change with any version.
//
// A source:
// - in_run(stop): a run reads it from now on, until it destroys what this returns;
// - left_out(), filters(): how many samples of this epoch the stages inside it have left out, and the names of those that may;
// - share(), place_of(i), sample_at(place), index_at(place), find(index): see dealt_source. Workers that follow directly read
//   such a source themselves. It may have repetition_at(i), is_ready(place), bool will_need(place), and number_of(index), with
//   which a run can be resumed on another number of ranks;
// - size_of_first(extent), of indexed samples: how many samples the first files have;
// - seeks(): whether its seek() leads to a sample without reading all that came before, where that isn't known at compile time;
// - next_row(span), with the type feedline_rows: writes several values and returns how many. Their indices count up to index().
//
// A stage:
// - bind<In>(info): makes the object that runs for items of type In, which has `output` and is called as a stage is;
// - static fits<In>(): whether it can follow, see fit. Of an item that it refuses, unfit_field<In>() names the field at fault, and
//   the alias check_inside<Before, In> the check of its inner stages;
// - name(), whole_name(): what stands behind its kind in messages, or instead of it;
// - fingerprint_of_ranks(ranks): a hash of what it does differently where ranks divide the samples;
// - bytes_given<In>(in), items_begun<In>(), and, if it is a part of the library, bytes_gathered<In>(in) with unknown(),
//   samples_in_one(), notes(), state_bytes(): what a memory plan asks, see item_bytes.hpp and measure.hpp.
//
// The object that runs:
// - begin_packet(place): the place of its next item in the stream, or ~0 where it has none;
// - at_rest(): whether its state may be saved now;
// - resumed(), after its state was read, and metrics(out), as a source has;
// - convert(in, context), keeps(in, context), or room() and commit(ids, emit): with the type feedline_rows, it takes rows of
//   values, see row.hpp.
//
// Types that mark a class: feedline_part (of the library), feedline_changes_source (it has changed(pipeline), which replaces the
// source before it), feedline_runs_stages (other stages run inside it, and it may call emit.failed(failure)), feedline_view (a
// value that owns nothing), feedline_batch, feedline_held_samples (see held_samples).
#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <feedline/core/callback.hpp>
#include <feedline/core/epoch.hpp>
#include <feedline/core/failure.hpp>
#include <feedline/core/half.hpp>
#include <feedline/core/held_samples.hpp>
#include <feedline/core/item_bytes.hpp>
#include <feedline/core/memory_plan.hpp>
#include <feedline/core/options.hpp>
#include <feedline/core/parts.hpp>
#include <feedline/core/permutation.hpp>
#include <feedline/core/processors.hpp>
#include <feedline/core/random.hpp>
#include <feedline/core/rank.hpp>
#include <feedline/core/sample.hpp>
#include <feedline/core/samples_in_order.hpp>
#include <feedline/core/slot.hpp>
#include <feedline/core/source.hpp>
#include <feedline/core/stage.hpp>
#include <feedline/core/state.hpp>
#include <feedline/core/stored_value.hpp>
#include <feedline/core/tensor.hpp>
