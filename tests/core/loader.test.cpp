// SPDX-License-Identifier: MIT
#include <feedline/core/loader.hpp>

#include <any>
#include <atomic>
#include <chrono>
#include <latch>
#include <memory>
#include <new>
#include <optional>
#include <ranges>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <system_error>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <feedline/feedline.hpp>

#include "support/asleep.hpp"
#include "support/catch.hpp"
#include "support/numbers.hpp"
#include "support/outcome.hpp"
#include "support/parked.hpp"
#include "support/sanitizers.hpp"
#include "support/throws_saying.hpp"
#include "support/watchdog.hpp"

namespace fl = feedline;
using namespace feedline::test;

namespace {

// The same type for all tests: each new one costs the compiler a second.
struct script {
  void (*before)(int, const fl::context&) = nullptr;

  int operator()(int n, fl::context& c) const {
    if (before) before(n, c);
    return n;
  }
};

auto pipeline_of(numbers source, script s = {}, std::size_t workers = 2) {
  return fl::from(std::move(source)) | fl::map(s, fl::workers{workers}) | fl::prefetch(8);
}

using test_loader = fl::loader_of<decltype(pipeline_of(numbers(0)))>;

void throw_at_20(int n, const fl::context&) {
  if (n == 20) throw unlucky(n);
}

} // namespace

TEST_CASE("A loader can be moved, not copied, and is a range of one pass") {
  STATIC_REQUIRE(std::is_nothrow_move_constructible_v<test_loader>);
  STATIC_REQUIRE(std::is_nothrow_move_assignable_v<test_loader>);
  STATIC_REQUIRE_FALSE(std::is_copy_constructible_v<test_loader>);
  STATIC_REQUIRE(std::ranges::input_range<test_loader>);
  STATIC_REQUIRE_FALSE(std::ranges::forward_range<test_loader>);
  STATIC_REQUIRE(std::is_same_v<std::ranges::range_value_t<test_loader>, int>);
}

TEST_CASE("next() and stop() of a running and of a finished loader") {
  const watchdog guard("finished");
  auto loader = pipeline_of(numbers(50)).finite();
  CHECK_FALSE(loader.stopped());
  for (int i = 0; i < 50; ++i) CHECK(loader.next() == i);
  for (int times = 0; times < 3; ++times) CHECK_FALSE(loader.next());
  CHECK_FALSE(loader.stopped());
  loader.stop();
  CHECK_FALSE(loader.next());
  CHECK(loader.failures().empty());
  CHECK(loader.metrics().total.consumer.items == 50);
  CHECK(loader.begin() == loader.end());
}

TEST_CASE("A loop over a loader whose run has ended is refused") {
  const watchdog guard("spent");
  const std::string why = "the run of this loader has ended: start another run";
  auto loader = pipeline_of(numbers(5)).finite();
  int items = 0;
  for ([[maybe_unused]] const int n : loader) ++items;
  CHECK(items == 5);
  for (int times = 0; times < 2; ++times)
    CHECK(throws_saying<std::logic_error>(why, [&] { loader.begin(); }));
  CHECK_FALSE(loader.next());
  loader = pipeline_of(numbers(5)).finite(); // another run
  for (int i = 0; i < 5; ++i) CHECK(loader.next() == i);
  CHECK(loader.begin() == loader.end()); // the end was not known before
  CHECK(throws_saying<std::logic_error>(why, [&] { loader.begin(); }));
  loader = pipeline_of(numbers(0)).finite();
  CHECK(loader.begin() == loader.end());
  CHECK(throws_saying<std::logic_error>(why, [&] { loader.begin(); }));
}

TEST_CASE("Two threads inside next() are detected") {
  const watchdog guard("two threads inside next()");
  static std::latch* hold = nullptr;
  std::latch released(1);
  hold = &released;
  auto loader = pipeline_of(numbers(10), {[](int, const fl::context&) { hold->wait(); }}).finite();
  parking_thread first([&] { loader.next(); });
  first.await_parked(); // inside
  CHECK(throws_saying<std::logic_error>("two threads called next() of one loader at once",
                                        [&] { loader.next(); }));
  released.count_down();
  while (!first.done()) std::this_thread::yield();
  CHECK(loader.next() == 1); // one after another they may call next()
}

TEST_CASE("next() and stop() of a stopped loader") {
  const watchdog guard("stopped");
  auto loader = pipeline_of(numbers(50)).infinite();
  CHECK(loader.next() == 0);
  loader.stop();
  for (int times = 0; times < 3; ++times) CHECK_FALSE(loader.next());
  CHECK(loader.stopped());
  loader.stop();
  CHECK_FALSE(loader.next());
  CHECK(loader.failures().empty());
  CHECK(loader.metrics().total.consumer.items >= 1);
  CHECK(loader.begin() == loader.end());
}

