// SPDX-License-Identifier: MIT
// The report is one well-formed page without scripts, with the numbers of the run, whatever names it contains; a browser shows
// it at each width.
#include <feedline/telemetry/html_report.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <sys/stat.h>
#include <unistd.h>

#include <feedline/feedline.hpp>

#include "support/catch.hpp"
#include "support/program_outcome.hpp"
#include "support/temporary_folder.hpp"

namespace fl = feedline;
using fl::test::contents_of;
using fl::test::temporary_folder;

namespace {

/// The text of a page without its tags. Throws what is wrong with it: a tag that isn't closed, markup in a text, an id that
/// stands twice, a reference to an id that doesn't exist, a script, or anything that a browser would fetch.
std::string text_of(std::string_view page) {
  const auto refuse = [](const std::string& why, std::string_view what) {
    throw std::logic_error(why + ": " + std::string(what.substr(0, 100)));
  };
  std::vector<std::string_view> open;
  std::set<std::string_view> ids, references;
  std::string text;
  constexpr std::string_view begin = "<!DOCTYPE html>\n";
  if (!page.starts_with(begin)) refuse("no document type", page);
  for (page.remove_prefix(begin.size()); !page.empty();) {
    if (page[0] != '<') {
      const std::string_view words = page.substr(0, page.find('<'));
      for (std::size_t at = 0; at < words.size(); ++at) {
        const auto code = static_cast<unsigned char>(words[at]);
        if (code == 0x7f || (code < ' ' && code != '\n')) refuse("a control character", words.substr(at));
        const auto is = [&](std::string_view entity) { return words.substr(at).starts_with(entity); };
        if (code == '&' && !is("&amp;") && !is("&lt;") && !is("&gt;") && !is("&quot;"))
          refuse("a bare &", words.substr(at));
      }
      if (open.empty() || open.back() != "style") (text += words) += '|';
      page.remove_prefix(words.size());
      continue;
    }
    const std::size_t end = page.find('>');
    if (end == page.npos) refuse("a tag without an end", page);
    std::string_view tag = page.substr(1, end - 1);
    page.remove_prefix(end + 1);
    if (tag.starts_with("/")) {
      if (open.empty() || open.back() != tag.substr(1)) refuse("closes what isn't open", tag);
      open.pop_back();
      continue;
    }
    const bool is_empty = tag.ends_with("/");
    if (is_empty) tag.remove_suffix(1);
    const std::string_view name = tag.substr(0, tag.find(' '));
    for (const char* bad : {"script", "link", "img", "iframe", "object"})
      if (name == bad) refuse("not allowed", tag);
    for (tag.remove_prefix(name.size()); !tag.empty();) {
      const std::size_t equals = tag.find("=\""), quote = tag.find('"', equals + 2);
      if (tag[0] != ' ' || equals == tag.npos || quote == tag.npos) refuse("not an attribute", tag);
      const std::string_view key = tag.substr(1, equals - 1),
                             value = tag.substr(equals + 2, quote - equals - 2);
      if (key == "href" || key == "src" || key.starts_with("on")) refuse("not allowed", tag);
      if (key == "id" && !ids.insert(value).second) refuse("an id that stands twice", tag);
      if (key == "aria-labelledby" || key == "aria-describedby") references.insert(value);
      tag.remove_prefix(quote + 1);
    }
    if (!is_empty) open.push_back(name);
  }
  if (!open.empty()) refuse("not closed", open.back());
  for (const std::string_view id : references)
    if (!ids.contains(id)) refuse("no such id", id);
  return text;
}

bool has(std::string_view text, std::string_view words) { return text.find(words) != text.npos; }

std::size_t count_of(std::string_view text, std::string_view words) {
  std::size_t count = 0;
  for (std::size_t at = text.find(words); at != text.npos; at = text.find(words, at + 1)) ++count;
  return count;
}

/// An interval of a run of two segments.
fl::interval_metrics interval(double seconds, std::uint64_t items) {
  fl::interval_metrics m;
  m.seconds = seconds;
  const auto samples = 16 * items;
  m.stages = {{"from", 0, samples}, {"map `decode`", samples, samples}, {"batch", samples, items}};
  m.stages[1].time = {samples, 1.25e-3, 2e-3, 3.5e-3};
  for (std::size_t i = 0; i < 3; ++i) m.stages[i].segment = i;
  m.segments = {{"from", false, 1, {{.busy = 0.02 * seconds, .blocked = 0.98 * seconds}}},
                {"map `decode`",
                 true,
                 2,
                 {2,
                  {.busy = 0.3 * seconds,
                   .waiting = 0.65 * seconds,
                   .preempted = 0.05 * seconds,
                   .throttled = 0.05 * seconds}}},
                {"batch", false, 1, {{.busy = 0.1 * seconds, .starved = 0.9 * seconds}}}};
  m.queues = {{"from -> map `decode`", 8, samples, samples, 0, {8, 6, 8, 7.5}},
              {"map `decode` -> batch", 64, samples, samples, 3, {1, 0, 33, 1.5}},
              {"batch -> consumer", 4, items, items, 0, {0, 0, 1, 0.5}}};
  m.consumer = {items,
                0.6 * seconds,
                1e-3,
                2.5e-4,
                5e-3,
                {{1.024e-6, 0}, {2.048e-6, items - 1}, {4.096e-6, 1}},
                {{1.024e-6, 903}, {0.131072, 331}}};
  m.bottleneck = "map `decode` waits in its function";
  return m;
}

std::vector<fl::recorded_interval> intervals_of(std::size_t count) {
  std::vector<fl::recorded_interval> all;
  for (std::size_t i = 1; i <= count; ++i)
    all.push_back({0.1 * static_cast<double>(i), interval(0.1, 1 + i % 7)});
  return all;
}

fl::memory_plan plan() {
  return {
      {{"held by shuffle", 200, 1000},
       {"map `decode` -> batch", 64, 1'000'000},
       {"batch -> caller", 4, std::nullopt, "the type std::string has no fixed size: add max_item_bytes"}}};
}

/// A page of the recording of a real run with failures, in a file.
std::string report_of_a_run(const temporary_folder& folder) {
  std::vector<int> numbers(320);
  std::iota(numbers.begin(), numbers.end(), 0);
  auto loader = (fl::from(numbers) | fl::shuffle({.capacity = 20}) |
                 fl::map(
                     [](int n) {
                       if (n % 64 == 0) throw std::runtime_error("no such <file>");
                       return n;
                     },
                     fl::workers{2}, fl::name{"decode & crop"}) |
                 fl::batch(10))
                    .finite({.seed = 1, .on_error = fl::on_error::skip});
  fl::recorder recorder(loader);
  while (loader.next()) continue;
  recorder.stop();
  html_report(recorder, folder / "report.html");
  return folder / "report.html";
}

} // namespace

