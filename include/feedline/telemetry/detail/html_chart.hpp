// SPDX-License-Identifier: MIT
#pragma once
// Charts as HTML and SVG, without scripts: the curves stretch with the page, the texts around them don't.
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <feedline/core/metrics.hpp>
#include <feedline/detail/function_ref.hpp>
#include <feedline/telemetry/recorder.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// Text for HTML: its markup is escaped, control characters become \xNN, bytes that aren't UTF-8 become U+FFFD. Texts of
/// more than 600 bytes are shortened.
std::string html_text(std::string_view text);

/// Three significant digits, without zeros at the end; "12,345"; "?" for what isn't finite.
std::string short_number(double value);

/// "1.5 ms"
std::string seconds_text(double seconds);

/// A number over the time, of some neighbouring intervals.
struct chart_point {
  double begin = 0, end = 0; ///< seconds of the recording
  double mean = 0, least = 0, most = 0;
};

/// At most `most` points of equally many intervals each. `value` returns the number of an interval, in `mean`, `least` and
/// `most`; nothing: it has none.
std::vector<chart_point>
points_of(std::span<const recorded_interval> intervals, std::size_t most,
          function_ref<std::optional<feedline::gauge>(const interval_metrics&)> value);

/// A table. Cells are HTML; the first of each row is its header.
std::string html_table(std::span<const std::string_view> head,
                       const std::vector<std::vector<std::string>>& rows);

/// What the charts of a page have in common.
class chart_page {
 public:
  /// All charts over the time have the axis of these intervals.
  explicit chart_page(std::span<const recorded_interval> intervals);

  /// The mean as a curve, and the range around it. `text` formats a value, with its unit.
  std::string curve(std::string_view name, function_ref<std::string(double)> text,
                    function_ref<std::optional<feedline::gauge>(const interval_metrics&)> value,
                    double top = 0);

  /// Parts of a whole as areas on one another; `value` returns the part of that number; NaN: it is unknown.
  std::string areas(std::string_view name, std::span<const std::string_view> parts,
                    function_ref<double(const interval_metrics&, std::size_t part)> value);

  /// A histogram. Each bar has a name, with its unit.
  std::string bars(std::string_view name, std::string_view axis,
                   const std::vector<std::pair<std::string, std::uint64_t>>& all);

 private:
  static constexpr double width = 600, height = 100; // of an SVG, in its own units

  std::string figure(std::string_view name, const std::string& description, const std::string& shapes,
                     std::string_view top, const std::string& x_axis, const std::string& table);
  /// The corners of a line that has one step for each point, for values from 0 to 1.
  std::string steps(const std::vector<chart_point>& points, bool backwards,
                    function_ref<double(std::size_t)> value) const;

  std::string time_axis() const;
  double x(double at) const;

  std::span<const recorded_interval> intervals_;
  double begin_ = 0, end_ = 0;
  std::size_t figures_ = 0; // so that each has its own ids
};

} // namespace feedline::inline FEEDLINE_ABI::detail

#ifndef FEEDLINE_COMPILED
#include <feedline/telemetry/detail/html_chart.ipp>
#endif
