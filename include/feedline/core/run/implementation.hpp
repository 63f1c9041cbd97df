// SPDX-License-Identifier: MIT
#pragma once
// All definitions of core/run/: see feedline/implementation.hpp.
#define FEEDLINE_DEFINES_CORE_RUN
#include <feedline/detail/definitions.hpp>

#include <feedline/core/run/cpu_budget.hpp>
#include <feedline/core/run/dealer.hpp>
#include <feedline/core/run/delivery.hpp>
#include <feedline/core/run/elastic.hpp>
#include <feedline/core/run/failure_list.hpp>
#include <feedline/core/run/feed.hpp>
#include <feedline/core/run/metrics_collector.hpp>
#include <feedline/core/run/node_base.hpp>
#include <feedline/core/run/packer.hpp>
#include <feedline/core/run/pipeline_run.hpp>
#include <feedline/core/run/progress.hpp>
#include <feedline/core/run/read_held.hpp>
#include <feedline/core/run/run_link.hpp>
#include <feedline/core/run/sample_finder.hpp>
#include <feedline/core/run/sample_worker.hpp>
#include <feedline/core/run/source_loop.hpp>
#include <feedline/core/run/source_reader.hpp>
#include <feedline/core/run/stage_outcomes.hpp>
#include <feedline/core/run/stream_position.hpp>
#include <feedline/core/run/waiting_for.hpp>
#include <feedline/core/run/worker_pool.hpp>
