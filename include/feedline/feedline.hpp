// SPDX-License-Identifier: MIT
#pragma once
// Includes what most programs use. Each component has its own header next to this one.
#include <feedline/version.hpp> // first, as it says if the platform isn't supported

#include <feedline/common/detail/beginnings.hpp>
#include <feedline/core/any_loader.hpp>
#include <feedline/core/checkpoint.hpp>
#include <feedline/core/contract.hpp>
#include <feedline/core/loader.hpp>
#include <feedline/core/metrics.hpp>
#include <feedline/core/pipeline.hpp>
#include <feedline/core/stop_on_signal.hpp>
#include <feedline/core/workers.hpp>
#include <feedline/queue/mpmc_queue.hpp>
#include <feedline/queue/object_pool.hpp>
#include <feedline/queue/overflow.hpp>
#include <feedline/queue/reorder_queue.hpp>
#include <feedline/queue/spsc_queue.hpp>
#include <feedline/source/concat.hpp>
#include <feedline/source/files.hpp>
#include <feedline/source/generate.hpp>
#include <feedline/source/global_shuffle.hpp>
#include <feedline/source/indexed_lines.hpp>
#include <feedline/source/interleave.hpp>
#include <feedline/source/lines.hpp>
#include <feedline/source/lines_options.hpp>
#include <feedline/source/mix.hpp>
#include <feedline/source/push_source.hpp>
#include <feedline/source/range.hpp>
#include <feedline/source/read_files.hpp>
#include <feedline/source/records.hpp>
#include <feedline/source/tar.hpp>
#include <feedline/source/with_replacement.hpp>
#include <feedline/source/zip.hpp>
#include <feedline/stage/batch.hpp>
#include <feedline/stage/batch_into.hpp>
#include <feedline/stage/bucket_batch.hpp>
#include <feedline/stage/concurrent_shuffle_buffer.hpp>
#include <feedline/stage/enumerate.hpp>
#include <feedline/stage/filter.hpp>
#include <feedline/stage/flat_map.hpp>
#include <feedline/stage/map.hpp>
#include <feedline/stage/partition.hpp>
#include <feedline/stage/prefetch.hpp>
#include <feedline/stage/shuffle.hpp>
#include <feedline/stage/skip.hpp>
#include <feedline/stage/split.hpp>
#include <feedline/stage/take.hpp>
#include <feedline/stage/tap.hpp>
#include <feedline/stage/windows.hpp>

/// @namespace feedline
/// The library: sources, stages, and what runs them.
