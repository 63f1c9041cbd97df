// SPDX-License-Identifier: MIT
#include <feedline/core/failure.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <functional>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include <feedline/cache.hpp>
#include <feedline/feedline.hpp>

#include "support/catch.hpp"
#include "support/numbers.hpp"
#include "support/outcome.hpp"
#include "support/sanitizers.hpp"
#include "support/temporary_folder.hpp"
#include "support/throws_saying.hpp"
#include "support/watchdog.hpp"

namespace fl = feedline;
using namespace feedline::test;

namespace {

using mapping = std::function<int(int)>;

const mapping unlucky_from_7 = [](int n) {
  if (n % numbers::next_epoch >= 7) throw unlucky(n);
  return n;
};

auto decoding(numbers source, std::size_t workers = 3) {
  return fl::from(std::move(source)) | fl::map(unlucky_from_7, fl::workers{workers}, fl::name{"decode"}) |
         fl::batch(3);
}

/// Five samples, of which the last can't be fetched.
struct fetched {
  std::optional<int> next() {
    if (at == 4) throw fl::outage_error("no answer");
    return at++;
  }

  int at = 0;
};

std::vector<std::uint64_t> indices(const std::vector<fl::failure>& failures) {
  std::vector<std::uint64_t> all;
  for (const fl::failure& f : failures) all.push_back(f.index);
  return all;
}

} // namespace

TEST_CASE("A failure reads as a sentence") {
  fl::failure f{"map `decode`", 195, 0, "photos-0003.tar: n0123.jpg", "not a JPEG file", {}};
  CHECK(to_string(f) == "map `decode` failed on sample 195 (photos-0003.tar: n0123.jpg): not a JPEG file");
  f.origin.clear();
  CHECK(to_string(f) == "map `decode` failed on sample 195: not a JPEG file");
  f.index = fl::sample_id::no_index;
  CHECK(to_string(f) == "map `decode` failed: not a JPEG file");
  f.samples_before = 1;
  f.epoch = 3;
  CHECK(to_string(f) == "map `decode` failed after 1 sample of epoch 3: not a JPEG file");
}

TEST_CASE("Running out of memory names the stage and a remedy") {
  const watchdog guard("no memory");
  const mapping greedy = [](int n) {
    if (n == 5) throw std::bad_alloc();
    return n;
  };
  const auto result =
      run_to_end((fl::from(numbers(10)) | fl::map(greedy, fl::name{"greedy"}) | fl::prefetch(2)).finite());
  REQUIRE(result.failed);
  CHECK(to_string(*result.failed) == "map `greedy` failed on sample 5 (number 5): out of memory "
                                     "(std::bad_alloc): set a memory_budget to limit what the run holds");
}

TEST_CASE("Running out of memory at the start of a run names the queue or the source") {
  const auto refused = [](const std::string& what, const auto& p) {
    INFO(what);
    CHECK(throws_saying<fl::pipeline_error>(
        what + " failed: out of memory (std::bad_alloc): set a memory_budget to limit what the run holds",
        [&] { p.finite({.queue_capacity = std::size_t{1} << 60}); }));
  };

  struct greedy {
    std::optional<int> next() { return 1; }

    std::uint64_t extent() const { throw std::bad_alloc(); }
  };

  const auto greedy_one = fl::from(greedy()) | fl::prefetch(1);
  CHECK(throws_saying<fl::pipeline_error>("the start of the run failed: out of memory",
                                          [&] { greedy_one.finite(); }));

  if (is_sanitized) return; // a sanitizer's allocator ends the program instead
  refused("the queue after enumerate", fl::from(numbers(10)) | fl::enumerate());
  const auto seven = fl::map(unlucky_from_7, fl::workers{2}, fl::name{"seven"});
  refused("the queue after map `seven`", fl::from(numbers(10)) | fl::prefetch(4) | seven);
  CHECK(
      throws_saying<std::invalid_argument>("can't hold so many items: choose a smaller queue_capacity", [&] {
        (fl::from(numbers(10)) | seven).finite({.queue_capacity = std::size_t{1} << 60});
      }));
}