TEST_CASE("The report has the numbers of the run") {
  const auto intervals = intervals_of(30);
  fl::interval_metrics total = interval(3, 1234);
  total.stages[1].failures = 1500;
  total.failures = {{"map `decode`", "rare", 1}, {"map `decode`", "no such file", 1499}};
  const std::string page = to_html(intervals, total, plan(), 64), text = text_of(page);
  for (const char* words : {"|3 s|",
                            "|1,234|",
                            "|411|",
                            "|60 %|",
                            "|1,500|",
                            "|unknown|", // the summary
                            "|map `decode` waits in its function|",
                            "map `decode` limits: its 2 workers",
                            "|× ", // what limits
                            "|busy 30 %, waiting 65 %, throttled 5 %, without a processor 5 %|",
                            "|2 threads|", // the picture
                            "6,581 items/s; queue filled to 1.5 of 64 on average; 3 dropped",
                            "waits 60 % of the", // its connections
                            "|1.25 ms|",
                            "|3.5 ms|",
                            "|19,744|", // stages
                            "|≤ 2.05 µs|",
                            "|1,233|",
                            "|≤ 131 ms|",
                            "|331|",
                            "waited 1.8 s in total",
                            "250 µs (med", // waits
                            "|no such file|",
                            "|1,499|",
                            "|rare|", // failures
                            "|held by shuffle|",
                            "|200.0 KB|",
                            "|64.0 MB|",
                            "|33|",
                            "|33.0 MB|", // memory
                            "add max_item_bytes|",
                            "|300 ms|",
                            "On average busy 30 %; waiting 65 %; "})
    if (!has(text, words)) CHECK(std::string("missing: ") + words == "");
  CHECK(text.find("|no such file|") < text.find("|rare|"));
  CHECK(count_of(page, "role=\"img\"") == count_of(page, "<title") - 1); // of the page
}

TEST_CASE("Runs without items, intervals, threads or a plan, and of one interval") {
  const std::string empty = text_of(fl::to_html({}, {}, {}));
  CHECK(has(empty, "|The consumer received no item"));
  CHECK(has(empty, "|No interval was recorded.|"));
  CHECK(has(empty, "|The run has no threads.|"));
  CHECK(has(empty, "|None.|"));
  for (std::size_t count = 1; count <= 3; ++count) {
    const auto intervals = intervals_of(count);
    const std::string page = to_html(intervals, interval(0.1, 2), {});
    text_of(page);
    for (const char* bad : {"nan", "inf,", "null"}) CHECK(!has(page, bad));
  }
  auto different = intervals_of(3); // fewer stages and no time
  different[1].metrics = {};
  const std::string page = to_html(different, interval(0.3, 2), {});
  text_of(page);
  CHECK(!has(page, "nan"));
}

