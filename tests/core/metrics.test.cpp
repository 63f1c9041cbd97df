// SPDX-License-Identifier: MIT
#include <feedline/core/metrics.hpp>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <functional>
#include <latch>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <feedline/core/run/metrics_collector.hpp>
#include <feedline/feedline.hpp>

#include "support/asleep.hpp"
#include "support/catch.hpp"
#include "support/numbers.hpp"
#include "support/outcome.hpp"
#include "support/parked.hpp"
#include "support/refusing.hpp"
#include "support/watchdog.hpp"

namespace fl = feedline;
using namespace feedline::test;

namespace {

using mapping = std::function<int(int)>;

const mapping same = [](int n) { return n; };

/// Whether a text is one JSON value.
class json_checker {
 public:
  static bool accepts(std::string_view text) {
    json_checker c(text);
    return c.value() && c.rest_.empty();
  }

 private:
  explicit json_checker(std::string_view text) : rest_(text) {}

  bool eat(std::string_view expected) {
    while (!rest_.empty() && rest_[0] == ' ') rest_.remove_prefix(1);
    if (!rest_.starts_with(expected)) return false;
    rest_.remove_prefix(expected.size());
    return true;
  }

  bool string() {
    if (!eat("\"")) return false;
    while (!rest_.empty() && rest_[0] != '"') {
      if (static_cast<unsigned char>(rest_[0]) < 0x20) return false;
      if (rest_[0] == '\\') {
        if (rest_.size() < 2 || std::string_view("\"\\/bfnrtu").find(rest_[1]) == std::string_view::npos)
          return false;
        rest_.remove_prefix(1);
      }
      rest_.remove_prefix(1);
    }
    return eat("\"");
  }

  bool number() {
    std::size_t length = 0, points = 0;
    for (; length < rest_.size() && (std::isdigit(rest_[length]) || rest_[length] == '.'); ++length)
      points += rest_[length] == '.';
    const bool ok = length > 0 && points <= 1 && rest_[0] != '.' && rest_[length - 1] != '.';
    rest_.remove_prefix(length);
    return ok;
  }

  template <class Element>
  bool list(std::string_view open, std::string_view close, Element element) {
    if (!eat(open)) return false;
    if (eat(close)) return true;
    do
      if (!element()) return false;
    while (eat(","));
    return eat(close);
  }

  bool value() {
    eat("");
    if (rest_.empty()) return false;
    switch (rest_[0]) {
    case '{':
      return list("{", "}", [this] { return string() && eat(":") && value(); });
    case '[':
      return list("[", "]", [this] { return value(); });
    case '"':
      return string();
    case 't':
      return eat("true");
    case 'f':
      return eat("false");
    case 'n':
      return eat("null");
    default:
      return number();
    }
  }

  std::string_view rest_;
};

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

auto counted(std::size_t workers) {
  return fl::from(numbers(100, {5})) | fl::filter([](int n) { return n % 2 == 0; }, fl::name{"even"}) |
         fl::map(refusing{{8}}, fl::workers{workers}, fl::name{"work"}) | fl::flat_map([](int n) {
           return std::vector{n, n};
         }) |
         fl::batch(10);
}

double sum(const fl::worker_metrics& w) { return w.busy + w.starved + w.blocked; }

} // namespace

TEST_CASE("After the end the counts of every stage and queue are exact") {
  const watchdog guard("counts");
  for (const std::size_t workers : {1u, 3u, 64u})
    for (const std::size_t capacity : {0u, 2u}) {
      CAPTURE(workers, capacity);
      auto loader =
          counted(workers).finite({.epochs = 2, .on_error = fl::on_error::skip, .queue_capacity = capacity});
      while (loader.next()) {
      }
      const fl::interval_metrics m = loader.metrics().total;

      REQUIRE(m.stages.size() == 5);
      const std::vector<std::string> names{"numbers", "filter `even`", "map `work`", "flat_map", "batch"};
      const std::vector<std::uint64_t> in{0, 199, 100, 99, 198}, out{199, 100, 99, 198, 20},
          failed{1, 0, 1, 0, 0};
      for (std::size_t i = 0; i < 5; ++i) {
        CHECK(m.stages[i].name == names[i]);
        CHECK(m.stages[i].received == in[i]);
        CHECK(m.stages[i].emitted == out[i]);
        CHECK(m.stages[i].failures == failed[i]);
      }
      REQUIRE(m.segments.size() == 3);
      CHECK(m.segments[0].name == "numbers + filter `even`");
      CHECK(m.segments[1].name == "map `work`");
      CHECK(m.segments[1].parallel);
      CHECK(m.segments[1].workers.size() == workers);
      CHECK(m.segments[2].name == "flat_map + batch");
      REQUIRE(m.queues.size() == 3);
      CHECK(m.queues[1].name == "map `work` -> flat_map + batch");
      CHECK(m.queues[2].name == "flat_map + batch -> consumer");
      const std::vector<std::uint64_t> passed{100, 99, 20};
      for (std::size_t i = 0; i < 3; ++i) {
        CHECK(m.queues[i].put == passed[i]);
        CHECK(m.queues[i].taken == passed[i]);
        CHECK(m.queues[i].fill.most > 0);
      }
      CHECK(m.consumer.items == 20);
    }
}