TEST_CASE("The error names the stage and the sample, and contains the user's exception") {
  auto loader = decoding(numbers(10)).finite();
  CHECK(loader.next().value().size() == 3);
  CHECK(loader.next().value().size() == 3);
  try {
    loader.next();
    FAIL("next() didn't throw");
  } catch (const fl::pipeline_error& error) {
    CHECK(std::string(error.what()) == "map `decode` failed on sample 7 (number 7): unlucky 7");
    CHECK(error.failure().stage == "map `decode`");
    CHECK(error.failure().epoch == 0);
    CHECK(error.failure().message == "unlucky 7");
    REQUIRE(error.cause<unlucky>());
    CHECK(error.cause<unlucky>()->number == 7);
    CHECK(error.cause<std::runtime_error>());
    CHECK_FALSE(error.cause<std::logic_error>());
    CHECK_THROWS_AS(error.rethrow_nested(), unlucky);
    CHECK_THROWS_AS(std::rethrow_exception(error.failure().error), unlucky);
  }
}

TEST_CASE("An exception that isn't a std::exception is reported and keeps its type") {
  const mapping throw_42 = [](int n) {
    if (n == 1) throw 42;
    return n;
  };
  const auto p = fl::from(numbers(3)) | fl::map(throw_42);
  const auto outcome = run_to_end(p.finite({.on_error = fl::on_error::skip}));
  CHECK(outcome.items == std::vector<int>{0, 2});
  REQUIRE(outcome.skipped.size() == 1);
  CHECK(outcome.skipped[0].message == "an exception that isn't a std::exception");
  CHECK_THROWS_AS(std::rethrow_exception(outcome.skipped[0].error), int);

  auto loader = p.finite();
  loader.next();
  try {
    loader.next();
    FAIL("next() didn't throw");
  } catch (const fl::pipeline_error& error) {
    REQUIRE(error.cause<int>());
    CHECK(*error.cause<int>() == 42);
  }
}

TEST_CASE("failures() lists the samples skipped so far: those before the last item") {
  auto loader = decoding(numbers(9)).finite({.epochs = 2, .on_error = fl::on_error::skip});
  for (int i = 0; i < 3; ++i) {
    CHECK(loader.failures().empty());
    CHECK(loader.next());
  }
  while (loader.next()) {
  }
  const auto& failures = loader.failures();
  CHECK(indices(failures) == std::vector<std::uint64_t>{7, 8, 7, 8});
  CHECK(failures[1].epoch == 0);
  CHECK(failures[2].epoch == 1);
  CHECK(failures[2].stage == "map `decode`");
  CHECK(failures[2].origin == "number 7");
  CHECK(failures[2].message == "unlucky 1000007");
}

TEST_CASE("One failed sample more than the limit ends the run, which names the limit") {
  for (const std::size_t limit : {0u, 2u, 5u}) {
    auto loader = decoding(numbers(100), 8).finite({.on_error = fl::on_error::skip, .failure_limit = limit});
    CHECK(throws_saying<fl::pipeline_error>(
        "(more failed samples than the limit of " + std::to_string(limit) + ")", [&] {
          while (loader.next()) {
          }
        }));
    REQUIRE(loader.failures().size() == limit + 1);
    CHECK(loader.failures().back().index == 7 + limit);
    CHECK_THROWS_AS(loader.next(), fl::pipeline_error);
  }
  auto enough = decoding(numbers(10)).finite({.on_error = fl::on_error::skip, .failure_limit = 3});
  while (enough.next()) {
  }
  CHECK(enough.failures().size() == 3);
}

TEST_CASE("A failure limit ends an infinite run that yields only failures") {
  const watchdog guard("only failures");
  const mapping refuse = [](int n) -> int { throw unlucky(n); };
  const auto p = fl::from(numbers(5000)) | fl::map(refuse, fl::workers{2});
  const auto outcome = run_to_end(p.infinite({.on_error = fl::on_error::skip}));
  REQUIRE(outcome.failed);
  CHECK(outcome.skipped.size() == fl::default_failure_limit + 1);
}

namespace {

struct refusing {
  using output = int;

  void operator()(int n, auto& emit) {
    if (n < 1000) throw unlucky(n);
    emit(sum += n);
  }

  void state(auto& archive) { archive(sum); }

  int sum = 0;
};

} // namespace