TEST_CASE("next() and stop() of a failed loader") {
  const watchdog guard("failed");
  auto loader = pipeline_of(numbers(50), {throw_at_20}).finite();
  for (int i = 0; i < 20; ++i) CHECK(loader.next() == i);
  for (int times = 0; times < 3; ++times) {
    try {
      loader.next();
      FAIL("next() didn't throw");
    } catch (const fl::pipeline_error& error) {
      CHECK(error.failure().index == 20);
      REQUIRE(error.cause<unlucky>());
      CHECK(error.cause<unlucky>()->number == 20);
    }
    loader.stop();
  }
  CHECK_THROWS_AS(loader.begin(), fl::pipeline_error);
  CHECK(loader.failures().empty()); // it lists only skipped samples
  CHECK(loader.metrics().total.stages[1].failures == 1);
}

TEST_CASE("A range-for iterates over a loader, and may break and continue") {
  const watchdog guard("range-for");
  auto loader = pipeline_of(numbers(30)).finite();
  int expected = 0;
  for (const int n : loader) {
    CHECK(n == expected++);
    if (n == 9) break;
  }
  for (int& n : loader) CHECK(n == expected++);
  CHECK(expected == 30);

  for (int rounds = 0; rounds < 100; ++rounds)
    for (const int n : pipeline_of(numbers(1000)).infinite())
      if (n >= rounds) break; // and the destructor joins all threads
}

TEST_CASE("A range-for yields items that could be made of anything") {
  std::vector<bool> odd;
  for (const bool n : (fl::from(count_to(4)) | fl::map([](int n) { return n % 2 == 1; })).finite())
    odd.push_back(n);
  CHECK(odd == std::vector{false, true, false, true});
  int sum = 0;
  for (const std::any& n : (fl::from(count_to(4)) | fl::map([](int n) { return std::any(n); })).finite())
    sum += std::any_cast<int>(n);
  CHECK(sum == 6);
}

TEST_CASE("An iterator gives access to the item until it advances") {
  auto loader = (fl::from(std::vector<std::pair<int, int>>{{1, 2}, {3, 4}}) | fl::prefetch(2)).finite();
  auto it = loader.begin();
  CHECK(it->second == 2);
  it->second = 7;
  CHECK((*it).second == 7);
  it++;
  CHECK(it->first == 3);
  CHECK(++it == loader.end());
}

TEST_CASE("A running loader can be moved, also in the middle of an iteration") {
  const watchdog guard("moved");
  auto a = pipeline_of(numbers(40)).finite();
  CHECK(a.next() == 0);
  auto b = std::move(a);
  CHECK_FALSE(a.next());
  CHECK(a.stopped());
  CHECK(a.failures().empty());
  CHECK(a.metrics().total.stages.empty());
  CHECK_FALSE(fl::to_string(a.metrics()).empty());
  a.stop();
  CHECK(b.next() == 1);
  auto it = b.begin();
  auto c = std::move(b);
  CHECK(*it == 2);
  CHECK(*++it == 3);
  CHECK(c.next() == 4);

  c = pipeline_of(numbers(3)).finite(); // ends the run that c had
  CHECK(collect(std::move(c)) == count_to(3));
  std::optional<test_loader> kept;
  kept.emplace(pipeline_of(numbers(3)).infinite());
  CHECK(kept->next() == 0);
  std::thread other([l = std::move(*kept)]() mutable { l.next(); });
  other.join();
}

TEST_CASE("A stage's function can stop the run through its loader") {
  const watchdog guard("stop from inside");
  static test_loader* self = nullptr;
  static std::latch ready(1);
  auto loader = pipeline_of(numbers(1000), {[](int n, const fl::context&) {
                              if (n != 100) return;
                              ready.wait();
                              self->stop();
                            }})
                    .infinite();
  self = &loader;
  ready.count_down();
  while (loader.next()) {
  }
  CHECK(loader.stopped());
}

TEST_CASE("The context of a long call requests a stop") {
  const watchdog guard("context.stop");
  static std::atomic<int> waiting;
  waiting = 0;
  auto loader = pipeline_of(numbers(1000), {[](int, const fl::context& c) {
                              ++waiting;
                              std::latch told(1);
                              const std::stop_callback tell(c.stop, [&] { told.count_down(); });
                              told.wait();
                            }},
                            8)
                    .infinite();
  while (waiting < 8) std::this_thread::yield();
  loader.stop();
  CHECK_FALSE(loader.next());
}

