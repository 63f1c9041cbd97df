// SPDX-License-Identifier: MIT
#pragma once
// All definitions of telemetry/: see feedline/implementation.hpp.
#ifndef FEEDLINE_COMPILED
#error "Compile this file and all others that include feedline with -DFEEDLINE_COMPILED"
#endif
#include <feedline/telemetry/findings.ipp>
#include <feedline/telemetry/html_report.ipp>
#include <feedline/telemetry/live_view.ipp>
#include <feedline/telemetry/prometheus.ipp>
#include <feedline/telemetry/recorder.ipp>
#include <feedline/telemetry/shuffle_quality.ipp>
#include <feedline/telemetry/trace.ipp>
#include <feedline/telemetry/tune.ipp>
