// SPDX-License-Identifier: MIT
#include <feedline/audio/mixup.hpp>

#include "support/catch.hpp"
#include "support/near.hpp"
#include "support/throws_saying.hpp"

#include <cmath>
#include <vector>

namespace fl = feedline;
using namespace feedline::test;

TEST_CASE("two clips are mixed by weight") {
  std::vector<float> samples{1, 2};
  const std::vector<float> other{3, -2};
  fl::mix_clips(samples, other, 0.75f);
  CHECK(samples == std::vector<float>{1.5f, 1});
  fl::mix_clips(samples, other, 1);
  CHECK(samples == std::vector<float>{1.5f, 1});
  fl::mix_clips(samples, other, 0);
  CHECK(samples == other);
  CHECK(throws_saying<std::invalid_argument>("2 samples can't be mixed with 1",
                                             [&] { fl::mix_clips(samples, std::vector<float>{1}, 0.5f); }));
}

TEST_CASE("weights have the beta distribution") {
  // Beta(a, a) has mean 1/2, variance 1 / (4 (2a + 1)), and this fraction below 1/10.
  struct expectation {
    double alpha, below_a_tenth;
  };

  for (const auto [alpha, below_a_tenth] :
       {expectation{0.1, 0.4036}, expectation{0.5, 0.2048}, expectation{1, 0.1}, expectation{2, 0.028},
        expectation{8, 0.00003}}) {
    INFO("alpha " << alpha);
    constexpr int count = 40'000;
    double sum = 0, squares = 0, below = 0;
    for (int i = 0; i < count; ++i) {
      fl::random_generator random(static_cast<std::uint64_t>(i));
      std::vector<float> samples{1};
      const auto weight = double{fl::mixup{alpha}(samples, std::vector<float>{0}, random)};
      if (!(weight >= 0 && weight <= 1) || double{samples[0]} != weight) FAIL("weight " << weight);
      sum += weight;
      squares += (weight - 0.5) * (weight - 0.5);
      below += weight < 0.1;
    }
    CHECK(near(sum / count, 0.5, 0.01));
    const double variance = 1 / (4 * (2 * alpha + 1));
    CHECK(near(squares / count, variance, 0.03 * variance));
    CHECK(near(below / count, below_a_tenth, 0.01));
  }
}

TEST_CASE("weights are finite for a very small alpha") {
  for (std::uint64_t key = 0; key < 1000; ++key) {
    fl::random_generator random(key), again(key);
    std::vector<float> samples{1}, same{1};
    const float weight = fl::mixup{1e-6}(samples, std::vector<float>{0}, random);
    CHECK((weight >= 0 && weight <= 1));
    CHECK(weight == fl::mixup{1e-6}(same, std::vector<float>{0}, again));
    CHECK(random() == again());
  }
}

TEST_CASE("an invalid alpha is refused") {
  std::vector<float> samples{1};
  fl::random_generator random(1);
  for (const double alpha : {0.0, -1.0, std::nan("")})
    CHECK(throws_saying<std::invalid_argument>("feedline::mixup: alpha is",
                                               [&] { fl::mixup{alpha}(samples, samples, random); }));
}