TEST_CASE("An infinite run ends if a stage with a state fails on each sample") {
  const watchdog guard("only failures in a custom stage");
  const auto p = fl::from(count_to(3)) | refusing() | fl::batch(2);
  const auto outcome = run_to_end(p.infinite({.on_error = fl::on_error::skip}));
  REQUIRE(outcome.failed);
}

TEST_CASE("Of several stages with the same name a message tells which one it means") {
  const mapping same = [](int n) { return n; };
  const auto p = numbers(9) | fl::map(same) | fl::filter([](int) { return true; }) | fl::map(unlucky_from_7) |
                 fl::map(same, fl::name{"named"}) | fl::prefetch(2);
  auto loader = p.finite();
  CHECK(throws_saying<fl::pipeline_error>("map (2 of 2) failed on sample 7 (number 7): unlucky 7", [&] {
    while (loader.next()) {
    }
  }));
  CHECK(throws_saying<fl::pipeline_error>("map (2 of 2) failed on sample 7", [&] { p.replay(0, {7}); }));
  const auto batched = numbers(9) | fl::map(unlucky_from_7) | fl::batch(2) |
                       fl::map([](const fl::batch_of<int>& b) { return b.size(); });
  CHECK(
      throws_saying<fl::pipeline_error>("map (1 of 2) failed on sample 7", [&] { batched.replay(0, {7}); }));
  // A limit for the name concerns all of them.
  auto limited = p.finite({.on_error = fl::on_error::skip, .stage_failure_limits = {{"map", 0}}});
  CHECK(throws_saying<fl::pipeline_error>("more failed samples of this stage than its limit of 0", [&] {
    while (limited.next()) {
    }
  }));
}

TEST_CASE("A sample that fails in every epoch counts once, also in a resumed run") {
  const watchdog guard("failures of forty epochs");
  const mapping refuse_fours = [](int n) { return n % 4 == 0 ? throw unlucky(n) : n; };
  for (const std::size_t workers : {1u, 64u}) {
    const auto p = fl::from(count_to(100)) | fl::global_shuffle() |
                   fl::map(refuse_fours, fl::workers{workers}) | fl::batch(10);
    const auto run = [&](std::size_t limit, const std::optional<fl::checkpoint>& resume) {
      return p.infinite(
          {.seed = 5, .on_error = fl::on_error::skip, .failure_limit = limit, .resume = resume});
    };
    auto whole = run(25, {});
    for (int i = 0; i < 300; ++i) REQUIRE(whole.next()); // forty epochs
    CHECK(whole.failures().size() > 900);
    const auto left = fl::checkpoint::from_bytes(whole.checkpoint().to_bytes());
    CHECK(left.to_json().find("\"failures\": 25,") != std::string::npos);
    CHECK(left.to_bytes().size() < 120);
    auto resumed = run(25, left);
    for (int i = 0; i < 30; ++i) {
      REQUIRE(resumed.next());
      REQUIRE(whole.next());
      CHECK(resumed.digest() == whole.digest());
    }
    auto of_stage = p.infinite({.on_error = fl::on_error::skip, .stage_failure_limits = {{"map", 25}}});
    for (int i = 0; i < 30; ++i) REQUIRE(of_stage.next()); // four epochs
    auto limited = run(24, {});
    CHECK(throws_saying<fl::pipeline_error>("more failed samples than the limit of 24", [&] {
      while (limited.next()) {
      }
    }));
    CHECK(limited.failures().size() == 25);
    auto stricter = run(24, left);
    CHECK(throws_saying<fl::pipeline_error>("more failed samples than the limit of 24", [&] {
      while (stricter.next()) {
      }
    }));
  }
}

TEST_CASE("After the limit the run continues from its checkpoint once the data is mended, as if it had not "
          "failed") {
  std::atomic<bool> is_broken = true;
  const mapping refuse = [&](int n) { return n < 2 || (n == 10 && is_broken) ? throw unlucky(n) : n; };
  for (const std::size_t workers : {1u, 8u}) {
    is_broken = true;
    const auto p = fl::from(count_to(20)) | fl::map(refuse, fl::workers{workers}) | fl::prefetch(2);
    const fl::finite_options options{
        .seed = 1, .epochs = 6, .on_error = fl::on_error::skip, .failure_limit = 2};
    auto first = p.finite(options);
    const auto before = run_to_end(first);
    REQUIRE(before.failed);
    CHECK(before.failed->index == 10);
    is_broken = false;
    auto resumed = options;
    resumed.resume = fl::checkpoint::from_bytes(first.checkpoint().to_bytes());
    const auto rest = run_to_end(p.finite(resumed));
    CHECK(!rest.failed);
    CHECK(before.items.size() + rest.items.size() == 6 * 18);
  }
}

