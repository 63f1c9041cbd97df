// SPDX-License-Identifier: MIT
#include <feedline/core/samples_in_order.hpp>

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include <feedline/feedline.hpp>

#include "support/catch.hpp"
#include "support/outcome.hpp"

namespace fl = feedline;
using namespace feedline::test;

namespace {

/// Squares by position, with only the required members.
struct squares {
  std::uint64_t size() const { return 20; }

  int at(std::uint64_t place) const {
    if (place == 5) throw std::runtime_error("five");
    return static_cast<int>(place * place);
  }
};

/// Custom indices, with names for them.
struct named_squares : squares {
  static constexpr fl::source_traits traits{.kind = "squares"};

  std::uint64_t index_at(std::uint64_t place) const { return 100 + place; }

  std::string origin(std::uint64_t index) const { return "square " + std::to_string(index - 100); }
};

/// Says what identifies it, which may take a while.
struct identified_squares : squares {
  std::uint64_t fingerprint(std::uint64_t extent, const std::stop_token&) const { return version + extent; }

  std::uint64_t version = 1;
};

static_assert(!fl::source<squares> && fl::indexed_samples<squares>);

} // namespace

TEST_CASE("A class with only size() and at() is a source") {
  const auto skip = fl::finite_options{.on_error = fl::on_error::skip};
  const auto p = squares() | fl::prefetch(2);
  auto loader = p.finite(skip);
  std::vector<int> all;
  while (const auto n = loader.next()) all.push_back(*n);
  REQUIRE(all.size() == 19);
  CHECK((all[4] == 16 && all[5] == 36 && all[18] == 361));
  REQUIRE(loader.failures().size() == 1);
  CHECK(loader.failures()[0].stage.find("squares") != std::string::npos);
  CHECK(p.replay(0, {7}) == 49);

  auto shuffled = collect((squares() | fl::global_shuffle() | fl::prefetch(2)).finite(skip));
  CHECK(shuffled != all);
  std::sort(shuffled.begin(), shuffled.end());
  CHECK(shuffled == all);

  const auto named =
      fl::from(named_squares()) | fl::map([](int n) { return n < 50 ? n : throw n; }) | fl::prefetch(2);
  auto failing = named.finite({.on_error = fl::on_error::skip});
  while (failing.next()) {
  }
  CHECK(failing.failures().at(1).index == 108);
  CHECK(failing.failures().at(1).origin == "square 8");

  const auto both = fl::zip(named_squares(), squares()) | fl::prefetch(2);
  CHECK(both.finite(skip).next() == std::pair(0, 0));

  auto first = p.infinite({.on_error = fl::on_error::skip});
  for (int i = 0; i < 9; ++i) first.next();
  CHECK(p.infinite({.on_error = fl::on_error::skip, .resume = first.checkpoint()}).next() == 100);
}

TEST_CASE("A class with only size() and at() may have a fingerprint that takes a stop token") {
  const auto skip = fl::infinite_options{.on_error = fl::on_error::skip};
  auto first = (identified_squares() | fl::prefetch(2)).infinite(skip);
  first.next();
  auto resume = skip;
  resume.resume = first.checkpoint();
  CHECK((identified_squares() | fl::prefetch(2)).infinite(resume).next() == 1);
  identified_squares other;
  other.version = 2;
  CHECK_THROWS((other | fl::prefetch(2)).infinite(resume));
}
