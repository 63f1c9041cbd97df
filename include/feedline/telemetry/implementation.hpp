// SPDX-License-Identifier: MIT
#pragma once
// All definitions of telemetry/: see feedline/implementation.hpp.
#define FEEDLINE_DEFINES_TELEMETRY
#include <feedline/detail/definitions.hpp>

#include <feedline/telemetry/findings.hpp>
#include <feedline/telemetry/html_report.hpp>
#include <feedline/telemetry/live_view.hpp>
#include <feedline/telemetry/prometheus.hpp>
#include <feedline/telemetry/recorder.hpp>
#include <feedline/telemetry/shuffle_quality.hpp>
#include <feedline/telemetry/trace.hpp>
#include <feedline/telemetry/tune.hpp>