TEST_CASE("A limit for a stage's name concerns all stages with it, also those inside a source") {
  const mapping refuse = [](int n) { return n % 3 == 0 ? throw unlucky(n) : n; };
  const auto decode = fl::map(refuse, fl::name{"decode"});
  const auto fails = [](const auto& p) {
    auto loader = p.finite({.on_error = fl::on_error::skip, .stage_failure_limits = {{"decode", 3}}});
    return throws_saying<fl::pipeline_error>("of this stage than its limit of 3", [&] {
      while (loader.next()) {
      }
    });
  };
  const auto all = fl::from(count_to(40));
  CHECK(fails(all | decode | decode | fl::prefetch(1)));
  CHECK(fails(fl::concat(all | decode) | fl::prefetch(1)));
}

TEST_CASE("A failure has the identity by which replay() finds its sample") {
  const auto p = fl::from(count_to(3)) | fl::with_replacement({.samples = 50}) |
                 fl::map([](int n, fl::context& c) { return c.random.chance(0.2) ? throw unlucky(n) : n; });
  const auto result = run_to_end(p.finite({.seed = 4, .on_error = fl::on_error::skip}));
  REQUIRE(result.skipped.size() > 3);
  for (const fl::failure& f : result.skipped)
    CHECK(throws_saying<fl::pipeline_error>(f.message, [&] { p.replay(4, f.id()); }));
}

TEST_CASE(
    "on_failure receives each skipped failure at its position in the stream, on the consumer's thread") {
  const watchdog guard("a callback for failures");
  const mapping refuse_fours = [](int n) { return n % 4 == 3 ? throw unlucky(n) : n; };
  for (const std::size_t workers : {1u, 64u}) {
    std::vector<std::string> log;
    const auto told = [&, consumer = std::this_thread::get_id()](const fl::failure& f) {
      CHECK(std::this_thread::get_id() == consumer);
      log.push_back(f.stage + " " + std::to_string(f.index) + " " + f.message);
    };
    const auto p =
        numbers(10) | fl::map(refuse_fours, fl::workers{workers}, fl::name{"decode"}) | fl::prefetch(2);
    auto loader = p.finite({.on_error = fl::on_error::skip, .on_failure = told});
    while (const auto n = loader.next()) log.push_back(std::to_string(*n));
    CHECK(log == std::vector<std::string>{"0", "1", "2", "map `decode` 3 unlucky 3", "4", "5", "6",
                                          "map `decode` 7 unlucky 7", "8", "9"});
    // The one that ends the run is thrown instead.
    log.clear();
    auto limited = p.finite({.on_error = fl::on_error::skip, .failure_limit = 1, .on_failure = told});
    CHECK(run_to_end(limited).failed->index == 7);
    CHECK(log == std::vector<std::string>{"map `decode` 3 unlucky 3"});
    CHECK(collect(p.finite({.on_error = fl::on_error::skip,
                            .on_failure = std::function<void(const fl::failure&)>()}))
              .size() == 8);
    auto failing = p.finite({.on_failure = told});
    CHECK(run_to_end(failing).failed->index == 3);
    CHECK(log.size() == 1);
  }
}