TEST_CASE("A chain on the same workers is one segment of several stages") {
  auto loader = (fl::from(numbers(50)) |
                 fl::parallel(fl::workers{3}, fl::map(refusing{}) | fl::filter([](int n) { return n < 10; }) |
                                                  fl::tap([](int) {}, fl::name{"look"})))
                    .finite();
  while (loader.next()) {
  }
  const fl::interval_metrics m = loader.metrics().total;
  REQUIRE(m.segments.size() == 2);
  CHECK(m.segments[1].name == "map + filter + tap `look`");
  REQUIRE(m.stages.size() == 4);
  CHECK(m.stages[1].received == 50);
  CHECK(m.stages[1].emitted == 50);
  CHECK(m.stages[2].emitted == 10);
  CHECK(m.stages[3].received == 10);
  CHECK(m.stages[3].emitted == 10);
}

TEST_CASE("Fill levels stay within the requested capacity") {
  const watchdog guard("fills");
  auto loader = (fl::from(numbers(1000)) | fl::map(same, fl::workers{2})).infinite({.queue_capacity = 6});
  await_all_others_asleep();
  const fl::interval_metrics m = loader.metrics().total;
  for (const fl::queue_metrics& q : m.queues) {
    CHECK(q.put - q.taken <= 6);
    CHECK(q.fill.most <= 6);
    CHECK(q.fill.least >= 0);
    CHECK(q.fill.latest <= q.fill.most);
    CHECK(q.capacity <= 6);
    CHECK(q.fill.mean <= 6);
    CHECK(q.fill.mean > 0);
  }
  CHECK(m.queues[1].put - m.queues[1].taken == 6); // the consumer hasn't called next()
  CHECK(m.consumer.items == 0);
  CHECK(contains(m.bottleneck, "the consumer received no item"));
  CHECK(loader.metrics().recent.queues[1].fill.most == 6); // it's still full, though nothing was put
}

TEST_CASE("The peak of a period starts with the initial fill level") {
  const watchdog guard("peaks");
  auto loader = (fl::from(numbers(6)) | fl::prefetch(6)).finite();
  await_all_others_asleep(); // all six are in the queue
  const auto recent_peak = [&] { return loader.metrics().recent.queues[0].fill.most; };
  CHECK(recent_peak() == 6);
  CHECK(recent_peak() == 6); // it is still full
  for (int i = 0; i < 4; ++i) REQUIRE(loader.next());
  const auto left = 6.0 - static_cast<double>(loader.metrics().total.queues[0].taken);
  CHECK(recent_peak() == left);
  while (loader.next()) {
  }
  CHECK(recent_peak() == left);
  CHECK(recent_peak() == 0);
  CHECK(loader.metrics().total.queues[0].fill.least == 0);
  CHECK(loader.metrics().total.queues[0].fill.latest == 0);
  CHECK(loader.metrics().total.queues[0].fill.most == 6);
}

TEST_CASE("Recent numbers are those since the last call, total ones since the start") {
  auto loader = counted(2).infinite({.on_error = fl::on_error::skip, .queue_capacity = 2});
  std::vector<fl::metrics> all;
  for (const int batches : {30, 0, 7}) {
    for (int i = 0; i < batches; ++i) loader.next();
    all.push_back(loader.metrics());
    CHECK(all.back().recent.consumer.items == static_cast<std::uint64_t>(batches));
  }
  const fl::interval_metrics& total = all.back().total;
  CHECK(total.consumer.items == 37);
  const auto sum_of = [&](const auto& number) {
    decltype(number(total)) sum = 0;
    for (const fl::metrics& m : all) sum += number(m.recent);
    return sum;
  };
  const auto adds_up = [&](const auto& number) { return sum_of(number) == number(total); };
  CHECK(sum_of([](const auto& m) { return m.seconds; }) == Approx(total.seconds));
  for (std::size_t i = 0; i < total.stages.size(); ++i) {
    CHECK(adds_up([i](const auto& m) { return m.stages[i].received; }));
    CHECK(adds_up([i](const auto& m) { return m.stages[i].emitted; }));
    CHECK(adds_up([i](const auto& m) { return m.stages[i].failures; }));
  }
  for (std::size_t i = 0; i < total.queues.size(); ++i) {
    CHECK(adds_up([i](const auto& m) { return m.queues[i].put; }));
    CHECK(adds_up([i](const auto& m) { return m.queues[i].taken; }));
  }
  CHECK(all[2].recent.seconds < all[2].total.seconds);
}

TEST_CASE("A worker's times add up to its lifetime") {
  const watchdog guard("times");
  using clock = std::chrono::steady_clock;
  std::mutex mutex;
  std::map<std::thread::id, std::pair<clock::time_point, clock::time_point>>
      lives; // from the first call to the last
  const mapping busy = [&](int n) {
    const clock::time_point begin = clock::now();
    burn(10);
    const std::lock_guard lock(mutex);
    lives.try_emplace(std::this_thread::get_id(), begin, begin).first->second.second = clock::now();
    return n;
  };
  auto loader = (fl::from(numbers(20)) | fl::map(busy, fl::workers{2})).finite();
  while (loader.next()) {
  }
  const fl::interval_metrics m = loader.metrics().total;
  CHECK(m.seconds >= 0.1); // 200 ms of work on two threads
  clock::duration lifetime{};
  for (const auto& [id, life] : lives) lifetime += life.second - life.first;
  for (const fl::segment_metrics& s : m.segments)
    for (const fl::worker_metrics& w : s.workers) {
      CHECK(w.busy >= 0);
      CHECK(sum(w) <= m.seconds * 1.001);
    }
  const auto& workers = m.segments[1].workers;
  CHECK(workers[0].busy + workers[1].busy >= 0.2);
  CHECK(sum(workers[0]) + sum(workers[1]) >= std::chrono::duration<double>(lifetime).count());
  CHECK(m.consumer.waited <= m.seconds);
}

