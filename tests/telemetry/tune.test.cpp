// SPDX-License-Identifier: MIT
// tune() on pipelines whose functions sleep: more workers are certainly faster, on any machine. How fast isn't asserted.
#include <feedline/telemetry/tune.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <limits>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <feedline/feedline.hpp>

#include "support/asleep.hpp"
#include "support/catch.hpp"
#include "support/lifetimes.hpp"
#include "support/throws_saying.hpp"

namespace fl = feedline;
using namespace std::chrono_literals;
using fl::test::throws_saying;

namespace {

std::vector<int> numbers(int count) {
  std::vector<int> all(static_cast<std::size_t>(count));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

/// A function of one type for all tests.
struct sleepy {
  std::chrono::microseconds time;

  int operator()(int n) const {
    std::this_thread::sleep_for(time);
    return n;
  }
};

/// The same, declared as a wait.
struct waiting {
  std::chrono::microseconds time;

  int operator()(int n, fl::context& c) const {
    const auto wait = c.waiting();
    std::this_thread::sleep_for(time);
    return n;
  }
};

auto decoded(std::chrono::microseconds time, fl::workers workers = {1}) {
  return fl::from(numbers(100)) | fl::map(sleepy{time}, workers, fl::name{"decode"});
}

auto batched(std::chrono::microseconds time, fl::workers workers = {1}) {
  return decoded(time, workers) | fl::batch(4);
}

/// An indexed source that takes long for each element.
struct slow_elements {
  std::size_t size() const { return 1000; }

  int at(std::size_t position) const {
    std::this_thread::sleep_for(1ms);
    return static_cast<int>(position);
  }
};

std::size_t count_of(const fl::tuned_configuration& c) { return c.workers.at(0).workers.count; }

/// Whether no threads remain but those that there were; a thread that has been joined may still be seen for a moment.
class joined_threads {
 public:
  joined_threads() {
    std::thread([] {}).join(); // with the first one, ThreadSanitizer starts its own
    for (int seen = count(); seen > (before_ = count());) seen = before_;
  }

  bool all() const {
    for (int times = 0; times < 10'000 && count() > before_; ++times) std::this_thread::yield();
    return count() <= before_;
  }

 private:
  static int count() {
    int all = 0;
    fl::test::for_each_other_thread([&](const std::string&) { ++all; });
    return all;
  }

  int before_ = 0;
};

/// A search that has tried enough; on a busy machine it takes more time.
template <class Pipelines>
fl::tune_result tune(const Pipelines& p, fl::tune_options o, bool (*enough)(const fl::tune_result&)) {
  for (;; o.seconds *= 2) {
    try {
      fl::tune_result r = fl::tune(p, o);
      if (enough(r) || o.seconds > 20) return r;
    } catch (const std::runtime_error&) { // too few items
      if (o.seconds > 20) throw;
    }
  }
}

bool anything(const fl::tune_result&) { return true; }

/// Whether more workers than processors were tried.
bool exceeds_processors(const fl::tune_result& r) {
  return std::any_of(r.tried.begin(), r.tried.end(), [](const fl::tuned_configuration& c) {
    return c.workers.at(0).workers.max == 0 && count_of(c) > fl::processors();
  });
}

template <class... Arguments>
bool refuses(const std::string& words, Arguments&&... arguments) {
  return throws_saying<std::invalid_argument>(words,
                                              [&] { fl::tune(std::forward<Arguments>(arguments)...); });
}

void check_sane(const fl::tune_result& r) {
  REQUIRE(r.best_index < r.tried.size());
  for (const fl::tuned_configuration& c : r.tried) {
    CHECK(c.items_per_second > 0);
    CHECK(c.samples_per_second >= c.items_per_second);
    CHECK(c.measurements >= 1);
    CHECK(c.measurements <= 5);
    CHECK_FALSE(c.bottleneck.empty());
    CHECK(c.samples_per_second * 0.97 <= r.best().samples_per_second);
  }
}

} // namespace

TEST_CASE("tune adds workers to a stage that limits the pipeline") {
  const joined_threads joined;
  const fl::tune_result r =
      tune(batched(2ms), {.seconds = 0.8, .max_workers = 4}, [](const fl::tune_result& all) {
        return all.tried.size() >= 3 && count_of(all.tried[2]) == 4 && count_of(all.best()) > 1 &&
               all.tried[2].samples_per_second > all.tried[0].samples_per_second;
      });
  CHECK(joined.all());
  check_sane(r);
  REQUIRE(r.tried.size() >= 3);
  CHECK(r.tried[0].workers.at(0).stage == "map `decode`");
  const std::size_t counts[] = {1, 2, 4};
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(r.tried[i].variant.empty());
    CHECK(count_of(r.tried[i]) == counts[i]);
    CHECK(r.tried[i].queue_capacity == 0);
    CHECK(r.tried[i].samples_per_second == Approx(4 * r.tried[i].items_per_second).epsilon(1e-6));
  }
  CHECK(count_of(r.best()) > 1);
  CHECK(r.tried[2].samples_per_second > r.tried[0].samples_per_second);
  CHECK(r.tried[0].bottleneck.find("map `decode` is busy") != std::string::npos);

  const std::string text = to_string(r);
  CHECK(text.find("map `decode`: workers{" + std::to_string(count_of(r.best())) + "}\n") !=
        std::string::npos);
  CHECK(text.find("queue_capacity: ") != std::string::npos);
  CHECK(text.find("* ") != std::string::npos);
}

TEST_CASE("tune tries the pipeline first as it is given") {
  const fl::tune_result r = tune(decoded(1ms, fl::workers{3}), {.seconds = 0.3, .max_workers = 4},
                                 [](const fl::tune_result& all) { return all.tried.size() >= 2; });
  REQUIRE(r.tried.size() >= 2);
  check_sane(r);
  CHECK(count_of(r.tried[0]) == 3);

  const fl::tune_result automatic = tune(decoded(1ms, fl::workers::automatic), {.seconds = 0.2}, anything);
  CHECK(automatic.tried[0].workers[0].workers.max == fl::workers::limit);
  CHECK(to_string(automatic).find("map `decode`: workers::automatic") != std::string::npos);
}

TEST_CASE("tune adds no workers if another stage limits the pipeline") {
  const auto p = fl::from(numbers(100)) | fl::map([](int n) { return n; }, fl::workers{1}) |
                 fl::map(sleepy{2ms}, fl::name{"slow"});
  const fl::tune_result r = tune(p, {.seconds = 0.3, .max_workers = 64}, [](const fl::tune_result& all) {
    return all.best().bottleneck.find("slow") != std::string::npos &&
           std::all_of(all.tried.begin(), all.tried.end(), [](const auto& c) { return count_of(c) == 1; });
  });
  check_sane(r);
  for (const fl::tuned_configuration& c : r.tried) CHECK(count_of(c) == 1);
  CHECK(r.best().bottleneck.find("slow") != std::string::npos);
}

TEST_CASE("tune varies the capacity of queues, unless it is given") {
  const auto capacities = [](const fl::tune_result& r) {
    std::vector<std::size_t> all;
    for (const fl::tuned_configuration& c : r.tried) all.push_back(c.queue_capacity);
    return all;
  };
  const auto serial = fl::from(numbers(100)) | fl::map(sleepy{1ms});
  const fl::tune_result r =
      tune(serial, {.seconds = 0.3}, [](const fl::tune_result& all) { return all.tried.size() >= 3; });
  check_sane(r);
  REQUIRE(capacities(r).size() == 3);
  CHECK(capacities(r)[0] == 0);
  CHECK(capacities(r)[1] >= 1);
  CHECK(capacities(r)[2] > capacities(r)[1]);
  CHECK(r.best().workers.empty());
  CHECK(to_string(r).find("as given") != std::string::npos);

  CHECK(capacities(tune(serial, {.seconds = 0.1, .run = {.queue_capacity = 7}}, anything)) ==
        std::vector<std::size_t>{7});
}

TEST_CASE("tune compares variants, also of different types") {
  const auto full = batched(4ms), scaled = batched(1ms);
  const auto single = decoded(6ms);
  CHECK(throws_saying<std::invalid_argument>("two variants have the name `a`", [&] {
    fl::tune({{"a", full}, {"a", single}}, {.seconds = 20});
  }));
  const std::vector<fl::tune_variant> all{{"full size", full}, {"scaled", scaled}, {"single", single}};
  const fl::tune_result r = tune(all, {.seconds = 0.6, .max_workers = 2}, [](const fl::tune_result& some) {
    return some.tried.size() >= 3 && some.best().variant == "scaled";
  });
  REQUIRE(r.tried.size() >= 3);
  check_sane(r);
  CHECK(r.tried[0].variant == "full size");
  CHECK(r.tried[1].variant == "scaled");
  CHECK(r.tried[2].variant == "single");
  CHECK(r.best().variant == "scaled");
  CHECK(to_string(r).find("  variant `scaled`\n  map `decode`: workers{") != std::string::npos);
}

TEST_CASE("tune adds more workers than processors to stages that wait") {
  if (fl::processors() > 8) return; // it would take long
  const fl::workers io_bound{.count = 1, .max = 2, .io_bound = true};
  const fl::tune_result r = tune(decoded(5ms, io_bound), {.seconds = 0.4}, exceeds_processors);
  check_sane(r);
  CHECK(exceeds_processors(r));
  CHECK(r.tried.at(1).workers[0].workers.io_bound);
  CHECK(to_string(r).find(", .io_bound = true}") != std::string::npos);

  const auto declared = fl::from(numbers(100)) | fl::map(waiting{5ms}, fl::workers{1});
  CHECK(exceeds_processors(tune(declared, {.seconds = 0.4}, exceeds_processors)));
}

TEST_CASE("tune tells stages on the same and on different workers apart") {
  const auto p =
      fl::from(numbers(100)) |
      fl::parallel(fl::workers{1}, fl::map(sleepy{500us}) | fl::filter([](int n) { return n % 2 == 0; })) |
      fl::map(sleepy{2ms}, fl::workers{2}, fl::name{"crop"}) | fl::prefetch(3);
  const fl::tune_result r = tune(p, {.seconds = 0.4, .max_workers = 4}, anything);
  check_sane(r);
  REQUIRE(r.best().workers.size() == 2);
  CHECK(r.best().workers[0].stage == "map + filter");
  CHECK(r.best().workers[1].stage == "map `crop`");
}

TEST_CASE("tune names the stages of workers that read the source themselves") {
  const auto p = slow_elements() | fl::global_shuffle() |
                 fl::map([](int n) { return n; }, fl::workers{1}, fl::name{"decode"});
  const fl::tune_result r = tune(p, {.seconds = 0.3, .max_workers = 4}, [](const fl::tune_result& all) {
    return all.tried.size() >= 2 && count_of(all.tried[1]) == 2;
  });
  check_sane(r);
  REQUIRE(r.tried.size() >= 2);
  CHECK(r.tried[0].workers.at(0).stage == "map `decode`");
  CHECK(count_of(r.tried[1]) == 2);
}

TEST_CASE("errors of the pipeline leave tune") {
  const joined_threads joined;
  const auto p = fl::from(numbers(100)) | fl::map(
                                              [](int n) {
                                                if (n == 50) throw std::runtime_error("broken");
                                                return n;
                                              },
                                              fl::workers{2});
  CHECK(throws_saying<fl::pipeline_error>("broken", [&] { fl::tune(p, {.seconds = 1}); }));
  CHECK(joined.all());

  std::atomic<int> skipped{0};
  fl::tune_options skipping{.seconds = 0.3};
  skipping.run.on_error = fl::on_error::skip;
  skipping.run.on_failure = [&](const fl::failure&) { ++skipped; };
  const fl::tune_result r = tune(p, skipping, anything);
  check_sane(r);
  CHECK(skipped > 0);
  CHECK(throws_saying<fl::pipeline_error>("broken", [&] {
    fl::tune(p, {.seconds = 1, .run = {.on_error = fl::on_error::skip, .failure_limit = 0}});
  }));
}

TEST_CASE("an empty data set is an error") {
  CHECK(throws_saying<std::runtime_error>(
      "it yielded no sample", [] { fl::tune(fl::from(numbers(0)) | fl::map(sleepy{1us}), {.seconds = 1}); }));
  const auto none = fl::from(numbers(3)) | fl::filter([](int) { return false; }, fl::name{"none"});
  CHECK(throws_saying<std::runtime_error>("none", [&] { fl::tune(none, {.seconds = 1}); }));
}

TEST_CASE("tune ends in time") {
  CHECK(throws_saying<std::runtime_error>("too few items arrived within 0.200 seconds", [] {
    fl::tune(fl::from(numbers(100)) | fl::map(sleepy{150ms}), {.seconds = 0.2});
  }));
}

TEST_CASE("a stop token ends tune") {
  std::stop_source stop;
  std::atomic<int> calls{0};
  const auto p = fl::from(numbers(100)) | fl::map([&](int n) {
                   std::this_thread::sleep_for(1ms);
                   if (++calls == 250) stop.request_stop();
                   return n;
                 });
  const joined_threads joined;
  const fl::tune_result r = fl::tune(p, {.seconds = 1, .run = {.stop = stop.get_token()}});
  check_sane(r);
  CHECK(joined.all());
  stop.request_stop();
  CHECK(throws_saying<std::runtime_error>("stopped before anything was measured",
                                          [&] { fl::tune(p, {.run = {.stop = stop.get_token()}}); }));
}

TEST_CASE("tune keeps to a memory budget") {
  const auto p = fl::from(numbers(100)) | fl::map(
                                              [](int) {
                                                std::this_thread::sleep_for(1ms);
                                                return fl::tensor<float, 1024>();
                                              },
                                              fl::workers{1}, fl::max_item_bytes{5000});
  CHECK(refuses("memory_budget", p, fl::tune_options{.seconds = 1, .run = {.memory_budget = 1000}}));
  const std::size_t budget = 100'000; // enough for a few workers
  const fl::tune_result r =
      tune(p, {.seconds = 0.5, .max_workers = 64, .run = {.memory_budget = budget}}, anything);
  check_sane(r);
  for (const fl::tuned_configuration& c : r.tried) {
    CHECK(c.bytes.value_or(budget + 1) <= budget);
    CHECK(count_of(c) < 64);
  }
}

TEST_CASE("each run of tune destroys its items") {
  fl::test::lifetimes all;
  const auto p =
      fl::from(numbers(100)) | fl::map([&](int n) { return fl::test::counted_item(all, n); }, fl::workers{2});
  check_sane(tune(p, {.seconds = 0.2}, anything));
  CHECK(all.live() == 0);
}

TEST_CASE("tune refuses live sources that it can't read again") {
  fl::push_source<int> pushed;
  CHECK(refuses("the source is live", pushed | fl::map(sleepy{1us})));
  CHECK(throws_saying<std::runtime_error>("feedline::tune: the source ended before", [&] {
    pushed.close();
    fl::tune(pushed | fl::map(sleepy{1us}), {.seconds = 1, .accept_live = true});
  }));
  const auto endless =
      fl::generate([n = 0]() mutable { return std::optional(n++); }) | fl::map(sleepy{100us});
  check_sane(tune(endless, {.seconds = 0.2}, anything));
}

TEST_CASE("tune refuses options without sense") {
  const auto p = decoded(1ms);
  CHECK(refuses("but is 0", p, fl::tune_options{.seconds = 0}));
  CHECK(refuses("but is -1", p, fl::tune_options{.seconds = -1}));
  CHECK(refuses("at most", p, fl::tune_options{.seconds = std::numeric_limits<double>::quiet_NaN()}));
  CHECK(refuses("at most", p, fl::tune_options{.seconds = std::numeric_limits<double>::infinity()}));
  CHECK(refuses("max_workers is 257", p, fl::tune_options{.max_workers = 257}));
  CHECK(refuses("-1", p, fl::tune_options{.max_workers = static_cast<std::size_t>(-1)}));
  CHECK(refuses("no pipeline", std::vector<fl::tune_variant>()));
  CHECK(refuses("queue_capacity", p,
                fl::tune_options{.run = {.queue_capacity = static_cast<std::size_t>(-1)}}));
  CHECK(to_string(fl::tune_result()) == "nothing was tried\n");
}
