// SPDX-License-Identifier: MIT
#include <feedline/image/exif_orientation.hpp>

#include "support/catch.hpp"

#include <feedline/core/random.hpp>

#include <array>
#include <vector>

namespace fl = feedline;

namespace {

template <class... Values>
constexpr std::array<std::byte, sizeof...(Values)> payload(Values... values) {
  return {static_cast<std::byte>(values)...};
}

constexpr auto little = payload('E', 'x', 'i', 'f', 0, 0, 'I', 'I', 42, 0, 8, 0, 0, 0, 1, 0, //
                                0x12, 1, 3, 0, 1, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0);
constexpr auto big = payload('E', 'x', 'i', 'f', 0, 0, 'M', 'M', 0, 42, 0, 0, 0, 8, 0, 2, //
                             1, 0, 0, 3, 0, 0, 0, 1, 0, 9, 0, 0,                          //
                             1, 0x12, 0, 3, 0, 0, 0, 1, 0, 8, 0, 0, 0, 0, 0, 0);

// The compiler evaluates these, and refuses any read outside the payload.
static_assert(fl::read_exif_orientation(little) == fl::exif_orientation::rotate_90);
static_assert(fl::read_exif_orientation(big) == fl::exif_orientation::rotate_270);
static_assert(fl::read_exif_orientation({}) == std::nullopt);

template <std::size_t Size>
constexpr auto with(std::array<std::byte, Size> bytes, std::size_t at, int value) {
  bytes[at] = static_cast<std::byte>(value);
  return bytes;
}

constexpr bool nothing(std::span<const std::byte> bytes) {
  return fl::read_exif_orientation(bytes) == std::nullopt;
}

static_assert(nothing(with(little, 0, 'X')) && nothing(with(little, 4, 1)), "another segment");
static_assert(nothing(with(little, 6, 'M')) && nothing(with(little, 8, 43)), "not TIFF");
static_assert(nothing(with(little, 10, 255)) && nothing(with(little, 13, 255)), "a directory beyond the end");
static_assert(nothing(with(little, 14, 0)), "an empty directory");
static_assert(nothing(with(little, 16, 0x13)), "no such tag");
static_assert(nothing(with(little, 18, 2)), "a tag of another type");
static_assert(fl::read_exif_orientation(with(little, 18, 4)) == fl::exif_orientation::rotate_90, "a LONG");
static_assert(nothing(with(with(little, 18, 4), 26, 1)), "a LONG beyond 16 bits");

constexpr auto big_long = payload('E', 'x', 'i', 'f', 0, 0, 'M', 'M', 0, 42, 0, 0, 0, 8, 0, 1, //
                                  1, 0x12, 0, 4, 0, 0, 0, 1, 0, 0, 0, 8, 0, 0, 0, 0);
static_assert(fl::read_exif_orientation(big_long) == fl::exif_orientation::rotate_270);
static_assert(nothing(std::span(big_long).first(27)), "a LONG that is cut off");

constexpr auto twice = payload('E', 'x', 'i', 'f', 0, 0, 'I', 'I', 42, 0, 8, 0, 0, 0, 2, 0, //
                               0x12, 1, 3, 0, 1, 0, 0, 0, 6, 0, 0, 0,                       //
                               0x12, 1, 4, 0, 1, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0);
static_assert(fl::read_exif_orientation(twice) == fl::exif_orientation::rotate_180, "the last one counts");
static_assert(nothing(with(twice, 36, 9)), "the last one isn't valid");
static_assert(fl::read_exif_orientation(std::span(twice).first(28)) == fl::exif_orientation::rotate_90,
              "the second one is cut off");
static_assert(nothing(with(little, 24, 0)) && nothing(with(little, 24, 9)) && nothing(with(little, 25, 1)),
              "not an EXIF orientation");
static_assert(nothing(with(with(little, 16, 0x13), 15, 255)), "a directory that is shorter than it claims");

constexpr bool every_beginning_is_safe() {
  for (std::size_t size = 0; size < big.size(); ++size) {
    const bool complete = size >= 16 + 12 + 10; // up to the end of the value
    if (nothing(std::span(big).first(size)) == complete) return false;
  }
  return true;
}

static_assert(every_beginning_is_safe());

} // namespace

TEST_CASE("all eight orientations are read, and four of them swap the sides") {
  for (int value = 1; value <= 8; ++value) {
    const auto orientation = fl::read_exif_orientation(with(little, 24, value));
    REQUIRE(orientation.has_value());
    CHECK(static_cast<int>(*orientation) == value);
    CHECK(fl::swaps_sides(*orientation) == (value >= 5));
  }
}

TEST_CASE("random EXIF data causes no read outside the payload") {
  fl::random_generator random(3);
  int valid = 0;
  for (int round = 0; round < 20'000; ++round) {
    // On the heap and of the exact size, so that a sanitizer finds reads beyond the end.
    std::vector<std::byte> bytes(big.begin(), big.end() - static_cast<std::ptrdiff_t>(random.below(4)));
    for (std::uint64_t i = 1 + random.below(4); i > 0; --i)
      bytes[6 + random.below(bytes.size() - 6)] = static_cast<std::byte>(random.below(256));
    const auto orientation = fl::read_exif_orientation(bytes);
    if (!orientation) continue;
    ++valid;
    if (static_cast<int>(*orientation) < 1 || static_cast<int>(*orientation) > 8)
      FAIL("not an EXIF orientation");
  }
  CHECK(valid > 1000);
}