TEST_CASE("next() throws what on_failure throws, and the run continues after that failure") {
  const mapping refuse_fours = [](int n) { return n % 4 == 3 ? throw unlucky(n) : n; };
  const auto p = numbers(10) | fl::map(refuse_fours, fl::workers{2}) | fl::prefetch(2);
  auto loader = p.finite({.on_error = fl::on_error::skip,
                          .on_failure = [](const fl::failure& f) { throw std::logic_error(f.message); }});
  for (int n = 0; n < 3; ++n) CHECK(loader.next() == n);
  CHECK(throws_saying<std::logic_error>("unlucky 3", [&] { loader.next(); }));
  CHECK(loader.state() == fl::run_state::running);
  const auto left = loader.checkpoint();
  for (int n = 4; n < 7; ++n) CHECK(loader.next() == n);
  CHECK(throws_saying<std::logic_error>("unlucky 7", [&] { loader.next(); }));
  CHECK(loader.next() == 8);
  auto resumed = p.finite({.on_error = fl::on_error::skip, .resume = left});
  CHECK(run_to_end(resumed).items == std::vector{4, 5, 6, 8, 9});
  CHECK(resumed.failures().size() == 1);
}

TEST_CASE("A file that vanishes is named, and the others arrive") {
  const temporary_folder folder;
  for (const char name : {'a', 'b', 'c', 'd'}) folder.write(std::string(1, name), std::string(100, name));
  const auto p = fl::files(folder.path()) | fl::map(fl::read_file, fl::workers{2}, fl::name{"read"});
  std::remove((folder / "c").c_str());

  const auto skipped = run_to_end(p.finite({.on_error = fl::on_error::skip}));
  REQUIRE(skipped.items.size() == 3);
  CHECK(skipped.items[2] == std::vector<std::byte>(100, std::byte{'d'}));
  REQUIRE(skipped.skipped.size() == 1);
  CHECK(skipped.skipped[0].index == 2);
  CHECK(skipped.skipped[0].origin == folder / "c");
  CHECK(skipped.skipped[0].stage == "map `read`");

  const auto failed = run_to_end(p.finite());
  CHECK(failed.items.size() == 2);
  REQUIRE(failed.failed);
  try {
    std::rethrow_exception(failed.failed->error);
  } catch (const std::system_error& error) {
    CHECK(error.code() == std::errc::no_such_file_or_directory);
  }
}

namespace {

enum class place { item, finish, end_epoch };

struct throws_in {
  using output = int;
  static constexpr fl::stage_traits traits{.kind = "own"};

  place where;

  void operator()(int n, auto& emit) {
    if (where == place::item && n == 1) throw unlucky(1);
    emit(n);
  }

  void finish(auto&) {
    if (where == place::finish) throw unlucky(2);
  }

  void end_epoch() {
    if (where == place::end_epoch) throw unlucky(3);
  }
};

} // namespace

TEST_CASE("A user's stage may throw in each of its calls") {
  const watchdog guard("throwing stage");
  for (const place where : {place::item, place::finish, place::end_epoch}) {
    const auto p = fl::from(numbers(3)) | throws_in{where} | fl::batch(2);
    const auto failed = run_to_end(p.finite({.epochs = 2}));
    REQUIRE(failed.failed);
    CHECK(failed.failed->stage == "own");
    CHECK(failed.failed->message == "unlucky " + std::to_string(static_cast<int>(where) + 1));
    CHECK(failed.failed->index == (where == place::item ? 1 : fl::sample_id::no_index));

    const auto skipped = run_to_end(p.finite({.epochs = 2, .on_error = fl::on_error::skip}));
    CHECK_FALSE(skipped.failed);
    CHECK(skipped.items.size() == (where == place::item ? 3 : 4)); // epoch 1 counts from a million
    CHECK(skipped.skipped.size() == (where == place::item ? 1 : 2));
  }
}

TEST_CASE("Running out of memory in a function is a failure of its sample") {
  const mapping greedy = [](int n) {
    if (n == 1) throw std::bad_alloc();
    return n;
  };
  const auto p = fl::from(numbers(3)) | fl::map(greedy, fl::workers{2});
  const auto outcome = run_to_end(p.finite({.on_error = fl::on_error::skip}));
  CHECK(outcome.items == std::vector<int>{0, 2});
  REQUIRE(outcome.skipped.size() == 1);
  CHECK(outcome.skipped[0].index == 1);
}

TEST_CASE("A per_worker factory that throws fails the run with its stage's name") {
  const watchdog guard("per_worker");
  for (const std::size_t workers : {1u, 8u}) {
    const auto factory = []() {
      if (true) throw unlucky(5);
      return [](int n) { return n; };
    };
    auto loader =
        (fl::from(numbers(100)) | fl::map(fl::per_worker(factory), fl::workers{workers}, fl::name{"made"}))
            .infinite();
    for (int times = 0; times < 2; ++times) {
      try {
        loader.next();
        FAIL("next() didn't throw");
      } catch (const fl::pipeline_error& error) {
        CHECK(std::string(error.what()) == "map `made` failed: unlucky 5");
        CHECK(error.cause<unlucky>());
      }
    }
  }
}

