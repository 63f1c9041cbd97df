// SPDX-License-Identifier: MIT
#include <feedline/cache/cache.hpp>

#include <feedline/source/global_shuffle.hpp>
#include <feedline/source/range.hpp>
#include <feedline/stage/batch.hpp>
#include <feedline/stage/filter.hpp>
#include <feedline/stage/flat_map.hpp>
#include <feedline/stage/map.hpp>
#include <feedline/stage/prefetch.hpp>
#include <feedline/stage/shuffle.hpp>
#include <feedline/stage/take.hpp>
#include <feedline/stage/tap.hpp>
#include <feedline/testing/check_stage.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "support/cached.hpp"
#include "support/catch.hpp"
#include "support/leave_and_resume.hpp"
#include "support/numbers.hpp"
#include "support/outcome.hpp"
#include "support/refusing.hpp"
#include "support/temporary_folder.hpp"
#include "support/throws_saying.hpp"
#include "support/watchdog.hpp"

namespace fl = feedline;
using fl::test::collect;
using fl::test::count_to;
using fl::test::counted;
using fl::test::plenty;
using fl::test::run_to_end;
using fl::test::temporary_folder;
using fl::test::twice_and_text;

namespace {

const auto less_some = [](int n) { return n % 5 != 0; };

/// The items of a run with their identities, the failures and the digest, as text.
template <class Loader>
std::string all_of(Loader loader, std::size_t most = 1000) {
  std::string text;
  for (std::size_t i = 0; i < most; ++i) {
    const std::string next = fl::test::next_as_text(loader);
    text += next + "\n";
    if (next.ends_with("end")) break;
  }
  return text + std::to_string(loader.digest());
}

} // namespace

TEST_CASE("a cache doesn't change the items, whatever it holds and with any number of workers") {
  const auto front = fl::from(count_to(200));
  // Unlucky samples fail in each epoch, upstream and downstream of the flat_map; some samples have parts that
  // fail and others that don't.
  const auto source = front | fl::global_shuffle();
  const auto fails = fl::map(fl::test::refusing{{7, 17, 93}}, fl::name{"refuse"});
  const auto fails_later = [](const std::string& text) {
    return text == "26" || text.ends_with("71") ? throw std::runtime_error("bad " + text) : text + "!";
  };
  const auto two_parts = [](int n) {
    std::vector<std::string> all = twice_and_text(n);
    if (n % 7 == 0) all.push_back("71"), all.push_back("more of " + std::to_string(n));
    return all;
  };
  const auto plain = source | fl::filter(less_some) | fails | fl::flat_map(two_parts) |
                     fl::map(fails_later, fl::name{"later"});
  for (const bool short_epochs : {false, true}) {
    const auto with_end = [&](const auto& p) {
      return p | fl::take(short_epochs ? 57 : 1'000'000) | fl::batch(8, fl::as_list);
    };
    const auto options = fl::finite_options{.seed = 5, .epochs = 3, .on_error = fl::on_error::skip};
    const auto expected = all_of(with_end(plain).finite(options));
    const auto expected_start =
        all_of(with_end(plain).infinite({.seed = 5, .on_error = fl::on_error::skip}), 70);
    REQUIRE(expected.find("map `later` failed on sample") != std::string::npos);
    REQUIRE(expected.find("map `refuse` failed on sample 7: unlucky 7") != std::string::npos);

    const auto check = [&](const auto& p) {
      for (int times = 0; times < 2; ++times) { // also with the results of the first run
        CHECK(all_of(with_end(p).finite(options)) == expected);
        CHECK(all_of(with_end(p).infinite({.seed = 5, .on_error = fl::on_error::skip}), 70) ==
              expected_start);
      }
    };
    const temporary_folder folder;
    for (const auto& where :
         {fl::cache_options{.memory_bytes = plenty}, fl::cache_options{.memory_bytes = 3000},
          fl::cache_options{.directory = folder.path(), .directory_bytes = plenty}}) {
      check(plain | fl::cache(where));
      for (const std::size_t n : {std::size_t{1}, std::size_t{3}, std::size_t{64}}) {
        const fl::workers w{n};
        check(source | fl::filter(less_some, w) |
              fl::map(fl::test::refusing{{7, 17, 93}}, fl::name{"refuse"}, w) | fl::flat_map(two_parts, w) |
              fl::map(fails_later, fl::name{"later"}, w) | fl::cache(where));
      }
      check(source | fl::parallel(fl::workers{2}, fl::filter(less_some) | fails) | fl::flat_map(two_parts) |
            fl::map(fails_later, fl::name{"later"}, fl::workers{3}) | fl::cache(where));
    }
  }
}

