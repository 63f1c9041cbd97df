// SPDX-License-Identifier: MIT
#include <feedline/core/workers.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <latch>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <feedline/core/run/worker_pool.hpp>
#include <feedline/core/transport/channel.hpp>
#include <feedline/feedline.hpp>

#include "support/asleep.hpp"
#include "support/catch.hpp"
#include "support/numbers.hpp"
#include "support/outcome.hpp"
#include "support/parked.hpp"
#include "support/rounds.hpp"
#include "support/throws_saying.hpp"
#include "support/watchdog.hpp"

namespace fl = feedline;
using namespace feedline::test;

namespace {

using mapping = std::function<int(int)>;

const mapping same = [](int n) { return n; };

void sleep_ms(double ms) {
  if (ms > 0) std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(ms));
}

/// A stage with the number of workers needed so that the threads downstream never wait, and the number that
/// can work at once without competing.
struct simulated_stage {
  double needed;
  double unhindered;
  bool by_source = false; // the source is the limit

  fl::detail::work_seen seen_with(std::size_t count, fl::random_generator& random) const {
    const auto noisy = [&](double value) { return value + std::sqrt(value) * random.uniform(-0.1, 0.1); };
    const double at_once = std::min(static_cast<double>(count), unhindered);
    const double rate = std::min(at_once, needed);
    const bool competes = static_cast<double>(count) > unhindered && unhindered <= needed;
    const double busy = competes ? static_cast<double>(count) : rate;
    return {.seconds = 0.1,
            .busy = 0.1 * std::min(noisy(busy), static_cast<double>(count)),
            .taker_waited = by_source ? 1 : std::clamp(1 - rate / needed + random.uniform(0, 0.03), 0.0, 1.0),
            .items = 100 * noisy(rate)};
  }

  std::size_t best_of(std::size_t most) const {
    return std::min(most, static_cast<std::size_t>(std::ceil(std::min(needed, unhindered))));
  }
};

/// The time of a simulated worker_pool.
std::uint64_t simulated_ns = 0;

/// Writes the times of a worker_pool's threads and of those downstream, as such a stage would cause them.
class simulated_pool {
 public:
  explicit simulated_pool(std::size_t most, std::stop_token stop = {})
      : members_(members(most)),
        pool_({1, most, true}, 2, members_, {&taker_}, consumer_, std::move(stop),
              []() noexcept { return simulated_ns; }) {
    for (const auto& m : members_) m->began = simulated_ns;
    taker_.began = consumer_.began = simulated_ns;
  }

  std::size_t active() const { return pool_.active(); }

  /// As a worker with that number; returns when it is needed.
  void wait_turn(std::size_t number) { pool_.wait_turn(*members_[number]); }

  void end() { pool_.end(); }

  /// A tenth of a second passes.
  void step(const simulated_stage& stage, fl::random_generator& random) {
    const std::size_t count = active();
    const auto seen = stage.seen_with(count, random);
    const auto ns = [](double seconds) { return static_cast<std::uint64_t>(std::max(0.0, seconds) * 1e9); };
    using kind = fl::detail::wait_kind;
    for (const auto& m : members_) {
      if (m->number < count) m->waited(kind::starved) += ns(0.1 - seen.busy / static_cast<double>(count));
      else m->waited(kind::parked) += ns(0.1);
    }
    taker_.waited(kind::starved) += ns(0.1 * seen.taker_waited);
    consumer_.waited(kind::starved) += ns(0.1 * seen.taker_waited);
    simulated_ns += ns(0.1);
    for (std::size_t packets = std::max<std::size_t>(10, 2 * count); packets > 1; --packets) pool_.worked(0);
    pool_.worked(static_cast<std::size_t>(100 * seen.items)); // it now decides
  }

 private:
  static std::vector<std::shared_ptr<fl::detail::thread_counters>> members(std::size_t count) {
    std::vector<std::shared_ptr<fl::detail::thread_counters>> all;
    for (std::size_t i = 0; i < count; ++i)
      all.push_back(std::make_shared<fl::detail::thread_counters>(1, i));
    return all;
  }

  std::vector<std::shared_ptr<fl::detail::thread_counters>> members_;
  fl::detail::thread_counters taker_{1}, consumer_{1};
  fl::detail::worker_pool pool_;
};

} // namespace