namespace {

struct origin_throws {
  std::optional<int> next() {
    if (at == 3) return std::nullopt;
    return at++;
  }

  std::string origin(std::uint64_t) const { throw unlucky(9); }

  int at = 0;
};

} // namespace

TEST_CASE("A source whose origin() throws doesn't hide the failure") {
  const auto outcome = run_to_end((origin_throws{} | fl::map([](int n) -> int {
                                     throw unlucky(n);
                                   })).finite({.on_error = fl::on_error::skip}));
  REQUIRE(outcome.skipped.size() == 3);
  CHECK(outcome.skipped[2].origin.empty());
  CHECK(outcome.skipped[2].message == "unlucky 2");
}

TEST_CASE("An error in a batch's column leaves out only its sample") {
  const auto p = fl::from(numbers(7)) | fl::map([](int n) {
                   fl::tensor<float> t(fl::shape{n == 4 ? 3u : 2u});
                   for (float& x : t) x = static_cast<float>(n);
                   return t;
                 }) |
                 fl::batch(3);
  auto loader = p.finite({.on_error = fl::on_error::skip});
  std::vector<std::uint64_t> arrived;
  while (auto b = loader.next())
    for (std::size_t i = 0; i < b->size(); ++i) {
      arrived.push_back(b->ids()[i].index);
      CHECK(b->values().at(i)[1] == static_cast<float>(b->ids()[i].index));
    }
  CHECK(arrived == std::vector<std::uint64_t>{0, 1, 2, 3, 5, 6});
  CHECK(indices(loader.failures()) == std::vector<std::uint64_t>{4});
}

