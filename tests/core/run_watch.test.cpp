// SPDX-License-Identifier: MIT
// What a run says about itself to others: what its consumer waits for, and numbers that outlive the loader.
#include <feedline/core/run_watch.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <future>
#include <latch>
#include <mutex>
#include <optional>
#include <ranges>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <feedline/feedline.hpp>

#include "support/asleep.hpp"
#include "support/catch.hpp"
#include "support/parked.hpp"
#include "support/throws_saying.hpp"
#include "support/watchdog.hpp"

namespace fl = feedline;
using namespace feedline::test;
using namespace std::chrono_literals;

namespace {

auto numbers(int count) { return fl::from(std::views::iota(0, count)); }

bool has(const std::string& text, std::string_view part) { return text.find(part) != text.npos; }

/// Holds up whoever calls wait_at() with one number.
class gate {
 public:
  explicit gate(int at) : at_(at) {}

  ~gate() { open(); }

  int wait_at(int n) {
    // Long enough that a report names the sample, and not a few of them.
    for (const auto begin = std::chrono::steady_clock::now();
         std::chrono::steady_clock::now() - begin < 200ns;)
      continue;
    if (n == at_) opened_.wait();
    return n;
  }

  void open() {
    if (!std::exchange(is_open_, true)) opened_.count_down();
  }

 private:
  int at_;
  bool is_open_ = false;
  std::latch opened_{1};
};

/// What a run waits for while all of its threads and its consumer sleep; then the gate opens, and the run goes to its end.
template <class Pipeline>
std::string hung(const Pipeline& pipeline, gate& g) {
  auto loader = pipeline.finite();
  auto consumer = std::async(std::launch::async, [&] {
    while (loader.next()) {
    }
  });
  await_all_others_asleep();
  const std::string text = loader.waiting_for();
  CHECK(fl::run_watch(loader).waiting_for().substr(0, 20) == text.substr(0, 20));
  g.open();
  consumer.get();
  CHECK(loader.waiting_for() == "nothing: the run has ended");
  return text;
}

/// A source that waits before its sixth number.
struct slow_source {
  std::optional<int> next() {
    if (next_ == 10) return std::nullopt;
    g->wait_at(next_);
    return next_++;
  }

  std::string origin(std::uint64_t index) const { return "numbers.txt: " + std::to_string(index); }

  gate* g;
  int next_ = 0;
};

/// Emits each number twice, and waits between the two.
struct twice {
  using output = int;

  void operator()(int n, auto& emit) {
    emit(n);
    emit(g->wait_at(n));
  }

  gate* g;
};

} // namespace