TEST_CASE("A stage can have 1 to 256 workers") {
  for (const std::size_t count : {std::size_t{0}, std::size_t{257}, ~std::size_t{0}})
    CHECK(throws_saying<std::invalid_argument>("it must be 1 to 256",
                                               [&] { fl::map(same, fl::workers{count}); }));
  CHECK(throws_saying<std::invalid_argument>("4 to 3 requested",
                                             [&] { fl::map(same, fl::workers{.count = 4, .max = 3}); }));
  CHECK(throws_saying<std::invalid_argument>("1 to 257 requested",
                                             [&] { fl::map(same, fl::workers{.count = 1, .max = 257}); }));
  CHECK_THROWS_AS(fl::map(same, fl::workers{.count = 0, .max = 2}), std::invalid_argument);
  CHECK_THROWS_AS(fl::parallel(fl::workers{0}, fl::map(same) | fl::map(same)), std::invalid_argument);
  CHECK(collect((fl::from(numbers(500)) | fl::map(same, fl::workers{256})).finite()) == count_to(500));
  const int count = 2;
  CHECK(collect((fl::from(numbers(5)) | fl::map(same, fl::workers{count})).finite()) == count_to(5));
  CHECK(throws_saying<std::invalid_argument>("-3 requested", [] { fl::map(same, fl::workers{-3}); }));
}

TEST_CASE("As many items are processed at once as there are workers") {
  const watchdog guard("all at once");
  for (const std::size_t workers : {2u, 64u}) {
    std::latch all(static_cast<std::ptrdiff_t>(workers));
    const mapping arrive = [&](int n) { return all.arrive_and_wait(), n; };
    const auto p = fl::from(numbers(static_cast<int>(workers))) | fl::map(arrive, fl::workers{workers});
    CHECK(collect(p.finite()) == count_to(static_cast<int>(workers)));
  }
}

TEST_CASE("Workers with long calls get their items one by one, also from workers with short ones") {
  const watchdog guard("long calls downstream of short ones", std::chrono::seconds(60));
  constexpr std::ptrdiff_t count = 8;
  const auto check = [](const auto& source) {
    std::latch may_begin(1);
    std::barrier all(count);
    const mapping long_call = [&](int n) {
      may_begin.wait();
      all.arrive_and_wait(); // each worker has an item
      burn(1);
      return n;
    };
    const auto p =
        source | fl::map(same, fl::workers{1}) | fl::map(long_call, fl::workers{count}) | fl::batch(8);
    auto loader = p.finite();
    await_all_others_asleep(); // the queue to them is full
    may_begin.count_down();
    std::size_t items = 0;
    while (const auto batch = loader.next()) items += batch->size();
    CHECK(items == 30 * count);
  };
  const auto source = fl::from(count_to(30 * count));
  check(source);
  check(source | fl::global_shuffle());
}

