// SPDX-License-Identifier: MIT
#pragma once
// Charts as HTML and SVG, without scripts: the curves stretch with the page, the texts around them don't.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <feedline/core/metrics.hpp>
#include <feedline/detail/function_ref.hpp>
#include <feedline/detail/utf8.hpp>
#include <feedline/telemetry/recorder.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// A coordinate, to a tenth.
inline std::string tenth(double value) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, std::round(value * 10) / 10).ptr};
}

/// Text for HTML: its markup is escaped, control characters become \xNN, bytes that aren't UTF-8 become U+FFFD. Texts of
/// more than 600 bytes are shortened.
inline std::string html_text(std::string_view text) {
  constexpr std::string_view hex = "0123456789abcdef";
  constexpr std::size_t most = 600;
  const bool is_long = text.size() > most;
  std::string out;
  for (std::size_t at = 0; at < std::min(text.size(), most);) {
    std::string_view rest = text.substr(at);
    const char32_t c = next_character(rest);
    const std::size_t length = text.size() - at - rest.size();
    const auto byte = static_cast<unsigned char>(text[at]);
    const bool is_control = c >= 0x80 && c < 0xa0;
    const bool turns_text = (c >= 0x202a && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
    if (c == 0xfffd || is_control || turns_text) out += replacement_character;
    else if (byte < 0x20 || byte == 0x7f) ((out += "\\x") += hex[byte >> 4]) += hex[byte & 15];
    else if (byte == '&') out += "&amp;";
    else if (byte == '<') out += "&lt;";
    else if (byte == '>') out += "&gt;";
    else if (byte == '"') out += "&quot;";
    else out += text.substr(at, length);
    at += length;
  }
  return is_long ? out + "…" : out;
}

/// Three significant digits, without zeros at the end; "12,345"; "?" for what isn't finite.
inline std::string short_number(double value) {
  if (!std::isfinite(value) || std::abs(value) > 1e18) return "?";
  if (value >= 1000) return grouped(static_cast<std::uint64_t>(value + 0.5));
  std::string text = signed_digits(value);
  if (text.find('.') == text.npos) return text;
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

/// "1.5 ms"
inline std::string seconds_text(double seconds) {
  if (seconds == 0) return "0 s";
  if (seconds < 1e-3) return short_number(seconds * 1e6) + " µs";
  return seconds < 1 ? short_number(seconds * 1e3) + " ms" : short_number(seconds) + " s";
}

/// A number over the time, of some neighbouring intervals.
struct chart_point {
  double begin = 0, end = 0; ///< seconds of the recording
  double mean = 0, least = 0, most = 0;
};

/// At most `most` points of equally many intervals each. `value` returns the number of an interval, in `mean`, `least` and
/// `most`; nothing: it has none.
inline std::vector<chart_point>
points_of(std::span<const recorded_interval> intervals, std::size_t most,
          function_ref<std::optional<feedline::gauge>(const interval_metrics&)> value) {
  std::vector<chart_point> all;
  const std::size_t group = std::max<std::size_t>(1, (intervals.size() + most - 1) / most);
  for (; !intervals.empty(); intervals = intervals.subspan(std::min(group, intervals.size()))) {
    const auto some = intervals.first(std::min(group, intervals.size()));
    chart_point p{some.front().end - some.front().metrics.seconds, some.back().end};
    double count = 0;
    for (const recorded_interval& i : some) {
      const auto v = value(i.metrics);
      if (!v || !std::isfinite(v->mean + v->least + v->most)) continue;
      p.least = count == 0 ? v->least : std::min(p.least, v->least);
      p.most = count == 0 ? v->most : std::max(p.most, v->most);
      p.mean += v->mean;
      ++count;
    }
    if (count == 0) continue;
    p.mean /= count;
    all.push_back(p);
  }
  return all;
}

/// A table. Cells are HTML; the first of each row is its header.
inline std::string html_table(std::span<const std::string_view> head,
                              const std::vector<std::vector<std::string>>& rows) {
  std::string text = "<div class=\"table\" tabindex=\"0\"><table><thead><tr>";
  for (const std::string_view name : head) ((text += "<th scope=\"col\">") += name) += "</th>";
  text += "</tr></thead><tbody>\n";
  for (const auto& row : rows) {
    text += "<tr>";
    for (std::size_t i = 0; i < row.size(); ++i)
      text += i == 0 ? "<th scope=\"row\">" + row[i] + "</th>" : "<td>" + row[i] + "</td>";
    text += "</tr>\n";
  }
  return text + "</tbody></table></div>\n";
}

/// What the charts of a page have in common.
class chart_page {
 public:
  /// All charts over the time have the axis of these intervals.
  explicit chart_page(std::span<const recorded_interval> intervals) : intervals_(intervals) {
    if (intervals.empty()) return;
    begin_ = intervals.front().end - intervals.front().metrics.seconds;
    end_ = intervals.back().end;
  }

  /// The mean as a curve, and the range around it. `text` formats a value, with its unit.
  std::string curve(std::string_view name, function_ref<std::string(double)> text,
                    function_ref<std::optional<feedline::gauge>(const interval_metrics&)> value,
                    double top = 0) {
    const auto points = points_of(intervals_, 300, value);
    double highest = 0, least = points.empty() ? 0 : points.front().least, sum = 0;
    for (const chart_point& p : points) {
      least = std::min(least, p.least);
      highest = std::max(highest, p.most);
      sum += p.mean;
    }
    if (top <= 0) top = highest > 0 ? highest : 1;
    const std::string description = points.empty() ? "No values."
                                                   : "Between " + text(least) + " and " + text(highest) +
                                                         ", on average " +
                                                         text(sum / static_cast<double>(points.size())) + ".";
    std::vector<std::vector<std::string>> rows;
    for (const chart_point& p : points_of(intervals_, 12, value))
      rows.push_back({seconds_text(p.end), text(p.mean), text(p.least), text(p.most)});
    const std::string_view head[] = {"up to", "mean", "least", "most"};
    return figure(name, description,
                  "<polygon class=\"range\" points=\"" +
                      steps(points, false, [&](std::size_t i) { return points[i].most / top; }) +
                      steps(points, true, [&](std::size_t i) { return points[i].least / top; }) +
                      "\"/><polyline points=\"" +
                      steps(points, false, [&](std::size_t i) { return points[i].mean / top; }) + "\"/>",
                  text(top), time_axis(), html_table(head, rows));
  }

  /// Parts of a whole as areas on one another; `value` returns the part of that number; NaN: it is unknown.
  std::string areas(std::string_view name, std::span<const std::string_view> parts,
                    function_ref<double(const interval_metrics&, std::size_t part)> value) {
    std::string shapes, description;
    std::vector<std::vector<std::string>> rows;
    std::vector<double> below;
    for (std::size_t part = 0; part < parts.size(); ++part) {
      const auto fraction = [&](const interval_metrics& m) {
        const double f = value(m, part);
        return std::optional(feedline::gauge{f, f, f, f});
      };
      const auto points = points_of(intervals_, 300, fraction), few = points_of(intervals_, 12, fraction);
      below.resize(points.size());
      const std::string lower = steps(points, true, [&](std::size_t i) { return below[i]; });
      double sum = 0;
      for (std::size_t i = 0; i < points.size(); ++i) {
        below[i] += points[i].mean;
        sum += points[i].mean;
      }
      rows.resize(few.size());
      for (std::size_t i = 0; i < few.size(); ++i) {
        if (part == 0) rows[i].push_back(seconds_text(few[i].end));
        rows[i].push_back(percent(few[i].mean));
      }
      if (sum == 0) continue;
      ((shapes += "<polygon class=\"") += parts[part]) += "\" points=\"";
      shapes += steps(points, false, [&](std::size_t i) { return below[i]; }) + lower + "\"/>";
      (description += parts[part]) += " " + percent(sum / static_cast<double>(points.size())) + "; ";
    }
    std::vector<std::string_view> head{"up to"};
    head.insert(head.end(), parts.begin(), parts.end());
    return figure(name, description.empty() ? "No values." : "On average " + description, shapes, "100 %",
                  time_axis(), html_table(head, rows));
  }

  /// A histogram. Each bar has a name, with its unit.
  std::string bars(std::string_view name, std::string_view axis,
                   const std::vector<std::pair<std::string, std::uint64_t>>& all) {
    std::uint64_t most = 0;
    for (const auto& [bar, count] : all) most = std::max(most, count);
    const double step = width / static_cast<double>(std::max<std::size_t>(1, all.size()));
    std::string shapes;
    std::vector<std::vector<std::string>> rows;
    const std::pair<std::string, std::uint64_t>* highest = nullptr;
    double left = 0;
    for (const auto& bar : all) {
      const double part = most > 0 ? static_cast<double>(bar.second) / static_cast<double>(most) : 0;
      const double top = bar.second > 0 ? std::max(1.0, height * part) : 0; // a single item is visible
      shapes += "<rect x=\"" + tenth(left + step * 0.08) + "\" y=\"" + tenth(height - top) + "\" width=\"" +
                tenth(step * 0.84) + "\" height=\"" + tenth(top) + "\"/>";
      left += step;
      rows.push_back({html_text(bar.first), grouped(bar.second)});
      if (!highest || bar.second > highest->second) highest = &bar;
    }
    const auto label = [&](std::size_t i) {
      return "<span>" + (i < all.size() ? html_text(all[i].first) : "") + "</span>";
    };
    const std::string_view head[] = {axis, "count"};
    return figure(
        name,
        most > 0 ? "Most, " + grouped(highest->second) + ", are in the bar “" + highest->first + "”."
                 : "No values.",
        shapes, most > 0 ? grouped(most) : "",
        label(0) + "<span>" + html_text(axis) + "</span>" + label(all.size() - 1), html_table(head, rows));
  }

 private:
  static constexpr double width = 600, height = 100; // of an SVG, in its own units

  std::string figure(std::string_view name, const std::string& description, const std::string& shapes,
                     std::string_view top, const std::string& x_axis, const std::string& table) {
    const std::string id = std::to_string(++figures_), title = html_text(name);
    return "<figure><figcaption>" + title +
           "</figcaption>\n<div class=\"plot\"><div class=\"y\" aria-hidden=\"true\"><span>" +
           html_text(top) + "</span><span>0</span></div><svg role=\"img\" aria-labelledby=\"t" + id +
           "\" aria-describedby=\"d" + id +
           "\" viewBox=\"0 0 600 100\" preserveAspectRatio=\"none\"><title id=\"t" + id + "\">" + title +
           "</title><desc id=\"d" + id + "\">" + html_text(description) + "</desc>" + shapes +
           "</svg><div class=\"x\" aria-hidden=\"true\">" + x_axis +
           "</div></div>\n<details><summary>Numbers</summary>" + table + "</details></figure>\n";
  }

  /// The corners of a line that has one step for each point, for values from 0 to 1.
  std::string steps(const std::vector<chart_point>& points, bool backwards,
                    function_ref<double(std::size_t)> value) const {
    std::string corners;
    for (std::size_t k = 0; k < points.size(); ++k) {
      const std::size_t i = backwards ? points.size() - 1 - k : k;
      const std::string begin = tenth(x(points[i].begin)), end = tenth(x(points[i].end));
      const std::string y = "," + tenth(height * (1 - std::clamp(value(i), 0.0, 1.0))) + " ";
      corners += (backwards ? end + y + begin : begin + y + end) + y;
    }
    return corners;
  }

  std::string time_axis() const {
    return "<span>" + seconds_text(begin_ < 0.01 * end_ ? 0 : begin_) + "</span><span>time</span><span>" +
           seconds_text(end_) + "</span>";
  }

  double x(double at) const { return end_ > begin_ ? width * (at - begin_) / (end_ - begin_) : 0; }

  std::span<const recorded_interval> intervals_;
  double begin_ = 0, end_ = 0;
  std::size_t figures_ = 0; // so that each has its own ids
};

} // namespace feedline::inline FEEDLINE_ABI::detail