TEST_CASE("A loader names the stage, the worker and the sample that its consumer waits for") {
  const watchdog dog("waiting_for");
  gate g(50);
  const auto wait = [&](int n) { return g.wait_at(n); };

  SECTION("with workers") {
    const std::string text =
        hung(numbers(100) | fl::map(wait, fl::name{"decode"}, fl::workers{3}) | fl::batch(4), g);
    CHECK(has(text, " is with worker "));
    CHECK(has(text, " in map `decode`, on sample 50, for "));
    CHECK(text.ends_with(" s"));
  }
  SECTION("with workers whose items may overtake others") {
    const std::string text =
        hung(numbers(100) | fl::map(wait, fl::name{"decode"}, fl::workers{2}, fl::unordered), g);
    CHECK(has(text, " in map `decode`, on sample 50, for "));
  }
  SECTION("with an automatic number of workers") {
    const std::string text = hung(numbers(100) | fl::map(wait, fl::name{"decode"}, fl::workers::automatic) |
                                      fl::map([](int n) { return n; }),
                                  g);
    CHECK(has(text, " in map `decode`, on sample 50, for "));
  }
  SECTION("with a later packet that hangs too") {
    const auto both = [&](int n) { return g.wait_at(n == 90 ? 50 : n); };
    const std::string text = hung(numbers(100) | fl::map(both, fl::name{"decode"}, fl::workers{2}), g);
    CHECK(has(text, ", on sample 50, for "));
  }
  SECTION("on the thread of the source") {
    const std::string text = hung(numbers(100) | fl::map(wait, fl::name{"decode"}) | fl::batch(4), g);
    CHECK(has(text, "the source's thread is in map `decode`, on sample 50, for "));
  }
  SECTION("on a thread of its own, behind another pool") {
    const std::string text = hung(numbers(100) | fl::map([](int n) { return n; }, fl::workers{2}) |
                                      fl::map(wait, fl::name{"crop"}) | fl::batch(4),
                                  g);
    CHECK(has(text, " is in map `crop`, on sample 50, for "));
    CHECK(text.starts_with("packet "));
  }
  SECTION("before a filled buffer, a queue and another pool") {
    const std::string text =
        hung(numbers(100) | fl::map(wait, fl::name{"decode"}, fl::workers{2}) | fl::shuffle({.capacity = 8}) |
                 fl::prefetch(3) | fl::map([](int n) { return n; }, fl::workers{2}) | fl::batch(4),
             g);
    CHECK(has(text, " in map `decode`, on sample 50, for "));
  }
  SECTION("behind a buffer it is the sample that the buffer emitted") {
    const std::string text = hung(
        numbers(100) | fl::shuffle({.capacity = 8}) | fl::map(wait, fl::name{"decode"}) | fl::batch(4), g);
    CHECK(has(text, "is in map `decode`, on sample 50, for "));
  }
  SECTION("in a stage that goes on after it emitted") {
    const std::string text = hung(numbers(100) | twice{&g} | fl::map([](int n) { return n; }), g);
    CHECK(has(text, "twice, on sample 50, for "));
  }
  SECTION("in a flat_map") {
    const auto all = [&](int n) { return std::vector<int>{n, g.wait_at(n)}; };
    const std::string text = hung(numbers(100) | fl::flat_map(all, fl::name{"split"}, fl::workers{2}), g);
    CHECK(has(text, " in flat_map `split`, on sample 50, for "));
  }
  SECTION("in a function that says that it waits") {
    const auto waits = [&](int n, fl::context& c) {
      const auto waiting = c.waiting();
      return g.wait_at(n);
    };
    const std::string text = hung(numbers(100) | fl::map(waits, fl::name{"ask"}, fl::workers{2}), g);
    CHECK(has(text, " in map `ask`, on sample 50, which waits inside its function, for "));
  }
}

TEST_CASE("Of values that take next to no time a loader names the first of a few") {
  const watchdog dog("one of a few");
  constexpr int bad = 70'001;
  const auto number_after = [](const std::string& words, std::string text) {
    std::erase(text, ',');
    const auto at = text.find(words);
    return at == text.npos ? 0 : std::stoi(text.substr(at + words.size()));
  };
  for (const std::size_t workers : {1u, 2u}) {
    gate g(bad);
    const auto wait = [&](int n) { return n == bad ? g.wait_at(n) : n; };
    const std::string text =
        hung(numbers(2 * bad) | fl::map(wait, fl::workers{workers}) | fl::batch(1000), g);
    INFO(text);
    const int first = number_after(" on sample ", text), others = number_after(" or one of the ", text);
    CHECK(others < 16);
    CHECK(first <= bad);
    CHECK(bad <= first + others);
  }
}

TEST_CASE("A loader says that its consumer waits for the source") {
  const watchdog dog("waiting for a source");
  gate g(5);
  CHECK(has(hung(fl::from(slow_source{&g}) | fl::batch(2), g), " reads its next sample, for "));
}

TEST_CASE("A loader names the file of the sample that its consumer waits for") {
  const watchdog dog("waiting for a sample of a file");
  gate never(-1), g(7);
  const std::string text =
      hung(fl::from(slow_source{&never}) | fl::map([&](int n) { return g.wait_at(n); }, fl::workers{2}), g);
  CHECK(has(text, ", on sample 7 (numbers.txt: 7), for "));
}

