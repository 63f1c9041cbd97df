// SPDX-License-Identifier: MIT
// Findings name what limits a run, and predict what a change brings: metrics made by hand, whose answer is known.
#include <feedline/telemetry/findings.hpp>

#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include "support/catch.hpp"

namespace fl = feedline;

namespace {

constexpr std::size_t many = 64; // processors

/// 100 s in which the consumer took 1000 items: a thread that is busy 1 s costs 1 ms of each item.
fl::interval_metrics run(double waited) {
  fl::interval_metrics m;
  m.seconds = 100;
  m.consumer.items = 1000;
  m.consumer.waited = waited;
  return m;
}

/// Adds a segment of stages with these busy seconds; all its threads have these times.
void add(fl::interval_metrics& m, std::vector<std::string> stages, std::size_t workers, bool parallel,
         const fl::worker_metrics& each, const std::vector<double>& busy = {}) {
  fl::segment_metrics s{{}, parallel, workers, std::vector<fl::worker_metrics>(workers, each)};
  for (std::size_t i = 0; i < stages.size(); ++i) {
    s.name += (i > 0 ? " + " : "") + stages[i];
    fl::stage_metrics stage{stages[i], 1000, 1000};
    stage.busy = i < busy.size() ? busy[i] : each.busy;
    stage.segment = m.segments.size();
    m.stages.push_back(stage);
  }
  m.segments.push_back(s);
}

/// A source that is ready whenever it is asked, two decoders with these times, and a batch stage that is busy for so long.
fl::interval_metrics decoding(double waited, const fl::worker_metrics& decode, double batch = 10,
                              std::size_t workers = 2) {
  fl::interval_metrics m = run(waited);
  add(m, {"from"}, 1, false, {.busy = 1, .blocked = 99});
  add(m, {"map `decode`"}, workers, true, decode);
  add(m, {"batch"}, 1, false, {.busy = batch, .starved = 100 - batch});
  m.queues = {{"from -> map `decode`", 8}, {"map `decode` -> batch", 8}, {"batch -> consumer", 8}};
  return m;
}

/// The main limit.
fl::finding first(const fl::interval_metrics& m, std::size_t processors = many) {
  const auto all = findings(m, processors);
  REQUIRE(!all.empty());
  for (const fl::finding& f : all) {
    CHECK(std::isfinite(f.speedup));
    CHECK(f.speedup >= 1);
    for (const char* bad : {"nan", "inf", "null"}) CHECK(f.sentence.find(bad) == std::string::npos);
  }
  return all.front();
}

} // namespace

TEST_CASE("Workers that are always busy: more of them help until the consumer limits") {
  const fl::finding f = first(decoding(50, {.busy = 100}, 10)); // the consumer works 50 s of 100
  CHECK(f.sentence ==
        "map `decode` limits: its 2 workers are busy 100 % of the time. With 2 more workers about 2.0 times "
        "as fast; then the consumer limits");
  CHECK(f.stage == "map `decode`");
  CHECK(f.workers == 4);
  CHECK(f.speedup == Approx(2));
}

TEST_CASE("Workers that wait aren't bounded by the processors") {
  const fl::finding f = first(decoding(80, {.busy = 4, .waiting = 96}), 1);
  CHECK(
      f.sentence ==
      "map `decode` limits: its 2 workers wait in their function 96 % of the time. With 6 more workers about "
      "4.0 times as fast; then it still limits");
  CHECK(f.workers == 8);
  CHECK(f.speedup == Approx(4));
  const fl::finding computing = first(decoding(75, {.busy = 96, .waiting = 4}, 0), 3);
  CHECK(computing.workers == 4); // 3 processors, of which 193 s are used
  CHECK(computing.speedup == Approx(300 / 193.));
  CHECK(computing.sentence.ends_with("about 1.6 times as fast; then the processors limit"));
}

TEST_CASE("Then the next segment limits, if it is slower than the consumer") {
  const fl::finding f = first(decoding(90, {.busy = 100}, 80));
  CHECK(f.workers == 3);
  CHECK(f.speedup == Approx(1.25));
  CHECK(f.sentence.ends_with("With 1 more worker about 1.3 times as fast; then batch limits"));
  const fl::finding close = first(decoding(90, {.busy = 100}, 98));
  CHECK(close.sentence.ends_with("With 1 more worker hardly faster, as batch limits too"));
}

