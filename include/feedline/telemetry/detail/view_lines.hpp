// SPDX-License-Identifier: MIT
#pragma once
// The metrics of a run as lines of text, for a terminal or a log.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <ranges>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <feedline/core/metrics.hpp>
#include <feedline/telemetry/detail/terminal_text.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// What a terminal can show.
struct view_style {
  std::size_t width = 80;  ///< columns
  std::size_t height = 24; ///< lines
  bool utf8 = true;        ///< otherwise ASCII
  bool color = true;       ///< escape sequences for colours
};

/// A number in at most 5 columns: "0", "0.12", "12.3", "1234", "12.3k", "123M".
inline std::string compact_number(double value) {
  if (!(value >= 0) || value > 1e18) return "-";
  const char* unit = "";
  for (const char* larger : {"k", "M", "G", "T", "P"}) {
    if (value < 9999.5) break;
    value /= 1000;
    unit = larger;
    if (value < 999.5) break;
  }
  const int decimals = value == std::floor(value) || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  char text[40];
  std::snprintf(text, sizeof text, "%.*f%s", decimals, value, unit);
  return text;
}

inline std::string compact_number(std::uint64_t value) { return compact_number(static_cast<double>(value)); }

/// "12.3 us", "4.5 ms", "6 s"
inline std::string short_time(double seconds) {
  if (seconds >= 1) return compact_number(seconds) + " s";
  return seconds >= 1e-3 ? compact_number(seconds * 1e3) + " ms" : compact_number(seconds * 1e6) + " us";
}

/// "1:04", "2:03:04"
inline std::string clock_text(double seconds) {
  const std::uint64_t all = seconds >= 0 && seconds < 1e12 ? static_cast<std::uint64_t>(seconds) : 0;
  char text[60];
  if (all < 3600)
    std::snprintf(text, sizeof text, "%u:%02u", static_cast<unsigned>(all / 60),
                  static_cast<unsigned>(all % 60));
  else
    std::snprintf(text, sizeof text, "%llu:%02u:%02u", static_cast<unsigned long long>(all / 3600),
                  static_cast<unsigned>(all / 60 % 60), static_cast<unsigned>(all % 60));
  return text;
}

/// `part` of `all`, 0 to 1, whatever they are.
inline double fraction_of(double part, double all) {
  if (!(all > 0) || !(part > 0)) return 0;
  return part / all < 1 ? part / all : 1;
}

inline double per_second(std::uint64_t count, const interval_metrics& in) {
  return in.seconds > 0 ? static_cast<double>(count) / in.seconds : 0;
}

/// What the consumer gets, in the last interval and since the start; the parts that fit.
inline std::string headline(const metrics& m, bool has_ended, std::size_t width) {
  const interval_metrics &now = m.recent, &all = m.total;
  const auto waits = [](const interval_metrics& in) {
    return percent(fraction_of(in.consumer.waited, in.seconds));
  };
  std::string text = compact_number(per_second(now.consumer.items, now)) + " items/s";
  if (has_ended) text = "ended: " + text;
  for (const std::string& part :
       {", consumer waits " + waits(now),
        "; since the start " + compact_number(per_second(all.consumer.items, all)) + " items/s",
        ", waits " + waits(all),
        "; " + compact_number(all.consumer.items) + " items in " + clock_text(all.seconds)})
    if (text.size() + part.size() <= width) text += part;
    else break;
  return text;
}

/// Collects the lines of a view, and decides which of them fit.
class view_page {
 public:
  view_page(const metrics& m, const view_style& style, bool has_ended)
      : m_(m), style_(style), has_ended_(has_ended) {}

  std::vector<std::string> lines() {
    add_headline();
    add_bottleneck();
    for (const failure_count& f : m_.total.failures | std::views::take(3))
      add(segment, fit(compact_number(f.count) + "x " + f.stage + ": " + f.message, style_.width), red);
    choose_columns();
    if (level_ > 0)
      add_row(heading, "pipeline", dim(fit("last second", bar_)), "now", "start", "items/s", "start", "mean",
              "failed");
    for (std::size_t i = 0; i < segments(); ++i) add_segment(i);
    add_consumer();
    add_legend();
    const std::size_t height = std::max<std::size_t>(style_.height, 1);
    int whole = user_numbers; // all lines up to this rank fit, and some of the next
    while (whole > 0 && count(whole) > height) --whole;
    std::size_t room = height - count(whole);
    std::vector<std::string> chosen;
    for (line& l : lines_)
      if (l.rank <= whole || (l.rank == whole + 1 && room > 0 && room-- > 0))
        chosen.push_back(std::move(l.text));
    return chosen;
  }