TEST_CASE("stop() wakes a consumer that waits on another thread") {
  const watchdog guard("waiting consumer");
  static std::latch* hold = nullptr;
  for (int round = 0; round < 50; ++round) {
    std::latch released(1);
    hold = &released;
    auto loader = pipeline_of(numbers(1000), {[](int, const fl::context&) { hold->wait(); }}).infinite();
    std::thread consumer([&] { CHECK_FALSE(loader.next()); });
    if (round % 2 == 0) await_all_others_asleep();
    loader.stop();
    consumer.join(); // although the current items aren't finished
    released.count_down();
  }
}

TEST_CASE("64 parked workers are joined by the destructor, whether they wait for input or for room") {
  const watchdog guard("parked workers");
  {
    auto full =
        (fl::from(numbers(1000)) | fl::map(script(), fl::workers{64})).infinite({.queue_capacity = 4});
    await_all_others_asleep();
  }
  static std::latch* hold = nullptr;
  std::latch released(1);
  hold = &released;
  auto starved = fl::generate([n = 0]() mutable {
                   if (n == 3) hold->wait();
                   return std::optional(n++);
                 }) |
                 fl::map(script(), fl::workers{64});
  auto loader =
      starved.infinite({.queue_capacity = 64}); // one item per packet: a source that waits holds none back
  for (int i = 0; i < 3; ++i) CHECK(loader.next() == i);
  await_all_others_asleep();
  loader.stop();
  released.count_down();
}

namespace {

/// While it exists, new threads request stacks of that size.
class stacks_of {
 public:
  explicit stacks_of(std::size_t bytes) {
    ::pthread_getattr_default_np(&before_);
    ::pthread_attr_t now;
    ::pthread_attr_init(&now);
    ::pthread_attr_setstacksize(&now, bytes);
    ::pthread_setattr_default_np(&now);
    ::pthread_attr_destroy(&now);
  }

  stacks_of(const stacks_of&) = delete;

  ~stacks_of() {
    ::pthread_setattr_default_np(&before_);
    ::pthread_attr_destroy(&before_);
  }

 private:
  ::pthread_attr_t before_;
};

} // namespace

TEST_CASE("A thread that can't be started is reported with its number, and the others are joined") {
  const watchdog guard("threads");
  // The address space has room for only three such stacks; a sanitizer would scan each of them.
  const auto refuses = [](std::size_t stack, const char* why) {
    const stacks_of large(stack);
    return throws_saying<std::system_error>(why, [] { pipeline_of(numbers(50), {}, 17).infinite(); });
  };
  CHECK(refuses(std::size_t{1} << 47, "feedline: can't start thread 1 of 18: use fewer workers"));
  if (!is_sanitized) CHECK(refuses(std::size_t{1} << 45, " of 18: use fewer workers"));
  CHECK(collect(pipeline_of(numbers(3), {}, 17).finite()) == count_to(3));
}

TEST_CASE("The stop token of the options stops the run, also after the loader was moved") {
  std::stop_source source;
  auto a = pipeline_of(numbers(10)).infinite({.stop = source.get_token()});
  auto b = std::move(a);
  CHECK(b.next() == 0);
  source.request_stop();
  CHECK_FALSE(b.next());
  CHECK(b.stopped());
}

TEST_CASE("A token may request a stop during the loader's destruction") {
  const watchdog guard("stop against destruction");
  for (int round = 0; round < 300; ++round) {
    std::stop_source source;
    std::latch both(2);
    std::thread stopper([&] {
      both.arrive_and_wait();
      source.request_stop();
    });
    {
      auto loader = pipeline_of(numbers(10)).infinite({.stop = source.get_token()});
      both.arrive_and_wait();
    }
    stopper.join();
  }
}

namespace {

struct copied_sparingly {
  using output = int;
  static constexpr fl::stage_traits traits{.kind = "sparing"};

  copied_sparingly() = default;

  copied_sparingly(const copied_sparingly& other) : copies_left(other.copies_left) {
    if ((*copies_left)-- <= 0) throw std::bad_alloc();
  }

  copied_sparingly(copied_sparingly&&) = default;

  void operator()(int n, auto& emit) { emit(n); }

  std::shared_ptr<std::atomic<int>> copies_left = std::make_shared<std::atomic<int>>(1000);
};

} // namespace

TEST_CASE("A stage whose copy for the run throws fails it at the first next()") {
  const watchdog guard("copies");
  copied_sparingly stage;
  const auto copies_left = stage.copies_left;
  const auto p = fl::from(numbers(10)) | std::move(stage) | fl::prefetch(2);
  *copies_left = 0;
  auto without = p.finite();
  try {
    without.next();
    FAIL("the stage can't be copied");
  } catch (const fl::pipeline_error& error) {
    CHECK(error.failure().stage == "sparing");
    CHECK(error.cause<std::bad_alloc>());
    CHECK_THROWS_AS(without.next(), fl::pipeline_error);
  }
  *copies_left = 1; // one for the run's thread, none for the run
  CHECK(collect(p.finite()).size() == 10);
}