TEST_CASE("One worker, and the most workers") {
  CHECK(first(decoding(90, {.busy = 100}, 10, 1)).sentence.find("its one worker is busy 100 % of the time") !=
        std::string::npos);
  CHECK(first(decoding(90, {.waiting = 100}, 10, 1))
            .sentence.find("its one worker waits in its function 100 %") != std::string::npos);
  const fl::finding f = first(decoding(90, {.waiting = 100}, 1, 256));
  CHECK(
      f.sentence ==
      "map `decode` limits: its 256 workers wait in their function 100 % of the time, and it has as many as "
      "possible");
  CHECK(f.workers == 0);
}

TEST_CASE("A serial map that limits gets workers of its own") {
  fl::interval_metrics m = run(70); // the consumer works 30 s
  add(m, {"from", "map `decode`", "batch"}, 1, false, {.busy = 100}, {5, 90, 5});
  const fl::finding f = first(m);
  CHECK(f.stage == "map `decode`");
  CHECK(f.workers == 3); // 90 s / 30 s
  CHECK(f.speedup == Approx(100 / 30.));
  CHECK(f.sentence ==
        "from + map `decode` + batch limits: its thread is in use 100 % of the time, most of it by map "
        "`decode`. With workers{3} for it about 3.3 times as fast; then the consumer limits");
}

TEST_CASE("A stage that can't have workers: the most that a change of it can bring") {
  fl::interval_metrics m = run(80);
  add(m, {"from"}, 1, false, {.busy = 1, .blocked = 99});
  add(m, {"map `label`", "batch"}, 1, false, {.busy = 100}, {40, 60});
  const fl::finding f = first(m);
  CHECK(f.stage == "batch");
  CHECK(f.workers == 0);
  CHECK(f.speedup == Approx(2.5));
  CHECK(f.sentence.ends_with(
      "most of it by batch, which can't have workers. If that took no time at most 2.5 times as fast; "
      "then it still limits"));
}

TEST_CASE("A source that waits for its data") {
  fl::interval_metrics m = run(90);
  add(m, {"lines"}, 1, false, {.busy = 20, .starved = 80});
  add(m, {"batch"}, 1, false, {.busy = 10, .starved = 90});
  const fl::finding f = first(m);
  CHECK(f.stage == "lines");
  CHECK(f.speedup == Approx(5));
  CHECK(f.sentence.find("its source waits for data 80 % of the time. Faster storage") != std::string::npos);
}

TEST_CASE("The consumer limits") {
  const fl::finding f = first(decoding(4, {.busy = 50, .blocked = 50}));
  CHECK(f.sentence ==
        "The consumer limits: it waits 4 % of the time for items. A faster pipeline would not help");
  CHECK(f.speedup == 1);
  CHECK(f.stage.empty());
}

TEST_CASE("All processors are in use") {
  const fl::finding f = first(decoding(90, {.busy = 95, .starved = 5}, 9), 2);
  CHECK(f.sentence.starts_with("The processors limit: the pipeline uses 100 % of 2. Less work"));
  CHECK(f.sentence.ends_with(
      "twice the processors and workers about 2.0 times as fast; then they still limit"));
  CHECK(f.speedup == Approx(2));
  const fl::finding crowded = first(decoding(90, {.busy = 100, .preempted = 75}, 0, 8), 2);
  CHECK(crowded.sentence.starts_with(
      "The processors limit: the pipeline uses 100 % of 2, and fewer workers would be as "
      "fast"));
}

TEST_CASE("Other programs use the processors") {
  const fl::finding f = first(decoding(90, {.busy = 100, .preempted = 50}), 8);
  CHECK(f.sentence ==
        "Other programs, or the consumer, use the processors: the threads of map `decode` waited 50 % of the "
        "time for one. With processors of its own at most 2.0 times as fast; then map `decode` limits");
  CHECK(f.speedup == Approx(2));
  // If that isn't what limits, it isn't mentioned.
  CHECK(first(decoding(90, {.waiting = 100, .preempted = 12}, 5), 8).workers == 8);
}