 private:
  /// From the most important to the first that is left out.
  enum line_rank { summary, essential, segment, heading, queue, stage, buffer, user_numbers };

  struct line {
    int rank;
    std::string text;
  };

  static constexpr const char *plain = "", *bold = "1", *faint = "2", *red = "31", *yellow = "33";

  std::string colored(const std::string& text, const char* color) const {
    return style_.color && *color != 0 ? "\033[" + std::string(color) + "m" + text + "\033[0m" : text;
  }

  std::string dim(const std::string& text) const { return colored(text, faint); }

  const char* either(const char* utf8, const char* ascii) const { return style_.utf8 ? utf8 : ascii; }

  std::size_t count(int most) const {
    return static_cast<std::size_t>(
        std::ranges::count_if(lines_, [most](const line& l) { return l.rank <= most; }));
  }

  void add(int rank, const std::string& text, const char* color = plain) {
    lines_.push_back({rank, colored(text, color)});
  }

  /// The text in a column: cut if it is too long, and padded if it is too short.
  std::string fit(const std::string& raw, std::size_t width) const {
    const std::string text = visible_text(raw, style_.utf8), dots = either("…", "...");
    const std::size_t used = text_columns(text), cut = text_columns(dots);
    if (used <= width) return text + std::string(width - used, ' ');
    if (width <= cut) return std::string(first_columns(text, width));
    const std::string begin(first_columns(text, width - cut));
    return begin + std::string(width - cut - text_columns(begin), ' ') + dots;
  }

  std::string fit_right(const std::string& text, std::size_t width) const {
    if (width == 0) return {};
    return text.size() < width ? std::string(width - text.size(), ' ') + text : " " + fit(text, width - 1);
  }

  void add_headline() {
    const std::string mark = either("━━ ", "== "), dash = either("━", "=");
    const std::size_t room = style_.width > 24 ? style_.width - 4 : style_.width;
    std::string text = fit(headline(m_, has_ended_, room), room);
    text.erase(text.find_last_not_of(' ') + 1);
    if (room < style_.width) {
      std::size_t rest = room - text_columns(text);
      text = mark + text + " ";
      for (; rest > 0; --rest) text += dash;
    }
    add(summary, text, bold);
  }

  void add_bottleneck() {
    std::string rest = visible_text(m_.recent.bottleneck, style_.utf8);
    for (int n = 0; n < 3 && !rest.empty(); ++n) {
      std::string_view begin = first_columns(rest, style_.width);
      const std::size_t space = begin.rfind(' ');
      const bool is_cut = begin.size() < rest.size();
      if (is_cut && n < 2 && space != begin.npos && space > 0) begin = begin.substr(0, space);
      if (is_cut && n == 2) begin = rest;
      const std::string text = fit(std::string(begin), style_.width);
      rest.erase(0, begin.size());
      rest.erase(0, rest.find_first_not_of(' '));
      add(n < 2 ? essential : stage, text, yellow);
    }
  }

  std::size_t segments() const { return std::min(m_.recent.segments.size(), m_.total.segments.size()); }

  std::size_t stages() const { return std::min(m_.recent.stages.size(), m_.total.stages.size()); }

  bool has_failures() const {
    return std::ranges::any_of(m_.total.stages, [](const stage_metrics& s) { return s.failures > 0; });
  }

  /// "map `decode`", or "decode" if there is no room for all names.
  std::string stage_name(const std::string& name) const {
    const std::size_t begin = name.find('`'), end = name.rfind('`');
    if (!is_short_ || begin == end || name.find(" + ") != name.npos) return name;
    return name.substr(begin + 1, end - begin - 1);
  }

  /// With the number of its workers, which stays if the name is too long.
  std::string segment_name(const segment_metrics& s, std::size_t room) const {
    const std::string workers = s.parallel ? either(" ×", " x") + std::to_string(s.active) : "";
    const std::size_t rest = room - std::min(room, text_columns(workers));
    const std::string name = stage_name(s.name);
    return fit(name, std::min(rest, text_columns(visible_text(name, style_.utf8)))) + workers;
  }

