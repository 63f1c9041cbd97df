// SPDX-License-Identifier: MIT
#pragma once
// All definitions of core/ except those of core/run/: see feedline/implementation.hpp.
#ifndef FEEDLINE_COMPILED
#error "Compile this file and all others that include feedline with -DFEEDLINE_COMPILED"
#endif
#include <feedline/core/callback.ipp>
#include <feedline/core/checkpoint.ipp>
#include <feedline/core/failure.ipp>
#include <feedline/core/held_samples.ipp>
#include <feedline/core/item_bytes.ipp>
#include <feedline/core/loader.ipp>
#include <feedline/core/memory_plan.ipp>
#include <feedline/core/metrics.ipp>
#include <feedline/core/metrics/gauge_counter.ipp>
#include <feedline/core/metrics/preemption.ipp>
#include <feedline/core/metrics/thread_counters.ipp>
#include <feedline/core/metrics/trace_ring.ipp>
#include <feedline/core/options.ipp>
#include <feedline/core/parts.ipp>
#include <feedline/core/permutation.ipp>
#include <feedline/core/pipeline.ipp>
#include <feedline/core/plan/measure.ipp>
#include <feedline/core/plan/place_share.ipp>
#include <feedline/core/plan/run_plan.ipp>
#include <feedline/core/plan/segments.ipp>
#include <feedline/core/processors.ipp>
#include <feedline/core/random.ipp>
#include <feedline/core/rank.ipp>
#include <feedline/core/retry.ipp>
#include <feedline/core/run_watch.ipp>
#include <feedline/core/snapshot/held.ipp>
#include <feedline/core/snapshot/known_failures.ipp>
#include <feedline/core/snapshot/value_hash.ipp>
#include <feedline/core/source.ipp>
#include <feedline/core/stop_on_signal.ipp>
#include <feedline/core/transport/channel.ipp>
#include <feedline/core/transport/dropping_queue.ipp>
#include <feedline/core/transport/packet.ipp>
#include <feedline/core/workers.ipp>