TEST_CASE("resumed runs continue exactly, with a filled cache and without") {
  fl::test::leave_and_resume("cache", 60, [](fl::test::draw& d, const fl::test::circumstances& c) {
    // The content of the cache must not matter: some of the runs, of any round, share it.
    static const auto shared = fl::cache({.memory_bytes = 20'000});
    const auto kept =
        c.queue % 2 == 0 ? shared : fl::cache({.memory_bytes = c.queue % 3 == 0 ? plenty : 2000});
    const bool serial = d.coin();
    const int size = static_cast<int>(d(1, 60));
    const auto parts = [](int n) { return std::vector<int>(static_cast<std::size_t>((n + 1) % 4), 10 * n); };
    const auto check = [](int n) { return n % 130 == 0 ? throw fl::test::unlucky(n) : n; };
    const auto noise = [](int n, fl::context& x) { return n + static_cast<int>(x.random.below(3)); };
    auto pipeline = fl::from(count_to(size)) | fl::shuffle({.capacity = d(1, 12)}) | fl::flat_map(parts) |
                    fl::map(check, fl::name{"check"}) | fl::map(noise, fl::workers{serial ? 1 : c.workers}) |
                    kept | fl::shuffle({.capacity = d(1, 20)}) | fl::batch(d(1, 7));
    return pipeline;
  });
  fl::test::leave_and_resume(
      "cache on one thread", 60, [](fl::test::draw& d, const fl::test::circumstances& c) {
        static const auto shared = fl::cache({.memory_bytes = 20'000});
        const auto kept =
            c.queue % 2 == 0 ? shared : fl::cache({.memory_bytes = c.queue % 3 == 0 ? plenty : 2000});
        const auto parts = [](int n) {
          return std::vector<int>(static_cast<std::size_t>((n + 1) % 4), 10 * n);
        };
        const auto check = [](int n, fl::context& x) {
          return x.sub_index == 1 && n % 70 == 0 ? throw fl::test::unlucky(n) : n;
        };
        return fl::from(count_to(static_cast<int>(d(1, 60)))) | fl::flat_map(parts) |
               fl::map(check, fl::name{"check"}) | fl::tap([](int) {}) | kept | fl::batch(d(1, 7));
      });
  // A queue, so that the failures of the check, upstream of it, aren't cached.
  const auto make = [] {
    return fl::prefetch(1) | fl::flat_map(twice_and_text, fl::workers{2}) |
           fl::cache({.memory_bytes = plenty});
  };
  fl::testing::check_stage(make, count_to(13), {.places = 6});
}

TEST_CASE("one sample can be replayed, from the cache or not") {
  const counted f;
  const auto parts = [f](int n) { return std::vector<int>{f(n), n}; };
  const auto p = fl::from(count_to(10)) | fl::flat_map(parts) |
                 fl::map(fl::test::refusing{{4}}, fl::name{"check"}) | fl::cache({.memory_bytes = plenty}) |
                 fl::batch(2);
  for (int times = 0; times < 2; ++times) {
    CHECK(p.replay(7, {.index = 5, .epoch = 3}) == 15);
    CHECK(p.replay(7, {5, 1}) == 5);
    CHECK_FALSE(p.replay(7, {5, 2}));
    CHECK_FALSE(p.replay(7, {50}));
    CHECK(fl::test::throws_saying<fl::pipeline_error>("map `check` failed on sample 4: unlucky 4", [&] {
      p.replay(7, {4, 1, 1});
    }));
  }
}

TEST_CASE("any number of ranks can resume a run with a cache") {
  const auto make = [] {
    return fl::from(count_to(64)) | fl::global_shuffle() | fl::map(counted(), fl::workers{2}) |
           fl::cache({.memory_bytes = plenty});
  };
  const auto on_rank = [&](std::uint32_t number, std::uint32_t of, std::optional<fl::checkpoint> from) {
    return (make() | fl::batch(8 / of))
        .infinite({.seed = 1, .rank = {number, of}, .resume = std::move(from)});
  };
  auto alone = on_rank(0, 1, {});
  for (int i = 0; i < 11; ++i) alone.next();
  const auto state = alone.checkpoint();
  const auto expected = alone.next();
  std::vector<std::uint64_t> together;
  for (const std::uint32_t number : {0u, 1u}) {
    auto loader = on_rank(number, 2, state);
    const auto indices = loader.next().value().indices();
    together.insert(together.end(), indices.begin(), indices.end());
  }
  auto wanted = expected->indices();
  std::sort(wanted.begin(), wanted.end());
  std::sort(together.begin(), together.end());
  CHECK(together == std::vector<std::uint64_t>(wanted.begin(), wanted.end()));
}

TEST_CASE("a checkpoint of other stages upstream of a cache is refused") {
  const auto make = [](const char* title) {
    return fl::from(count_to(10)) | fl::map(counted(), fl::name{title}) |
           fl::cache({.memory_bytes = plenty}) | fl::batch(2);
  };
  auto loader = make("one").infinite();
  loader.next();
  const auto state = loader.checkpoint();
  CHECK(make("one").infinite({.resume = state}).next().value().indices()[0] == 2);
  CHECK(fl::test::throws_saying<std::invalid_argument>("map `two` | cache",
                                                       [&] { make("two").infinite({.resume = state}); }));
}