TEST_CASE("Busy for longer than the processors have time: functions wait without saying so") {
  const fl::finding f = first(decoding(75, {.busy = 100}, 5, 8), 2);
  CHECK(f.sentence.find(
            "of the time (longer than the processors: it waits without context::waiting()). With 24 more") !=
        std::string::npos);
  CHECK(f.workers == 32);
  CHECK(f.speedup == Approx(4));
}

TEST_CASE("A run at its cpu_share") {
  const fl::finding f = first(decoding(90, {.busy = 25, .throttled = 75}, 5));
  CHECK(
      f.sentence ==
      "cpu_share limits: map `decode` was stopped for 75 % of the time. With a larger cpu_share at most 4.0 "
      "times as fast; then map `decode` limits");
  CHECK(f.speedup == Approx(4));
}

TEST_CASE("A queue that is full at times and empty at times") {
  fl::interval_metrics m = decoding(50, {.busy = 60, .blocked = 40}, 40);
  const auto all = findings(m, many);
  REQUIRE(all.size() == 2);
  CHECK(all[1].stage == "map `decode` -> batch");
  CHECK(all[1].speedup == Approx(100 / 60.));
  CHECK(all[1].sentence ==
        "The queue map `decode` -> batch is full at times and empty at times (each 40 % of the time or "
        "more). With a larger queue_capacity at most 1.7 times as fast");
}

TEST_CASE("Nothing is at its limit") {
  const fl::finding f = first(decoding(90, {.busy = 30, .starved = 70}));
  CHECK(f.sentence.starts_with(
      "Nothing is at its limit: map `decode` is in use 30 % of the time, and the consumer waits 90 %"));
  CHECK(f.speedup == 1);
}

TEST_CASE("An automatic number of workers counts those in use") {
  fl::interval_metrics m = decoding(50, {.busy = 50, .starved = 50}, 10, 4);
  m.segments[1].active = 2; // its threads were busy for 200 s in all
  const fl::finding f = first(m);
  CHECK(f.workers == 4);
  CHECK(f.speedup == Approx(2));
}

TEST_CASE("Stages that lose samples, with the most frequent cause") {
  fl::interval_metrics m = decoding(4, {.busy = 10, .starved = 90});
  m.stages[1].failures = 120;
  m.stages[1].emitted = 880;
  m.stages[2].failures = 9; // less than 1 %
  m.failures = {{"map `decode`", "rare", 20}, {"map `decode`", "no such file", 100}, {"batch", "large", 9}};
  const auto all = findings(m, many);
  REQUIRE(all.size() == 2);
  CHECK(all[1].sentence ==
        "map `decode` failed for 12 % of its items (120), most often (100 times) with: no such file. "
        "These samples are missing in training");
  CHECK(all[1].stage == "map `decode`");
  m.failures.clear();
  CHECK(findings(m, many)[1].sentence.find("(120). These") != std::string::npos);
  m.stages[0].failures = 1000; // a source receives nothing
  CHECK(findings(m, many)[1].sentence.starts_with("from failed for 50 % of its items"));
}

TEST_CASE("Metrics without items, threads or time") {
  const std::string unknown = "The consumer received no item in this time: what limits the run is not known";
  CHECK(first({}).sentence == unknown);
  CHECK(first(run(0)).sentence == unknown); // no segments
  fl::interval_metrics m = decoding(100, {.starved = 100});
  m.consumer.items = 0;
  m.stages[1].failures = 1000;
  CHECK(first(m).sentence == unknown);
  CHECK(findings(m, 0).size() == 2); // the failures
  m = decoding(50, {});
  m.segments[0].workers.clear();
  m.segments[2].workers.clear();
  CHECK(first(m).sentence.starts_with("Nothing is at its limit"));
  m = run(50);
  add(m, {}, 1, false, {.busy = 100});
  CHECK(first(m).sentence.starts_with(" limits: its thread"));
  m = run(100); // nothing takes time, except for one worker
  add(m, {"map"}, 1, true, {.waiting = 100});
  CHECK(first(m).workers == 4);
  m = run(100); // a serial stage is everything that takes time
  add(m, {"map"}, 1, false, {.waiting = 100}, {1});
  CHECK(first(m).workers == 4);
  m.consumer.waited = 1000; // longer than the interval
  first(m);
}