TEST_CASE("An automatic number of workers grows also downstream of other workers") {
  const watchdog guard("automatic workers downstream of others", std::chrono::seconds(60));
  constexpr int most = 16;
  std::latch may_begin(1);
  std::atomic<int> inside{0};
  std::atomic<bool> all_came{false};
  const mapping long_call = [&](int n) {
    may_begin.wait();
    if (++inside == most) all_came = true;
    sleep_ms(2);
    --inside;
    return n;
  };
  const auto p = fl::from(count_to(100'000)) | fl::map(same, fl::workers{1}) |
                 fl::map(long_call, fl::workers{.count = 1, .max = most, .io_bound = true}) | fl::batch(8);
  auto loader = p.infinite();
  await_all_others_asleep(); // the queue to them is full
  may_begin.count_down();
  while (!all_came) REQUIRE(loader.next());
}

TEST_CASE("An item stays with its worker through a chain, and all stages of it run on the same threads") {
  const auto here = [](int) { return std::this_thread::get_id(); };
  const auto equal = [](std::thread::id id) { return id == std::this_thread::get_id(); };
  const auto p = fl::from(numbers(1000)) | fl::parallel(fl::workers{4}, fl::map(here) | fl::map(equal));
  CHECK(collect(p.finite()) == std::vector(1000, true));
}

TEST_CASE("Each worker has a separate function if it is made per worker") {
  std::mutex mutex;
  std::set<std::thread::id> makers;
  const auto factory = [&] {
    const std::lock_guard lock(mutex);
    makers.insert(std::this_thread::get_id());
    return [buffer = std::vector<int>(), maker = std::this_thread::get_id()](int n) mutable {
      buffer.assign(3, n);
      return maker == std::this_thread::get_id() ? buffer[2] : -1;
    };
  };
  const auto p = fl::from(numbers(300)) | fl::map(fl::per_worker(factory), fl::workers{5});
  CHECK(collect(p.finite()) == count_to(300));
  CHECK(makers.size() == 5);
}

TEST_CASE("unordered yields the same items, and epochs don't mix") {
  const auto p = fl::from(numbers(300)) | fl::map(same, fl::workers{8}, fl::unordered);
  auto items = collect(p.finite({.epochs = 3}));
  REQUIRE(items.size() == 900);
  for (std::size_t i = 0; i < items.size(); ++i)
    CHECK(static_cast<std::size_t>(items[i] / numbers::next_epoch) == i / 300);
  CHECK(std::set(items.begin(), items.end()).size() == 900);
}

TEST_CASE("unordered lets items overtake a slow one") {
  const watchdog guard("overtaking");
  std::latch others_done(1);
  const mapping slow_at_first = [&](int n) {
    if (n == 0) others_done.wait();
    return n;
  };
  const auto p = fl::from(numbers(20)) | fl::map(slow_at_first, fl::workers{2}, fl::unordered);
  auto loader = p.finite({.queue_capacity = 1});
  for (int i = 1; i < 10; ++i) CHECK(loader.next() != 0);
  others_done.count_down();
  int rest = 0;
  while (loader.next()) ++rest;
  CHECK(rest == 11);
}

TEST_CASE("An automatic number of workers is within one of the best, whatever limits the stage") {
  fl::random_generator random(7);
  for (int round = 0; round < 2000; ++round) {
    const simulated_stage stage{random.chance(0.3) ? 1000 : random.uniform(0.3, 70),
                                random.chance(0.6) ? 1000 : random.uniform(1, 40), random.chance(0.3)};
    const std::size_t most = stage.unhindered < 1000 ? 64 : 1 + random.below(64);
    const std::size_t start = 1 + random.below(std::min(most, static_cast<std::size_t>(stage.unhindered)));
    fl::detail::worker_policy policy({1, most, true}, start);
    for (int step = 0; step < 100; ++step) policy.see(stage.seen_with(policy.count(), random));
    const std::size_t best = stage.best_of(most);
    // The gain from more workers is estimated from noisy rates.
    const std::size_t near = stage.unhindered < stage.needed ? 1 + best / 10 : 1;
    std::size_t changes = 0, away = 0;
    for (int step = 0; step < 400; ++step) {
      const std::size_t before = policy.count();
      policy.see(stage.seen_with(before, random));
      changes += policy.count() != before;
      away += policy.count() + near < best || policy.count() > best + near;
    }
    INFO("needed " << stage.needed << ", unhindered " << stage.unhindered << ", most " << most << ", start "
                   << start << ": " << policy.count() << " instead of " << best);
    CHECK(away <= 20); // of 400: it tries ever more rarely whether more workers now help
    CHECK(changes <= 24);
  }
}

TEST_CASE("An automatic number of workers follows the demand") {
  fl::random_generator random(8);
  fl::detail::worker_policy policy({1, 64, true}, 2);
  for (const double needed : {3.5, 30.2, 1.4, 62.0, 9.7}) {
    const simulated_stage stage{needed, 1000};
    for (int step = 0; step < 30; ++step) policy.see(stage.seen_with(policy.count(), random));
    const auto best = stage.best_of(64);
    INFO(policy.count() << " instead of " << best);
    CHECK((policy.count() + 1 >= best && policy.count() <= best + 1));
  }
}

TEST_CASE("A worker_pool grows to the best size by its threads' times, and keeps it") {
  fl::random_generator random(9);
  for (const simulated_stage& stage : {simulated_stage{3.6, 1000},       // the consumer is the limit
                                       simulated_stage{4.8, 1000, true}, // the source is the limit
                                       simulated_stage{1000, 1000},      // nothing else limits it
                                       simulated_stage{1000, 6.5},       // they compete with each other
                                       simulated_stage{0.1, 1000}}) {    // there is little to do
    simulated_ns = 1'000'000'000;
    simulated_pool worker_pool(24);
    for (int step = 0; step < 100; ++step) worker_pool.step(stage, random);
    const std::size_t best = stage.best_of(24);
    std::size_t changes = 0, away = 0;
    for (int step = 0; step < 400; ++step) {
      const std::size_t before = worker_pool.active();
      worker_pool.step(stage, random);
      changes += worker_pool.active() != before;
      away += worker_pool.active() + 1 < best || worker_pool.active() > best + 1;
    }
    INFO(worker_pool.active() << " instead of " << best);
    CHECK(away <= 20);
    CHECK(changes <= 24);
  }
}

TEST_CASE("A parked worker sleeps through measurements, and until it is needed, the work ends or the run is "
          "stopped") {
  const watchdog guard("parked workers");
  fl::random_generator random(10);
  for (const std::string how : {"needed", "end", "stop"}) {
    INFO(how);
    simulated_ns = 1'000'000'000;
    std::stop_source stop;
    simulated_pool pool(24, stop.get_token());
    const simulated_stage little{0.1, 1000}, much{1000, 1000};
    for (int step = 0; step < 30; ++step) pool.step(little, random);
    std::optional<parking_thread> last(std::in_place, [&] { pool.wait_turn(23); });
    std::optional<parking_thread> other(std::in_place, [&] { pool.wait_turn(22); });
    const auto await_parked = [&] {
      last->await_parked();
      other->await_parked();
    };
    await_parked();
    const long switches = last->switches() + other->switches();
    for (int step = 0; step < 20; ++step, await_parked()) pool.step(little, random);
    CHECK(last->switches() + other->switches() - switches < 10); // not two for each measurement
    CHECK(!last->done());
    if (how == "end") {
      pool.end();
    } else if (how == "stop") {
      stop.request_stop();
    } else {
      for (; pool.active() < 16; await_parked()) pool.step(much, random); // it doubles
      while (pool.active() < 24) pool.step(much, random);
    }
    last.reset(); // joins it
    other.reset();
  }
}

TEST_CASE("The more threads there are at a queue, the more work is in a packet, within bounds") {
  using namespace fl::detail;
  std::atomic<bool> attention{false};
  for (const bool waited : {false, true})
    for (const std::size_t workers : {1u, 4u, 16u, 64u, 256u})
      for (const std::uint64_t item_ns : {1'000u, 10'000u, 100'000u, 30'000'000u}) {
        CAPTURE(waited, workers, item_ns);
        const auto queue = make_channel<transport::spread>(
            {4 * workers + 2, 1000, workers + 2, true, false, fl::overflow::block, {}, &attention});
        for (int packet = 0; packet < 100; ++packet)
          queue->worked(queue->target() * item_ns, queue->target(), waited);
        const std::uint64_t work = queue->target() * item_ns;
        const std::uint64_t slow =
            std::clamp<std::uint64_t>((workers + 2) * (waited ? 200'000 : 4'000), 400'000, 20'000'000);
        CHECK((queue->target() == 1 || work <= slow));
        CHECK((queue->target() == 1000 || work >= slow / 4));
      }
}

TEST_CASE("Each used packet of a queue is reused once, also while the queue is closed or stopped") {
  using namespace fl::detail;
  const watchdog guard("used packets");
  static std::atomic<int> made;
  const auto make = [](std::size_t capacity) { return ++made, packet::make<int>(capacity); };
  constexpr std::size_t threads = 8, each = 3;
  for (const bool stops : {false, true}) {
    made = 0;
    std::atomic<bool> attention{false}, all_own{true};
    const auto queue =
        make_channel<transport::ordered>({4, 16, 20, false, false, fl::overflow::block, {}, &attention});
    for (int times = 0; times < 2; ++times) {
      std::vector<packet_ptr> as_many_as_fit;
      for (std::size_t i = 0; i < threads * each; ++i) as_many_as_fit.push_back(queue->spare(make, 16));
      for (packet_ptr& p : as_many_as_fit) queue->recycle(std::move(p));
    }
    CHECK(made == static_cast<int>(threads * each));
    std::vector<std::jthread> all;
    std::latch begin(threads + 1);
    for (std::size_t me = 0; me < threads; ++me)
      all.emplace_back([&, me] {
        begin.arrive_and_wait();
        for (int times = 0; times < 2000; ++times) {
          std::array<packet_ptr, each> mine;
          for (packet_ptr& p : mine) (p = queue->spare(make, 16))->sequence = me;
          for (packet_ptr& p : mine) {
            if (p->sequence != me || p->size() != 0) all_own = false;
            queue->recycle(std::move(p));
          }
        }
      });
    begin.arrive_and_wait();
    if (stops) queue->stop();
    else queue->close();
    all.clear(); // joins them
    CHECK(all_own);
    CHECK(made == static_cast<int>(threads * each));
  }
}

TEST_CASE("The number of sleeping workers grows while they are needed, and then shrinks") {
  const watchdog guard("sleeping workers");
  const mapping sleeping = [](int n) {
    sleep_ms(10); // long, so that the consumer waits for all of them even on a slow machine
    return n;
  };
  auto loader =
      (fl::from(numbers(1'000'000)) | fl::map(sleeping, fl::workers{.count = 1, .max = 12, .io_bound = true}))
          .infinite();
  const auto active = [&] { return loader.metrics().total.segments[1].active; };
  while (active() < 12) REQUIRE(loader.next());
  while (active() > 2) {
    REQUIRE(loader.next());
    sleep_ms(25); // the consumer is slower than one of them
  }
}

TEST_CASE("An automatic number of computing workers stays below the number of processors") {
  std::mutex mutex;
  std::set<std::thread::id> threads;
  const mapping noted = [&](int n) {
    const std::lock_guard lock(mutex);
    threads.insert(std::this_thread::get_id());
    return n;
  };
  for (const fl::workers& w : {fl::workers::automatic, fl::workers{.count = 100, .max = 200}}) {
    threads.clear();
    const auto p = fl::from(numbers(2000)) | fl::map(noted, w);
    auto loader = p.finite();
    int next = 0;
    for (const int n : loader) next += n == next;
    CHECK(next == 2000);
    CHECK(threads.size() <= fl::processors());
    CHECK(loader.metrics().total.segments[1].workers.size() <= fl::processors());
  }
}

TEST_CASE("Results and endings don't depend on an automatic number of workers") {
  const watchdog guard("automatic workers");
  const fl::workers automatic{.count = 1, .max = 64, .io_bound = true};
  const auto with = [&](fl::workers w) {
    return fl::from(numbers(700)) |
           fl::map(
               [](int n, fl::context& c) {
                 if (n % 7 == 0) sleep_ms(0.2);
                 if (n % 100 == 50) throw std::runtime_error("no");
                 return n + static_cast<int>(c.random.below(1000));
               },
               w) |
           fl::shuffle({.capacity = 50}) | fl::batch(16);
  };
  const fl::finite_options options{.epochs = 3, .on_error = fl::on_error::skip};
  auto expected = with(fl::workers{1}).finite(options), loader = with(automatic).finite(options);
  while (auto batch = expected.next()) {
    const auto same_batch = loader.next();
    REQUIRE(same_batch);
    CHECK(std::equal(batch->values().begin(), batch->values().end(), same_batch->values().begin()));
  }
  CHECK(!loader.next());
  CHECK(loader.digest() == expected.digest());
  CHECK(loader.failures().size() == 21);
  for (int batches = 0; batches < 20; ++batches) { // left while some are parked
    auto left = with(automatic).infinite({.on_error = fl::on_error::skip});
    for (int i = 0; i < batches; ++i) left.next();
    if (batches % 2) left.stop();
  }
  CHECK_THROWS_AS(collect(with(automatic).finite()), fl::pipeline_error);
}

TEST_CASE("A worker that takes on a packet after its failure leaves the samples before that to the others") {
  const watchdog guard("a failed worker");
  std::atomic<bool> has_failed{false};
  std::atomic<int> failed{-1};
  std::thread::id first;
  std::latch first_has_begun(1);
  const auto lists = [&](int n) {
    if (n == 0) { // the rest of its packet waits with it
      first = std::this_thread::get_id();
      first_has_begun.count_down();
      while (!has_failed) sleep_ms(1);
      sleep_ms(20); // the other worker takes on its next packet
    } else {
      first_has_begun.wait();
      if (int none = -1; std::this_thread::get_id() != first && failed.compare_exchange_strong(none, n)) {
        has_failed = true;
        throw std::runtime_error("a failure");
      }
    }
    return std::vector{n};
  };
  auto loader =
      (fl::from(count_to(1000)) | fl::flat_map(lists, fl::workers{2})).finite({.queue_capacity = 16});
  std::vector<int> all;
  const auto read = [&] {
    while (const auto n = loader.next()) all.push_back(*n);
  };
  CHECK(throws_saying<fl::pipeline_error>("a failure", read));
  CHECK(all == count_to(failed));
}