TEST_CASE("A loader says that its consumer doesn't ask") {
  const watchdog dog("waiting for nobody");
  auto loader = (numbers(1000) | fl::map([](int n) { return n; }, fl::workers{2}) | fl::batch(4)).infinite();
  await_all_others_asleep();
  CHECK(has(loader.waiting_for(), "nothing: the consumer hasn't asked for an item yet; "));
  REQUIRE(loader.next());
  await_all_others_asleep();
  CHECK(has(loader.waiting_for(), "nothing: the consumer took the last packet "));
  loader.stop();
  CHECK(loader.waiting_for() == "nothing: the run was stopped");
  const auto moved = std::move(loader);
  CHECK(loader.waiting_for() == "nothing: the loader has no run");
}

TEST_CASE("waiting_for() names what holds up the next item of a consumer that polls") {
  const watchdog dog("polling");
  gate g(0);
  auto loader =
      (numbers(100) | fl::map([&](int n) { return g.wait_at(n); }, fl::name{"decode"}, fl::workers{2}))
          .finite();
  CHECK(!loader.try_next());
  await_all_others_asleep();
  CHECK(has(loader.waiting_for(), " in map `decode`, on sample 0, for "));
  g.open();
}

TEST_CASE("A watchdog reports once what a run waits for, and again at the next wait") {
  const watchdog dog("watchdog");
  std::mutex mutex;
  std::vector<std::string> said;
  std::latch at_3(1), at_6(1), first(1), second(1);
  const auto note = [&](const std::string& sentence) {
    const std::lock_guard lock(mutex);
    said.push_back(sentence);
    if (said.size() <= 2) (said.size() == 1 ? first : second).count_down();
    throw std::runtime_error("nobody can catch it");
  };
  const auto wait = [&](int n) {
    if (n == 3) at_3.count_down(), first.wait();
    if (n == 6) at_6.count_down(), second.wait();
    return n;
  };
  auto loader = (numbers(9) | fl::map(wait, fl::name{"decode"}) | fl::prefetch(9))
                    .finite({.on_notice = note, .watchdog = 20ms});
  // The consumer waits only while the source's thread is where it will wait for long.
  at_3.wait();
  std::size_t count = 0;
  for (bool reported = false; loader.next(); ++count)
    if (!reported && first.try_wait()) at_6.wait(), reported = true;
  CHECK(count == 9);
  const std::lock_guard lock(mutex);
  REQUIRE(said.size() >= 2); // on a busy machine the rest may take long, too
  CHECK(said[0].starts_with("feedline: no item came for "));
  CHECK(has(said[0], " s. Waiting for: the source's thread is in map `decode`, on sample 3, for "));
  CHECK(has(said[1], "on sample 6"));
}

TEST_CASE("A watchdog is silent while the consumer takes items or does something else") {
  const watchdog dog("silent watchdog");
  const auto none = [](const std::string& sentence) { FAIL(sentence); };
  auto loader = (numbers(1000) | fl::map([](int n) { return n; }, fl::workers{2}))
                    .finite({.on_notice = none, .watchdog = 15ms});
  for (int i = 0; i < 20; ++i) {
    await_all_others_asleep(); // so that it needn't wait for the next item
    REQUIRE(loader.next());
  }
  burn(40);
}

