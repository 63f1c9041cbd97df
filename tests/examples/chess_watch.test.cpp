// SPDX-License-Identifier: MIT
// The table of stages and queues of the chess training, on a terminal of 80 columns.
#include "../../examples/chess_training/watch.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

#include "support/catch.hpp"

namespace fl = feedline;

namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

/// The line with this beginning, with single spaces.
std::string line_of(const std::string& text, const std::string& begin) {
  for (const std::string& line : lines_of(text)) {
    if (!line.starts_with(begin)) continue;
    std::string words;
    std::istringstream stream(line);
    for (std::string word; stream >> word;) words += (words.empty() ? "" : " ") + word;
    return words;
  }
  return "no line";
}

/// A pool and two stages that share their workers, and a queue after each segment.
fl::interval_metrics pipeline(double seconds, std::uint64_t items) {
  fl::interval_metrics m;
  m.seconds = seconds;
  m.segments = {{"pool", false, 1, {{}}}, {"loader + validator", true, 3, {{}, {}, {}}}};
  m.stages = {{"sliding_window_pool", 0, items, 1}, {"map `chunk loader`", items, items, 2}};
  m.stages.push_back({"map `chunk validator`", items, items, 0});
  m.stages[0].user_metrics = {{"chunks", 500},
                              {"indexed", 40.0 * seconds},
                              {"indexing seconds", 1.5 * seconds},
                              {"index threads", 2}};
  m.stages[0].busy = 0.25 * seconds;
  m.stages[1].busy = 2 * seconds;
  m.stages[1].segment = m.stages[2].segment = 1;
  m.stages[1].user_metrics = {{"unreadable", 2}};
  m.queues = {{"pool -> loader", 64, items, items - 10, 0, {.mean = 7.5}},
              {"loader -> consumer", 32, items, items, 3, {.mean = 2}}};
  return m;
}

} // namespace

TEST_CASE("The view shows the load of each stage in threads, in the last second and since the start") {
  const std::string table = chess::to_table({pipeline(100, 20'000), pipeline(0.5, 300)});
  INFO(table);
  CHECK(line_of(table, "sliding_window_pool") == "sliding_window_pool 1 0.25 600 0.25 200 20000");
  CHECK(line_of(table, "  indexing") == "indexing 2 1.50 40 1.50 40 4000");
  CHECK(line_of(table, "chunk loader") == "chunk loader 3 2.00 600 2.00 200 20000");
  CHECK(line_of(table, "chunk validator") == "chunk validator 3 0.00 600 0.00 200 20000");
  CHECK(table.find("    1 bad, chunks 500, indexed 4000\n") != std::string::npos);
  CHECK(table.find("    2 bad, unreadable 2\n    last second: 2 bad, unreadable 2\n") != std::string::npos);
}

TEST_CASE("The view shows for each queue the items put, taken and dropped, and its fill level") {
  const std::string table = chess::to_table({pipeline(100, 20'000), pipeline(0.5, 300)});
  INFO(table);
  CHECK(line_of(table, "1 ") == "1 64 600 580 0 7.5 20000 19990 0 7.5");
  CHECK(line_of(table, "2 ") == "2 32 600 600 6 2 20000 20000 3 2");
  CHECK(lines_of(chess::to_table({})).size() == 5); // without data: only headings
}

TEST_CASE("The view fits into 40 lines of 80 characters, whatever the numbers") {
  fl::interval_metrics m = pipeline(1, 987'654'321'987);
  m.stages[1].name = "map `a stage whose name is longer than its column is`";
  while (m.stages.size() < 8) m.stages.push_back(m.stages.back());
  for (int i = 0; i < 12; ++i) m.stages[3].user_metrics.push_back({"cause number " + std::to_string(i), 1e9});
  m.stages[3].failures = 12'000'000'000;
  m.queues.resize(5, m.queues.front());
  const auto lines = lines_of(chess::to_table({m, m}));
  CHECK(lines.size() < 40);
  for (const std::string& line : lines) {
    INFO(line);
    CHECK(line.size() <= 80);
  }
}

TEST_CASE("Numbers of the view are short") {
  CHECK(chess::short_number(0) == "0");
  CHECK(chess::short_number(7.25) == "7.2");
  CHECK(chess::short_number(99.96) == "100");
  CHECK(chess::short_number(99'999) == "99999");
  CHECK(chess::short_number(100'000) == "100.0k");
  CHECK(chess::short_number(1'234'567) == "1235k");
  CHECK(chess::short_number(9.87e12) == "9870G");
}
