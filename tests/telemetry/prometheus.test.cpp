// SPDX-License-Identifier: MIT
// Metrics in Prometheus's text format: the numbers are those of the run, and every line is what a scraper accepts.
#include <feedline/telemetry/prometheus.hpp>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <feedline/feedline.hpp>

#include "support/catch.hpp"
#include "support/program_outcome.hpp"
#include "support/temporary_folder.hpp"

namespace fl = feedline;

namespace {

/// What a scraper reads: the value of each series, and the types of the families.
struct scraped {
  std::map<std::string, double> series;
  std::map<std::string, std::string> types;

  double at(const std::string& name) const {
    const auto found = series.find(name);
    if (found == series.end()) throw std::logic_error("no series " + name);
    return found->second;
  }
};

/// Throws what is wrong with a line.
scraped scrape(const std::string& text) {
  scraped all;
  std::istringstream lines(text);
  std::string line, family, helped;
  while (std::getline(lines, line)) {
    const auto refuse = [&](const std::string& why) { throw std::logic_error(why + ": " + line); };
    std::istringstream words(line);
    std::string hash, what, name;
    if (line.starts_with("# ")) {
      words >> hash >> what >> name;
      if (what == "HELP") helped = name;
      if (what != "TYPE") continue;
      if (name != helped) refuse("a family without help");
      std::string type;
      words >> type;
      if (!all.types.emplace(name, type).second) refuse("a family that stands twice");
      family = name;
      continue;
    }
    const std::size_t space = line.rfind(' ');
    const std::string key = line.substr(0, space);
    const std::string base = key.substr(0, key.find('{'));
    std::set<std::string> names{family};
    if (all.types[family] == "histogram") names = {family + "_bucket", family + "_sum", family + "_count"};
    if (all.types[family] == "summary") names.insert({family + "_sum", family + "_count"});
    if (!names.contains(base)) refuse("a number of another family");
    if (base.size() < key.size() && key.back() != '}') refuse("labels without an end");
    std::size_t used = 0;
    const double value = std::stod(line.substr(space + 1), &used);
    if (used != line.size() - space - 1) refuse("no number");
    if (!all.series.emplace(key, value).second) refuse("a series that stands twice");
  }
  return all;
}

fl::metrics finished_run() {
  std::vector<int> numbers(100);
  std::iota(numbers.begin(), numbers.end(), 0);
  auto loader = (fl::from(numbers) |
                 fl::map(
                     [](int n, fl::context& c) {
                       if (n % 10 == 0) c.count("tens");
                       c.gauge("half", 0.5);
                       if (n == 50) throw std::runtime_error("unlucky");
                       return n;
                     },
                     fl::name{"look"}) |
                 fl::shuffle({.capacity = 20}) |
                 fl::map([](int n) { return n; }, fl::workers{2}, fl::name{"work"}) | fl::batch(10))
                    .finite({.seed = 1, .on_error = fl::on_error::skip});
  while (loader.next()) continue;
  return loader.metrics();
}

/// What promtool says; nothing if it isn't installed or is content.
std::string complaints(const std::string& text) {
#ifdef FEEDLINE_PROMTOOL
  const fl::test::temporary_folder folder;
  std::ofstream(folder / "metrics") << text;
  const auto outcome =
      fl::test::run_command(FEEDLINE_PROMTOOL " check metrics < " + (folder / "metrics"), folder);
  return outcome.status == 0 ? outcome.log : "failed: " + outcome.log;
#else
  CHECK(std::getenv("CI") == nullptr); // there it is
  static_cast<void>(text);
  return {};
#endif
}

} // namespace

TEST_CASE("Prometheus gets the numbers of a run") {
  const fl::metrics m = finished_run();
  const std::string text = to_prometheus(m);
  CAPTURE(text);
  const scraped all = scrape(text);
  CHECK(all.at("feedline_consumer_items_total") == 10);
  CHECK(all.at("feedline_run_seconds") == m.total.seconds);
  CHECK(all.at(R"(feedline_stage_received_items_total{stage="map `look`"})") == 100);
  CHECK(all.at(R"(feedline_stage_emitted_items_total{stage="map `look`"})") == 99);
  CHECK(all.at(R"(feedline_stage_failures_total{stage="map `look`"})") == 1);
  CHECK(all.at(R"(feedline_stage_failures_total{stage="shuffle"})") == 0);
  CHECK(all.at(R"(feedline_stage_capacity_samples{stage="shuffle"})") == 20);
  CHECK(all.at(R"(feedline_user_events_total{stage="map `look`",name="tens"})") == 10);
  CHECK(all.at(R"(feedline_user_value{stage="map `look`",name="half"})") == 0.5);
  CHECK(all.at(R"(feedline_workers{threads="map `work`"})") == 2);
  CHECK(all.at(R"(feedline_worker_seconds_total{threads="map `work`",worker="1",state="busy"})") >= 0);
  CHECK(all.at(R"(feedline_queue_put_items_total{queue="map `work` -> batch"})") == 99);
  CHECK(all.at(R"(feedline_queue_fill_items{queue="map `work` -> batch"})") == 0);
  const double timed = all.at(R"(feedline_stage_item_seconds_count{stage="map `look`"})");
  CHECK(timed == static_cast<double>(m.total.stages[1].time.timed));
  CHECK(all.at(R"(feedline_stage_item_seconds_sum{stage="map `look`"})") ==
        Approx(m.total.stages[1].time.mean * timed));
  CHECK(all.types.at("feedline_stage_item_seconds") == "summary");
  CHECK(complaints(text) == "");
}