  /// The columns of numbers that leave enough room for names and bars.
  void choose_columns() {
    std::size_t longest = 12, longest_stage = 0;
    for (const segment_metrics& s : m_.recent.segments) {
      longest = std::max(longest, text_columns(segment_name(s, 1000)));
      if (s.name.find(" + ") == s.name.npos)
        longest_stage = std::max(longest_stage, text_columns(segment_name(s, 1000)));
    }
    for (const stage_metrics& s : m_.recent.stages)
      longest_stage = std::max(longest_stage, 2 + text_columns(visible_text(s.name, style_.utf8)));
    longest = std::max(longest, longest_stage);
    std::size_t rest = style_.width;
    const auto take = [&](std::size_t& column, std::size_t width, std::size_t least) {
      if (rest >= width + least) rest -= column = width;
    };
    take(level_, 11, 9);
    take(rate_, 8, 16);
    if (has_failures()) take(failed_, 7, 20);
    take(level_start_, 6, 28);
    take(rate_start_, 7, 34);
    take(mean_, 9, 31);
    name_ = std::min(longest, rest < 20 ? rest : std::max<std::size_t>(rest * 3 / 5, 12));
    bar_ = rest - name_ > 5 ? std::min<std::size_t>(rest - name_ - 1, 60) : 0;
    if (bar_ == 0) name_ = std::min(longest, rest);
    is_short_ = longest_stage > name_;
  }

  void add_row(int rank, const std::string& name, const std::string& bar, const std::string& level,
               const std::string& level_start, const std::string& rate, const std::string& rate_start,
               const std::string& mean, const std::string& failed) {
    const bool is_header = rank == heading, is_inner = name.starts_with(' ');
    std::string text = fit(name, name_), numbers = fit_right(level, level_);
    if (is_header || is_inner) text = dim(text);
    if (bar_ > 0) text += " " + bar;
    const auto add_number = [&](const std::string& number, std::size_t width, const char* color) {
      numbers += colored(fit_right(number, width), color);
    };
    add_number(level_start, level_start_, faint);
    add_number(rate, rate_, plain);
    add_number(rate_start, rate_start_, faint);
    add_number(mean, mean_, plain);
    add_number(failed, failed_, failed == "0" || is_header ? faint : red);
    add(rank, text + (is_header ? dim(numbers) : numbers));
  }

  struct share {
    const char *name, *utf8, *ascii, *color;
    double worker_metrics::*part;
  };

  static constexpr std::array<share, 5> shares{{{"busy", "█", "#", "32", &worker_metrics::busy},
                                                {"starved", "░", ".", "34", &worker_metrics::starved},
                                                {"blocked", "▒", "|", "33", &worker_metrics::blocked},
                                                {"waiting", "▓", "~", "36", &worker_metrics::waiting},
                                                {"throttled", "×", "!", "35", &worker_metrics::throttled}}};

  std::string bar(const worker_metrics& w, double whole) const {
    std::string text;
    double before = 0;
    std::size_t done = 0;
    for (const share& s : shares) {
      before += fraction_of(w.*s.part, whole);
      const auto end = std::min(bar_, static_cast<std::size_t>(before * static_cast<double>(bar_) + 0.5));
      std::string cells;
      for (; done < end; ++done) cells += either(s.utf8, s.ascii);
      if (!cells.empty()) text += colored(cells, s.color);
    }
    return text + std::string(bar_ - done, ' ');
  }

  std::string fill_bar(double part) const {
    const auto filled = static_cast<std::size_t>(part * static_cast<double>(bar_) + 0.5);
    std::string full, empty;
    for (std::size_t i = 0; i < bar_; ++i) {
      if (i < filled) full += either("━", "=");
      else empty += either("─", "-");
    }
    return colored(full, "36") + dim(empty);
  }

  void add_fill(int rank, const std::string& name, const gauge& now, const gauge& all, std::uint64_t capacity,
                const std::string& more = {}) {
    const auto most = static_cast<double>(capacity);
    const double filled = std::max(now.latest, 0.0);
    add_row(rank, name, fill_bar(fraction_of(filled, most)),
            compact_number(filled) + "/" + compact_number(capacity), percent(fraction_of(all.mean, most)), {},
            {}, more, {});
  }

