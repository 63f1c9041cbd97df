// SPDX-License-Identifier: MIT
#include <feedline/core/retry.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/catch.hpp"

namespace fl = feedline;
using namespace std::chrono_literals;

TEST_CASE("The pauses of retry grow, are bounded, and depend only on the key") {
  const auto pauses = [](const fl::retry& r, std::uint64_t key) {
    fl::random_generator random(key);
    std::vector<double> ms;
    for (std::size_t attempt = 1; attempt <= 5; ++attempt)
      ms.push_back(static_cast<double>(r.pause_after(attempt, random).count()) * 1e-6);
    return ms;
  };
  CHECK(pauses({.first_pause = 100ms, .factor = 2, .jitter = 0, .longest_pause = 1s}, 1) ==
        std::vector<double>{100, 200, 400, 800, 1000});
  CHECK(pauses({.first_pause = 0s, .factor = 1e6, .jitter = 0}, 1) == std::vector<double>{0, 0, 0, 0, 0});
  const fl::retry endless{.first_pause = 1h, .factor = 1e6, .longest_pause = std::chrono::nanoseconds::max()};
  for (const double ms : pauses(endless, 1)) CHECK(ms > 0);
  const fl::retry r{.first_pause = 100ms, .factor = 1, .jitter = 0.2};
  CHECK(pauses(r, 1) == pauses(r, 1));
  CHECK(pauses(r, 1) != pauses(r, 2));
  for (const double ms : pauses(r, 3)) {
    CHECK(ms >= 80);
    CHECK(ms <= 120);
  }
}

TEST_CASE("retry_error says how often something was tried") {
  const fl::retry_error error("busy", 3);
  CHECK(error.what() == std::string("busy; tried 3 times"));
  CHECK(error.attempts == 3);
}

TEST_CASE("In an outage time decides, but there are at least as many attempts") {
  const fl::retry r{.attempts = 3, .for_at_most = 1min};
  CHECK(r.tries_again(2, false, 1h));
  CHECK_FALSE(r.tries_again(3, false, 0s));
  CHECK(r.tries_again(2, true, 1h));
  CHECK(r.tries_again(1000, true, 59s));
  CHECK_FALSE(r.tries_again(3, true, 1min));
}

TEST_CASE("retry refuses values that make no sense") {
  CHECK_NOTHROW(fl::retry().check());
  CHECK_NOTHROW(fl::retry{.attempts = 1, .first_pause = 0s, .factor = 1, .jitter = 0}.check());
  CHECK_THROWS_AS(fl::retry{.attempts = 0}.check(), std::invalid_argument);
  CHECK_THROWS_AS(fl::retry{.first_pause = -1s}.check(), std::invalid_argument);
  CHECK_THROWS_AS(fl::retry{.longest_pause = -1s}.check(), std::invalid_argument);
  CHECK_THROWS_AS(fl::retry{.factor = 0.5}.check(), std::invalid_argument);
  CHECK_THROWS_AS(fl::retry{.factor = std::numeric_limits<double>::quiet_NaN()}.check(),
                  std::invalid_argument);
  CHECK_THROWS_AS(fl::retry{.jitter = 1.5}.check(), std::invalid_argument);
  CHECK_THROWS_AS(fl::retry{.for_at_most = -1s}.check(), std::invalid_argument);
}