#if !FEEDLINE_TEST_TSAN // which doesn't follow a fork of a process with threads
TEST_CASE("A child of fork() may destroy the loader that it inherited") {
  const watchdog guard("inherited loader");
  std::optional loader(pipeline_of(numbers(1000)).infinite());
  REQUIRE(loader->next());
  const ::pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);
    loader.reset();
    ::_exit(7);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 7));
  CHECK(loader->next());
}
#endif

namespace {

struct tokens {
  std::vector<int> all;

  const std::vector<int>& ids() const { return all; }
};

} // namespace

TEST_CASE("A user's item may have a member ids()") {
  auto loader = (fl::from(numbers(3)) | fl::map([](int n) {
                   return tokens{{n, n}};
                 }) |
                 fl::prefetch(2))
                    .finite();
  std::vector<int> seen;
  while (const auto t = loader.next()) seen.push_back(t->ids()[0]);
  CHECK(seen == std::vector{0, 1, 2});
}

namespace {

/// Holds item 5 back until it is opened.
std::atomic<bool>* gate = nullptr;

void wait_at_5(int n, const fl::context& c) {
  const std::stop_callback wake(c.stop, [] {
    *gate = true;
    gate->notify_all();
  });
  if (n == 5) gate->wait(false);
}

} // namespace

TEST_CASE("try_next() and next_for() distinguish an item, nothing yet and the end") {
  const watchdog guard("a consumer that doesn't wait");
  std::atomic<bool> is_open = false;
  gate = &is_open;
  test_loader loader = pipeline_of(numbers(8), {wait_at_5}).finite();
  CHECK(loader.state() == fl::run_state::running);
  for (int n = 0; n < 5;) {
    if (auto next = loader.try_next()) REQUIRE(*next == n++);
    else REQUIRE(!next.has_ended());
  }
  const auto none = loader.try_next();
  CHECK((!none && !none.has_ended()));
  auto late = loader.next_for(std::chrono::milliseconds(20));
  CHECK((!late && !late.has_ended()));
  CHECK(loader.state() == fl::run_state::running);
  is_open = true;
  is_open.notify_all();
  const auto long_enough = std::chrono::hours(1);
  for (int n = 5; n < 8; ++n) CHECK(*loader.next_for(long_enough) == n);
  const auto end = loader.next_for(long_enough);
  CHECK(end.has_ended());
  CHECK(!end.has_value());
  CHECK(loader.try_next().has_ended());
  CHECK(loader.state() == fl::run_state::finished);
}

TEST_CASE("value_or() of a result is its item, or another value where there is none") {
  auto loader = fl::from(std::vector{7, 8}).finite();
  CHECK(loader.next().value_or(-1) == 7);
  const auto named = loader.next();
  CHECK(named.value_or(-1) == 8);
  CHECK(loader.next().value_or(-1) == -1);
  auto moved = fl::from(count_to(1)) | fl::map([](int n) { return std::make_unique<int>(n); });
  auto of_pointers = moved.finite();
  CHECK(*of_pointers.next().value_or(nullptr) == 0);
  CHECK(of_pointers.next().value_or(nullptr) == nullptr);
}

TEST_CASE("A stop wakes next_for(), which throws what next() throws") {
  const watchdog guard("a consumer that waits for a while");
  std::atomic<bool> is_open = false;
  gate = &is_open;
  std::stop_source stop;
  test_loader waiting = pipeline_of(numbers(8), {wait_at_5}).finite({.stop = stop.get_token()});
  for (int n = 0; n < 5; ++n) waiting.next();
  std::thread stopper([&] { stop.request_stop(); });
  CHECK(waiting.next_for(std::chrono::hours(1)).has_ended());
  stopper.join();
  CHECK(waiting.state() == fl::run_state::stopped);

  test_loader failing = pipeline_of(numbers(40), {throw_at_20}).finite();
  for (int n = 0; n < 20; ++n) failing.next();
  CHECK(failing.state() == fl::run_state::running);
  CHECK_THROWS_AS(failing.next_for(std::chrono::hours(1)), fl::pipeline_error);
  CHECK(failing.state() == fl::run_state::failed);
  CHECK_THROWS_AS(failing.try_next(), fl::pipeline_error);

  test_loader moved = std::move(failing);
  CHECK(failing.state() == fl::run_state::stopped);
  CHECK(failing.try_next().has_ended());
}