TEST_CASE("An infinite run counts failures by stage and message, and lists the last ones") {
  const watchdog guard("many failures");
  const auto pipeline = fl::from(count_to(100)) |
                        fl::map(
                            [](int n) {
                              if (n % 10 == 0) throw std::runtime_error("tens");
                              if (n % 25 == 0) throw std::runtime_error("quarters");
                              return n;
                            },
                            fl::name{"check"}) |
                        fl::batch(8);
  auto loader = pipeline.infinite({.on_error = fl::on_error::skip, .failure_limit = 100'000});
  for (int i = 0; i < 5000; ++i) loader.next();
  std::uint64_t all = 0, tens = 0;
  for (const fl::failure_count& c : loader.failure_counts()) {
    CHECK(c.stage == "map `check`");
    all += c.count;
    if (c.message == "tens") tens += c.count;
  }
  CHECK(loader.failure_counts().size() == 2);
  CHECK(all > 5000);
  CHECK(tens > all / 2);
  CHECK(loader.failures().size() >= 1000);
  CHECK(loader.failures().size() <= 2000);
}

TEST_CASE("A stage may have a separate failure limit, in total or among the last samples") {
  const watchdog guard("limits of stages");
  const auto run = [](std::vector<fl::stage_failure_limit> limits) {
    const auto pipeline = fl::from(count_to(1000)) |
                          fl::map(
                              [](int n) {
                                if (n < 500 ? n % 100 == 0 : n % 10 == 0) throw std::runtime_error("broken");
                                return n;
                              },
                              fl::name{"decode"}) |
                          fl::prefetch(4);
    return pipeline.finite({.on_error = fl::on_error::skip, .stage_failure_limits = std::move(limits)});
  };
  const auto fails_at = [&](std::vector<fl::stage_failure_limit> limits) {
    auto loader = run(std::move(limits));
    try {
      while (loader.next()) {
      }
    } catch (const fl::pipeline_error& error) {
      INFO(error.what());
      CHECK(std::string(error.what()).find(" of this stage than its limit of ") != std::string::npos);
      return static_cast<int>(error.failure().index);
    }
    return -1;
  };
  CHECK(fails_at({}) == -1);
  CHECK(fails_at({{"decode", 3}}) == 300);
  CHECK(fails_at({{"map `decode`", 3}}) == 300);
  CHECK(fails_at({{"decode", 3, 100}}) == 530); // one in ten of the last hundred
  CHECK(fails_at({{"decode", 20, 100}}) == -1);
  // The stage may be inside a source, so this is no error.
  std::string told;
  auto misspelt = (numbers(9) | fl::map(unlucky_from_7, fl::name{"decode"}) | fl::prefetch(4))
                      .finite({.on_error = fl::on_error::skip,
                               .stage_failure_limits = {{"deocde", 0}},
                               .on_notice = [&](const std::string& notice) { told += notice; }});
  while (misspelt.next()) {
  }
  CHECK(
      told ==
      "feedline: stage_failure_limits names the stage \"deocde\", but the pipeline consists of numbers, map "
      "`decode`");
}

TEST_CASE("An outage in a stage inside a source ends a run of another rank too") {
  const watchdog guard("outage in a source");
  const mapping fetch = [](int n) { return n == 1 ? throw fl::outage_error("the server is down") : n; };
  const auto p = fl::concat(fl::from(count_to(9)) | fl::map(fetch)) | fl::batch(1);
  auto loader = p.finite({.on_error = fl::on_error::skip, .rank = {0, 2}});
  CHECK(throws_saying<fl::pipeline_error>("the server is down", [&] { loader.next(); }));
}

TEST_CASE("An outage ends a run that skips failures, and a resumed run goes on with that sample") {
  const watchdog guard("outage in a function");
  std::atomic<bool> is_down{true};
  std::atomic<bool> is_nested{false};
  const mapping fetch = [&](int n) {
    if (n == 4) throw std::runtime_error("no such user");
    if (n != 13 || !is_down) return n;
    if (!is_nested) throw fl::outage_error("host: connection refused");
    try {
      throw fl::outage_error("host: connection refused");
    } catch (...) {
      std::throw_with_nested(std::runtime_error("host: connection refused"));
    }
  };
  std::vector<int> expected = count_to(30);
  expected.erase(expected.begin() + 4);
  const auto check = [&](const auto& make) {
    const auto take = [](auto& loader, std::vector<int>& to) {
      while (auto batch = loader.next()) to.insert(to.end(), batch->values().begin(), batch->values().end());
    };
    for (const bool nested : {false, true}) {
      is_nested = nested;
      is_down = true;
      const auto pipeline = make();
      auto loader = pipeline.finite({.on_error = fl::on_error::skip, .failure_limit = 1});
      std::vector<int> found;
      try {
        take(loader, found);
        FAIL("the run ended well");
      } catch (const fl::pipeline_error& error) {
        CHECK(std::string(error.what()).find("host: connection refused") != std::string::npos);
        CHECK(std::string(error.what()).find("limit") == std::string::npos);
      }
      CHECK(found == std::vector(expected.begin(), expected.begin() + 12)); // four whole batches
      CHECK(loader.failures().size() == 1);                                 // number 4
      is_down = false;
      auto rest = pipeline.finite({.on_error = fl::on_error::skip, .resume = loader.checkpoint()});
      take(rest, found);
      CHECK(found == expected);
    }
  };
  const auto source = fl::from(count_to(30));
  check([&] { return source | fl::map(fetch) | fl::batch(3); });
  check([&] { return source | fl::map(fetch, fl::workers{3}) | fl::batch(3); });
  check([&] { return source | fl::map(fetch) | fl::cache({.memory_bytes = 1 << 20}) | fl::batch(3); });
  check([&] { return fl::concat(source | fl::map(fetch)) | fl::batch(3); });
  const auto list = [&](int n) { return std::vector{fetch(n)}; };
  check([&] { return source | fl::flat_map(list, fl::workers{2}) | fl::batch(3); });
}

TEST_CASE("An outage among the samples that can't be divided evenly ends the run of every rank") {
  for (const std::uint32_t number : {0u, 1u, 2u}) {
    CAPTURE(number);
    auto loader = (fl::from(fetched()) | fl::prefetch(1)).finite({.rank = {number, 3}});
    CHECK(throws_saying<fl::pipeline_error>("no answer", [&] {
      while (loader.next()) {
      }
    }));
  }
}