TEST_CASE("A watchdog ends with its run") {
  const watchdog dog("ending watchdogs");
  const auto options = [](fl::callback<std::string> note) {
    return fl::finite_options{.on_notice = note, .watchdog = 1h};
  };
  const auto none = [](const std::string& sentence) { FAIL(sentence); };
  SECTION("at its end") {
    auto loader = numbers(9).finite(options(none));
    while (loader.next()) {
    }
  }
  SECTION("at a stop") {
    auto loader = numbers(9).finite(options(none));
    loader.stop();
    CHECK(!loader.next());
  }
  SECTION("at a stop by what it reports to") {
    std::stop_source source;
    std::latch stopped(1);
    const auto stop = [&](const std::string&) {
      source.request_stop();
      stopped.count_down();
    };
    auto loader = (numbers(9) | fl::map([&](int n) {
                     return stopped.wait(), n;
                   })).finite({.stop = source.get_token(), .on_notice = stop, .watchdog = 20ms});
    CHECK(!loader.next());
  }
  SECTION("at a failure") {
    auto loader = (numbers(9) | fl::map([](int n) {
                     return n < 5 ? n : throw std::runtime_error("five");
                   })).finite(options(none));
    CHECK(throws_saying<fl::pipeline_error>("five", [&] {
      while (loader.next()) {
      }
    }));
  }
  SECTION("before its first item") { auto loader = numbers(9).finite(options(none)); }
}

TEST_CASE("A consumer that waits too much learns once what limits the run") {
  const watchdog dog("on_starved");
  std::vector<std::string> said;
  const auto slow = [](int n) {
    std::this_thread::sleep_for(1ms);
    return n;
  };
  const auto pipeline = numbers(120) | fl::map(slow, fl::name{"decode"});
  const auto note = [&](const std::string& sentence) { said.push_back(sentence); };
  const auto run = [&](fl::finite_options o) {
    o.on_starved = note;
    for ([[maybe_unused]] int n : pipeline.finite(o)) {
    }
  };
  for (auto after = 100ms; said.empty() && after < 100s;
       after *= 5) { // long, compared with the start of threads
    auto loader = pipeline.infinite({.on_starved = note, .starved_after = after});
    for (const auto begin = std::chrono::steady_clock::now();
         said.empty() && std::chrono::steady_clock::now() - begin < 2 * after;)
      loader.next();
  }
  REQUIRE(said.size() == 1);
  CHECK(said[0].starts_with("feedline: the consumer waited "));
  CHECK(has(said[0], " s: "));
  run({.starved_after = 1h});
  run({});
  CHECK(said.size() == 1);
}

TEST_CASE("A watch sees the metrics of a run beyond the end of its loader") {
  std::optional<fl::run_watch> watch;
  {
    const auto odd = [](int n) { return n % 2 == 0 ? n : throw std::runtime_error("odd"); };
    auto loader = (numbers(20) | fl::map(odd, fl::name{"even"})).finite({.on_error = fl::on_error::skip});
    watch.emplace(loader);
    const fl::run_watch other(loader);
    REQUIRE(loader.next());
    REQUIRE(loader.next());
    CHECK(!watch->has_ended());
    CHECK(watch->metrics().recent.consumer.items == 2);
    CHECK(loader.metrics().recent.consumer.items == 2); // each has intervals of its own
    auto moved = std::move(loader);
    while (moved.next()) {
    }
    CHECK(other.metrics().recent.consumer.items == 10);
    CHECK(fl::to_string(watch->memory()) == fl::to_string(moved.memory()));
  }
  CHECK(watch->has_ended());
  CHECK(watch->waiting_for() == "nothing: the run has ended");
  const fl::metrics last = watch->metrics();
  CHECK(last.total.consumer.items == 10);
  CHECK(last.recent.consumer.items == 8);
  REQUIRE(last.recent.failures.size() == 1);
  CHECK(last.recent.failures[0].stage == "map `even`");
  CHECK(last.recent.failures[0].message == "odd");
  CHECK(last.recent.failures[0].count == 9); // one came before the first call
  CHECK(last.total.failures[0].count == 10);
  CHECK(watch->metrics().total.consumer.items == 10);
  CHECK(watch->metrics().recent.seconds == 0);
}

TEST_CASE("A watch of a loader that was moved from has nothing to say") {
  auto loader = numbers(3).finite();
  const auto other = std::move(loader);
  const fl::run_watch watch(loader);
  CHECK(watch.has_ended());
  CHECK(watch.metrics().total.stages.empty());
  CHECK(watch.waiting_for() == "nothing: the run has ended");
}