TEST_CASE("The histogram counts each item in all buckets above it, up to infinity") {
  fl::metrics m;
  m.total.consumer.items = 7;
  m.total.consumer.mean_queued = 2;
  m.total.consumer.queued = {{0x1p10 * 1e-9, 1}, {0x1p11 * 1e-9, 2}, {0x1p12 * 1e-9, 1}, {0x1p37 * 1e-9, 3}};
  const std::string text = to_prometheus(m);
  CAPTURE(text);
  const scraped all = scrape(text);
  const std::string bucket = "feedline_consumer_queued_seconds_bucket{le=\"";
  CHECK(all.at(bucket + "1.024e-06\"}") == 1);
  CHECK(all.at(bucket + "4.096e-06\"}") == 4);
  CHECK(all.at(bucket + "1.6384e-05\"}") == 4);
  CHECK(all.at(bucket + "68.719476736\"}") == 4);
  CHECK(all.at(bucket + "+Inf\"}") == 7);
  CHECK(all.at("feedline_consumer_queued_seconds_count") == 7);
  CHECK(all.at("feedline_consumer_queued_seconds_sum") == 14);
  CHECK(complaints(text) == "");
}

TEST_CASE("Names with quotes, line ends and bytes that aren't UTF-8 arrive as labels") {
  const auto label_of = [](const std::string& name) {
    fl::metrics m;
    m.total.stages.push_back({name});
    const std::string text = to_prometheus(m);
    CHECK(complaints(text) == "");
    for (const auto& [key, value] : scrape(text).series)
      if (key.starts_with("feedline_stage_failures_total{stage=\"")) return key.substr(37, key.size() - 39);
    throw std::logic_error("no such series");
  };
  CHECK(label_of("a \"b\" \\ {c}, d=1") == R"(a \"b\" \\ {c}, d=1)");
  CHECK(label_of("two\nlines") == R"(two\nlines)");
  CHECK(label_of("") == "");
  CHECK(label_of("Größe 語 \xf0\x9f\x90\x8e") == "Größe 語 \xf0\x9f\x90\x8e");
  const std::string unknown = "\xef\xbf\xbd";
  CHECK(label_of("\x80") == unknown);                                           // not a first byte
  CHECK(label_of("\xc3") == unknown);                                           // cut off
  CHECK(label_of("\xc3(") == unknown + "(");                                    // not a second byte
  CHECK(label_of("\xc0\xaf") == unknown + unknown);                             // a long form
  CHECK(label_of("\xe0\x80\xaf") == unknown + unknown + unknown);               // a long form
  CHECK(label_of("\xed\xa0\x80") == unknown + unknown + unknown);               // a surrogate
  CHECK(label_of("\xf0\x80\x80\x80") == unknown + unknown + unknown + unknown); // a long form
  CHECK(label_of("\xf4\x90\x80\x80") == unknown + unknown + unknown + unknown); // above U+10FFFF
  CHECK(label_of("\xf5") == unknown);
}

TEST_CASE("Several loaders share the families and differ by a label") {
  const fl::named_metrics both[] = {{"training", finished_run()}, {"evaluation \"1\"", {}}};
  const std::string text = fl::to_prometheus(both);
  CAPTURE(text);
  const scraped all = scrape(text);
  CHECK(all.at(R"(feedline_consumer_items_total{loader="training"})") == 10);
  CHECK(all.at(R"(feedline_consumer_items_total{loader="evaluation \"1\""})") == 0);
  CHECK(all.at(R"(feedline_stage_received_items_total{loader="training",stage="batch"})") == 99);
  CHECK(complaints(text) == "");
  CHECK(to_prometheus(std::span<const fl::named_metrics>()).empty());
}

TEST_CASE("Numbers are written in full, also those that aren't finite") {
  fl::metrics m;
  m.total.stages.push_back({"s"});
  m.total.stages[0].emitted = std::numeric_limits<std::uint32_t>::max();
  m.total.stages[0].user_metrics = {{"nan", std::numeric_limits<double>::quiet_NaN(), fl::gauge{}},
                                    {"inf", -std::numeric_limits<double>::infinity(), fl::gauge{}},
                                    {"tenth", 0.1, fl::gauge{}}};
  const std::string text = to_prometheus(m);
  CHECK(text.find("{stage=\"s\",name=\"nan\"} NaN\n") != text.npos);
  CHECK(text.find("{stage=\"s\",name=\"inf\"} -Inf\n") != text.npos);
  CHECK(text.find("{stage=\"s\",name=\"tenth\"} 0.1\n") != text.npos);
  CHECK(scrape(text).at("feedline_stage_emitted_items_total{stage=\"s\"}") == 4294967295);
  CHECK(complaints(text) == "");
}

TEST_CASE("A run that hasn't begun has all zeros") {
  const std::string text = to_prometheus(fl::metrics{});
  for (const auto& [name, value] : scrape(text).series) CHECK(value == 0);
  CHECK(complaints(text) == "");
}