TEST_CASE("A wait in progress is counted") {
  const watchdog guard("waits");
  auto loader = (fl::from(numbers(1000)) | fl::map(same, fl::workers{2})).infinite({.queue_capacity = 2});
  await_all_others_asleep();
  const auto before = loader.metrics();
  burn(50);
  const fl::interval_metrics m = loader.metrics().recent;
  for (const fl::segment_metrics& s : m.segments)
    for (const fl::worker_metrics& w : s.workers) {
      CHECK(w.blocked + w.starved >= 0.049);
      CHECK(w.busy < 1e-9);
    }
  for (const fl::worker_metrics& w : m.segments[0].workers) CHECK(w.blocked > 0);
}

TEST_CASE("A source that waits for data to arrive is starved") {
  const watchdog guard("arrivals");
  const fl::push_source<int> source({.capacity = 4});
  auto loader = (source | fl::map(same, fl::workers{1})).infinite();
  await_all_others_asleep();
  const auto before = loader.metrics();
  burn(50);
  const fl::interval_metrics m = loader.metrics().recent;
  for (const fl::worker_metrics& w : m.segments[0].workers) {
    CHECK(w.starved >= 0.049);
    CHECK(w.busy < 1e-9);
  }
}

TEST_CASE("The bottleneck is named: the stage that takes longest, or the consumer") {
  using fl::detail::bottleneck_of;
  fl::interval_metrics m;
  CHECK(bottleneck_of(m) == "the consumer received no item in this time: the bottleneck is not known");
  m.seconds = 10;
  m.segments = {{"numbers", false, 1, {{1, 0, 9}}},
                {"map `slow`", true, 2, {{9, 1, 0}, {8, 2, 0}}},
                {"batch", false, 1, {{2, 8, 0}}}};
  m.consumer.waited = 6;
  CHECK(bottleneck_of(m) == "the consumer received no item in this time: the bottleneck is not known");
  m.consumer.items = 20;
  CHECK(bottleneck_of(m) == "map `slow` is busy 85 % on all 2 workers: it limits the pipeline; the consumer "
                            "waits 60 % of the time");
  m.consumer.waited = 0.4;
  CHECK(bottleneck_of(m) ==
        "the consumer limits the pipeline: items are ready when it asks for them (it waits 4 % of the time)");
  m.consumer.waited = 0.5;
  m.segments[1].active = 1;
  m.segments[1].workers = {{9, 1, 0}};
  CHECK(bottleneck_of(m) == "map `slow` is busy 90 % on its one worker: it limits the pipeline; the consumer "
                            "waits 5 % of the time");
  m.segments[2].workers = {{9.5, 0.5, 0}};
  CHECK(bottleneck_of(m) == "batch is busy 95 %: it limits the pipeline; the consumer waits 5 % of the time");
  m.segments[1].workers = m.segments[2].workers = {{1, 9, 0}};
  m.segments[0].workers = {{5, 0, 5}};
  CHECK(bottleneck_of(m) ==
        "numbers is busy 50 %: nothing in the pipeline is at its limit; the consumer waits 5 % of the time");

  m.segments[0].workers = {{1, 9, 0}};
  CHECK(bottleneck_of(m) == "numbers waits for its data 90 % of the time: it limits the pipeline; the "
                            "consumer waits 5 % of the time");
  m.segments[0].parallel = true; // workers that read the source themselves, and wait for their turn
  CHECK(contains(bottleneck_of(m), "nothing in the pipeline is at its limit"));
  m.segments[0] = {"numbers", false, 1, {{5, 0, 5}}};

  m.segments[1].active = 2;
  m.segments[1].workers = {{0.2, 0, 0, 9.8}, {0.2, 0, 0, 9.8}};
  CHECK(bottleneck_of(m) ==
        "map `slow` waits in its function 98 % of the time on all 2 workers: it limits the "
        "pipeline, and more workers would help; the consumer waits 5 % of the time");
  m.segments[1].workers = {{4, 1.5, 0, 4.5}, {4, 1.5, 0, 4.5}}; // busy and waiting together
  CHECK(contains(bottleneck_of(m), "waits in its function 45 % of the time on all 2 workers: it limits"));
  m.segments[1].active = 1;
  m.segments[1].workers = {{1, 9, 0}};
  m.segments[2].workers = {{1, 0, 0, 9}}; // one thread, which has no workers to add
  CHECK(contains(bottleneck_of(m), "waits in its function 90 % of the time: it limits the pipeline; the"));
  m.segments[2].workers = {{1, 9, 0}};

  const std::string processors =
      " of the time for a processor: other programs use the processors, or there are more "
      "workers than processors; the consumer waits 5 % of the time";
  m.segments[2].workers = {{2, 8, 0, 0, 3.8}};
  m.segments[0].workers[0].preempted = 1;
  CHECK(bottleneck_of(m) == "numbers is busy 50 %; the threads of batch waited 38 %" + processors);
  m.segments[0].workers = {{8, 0, 2, 0, 4}};
  CHECK(bottleneck_of(m) ==
        "numbers is busy 80 %: it limits the pipeline; the threads of numbers waited 40 %" + processors);
  m.segments[0].workers = {{5, 0, 5, 0, 0.9}};
  m.segments[2].workers = {{2, 8, 0, 0, 0.9}};
  CHECK(bottleneck_of(m) ==
        "numbers is busy 50 %: nothing in the pipeline is at its limit; the consumer waits 5 % of the time");
}

