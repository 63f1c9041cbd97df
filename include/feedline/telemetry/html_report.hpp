// SPDX-License-Identifier: MIT
#pragma once
// A report of a run, as one HTML file.
#include <cstddef>
#include <span>
#include <string>

#include <feedline/core/memory_plan.hpp>
#include <feedline/core/metrics.hpp>
#include <feedline/core/processors.hpp>
#include <feedline/telemetry/recorder.hpp>

namespace feedline::inline FEEDLINE_ABI {

struct shuffle_report; // of shuffle_quality.hpp

/// The report of a run as an HTML page, without scripts or anything from a network. It has findings(total, processors), the
/// pipeline as a picture, times and fills over the recorded intervals, the consumer's waits, failures by cause, and the memory
/// plan beside what was held; `shuffle` adds how well the samples are shuffled. Names and messages may contain any bytes.
std::string to_html(std::span<const recorded_interval> intervals, const interval_metrics& total,
                    const memory_plan& plan, std::size_t processors = feedline::processors(),
                    const shuffle_report* shuffle = nullptr);

/// Writes the report of what the recorder has recorded so far. The file is complete or, after an error, as it was before: it is
/// written under another name, then renamed. Throws std::system_error, which names the file, if that fails.
void html_report(const recorder& run, const std::string& path, const shuffle_report* shuffle = nullptr);

} // namespace feedline::inline FEEDLINE_ABI

#ifndef FEEDLINE_COMPILED
#include <feedline/telemetry/html_report.ipp>
#endif