TEST_CASE("A long recording gives curves of at most 600 points, with the extremes") {
  auto intervals = intervals_of(6000);
  intervals[3333].metrics.stages[1].time.mean = 0.77;
  const std::string page = to_html(intervals, interval(600, 24'000), plan());
  const std::string text = text_of(page);
  CHECK(page.size() < 1'000'000);
  CHECK(has(text, "|770 ms|"));
  CHECK(has(text, "|600 s|"));
  std::size_t curves = 0;
  for (std::size_t at = page.find("<polyline points=\""); at != page.npos;
       at = page.find("<polyline points=\"", at + 1)) {
    const std::string points = page.substr(at, page.find("/>", at) - at);
    CHECK(count_of(points, ",") == 600); // two for each of 300 groups
    ++curves;
  }
  CHECK(curves == 6);
}

TEST_CASE("Names and messages with any bytes stay texts") {
  const std::string name = "</title><script>alert(1)</script>&\"'\x01\n\x7f\x80\xc3\xc2\x85<!--";
  auto intervals = intervals_of(2);
  fl::interval_metrics total = interval(1, 10);
  total.bottleneck = name;
  for (fl::stage_metrics& s : total.stages) s.name = name;
  for (fl::segment_metrics& s : total.segments) s.name = name;
  for (fl::queue_metrics& q : total.queues) q.name = name;
  total.stages[1].failures = 100;
  total.failures = {{name, name, 100}};
  const std::string page = to_html(intervals, total, {{{name, 1, std::nullopt, name}}});
  const std::string text = text_of(page);
  CHECK(has(text, "|&lt;/title&gt;&lt;script&gt;alert(1)&lt;/"
                  "script&gt;&amp;&quot;'\\x01\\x0a\\x7f\xef\xbf\xbd\xef\xbf\xbd"
                  "\xef\xbf\xbd&lt;!--|"));
  total.failures[0].message = std::string(599, 'x') + "語語";
  CHECK(has(text_of(to_html({}, total, {})), std::string(599, 'x') + "語…|"));
}

TEST_CASE("Of many causes the most frequent are shown") {
  fl::interval_metrics total = interval(1, 10);
  for (std::size_t i = 0; i < 1000; ++i)
    total.failures.push_back({"map `decode`", "cause " + std::to_string(i), i});
  const std::string text = text_of(to_html({}, total, {}));
  CHECK(has(text, "|cause 999|"));
  CHECK(has(text, "|cause 950|"));
  CHECK(!has(text, "|cause 949|"));
  CHECK(has(text, "|950 more causes, each rarer, aren't shown.|"));
}

TEST_CASE("Numbers that aren't finite or too large are shown as unknown") {
  fl::interval_metrics total = interval(1, 10);
  total.queues[0].fill.mean = std::numeric_limits<double>::quiet_NaN();
  total.queues[1].fill.most = 1e300;
  auto intervals = intervals_of(5);
  intervals[2].metrics.queues[0].fill.mean = std::numeric_limits<double>::infinity();
  const std::string page = to_html(intervals, total, plan());
  CHECK(has(text_of(page), "filled to ? of 8"));
  for (const char* bad : {"nan", "inf,", "null"}) CHECK(!has(page, bad));
}

TEST_CASE("Texts contrast with their background, in light and dark") {
  const std::string page = fl::to_html({}, {}, {});
  const auto luminance = [&](std::string_view name, std::size_t from) { // as WCAG 2 defines it
    const std::size_t at = page.find("--" + std::string(name) + ": #", from);
    std::string hex = page.substr(at + name.size() + 5, page.find(';', at) - at - name.size() - 5);
    if (hex.size() == 3) hex = {hex[0], hex[0], hex[1], hex[1], hex[2], hex[2]};
    REQUIRE(hex.size() == 6);
    double sum = 0;
    const double weights[] = {0.2126, 0.7152, 0.0722};
    for (std::size_t i = 0; i < 3; ++i) {
      const double c = std::stoi(hex.substr(2 * i, 2), nullptr, 16) / 255.0;
      sum += weights[i] * (c <= 0.04045 ? c / 12.92 : std::pow((c + 0.055) / 1.055, 2.4));
    }
    return sum;
  };
  for (const std::size_t from : {std::size_t{0}, page.find("prefers-color-scheme: dark")})
    for (const char* text : {"ink", "quiet", "accent"})
      for (const char* background : {"paper", "card"}) {
        const auto [low, high] = std::minmax({luminance(text, from), luminance(background, from)});
        CAPTURE(text, background, from);
        CHECK((high + 0.05) / (low + 0.05) >= 4.5);
      }
}

TEST_CASE("The file of a recorded run") {
  const temporary_folder folder;
  folder.write("report.html", "an older report");
  const std::string page = contents_of(report_of_a_run(folder)), text = text_of(page);
  CHECK(has(text, "|from + shuffle|"));
  CHECK(has(text, "|map `decode &amp; crop`|"));
  CHECK(has(text, "|no such &lt;file&gt;|map `decode &amp; crop`|5|"));
  CHECK(!has(page, "older report"));
  CHECK(contents_of(folder / "report.html.feedline-draft").empty());
  // The queues of the metrics are those of the plan: what they held is shown.
  for (const char* part : {"|held by shuffle|", "|shuffle -&gt; map `decode &amp; crop`|",
                           "|map `decode &amp; crop` -&gt; batch|", "|batch -&gt; caller|"}) {
    const std::size_t at = text.find(part);
    CAPTURE(part);
    REQUIRE(at != text.npos);
    CHECK(!has(text.substr(at, text.find("\n", at + 1) - at), "–"));
  }
}

TEST_CASE("A report that can't be written names its path, and leaves no file") {
  const temporary_folder folder;
  auto loader = fl::from(std::vector{1, 2}).finite({.seed = 1});
  const fl::recorder recorder(loader);
  const auto error_of = [&](const std::string& path) {
    try {
      html_report(recorder, path);
    } catch (const std::system_error& e) {
      return std::string(e.what());
    }
    return std::string("none");
  };
  CHECK(error_of(folder / "no folder/re\nport.html") ==
        "can't write the report " + (folder / "no folder/re\\x0aport.html") + ": No such file or directory");
  REQUIRE(::mkdir((folder / "is a folder").c_str(), 0777) == 0);
  CHECK(has(error_of(folder / "is a folder"), "/is a folder: Is a directory"));
  CHECK(::access((folder / "is a folder.feedline-draft").c_str(), F_OK) != 0);
}

TEST_CASE("Chromium shows the report at each width, light, dark and printed") {
#ifdef FEEDLINE_CHROMIUM
  const temporary_folder folder;
  const std::string report = report_of_a_run(folder);
  const auto browse = [&](const std::string& options, const std::string& file) {
    const auto outcome = fl::test::run_command(
        "timeout 300 " FEEDLINE_CHROMIUM
        " --headless=new --no-sandbox --disable-gpu --hide-scrollbars --enable-logging=stderr "
        "--v=0 --user-data-dir=" +
            (folder / "profile") + " " + options + " file://" + file,
        folder);
    CAPTURE(outcome.log);
    CHECK(outcome.status == 0);
    return outcome.log;
  };
  // With the tables of numbers open. The script reports the page's width, which is all that the console has.
  std::string page = contents_of(report);
  for (std::size_t at = page.find("<details>"); at != page.npos; at = page.find("<details>", at + 1))
    page.insert(at + 8, " open");
  page.replace(page.find("</body>"), 7,
               "<script>onresize = () => console.log('width ' + document.documentElement.scrollWidth + ' of "
               "' + innerWidth);"
               "onresize()</script></body>");
  const std::string opened = folder.write("opened.html", page);
  const auto shoot = [&](const std::string& file, const std::string& width, const std::string& more = {}) {
    const std::string picture = folder / "picture.png";
    const std::string log = browse("--window-size=" + width + ",1600 --screenshot=" + picture + more, file);
    CAPTURE(log);
    CHECK(count_of(log, "CONSOLE") == count_of(log, "\"width "));
    if (file == opened)
      CHECK(has(log, "width " + width + " of " + width)); // nothing is wider than the window
    return contents_of(picture);
  };
  const std::string empty = shoot(folder.write("blank.html", "<!DOCTYPE html><title>blank</title>"), "1600");
  const std::string light = shoot(opened, "900"),
                    dark = shoot(opened, "900", " --blink-settings=preferredColorScheme=0");
  CHECK(light.starts_with("\x89PNG"));
  CHECK(dark != light);
  for (const std::string& picture : {light, dark, shoot(opened, "400"), shoot(opened, "1600")})
    CHECK(picture.size() > 5 * empty.size());
  browse("--print-to-pdf=" + (folder / "report.pdf"), report);
  CHECK(contents_of(folder / "report.pdf").starts_with("%PDF"));
#else
  CHECK(std::getenv("CI") == nullptr); // there it is
  WARN("left out: Chromium wasn't found: on Debian its package is chromium");
#endif
}