TEST_CASE("Time that more busy workers than processors wait for a processor is counted") {
  const watchdog guard("preempted workers");
  if (!std::ifstream("/proc/thread-self/schedstat")) return; // the system doesn't count it
  const mapping busy = [](int n) {
    burn(1);
    return n;
  };
  const auto pipeline = fl::from(numbers(1000)) | fl::map(busy, fl::workers{8 * fl::processors()});
  const auto count_others = [] {
    int others = 0;
    for_each_other_thread([&](const std::string&) { ++others; });
    return others;
  };
  const int others = count_others();
  const auto preempted = [](auto& loader) { return loader.metrics().total.segments[1].sum().preempted; };

  auto loader = pipeline.infinite();
  while (preempted(loader) == 0) loader.next(); // of threads at work
  const double at_work = preempted(loader);
  loader.stop();
  while (count_others() > others) std::this_thread::yield();
  const fl::interval_metrics m = loader.metrics().total;
  CHECK(preempted(loader) >= at_work); // of threads that have ended
  for (const fl::worker_metrics& w : m.segments[1].workers) CHECK(w.preempted <= w.time());
}

TEST_CASE("Metrics report how long items were ready in the last queue") {
  auto loader = (fl::from(numbers(4)) | fl::prefetch(4)).finite();
  const watchdog guard("queued");
  while (loader.metrics().total.queues[0].put < 4) std::this_thread::yield();
  burn(20);
  while (loader.next()) {
  }
  const fl::consumer_metrics c = loader.metrics().total.consumer;
  CHECK(c.mean_queued >= 0.019);
  CHECK(c.median_queued >= 0.019);
  CHECK(c.percentile99_queued >= c.median_queued);
}

TEST_CASE("Quantiles of durations are exact to within the width of a bucket") {
  using durations = fl::detail::consumer_counters::histogram;
  durations histogram;
  for (std::uint64_t us = 1; us <= 1000; ++us) histogram.add(us * 1000, 1);
  const auto counts = histogram.read();
  CHECK(durations::quantile(counts, 0.5) == Approx(500e3).epsilon(0.06));
  CHECK(durations::quantile(counts, 0.99) == Approx(990e3).epsilon(0.06));
  histogram.add(~std::uint64_t{0}, 1000000); // beyond the last bucket
  CHECK(durations::quantile(histogram.read(), 0.5) > 1e14);
  CHECK(durations::quantile({}, 0.5) == 0);
  durations small;
  for (std::uint64_t ns = 0; ns < 32; ++ns) small.add(ns, 1);
  CHECK(durations::quantile(small.read(), 1) == Approx(31.5));
}

TEST_CASE("Metrics read as a table and as JSON") {
  auto loader = (fl::from(numbers(10)) |
                 fl::map(refusing{}, fl::workers{2}, fl::name{"a \"b\"\\\n\x01\xc3\xa9\xe9"}) | fl::batch(3))
                    .finite();
  const std::string empty = to_json(fl::metrics{});
  CHECK(json_checker::accepts(empty));
  while (loader.next()) {
  }
  const fl::metrics m = loader.metrics();
  const std::string json = to_json(m);
  CAPTURE(json);
  CHECK(json_checker::accepts(json));
  for (const char* key : {"total",       "recent",        "seconds",
                          "stages",      "name",          "received",
                          "emitted",     "failures",      "segments",
                          "parallel",    "workers",       "busy",
                          "starved",     "blocked",       "preempted",
                          "queues",      "capacity",      "put",
                          "taken",       "fill",          "latest",
                          "least",       "most",          "mean",
                          "queued",      "up_to",         "held",
                          "consumer",    "items",         "waited",
                          "mean_queued", "median_queued", "percentile99_queued",
                          "bottleneck",  "segment",       "user_metrics",
                          "waits"})
    CHECK(contains(json, '"' + std::string(key) + "\": "));
  CHECK(contains(json, "\"map `a \\\"b\\\"\\\\\\u000a\\u0001\xc3\xa9\xef\xbf\xbd`\""));

  const std::string table = to_string(m);
  for (const char* part : {"numbers", "map `a", "batch", "stage", "threads", "queue", "consumer: 4 items"})
    CHECK(contains(table, part));
  CHECK(contains(table, m.total.bottleneck));
  std::ostringstream stream;
  stream << m;
  CHECK(stream.str() == table);
}

TEST_CASE("Numbers are written in plain notation with three significant digits") {
  using fl::detail::digits;
  CHECK(digits(0) == "0");
  CHECK(digits(1234567) == "1234567");
  CHECK(digits(12.345) == "12.3");
  CHECK(digits(1.5) == "1.50");
  CHECK(digits(0.000123456) == "0.000123");
  CHECK(digits(0.9999) == "1.000");
  CHECK(digits(1e-12) == "0.000000000");
}

TEST_CASE("Other threads may call metrics() during the run") {
  const watchdog guard("metrics from elsewhere");
  auto loader = counted(3).infinite({.on_error = fl::on_error::skip, .failure_limit = 1'000'000});
  std::atomic<bool> done{false};
  std::uint64_t last = 0;
  bool grows = true;
  const auto watch = [&](std::uint64_t& items) {
    const fl::metrics m = loader.metrics();
    grows = grows && m.total.consumer.items >= items;
    items = m.total.consumer.items;
    static_cast<void>(to_json(m));
  };
  std::thread watcher([&] {
    while (!done) watch(last);
  });
  std::thread another([&] {
    while (!done) static_cast<void>(to_string(loader.metrics()));
  });
  for (int i = 0; i < 300; ++i) loader.next();
  done = true;
  watcher.join();
  another.join();
  CHECK(grows);
}

