// SPDX-License-Identifier: MIT
#include <feedline/core/half.hpp>

#include "support/catch.hpp"

#include <feedline/core/random.hpp>

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace fl = feedline;

static_assert(sizeof(fl::float16) == 2 && sizeof(fl::bfloat16) == 2);
static_assert(std::is_trivially_copyable_v<fl::float16> && std::is_trivially_copyable_v<fl::bfloat16>);
static_assert(fl::float16(1.0f).bits == 0x3c00 && fl::bfloat16(1.0f).bits == 0x3f80);

namespace {

template <class Half>
Half of_bits(std::uint32_t bits) {
  Half h;
  h.bits = static_cast<std::uint16_t>(bits);
  return h;
}

float value(auto half) { return static_cast<float>(half); }

// No other number of that type is nearer, and ties go to the even one. `value` is in its range.
template <class Half>
bool is_nearest(float value_given) {
  const Half h(value_given);
  const double distance = std::abs(static_cast<double>(value(h)) - static_cast<double>(value_given));
  for (const int step : {-1, 1}) {
    const auto neighbour = of_bits<Half>(static_cast<std::uint32_t>(h.bits + step));
    if ((h.bits & 0x7fff) == 0 && step == -1) continue; // that has the other sign
    if (!std::isfinite(value(neighbour))) continue;
    const double other = std::abs(static_cast<double>(value(neighbour)) - static_cast<double>(value_given));
    if (other < distance || (other == distance && (h.bits & 1) != 0)) return false;
  }
  return std::signbit(value(h)) == std::signbit(value_given);
}

} // namespace

TEST_CASE("each 16-bit number survives conversion to float and back") {
  bool same = true, no_numbers = true;
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const auto h = of_bits<fl::float16>(bits);
    const auto b = of_bits<fl::bfloat16>(bits);
    if (std::isnan(value(h))) no_numbers = no_numbers && std::isnan(value(fl::float16(value(h))));
    else same = same && fl::float16(value(h)) == h;
    if (std::isnan(value(b))) no_numbers = no_numbers && std::isnan(value(fl::bfloat16(value(b))));
    else same = same && fl::bfloat16(value(b)) == b;
  }
  CHECK(same);
  CHECK(no_numbers);
}

TEST_CASE("numbers in between are rounded to the nearest, ties to even") {
  fl::random_generator random(1);
  bool nearest = true;
  for (int i = 0; i < 200'000; ++i) {
    const float sign = random.chance(0.5) ? -1.0f : 1.0f;
    const auto wide =
        static_cast<float>(std::ldexp(random.uniform(1, 2), static_cast<int>(random.below(200)) - 100));
    nearest = nearest && is_nearest<fl::bfloat16>(sign * wide);
    const auto narrow =
        static_cast<float>(std::ldexp(random.uniform(1, 2), static_cast<int>(random.below(41)) - 26));
    if (narrow < 65504) nearest = nearest && is_nearest<fl::float16>(sign * narrow);
  }
  for (std::uint32_t bits = 0; bits < 0x7bff; ++bits) { // half way between two
    const float a = value(of_bits<fl::float16>(bits)), b = value(of_bits<fl::float16>(bits + 1));
    nearest = nearest && is_nearest<fl::float16>((a + b) / 2);
  }
  CHECK(nearest);
}

TEST_CASE("known numbers are converted") {
  CHECK(value(of_bits<fl::float16>(0x3555)) == 0.333251953125f);
  CHECK(value(of_bits<fl::float16>(1)) == 0x1p-24f);
  CHECK(value(of_bits<fl::float16>(0x7bff)) == 65504);
  CHECK(fl::float16(65519.0f).bits == 0x7bff);
  CHECK(fl::float16(65520.0f).bits == 0x7c00);
  CHECK(fl::float16(1e30f).bits == 0x7c00);
  CHECK(fl::float16(-std::numeric_limits<float>::infinity()).bits == 0xfc00);
  CHECK(fl::float16(0x1p-26f).bits == 0);
  CHECK(fl::float16(-0.0f).bits == 0x8000);
  CHECK(fl::bfloat16(std::numeric_limits<float>::max()).bits == 0x7f80);
  CHECK(fl::bfloat16(3.14159265f).bits == 0x4049);
}
