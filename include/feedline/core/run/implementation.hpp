// SPDX-License-Identifier: MIT
#pragma once
// All definitions of core/run/: see feedline/implementation.hpp.
#ifndef FEEDLINE_COMPILED
#error "Compile this file and all others that include feedline with -DFEEDLINE_COMPILED"
#endif
#include <feedline/core/run/cpu_budget.ipp>
#include <feedline/core/run/dealer.ipp>
#include <feedline/core/run/delivery.ipp>
#include <feedline/core/run/elastic.ipp>
#include <feedline/core/run/failure_list.ipp>
#include <feedline/core/run/feed.ipp>
#include <feedline/core/run/metrics_collector.ipp>
#include <feedline/core/run/node_base.ipp>
#include <feedline/core/run/packer.ipp>
#include <feedline/core/run/pipeline_run.ipp>
#include <feedline/core/run/progress.ipp>
#include <feedline/core/run/read_held.ipp>
#include <feedline/core/run/run_link.ipp>
#include <feedline/core/run/sample_finder.ipp>
#include <feedline/core/run/sample_worker.ipp>
#include <feedline/core/run/source_loop.ipp>
#include <feedline/core/run/source_reader.ipp>
#include <feedline/core/run/stage_outcomes.ipp>
#include <feedline/core/run/stream_position.ipp>
#include <feedline/core/run/waiting_for.ipp>
#include <feedline/core/run/worker_pool.ipp>
