// SPDX-License-Identifier: MIT
#pragma once
// The component feedline::telemetry: what a run does, for other programs and for people.
#include <feedline/telemetry/findings.hpp>
#include <feedline/telemetry/html_report.hpp>
#include <feedline/telemetry/live_view.hpp>
#include <feedline/telemetry/prometheus.hpp>
#include <feedline/telemetry/recorder.hpp>
#include <feedline/telemetry/shuffle_quality.hpp>
#include <feedline/telemetry/trace.hpp>
#include <feedline/telemetry/tune.hpp>