TEST_CASE("Batches count as the consumer's once it has received them, also those from one packet") {
  auto loader = (fl::from(count_to(100'000)) | fl::batch(2)).finite();
  for (int i = 0; i < 60; ++i) REQUIRE(loader.next());
  CHECK(loader.metrics().total.consumer.items == 60);
}

namespace {

/// Emits every item at once, and reports how many it received.
struct reporting {
  using output = int;

  void operator()(int n, auto& emit, fl::context& c) {
    if (++seen % 2 == 0) c.count("even ones");
    emit(n);
  }

  void state(auto& archive) { archive(seen); }

  void metrics(auto& out) const { out("seen", seen); }

  int seen = 0;
};

/// A source that reports how many numbers it has yielded, and how many are left.
struct reporting_source {
  std::optional<int> next() {
    if (given == 100) return std::nullopt;
    return given++;
  }

  void metrics(auto& out) const {
    out("left", 100 - given);
    out.total("given", given);
  }

  int given = 0;
};

const fl::stage_metrics& stage_of(const fl::interval_metrics& m, std::string_view name) {
  for (const fl::stage_metrics& s : m.stages)
    if (s.name == name) return s;
  throw std::logic_error("no such stage");
}

/// The seconds of all calls that were timed.
double seconds_in(const fl::stage_times& t) { return t.mean * static_cast<double>(t.timed); }

} // namespace

TEST_CASE("A source reports custom numbers, current values and totals") {
  const watchdog guard("a source that reports");
  auto loader = (fl::from(reporting_source()) | fl::prefetch(1)).finite();
  const auto numbers = [](const fl::interval_metrics& m) {
    std::map<std::string, double> all;
    for (const fl::user_metric& n : m.stages.at(0).user_metrics) all[n.name] = n.value;
    return all;
  };
  while (loader.next()) continue;
  const fl::metrics end = loader.metrics();
  CHECK(numbers(end.total) == std::map<std::string, double>{{"left", 0}, {"given", 100}});
  CHECK(numbers(end.recent) == numbers(end.total));
  CHECK(numbers(loader.metrics().recent) == std::map<std::string, double>{{"left", 0}, {"given", 0}});
}

TEST_CASE("Metrics report each stage's time per item, without the stages downstream") {
  const watchdog guard("times of stages");
  auto loader = (fl::from(count_to(40)) | fl::filter([](int) { return true; }, fl::name{"quick"}) |
                 fl::map(
                     [](int n) {
                       std::this_thread::sleep_for(std::chrono::milliseconds(2));
                       return n;
                     },
                     fl::name{"slow"}) |
                 fl::prefetch(1))
                    .finite();
  while (loader.next()) {
  }
  const fl::metrics m = loader.metrics();
  const fl::stage_times slow = stage_of(m.total, "map `slow`").time,
                        quick = stage_of(m.total, "filter `quick`").time;
  CHECK(slow.timed > 0);
  CHECK(slow.mean >= 0.002);
  CHECK(slow.percentile90 >= 0.0016);
  CHECK(slow.percentile99 >= slow.percentile90);
  CHECK(quick.timed > 0);
  CHECK(seconds_in(quick) + seconds_in(slow) <= m.total.segments[0].sum().busy); // none of them counts twice
  CHECK(loader.metrics().recent.stages[1].time.timed == 0);                      // nothing since
}

TEST_CASE("What threads worked is shared out among their stages") {
  const watchdog guard("loads of stages");
  const auto slowly = [](int milliseconds) {
    return [=](int n) {
      std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
      return n;
    };
  };
  auto loader = (fl::from(count_to(100)) | fl::map(slowly(5), fl::name{"first"}) |
                 fl::parallel(fl::workers{2},
                              fl::map(slowly(1), fl::name{"one"}) | fl::map(slowly(10), fl::name{"ten"})) |
                 fl::batch(10))
                    .finite();
  while (loader.next()) {
  }
  const fl::interval_metrics m = loader.metrics().total;
  const auto of_segment = [&](std::size_t number) {
    double busy = 0;
    for (const fl::worker_metrics& w : m.segments.at(number).workers) busy += w.busy;
    return busy;
  };
  std::vector<double> sums(m.segments.size());
  for (const fl::stage_metrics& s : m.stages) sums.at(s.segment) += s.busy;
  for (std::size_t i = 0; i < sums.size(); ++i) CHECK(sums[i] == Approx(of_segment(i)));
  CHECK(stage_of(m, "map `first`").busy > 0);
  CHECK(m.stages[0].segment == 0);
  CHECK(stage_of(m, "map `one`").segment == 1);
  CHECK(stage_of(m, "map `one`").busy > 0);
  CHECK(m.stages.back().segment == 2);

  // The shares, where the times are known.
  fl::segment_metrics segment;
  segment.workers = {{.busy = 6}, {.busy = 4}};
  std::vector<fl::stage_metrics> stages(3);
  const auto shares = [&](double one, double ten, bool has_source) {
    stages[1].received = stages[2].received = 100;
    stages[1].time.mean = one;
    stages[2].time.mean = ten;
    fl::detail::share_out_busy(segment, 1, has_source, stages);
    return std::vector{stages[0].busy, stages[1].busy, stages[2].busy};
  };
  CHECK(shares(0.01, 0.04, true) == std::vector{5.0, 1.0, 4.0}); // the source has the rest
  CHECK(shares(0.04, 0.16, true) == std::vector{0.0, 2.0, 8.0}); // more than there was
  CHECK(shares(0.01, 0.04, false) == std::vector{0.0, 2.0, 8.0});
  CHECK(stages[2].segment == 1);
}

TEST_CASE("A stage's wait for room downstream isn't its time") {
  const watchdog guard("waits for room");
  for (const bool parallel : {false, true}) {
    const auto give = [&](const auto& pipeline) {
      auto loader = pipeline.finite();
      while (loader.next()) std::this_thread::sleep_for(std::chrono::milliseconds(3));
      const fl::interval_metrics m = loader.metrics().total;
      return std::pair(stage_of(m, "map `quick`").time,
                       m.segments.at(stage_of(m, "map `quick`").segment).sum().busy);
    };
    const auto source = fl::from(count_to(60));
    const auto [time, busy] =
        parallel ? give(source | fl::map(same, fl::workers{2}, fl::name{"quick"}) | fl::prefetch(1))
                 : give(source | fl::map(same, fl::name{"quick"}) | fl::prefetch(1));
    CHECK(time.timed > 0);
    CHECK(seconds_in(time) <= busy);
  }
}

TEST_CASE("Metrics report how full buffers of samples are") {
  const watchdog guard("fills");
  auto loader = (fl::from(count_to(1000)) | fl::shuffle({.capacity = 50}) | fl::batch(10)).infinite();
  for (int i = 0; i < 100; ++i) loader.next();
  const fl::stage_metrics s = stage_of(loader.metrics().total, "shuffle");
  CHECK(s.capacity == 50);
  CHECK(s.held.latest > 40);
  CHECK(s.held.most <= 50);
  CHECK(s.held.mean <= s.held.most);
  CHECK(s.held.least <= s.held.mean);
}

namespace {

const fl::user_metric& number_of(const fl::interval_metrics& m, std::size_t stage, std::string_view name) {
  for (const fl::user_metric& n : m.stages.at(stage).user_metrics)
    if (n.name == name) return n;
  throw std::logic_error("no such number");
}

bool is(const fl::gauge& g, double latest, double least, double most, double mean) {
  CAPTURE(g.latest, g.least, g.most, g.mean);
  CHECK(g.latest == latest);
  CHECK(g.least == least);
  CHECK(g.most == most);
  CHECK(g.mean == mean);
  return g.latest == latest && g.least == least && g.most == most && g.mean == mean;
}

} // namespace

TEST_CASE("A gauge has its last value, and the range and mean of an interval") {
  const watchdog guard("gauges");
  auto loader = (fl::from(std::vector{4, -1, 3, 10, 6}) | fl::map([](int n, fl::context& c) {
                   c.gauge("n", n);
                   c.count("n", 2); // of the same name: another number
                   return n;
                 }) |
                 fl::batch(3))
                    .finite();
  REQUIRE(loader.next());
  REQUIRE(loader.next());
  REQUIRE_FALSE(loader.next());
  const fl::metrics m = loader.metrics();
  CHECK(number_of(m.total, 1, "n").values.has_value());
  CHECK(number_of(m.total, 1, "n").value == 6);
  CHECK(is(*number_of(m.total, 1, "n").values, 6, -1, 10, 4.4));
  CHECK(is(*number_of(m.recent, 1, "n").values, 6, -1, 10, 4.4));
  CHECK_FALSE(m.total.stages[1].user_metrics[1].values.has_value());
  CHECK(m.total.stages[1].user_metrics[1].value == 10);
  const fl::metrics after = loader.metrics(); // no new value
  CHECK(is(*number_of(after.total, 1, "n").values, 6, -1, 10, 4.4));
  CHECK(is(*number_of(after.recent, 1, "n").values, 6, 6, 6, 6));
}

TEST_CASE("A gauge's range begins anew with each report") {
  const watchdog guard("ranges of gauges");
  auto loader =
      (fl::generate([n = 0]() mutable { return std::optional(n++); }) | fl::map([](int n, fl::context& c) {
         c.gauge("n", n);
         return n;
       }) |
       fl::batch(1))
          .infinite({.queue_capacity = 1});
  double before = -1;
  for (int i = 0; i < 5; ++i) {
    for (int k = 0; k < 20; ++k) loader.next();
    const fl::metrics m = loader.metrics();
    const fl::gauge g = *number_of(m.recent, 1, "n").values;
    CHECK(g.least >= before); // its value at the report before
    CHECK(g.most >= g.mean);
    CHECK(g.mean >= g.least);
    CHECK(number_of(m.total, 1, "n").values->least == 0);
    before = g.latest - 1; // a value may come during a report
  }
}

TEST_CASE("Gauges of several workers are added up, each by its own mean") {
  const watchdog guard("gauges of workers");
  std::latch both(2); // each worker gets the first item of one of them
  auto loader = (fl::from(count_to(2)) | fl::map(
                                             [&](int n, fl::context& c) {
                                               both.arrive_and_wait();
                                               for (int i = 0; i < (n == 0 ? 1000 : 1); ++i)
                                                 c.gauge("one", n == 0 ? 1 : 100);
                                               return n;
                                             },
                                             fl::workers{2}))
                    .finite({.queue_capacity = 1});
  while (loader.next()) continue;
  CHECK(is(*number_of(loader.metrics().total, 1, "one").values, 101, 101, 101, 101));
  CHECK(is(*number_of(loader.metrics().recent, 1, "one").values, 101, 101, 101, 101));
}

TEST_CASE("Reports don't change what the next one says of the whole run") {
  const watchdog guard("two reports");
  auto loader = (fl::from(count_to(100)) | fl::shuffle({.capacity = 10}) | fl::prefetch(5)).finite();
  CHECK_FALSE(loader.metrics().total.queues.empty()); // before much has come
  while (loader.next()) continue;
  await_all_others_asleep(); // a thread is at work until it has ended
  const fl::interval_metrics first = loader.metrics().total;
  for (int i = 0; i < 5; ++i) loader.metrics();
  const fl::interval_metrics last = loader.metrics().total;
  for (std::size_t i = 0; i < first.queues.size(); ++i) {
    CHECK(first.queues[i].fill.mean > 0);
    const fl::gauge& f = first.queues[i].fill;
    CHECK(is(last.queues[i].fill, f.latest, f.least, f.most, f.mean));
  }
  CHECK(last.stages[1].held.mean == first.stages[1].held.mean);
  for (std::size_t i = 0; i < first.segments.size(); ++i) {
    CHECK(last.segments[i].sum().busy == first.segments[i].sum().busy);
    CHECK(last.segments[i].sum().starved == first.segments[i].sum().starved);
  }
}

TEST_CASE("The times of a thread never fall from one report to the next") {
  const watchdog guard("times that grow");
  auto loader = (fl::generate([n = 0]() mutable { return std::optional(n++); }) |
                 fl::map(same, fl::workers{2}) | fl::batch(4))
                    .infinite({.queue_capacity = 2});
  std::vector<fl::worker_metrics> before;
  for (int round = 0; round < 3000; ++round) {
    loader.next();
    std::vector<fl::worker_metrics> now;
    for (const fl::segment_metrics& s : loader.metrics().total.segments)
      now.insert(now.end(), s.workers.begin(), s.workers.end());
    bool grows = true;
    constexpr double least = 1e-9; // s: times are rounded
    for (std::size_t i = 0; i < before.size(); ++i)
      grows &= now[i].busy >= before[i].busy - least && now[i].starved >= before[i].starved - least &&
               now[i].blocked >= before[i].blocked - least;
    CHECK(grows);
    before = now;
    if (!grows) break;
  }
}

TEST_CASE("A wait that was read as work goes on counting as work until the thread has worked for as long") {
  const fl::detail::worker_times before{.alive = 100, .starved = 10, .blocked = 5};
  REQUIRE(before.busy() == 85);
  for (const bool is_starved : {true, false}) {
    const auto read = [&](std::uint64_t alive, std::uint64_t waited) {
      fl::detail::worker_times now{.alive = alive, .starved = 10, .blocked = 5};
      (is_starved ? now.starved : now.blocked) += waited;
      return now;
    };
    fl::detail::worker_times now = read(120, 60); // it waited since 60
    now.continue_from(before);
    CHECK(now.busy() == 85);
    CHECK(now.starved + now.blocked == 35);
    fl::detail::worker_times later = read(130, 60);
    later.continue_from(now);
    CHECK(later.busy() == 85);
    CHECK(later.starved + later.blocked == 45);
    fl::detail::worker_times last = read(200, 60);
    last.continue_from(later);
    CHECK(last.busy() == 125);
    CHECK(last.starved + last.blocked == 75);
  }
  // A wait that was counted twice while it ended.
  fl::detail::worker_times now{.alive = 110, .starved = 8, .blocked = 5};
  now.continue_from(before);
  CHECK(now.starved == 10);
  CHECK(now.busy() == 95);
}

TEST_CASE("A report that comes while a thread loses its processor at the begin of a wait is not taken back") {
  const watchdog guard("a wait that is seen late");
  std::latch entered(1), reported(1), waits(1), ends(1);
  auto loader = (fl::from(count_to(1)) | fl::map([&](int n, fl::context& c) {
                   const std::uint64_t begin = fl::detail::now_ns();
                   entered.count_down();
                   reported.wait();
                   c.counters->thread->waited(fl::detail::wait_kind::inside) = fl::detail::now_ns() - begin;
                   waits.count_down();
                   ends.wait();
                   return n;
                 }) |
                 fl::prefetch(1))
                    .finite();
  entered.wait();
  burn(5);
  const fl::worker_metrics before = loader.metrics().total.segments[0].workers[0];
  reported.count_down();
  waits.wait();
  const fl::worker_metrics after = loader.metrics().total.segments[0].workers[0];
  ends.count_down();
  CHECK(after.busy >= before.busy - 1e-9);
  CHECK(after.time() >= before.time() - 1e-9);
}

TEST_CASE("A gauge that isn't a finite number has no range") {
  const watchdog guard("no finite gauge");
  const double infinity = std::numeric_limits<double>::infinity();
  auto loader =
      (fl::from(std::vector{1.0, infinity, 3.0, std::nan("")}) | fl::map([](double n, fl::context& c) {
         c.gauge("n", n);
         c.gauge("inf", -std::numeric_limits<double>::infinity());
         return n;
       })).finite();
  while (loader.next()) continue;
  const fl::metrics m = loader.metrics();
  const fl::gauge g = *number_of(m.total, 1, "n").values;
  CHECK(std::isnan(g.latest));
  CHECK((g.least == 1 && g.most == 3 && g.mean == 2));
  CHECK(json_checker::accepts(to_json(m)));
  CHECK(contains(to_json(m), R"("latest": null)"));
  CHECK(json_checker::accepts(to_json(loader.metrics())));
}

TEST_CASE("Threads of queues that follow each other have different names") {
  auto loader = (fl::from(count_to(10)) | fl::map(same, fl::workers{2}) | fl::prefetch(2) |
                 fl::map(same, fl::workers{2}) | fl::prefetch(2))
                    .finite();
  while (loader.next()) continue;
  std::set<std::string> names;
  const fl::interval_metrics m = loader.metrics().total;
  for (const fl::segment_metrics& s : m.segments) names.insert(s.name);
  CHECK(names.size() == m.segments.size());
}

TEST_CASE(
    "Each batch says how long it was ready, and the metrics have the histogram, and that of the waits") {
  const watchdog guard("times in the last queue");
  auto loader = (fl::from(count_to(40)) | fl::batch(4)).finite({.queue_capacity = 2});
  std::chrono::nanoseconds longest{0}, all{0};
  std::uint64_t batches = 0;
  await_all_others_asleep(); // the first batches wait
  for (; batches < 10; ++batches) {
    const auto batch = loader.next();
    CHECK(batch->queued().count() > 0);
    longest = std::max(longest, batch->queued());
    all += batch->queued();
  }
  const fl::consumer_metrics c = loader.metrics().total.consumer; // before the wait for the end
  REQUIRE_FALSE(c.queued.empty());
  std::uint64_t items = 0;
  double shorter = 0;
  for (const fl::time_bucket& b : c.queued) {
    CHECK(b.up_to > shorter);
    shorter = b.up_to;
    items += b.items;
  }
  CHECK(items == batches);
  CHECK(c.queued.back().items > 0);
  CHECK(std::chrono::duration<double>(longest).count() <= c.queued.back().up_to);
  CHECK(std::chrono::duration<double>(longest).count() >= c.queued.back().up_to / 2);
  CHECK(std::abs(std::chrono::duration<double>(all).count() - c.mean_queued * static_cast<double>(batches)) <
        1e-6);
  std::uint64_t waits = 0;
  double shortest = 0, most = 0; // of all waits together
  for (const fl::time_bucket& b : c.waits) {
    waits += b.items;
    most += static_cast<double>(b.items) * b.up_to;
    if (&b != &c.waits.front()) shortest += static_cast<double>(b.items) * b.up_to / 2;
  }
  CHECK(waits == batches); // each crosses the queue alone
  CHECK(shortest <= c.waited);
  CHECK(c.waited <= most);
  CHECK(loader.metrics().recent.consumer.queued.empty());
  CHECK(loader.metrics().recent.consumer.waits.empty());
  CHECK(fl::batch_of<int>().queued().count() == 0);
}

TEST_CASE("Metrics contain the counters and gauges of users' functions and stages") {
  const watchdog guard("numbers of the user's");
  auto loader = (fl::from(count_to(100)) | reporting() |
                 fl::map(
                     [](int n, fl::context& c) {
                       if (n % 10 == 0) c.count("tens");
                       if (n % 20 == 0) c.count("weight", 5);
                       return n;
                     },
                     fl::workers{2}, fl::name{"counting"}) |
                 fl::batch(10))
                    .finite();
  while (loader.next()) {
  }
  const auto value = [](const fl::stage_metrics& s, std::string_view name) {
    for (const fl::user_metric& n : s.user_metrics)
      if (n.name == name) return n.value;
    return -1.0;
  };
  const fl::metrics m = loader.metrics();
  const fl::stage_metrics& counting = stage_of(m.total, "map `counting`");
  CHECK(value(counting, "tens") == 10);
  CHECK(value(counting, "weight") == 25);
  CHECK(value(m.total.stages[1], "even ones") == 50);
  CHECK(value(m.total.stages[1], "seen") == 100);
  const fl::metrics later = loader.metrics();
  CHECK(value(later.recent.stages[1], "even ones") == 0); // a counter counts since the last call, …
  CHECK(value(later.recent.stages[1], "seen") == 100);    // … and a gauge has its current value
  CHECK(to_string(m).find("tens 10") != std::string::npos);
  CHECK(json_checker::accepts(to_json(m)));
}

TEST_CASE("Time that a function declares as waiting doesn't count as busy") {
  const watchdog guard("a wait inside a function");
  auto loader = (fl::from(count_to(20)) | fl::map([](int n, fl::context& c) {
                   const auto waiting = c.waiting();
                   std::this_thread::sleep_for(std::chrono::milliseconds(5));
                   return n;
                 }) |
                 fl::prefetch(1))
                    .finite();
  while (loader.next()) {
  }
  const fl::interval_metrics m = loader.metrics().total;
  const fl::worker_metrics w = m.segments[0].workers[0];
  CHECK(w.waiting >= 0.1);
  CHECK(sum(w) + w.waiting <= m.seconds * 1.001);
}

namespace {

/// Leaves out items that arrived before. Its state() treats every archive that isn't a writer as a reader.
struct unique_ones {
  using output = int;

  void operator()(int n, auto& emit) {
    if (std::find(seen.begin(), seen.end(), n) == seen.end()) {
      seen.push_back(n);
      emit(n);
    }
  }

  void state(fl::state_writer& writer) { writer(seen); }

  void state(fl::state_reader& reader) { reader(seen); }

  std::vector<int> seen;
};

} // namespace

TEST_CASE("Metrics only read a stage's state") {
  std::vector<int> numbers(1000);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<int>(i % 10);
  const auto pipeline = fl::from(numbers) | unique_ones() | fl::prefetch(1);
  CHECK(collect(pipeline.finite()).size() == 10);
}