TEST_CASE("Watches and loaders may end in any order, at any time") {
  const watchdog dog("ends of watches");
  for (int round = 0; round < 20; ++round) {
    std::optional<fl::loader<int>> loader{
        (numbers(1000) | fl::map([](int n) { return n; }, fl::workers{2})).infinite()};
    std::atomic<int> begun{0};
    std::vector<std::jthread> watchers;
    for (int i = 0; i < 3; ++i)
      watchers.emplace_back([watch = fl::run_watch(*loader), &begun, i] {
        do {
          if (i == 0) static_cast<void>(watch.metrics());
          if (i == 1) static_cast<void>(watch.waiting_for());
          if (i == 2) static_cast<void>(fl::run_watch(watch).memory());
          ++begun;
        } while (!watch.has_ended());
      });
    while (begun < 5) REQUIRE(loader->next());
    loader.reset();
  }
}

TEST_CASE("Workers can be pinned to processors") {
  ::cpu_set_t allowed;
  CPU_ZERO(&allowed);
  REQUIRE(::sched_getaffinity(0, sizeof allowed, &allowed) == 0);
  int first = 0;
  while (!CPU_ISSET(static_cast<std::size_t>(first), &allowed)) ++first;
  const auto where = [](int) {
    ::cpu_set_t mine;
    CPU_ZERO(&mine);
    ::sched_getaffinity(0, sizeof mine, &mine);
    return CPU_COUNT(&mine) * 10'000 + ::sched_getcpu();
  };
  for (const int seen : (numbers(100) | fl::map(where, fl::workers{2}.on({first}))).finite())
    CHECK(seen == 10'000 + first);
  CHECK(throws_saying<std::invalid_argument>("there is no processor -1", [] { fl::workers{2}.on({0, -1}); }));
  CHECK(
      throws_saying<std::invalid_argument>("there is no processor 5000", [] { fl::workers{2}.on({5000}); }));
  CHECK(throws_saying<std::invalid_argument>("is empty", [] { fl::workers{2}.on(std::vector<int>{}); }));
  auto refused = (numbers(100) | fl::map(where, fl::name{"decode"}, fl::workers{1}.on({1023}))).finite();
  CHECK(throws_saying<fl::pipeline_error>("map `decode`", [&] {
    while (refused.next()) {
    }
  }));
}

TEST_CASE("A run can lower the priority of its threads") {
  const int before = ::getpriority(PRIO_PROCESS, 0);
  const auto priority = [](int) { return ::getpriority(PRIO_PROCESS, static_cast<::id_t>(::gettid())); };
  for (const int nice : (numbers(10) | fl::map(priority, fl::workers{2})).finite({.nice = 5}))
    CHECK(nice == std::min(19, before + 5));
  CHECK(::getpriority(PRIO_PROCESS, 0) == before);
}

TEST_CASE("A run stays within its share of the processors, whatever its segments are") {
  const watchdog dog("cpu_share");
  const auto work = [](int n) {
    const auto end = std::chrono::steady_clock::now() + 200us;
    while (std::chrono::steady_clock::now() < end) {
    }
    return n;
  };
  const auto throttled = [](const auto& pipeline, double share) {
    auto loader = pipeline.finite({.cpu_share = share});
    while (loader.next()) {
    }
    return loader.metrics().total.segments.back().sum().throttled;
  };
  const double little = 0.02 / static_cast<double>(fl::processors());
  CHECK(throttled(numbers(100) | fl::map(work, fl::workers{2}), little) > 0);
  CHECK(throttled(numbers(100) | fl::map(work) | fl::batch(2), little) > 0);
  CHECK(throttled(numbers(100) | fl::map(work, fl::workers{2}), 0) == 0);
  auto stopped = (numbers(1'000'000) | fl::map(work, fl::workers{2})).finite({.cpu_share = 1e-6});
  REQUIRE(stopped.next()); // its threads now wait for minutes, which the destructor ends
}