  void add_segment(std::size_t index) {
    const segment_metrics &now = m_.recent.segments[index], &all = m_.total.segments[index];
    std::vector<std::size_t> own;
    for (std::size_t i = 0; i < stages(); ++i)
      if (m_.recent.stages[i].segment == index) own.push_back(i);
    const worker_metrics work = now.sum(), ever = all.sum();
    const double busy_now = fraction_of(work.busy, work.time()),
                 busy_ever = fraction_of(ever.busy, ever.time());
    if (own.size() == 1) {
      add_stage(segment, segment_name(now, name_), bar(work, work.time()), busy_now, busy_ever, own[0]);
    } else {
      add_row(segment, segment_name(now, name_), bar(work, work.time()), percent(busy_now),
              percent(busy_ever), {}, {}, {}, {});
      for (const std::size_t i : own) {
        const double part = fraction_of(m_.recent.stages[i].busy, work.time());
        add_stage(stage, "  " + stage_name(m_.recent.stages[i].name), bar({.busy = part}, 1), part,
                  fraction_of(m_.total.stages[i].busy, ever.time()), i);
      }
    }
    if (index < std::min(m_.recent.queues.size(), m_.total.queues.size())) {
      const queue_metrics &now_queue = m_.recent.queues[index], &all_time = m_.total.queues[index];
      add_fill(queue, either("  ↳ queue", "  > queue"), now_queue.fill, all_time.fill, now_queue.capacity,
               all_time.dropped > 0 ? compact_number(all_time.dropped) + " lost" : "");
    }
  }

  void add_stage(int rank, const std::string& name, const std::string& bar, double busy, double busy_ever,
                 std::size_t index) {
    const stage_metrics &now = m_.recent.stages[index], &all = m_.total.stages[index];
    const stage_times& time = now.time.timed > 0 ? now.time : all.time;
    add_row(rank, name, bar, percent(busy), percent(busy_ever),
            compact_number(per_second(now.emitted, m_.recent)),
            compact_number(per_second(all.emitted, m_.total)), time.timed > 0 ? short_time(time.mean) : "",
            compact_number(all.failures));
    if (all.capacity > 0) add_fill(buffer, "    buffer", now.held, all.held, all.capacity);
    std::string numbers;
    for (const user_metric& n : all.user_metrics)
      numbers += (numbers.empty() ? "    " : ", ") + n.name + " " + (n.value < 0 ? "-" : "") +
                 compact_number(std::abs(n.value));
    if (!numbers.empty()) add(user_numbers, fit(numbers, style_.width), faint);
  }

  void add_consumer() {
    const auto waits = [](const interval_metrics& in) { return fraction_of(in.consumer.waited, in.seconds); };
    const auto busy = [&](const interval_metrics& in) { return in.seconds > 0 ? 1 - waits(in) : 0; };
    add_row(essential, "consumer", bar({.busy = busy(m_.recent), .starved = waits(m_.recent)}, 1),
            percent(busy(m_.recent)), percent(busy(m_.total)),
            compact_number(per_second(m_.recent.consumer.items, m_.recent)),
            compact_number(per_second(m_.total.consumer.items, m_.total)), {}, {});
  }

  void add_legend() {
    std::string text;
    std::size_t used = 0;
    for (const share& s : shares) {
      const std::string name = std::string(" ") + s.name + "  ";
      if ((used += 1 + name.size()) > style_.width) break;
      text += colored(either(s.utf8, s.ascii), s.color) + dim(name);
    }
    if (bar_ > 0) add(heading, text);
  }

  const metrics& m_;
  const view_style style_;
  const bool has_ended_;
  std::vector<line> lines_;
  bool is_short_ = false; // names
  // Widths of columns; 0: left out.
  std::size_t name_ = 0, bar_ = 0, level_ = 0, level_start_ = 0, rate_ = 0, rate_start_ = 0, mean_ = 0,
              failed_ = 0;
};

/// At most `height` lines of at most `width` columns. If there is little room, the least important lines and columns are left
/// out; the first line is always there.
inline std::vector<std::string> view_lines(const metrics& m, const view_style& style, bool has_ended) {
  return view_page(m, style, has_ended).lines();
}

/// One line of any length.
inline std::string view_summary(const metrics& m, bool utf8, bool has_ended) {
  return "feedline: " + headline(m, has_ended, 200) + "; " + visible_text(m.recent.bottleneck, utf8);
}

} // namespace feedline::inline FEEDLINE_ABI::detail
