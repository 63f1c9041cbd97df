// SPDX-License-Identifier: MIT
#include <feedline/window/stream_shuffler.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <stdexcept>
#include <vector>

#include "support/catch.hpp"
#include "support/rounds.hpp"
#include "support/throws_saying.hpp"

namespace fl = feedline;
using namespace feedline::test;
using numbers = std::vector<std::uint64_t>;

namespace {

numbers draw_all(fl::stream_shuffler& shuffler) {
  numbers all;
  while (const auto number = shuffler.draw()) all.push_back(*number);
  return all;
}

numbers sorted(numbers all) {
  std::sort(all.begin(), all.end());
  return all;
}

numbers from_to(std::uint64_t first, std::uint64_t last) {
  numbers all;
  for (; first < last; ++first) all.push_back(first);
  return all;
}

/// How many standard deviations Pearson's chi-square is from its mean, if all cells are equally likely.
double deviation(const std::vector<std::uint64_t>& cells) {
  double total = 0, chi = 0;
  for (const std::uint64_t c : cells) total += static_cast<double>(c);
  const double expected = total / static_cast<double>(cells.size());
  for (const std::uint64_t c : cells)
    chi += (static_cast<double>(c) - expected) * (static_cast<double>(c) - expected) / expected;
  const double freedom = static_cast<double>(cells.size() - 1);
  return (chi - freedom) / std::sqrt(2 * freedom);
}

std::vector<std::uint64_t> state_of(fl::stream_shuffler& shuffler) {
  std::vector<std::uint64_t> words;
  fl::state_writer writer(words);
  shuffler.state(writer);
  return words;
}

} // namespace

TEST_CASE("Each pass yields each number of the range once, in another order") {
  for (const std::uint64_t first : {std::uint64_t{0}, std::uint64_t{63}, (std::uint64_t{1} << 63) - 70})
    for (const std::uint64_t size : {0u, 1u, 2u, 63u, 64u, 65u, 1000u, 40'000u}) {
      fl::stream_shuffler shuffler(7);
      shuffler.set_range(first, first + size);
      numbers before;
      for (std::uint64_t pass = 0; pass < 3; ++pass) {
        CHECK(shuffler.pass() == pass);
        CHECK(shuffler.left() == size);
        const numbers drawn = draw_all(shuffler);
        CHECK(shuffler.left() == 0);
        REQUIRE(sorted(drawn) == from_to(first, first + size));
        if (size > 10) CHECK(drawn != before);
        before = drawn;
        shuffler.start_pass();
      }
    }
}

TEST_CASE("Equal seeds yield equal numbers, others don't") {
  fl::stream_shuffler a(1), b(1), c(2);
  for (fl::stream_shuffler* s : {&a, &b, &c}) s->set_range(0, 100);
  const numbers all = draw_all(a);
  CHECK(draw_all(b) == all);
  CHECK(draw_all(c) != all);
  fl::stream_shuffler one(7);
  one.set_range(0, 10);
  CHECK(draw_all(one) == numbers{9, 1, 5, 4, 3, 6, 7, 0, 2, 8}); // on every platform
}

TEST_CASE("Wherever the ends move, each number of the range that wasn't drawn is drawn once") {
  constexpr std::uint64_t seeds = fl::test::rounds(300);
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    INFO("seed " << seed);
    fl::random_generator random(seed);
    fl::stream_shuffler shuffler(seed);
    const std::uint64_t scale = std::uint64_t{1} << random.below(13);
    std::uint64_t first = 1'000'000 + random.below(100), last = first;
    std::set<std::uint64_t> left;
    for (int step = 0; step < 100; ++step) {
      if (random.below(3) == 0) {
        std::uint64_t new_first = first + random.below(scale), new_last = last + random.below(scale);
        if (random.below(4) == 0) new_first = first - random.below(scale); // older numbers join
        if (random.below(30) == 0) new_first = last + random.below(9), new_last = new_first + scale;
        new_last = std::max(new_first, new_last);
        for (std::uint64_t n = new_first; n < new_last; ++n)
          if (n < first || n >= last) left.insert(n);
        first = new_first;
        last = new_last;
        left.erase(left.begin(), left.lower_bound(first));
        shuffler.set_range(first, last);
      } else if (random.below(10) == 0) {
        shuffler.start_pass();
        for (std::uint64_t n = first; n < last; ++n) left.insert(n);
      } else {
        for (std::uint64_t count = random.below(2 * scale + 1); count > 0; --count) {
          const auto number = shuffler.draw();
          REQUIRE(number.has_value() == !left.empty());
          if (!number) break;
          REQUIRE(left.erase(*number) == 1);
        }
      }
      REQUIRE(shuffler.left() == left.size());
      REQUIRE(shuffler.size() == last - first);
    }
    const numbers rest = sorted(draw_all(shuffler));
    REQUIRE(rest == numbers(left.begin(), left.end()));
  }
}

TEST_CASE("Each order is equally likely, also of numbers that joined late") {
  constexpr std::size_t size = 4, orders = 24;
  std::vector<std::uint64_t> seen(orders), seen_late(orders), seen_older(orders);
  const auto number_of = [](const numbers& order) {
    std::size_t number = 0;
    for (std::size_t i = 0; i < size; ++i) {
      std::size_t smaller = 0;
      for (std::size_t j = i + 1; j < size; ++j) smaller += order[j] < order[i];
      number = number * (size - i) + smaller;
    }
    return number;
  };
  for (std::uint64_t seed = 0; seed < 20'000; ++seed) {
    fl::stream_shuffler shuffler(seed);
    shuffler.set_range(10, 10 + size);
    ++seen[number_of(draw_all(shuffler))];
    // Two of many remain, which are listed; two join, one at each end.
    fl::stream_shuffler late(seed);
    late.set_range(0, 200);
    while (late.left() > 2) static_cast<void>(late.draw());
    late.set_range(0, 202);
    ++seen_late[number_of(draw_all(late))];
    fl::stream_shuffler older(seed);
    older.set_range(2, 202);
    while (older.left() > 2) static_cast<void>(older.draw());
    older.set_range(0, 202);
    ++seen_older[number_of(draw_all(older))];
  }
  CHECK(std::abs(deviation(seen)) < 4);
  CHECK(std::abs(deviation(seen_late)) < 4);
  CHECK(std::abs(deviation(seen_older)) < 4);
}

TEST_CASE("At each moment of a pass, any number may be next") {
  constexpr std::uint64_t size = 640, rounds = 2000;
  constexpr std::size_t cells = 16;
  for (const std::uint64_t place : {0u, 300u, 600u, 625u, 639u}) { // the last ones are drawn from a list
    std::vector<std::uint64_t> at_place(cells), difference(cells);
    for (std::uint64_t seed = 0; seed < rounds; ++seed) {
      fl::stream_shuffler shuffler(seed);
      shuffler.set_range(5, 5 + size);
      std::uint64_t before = 5;
      for (std::uint64_t i = 0; i < place; ++i) before = *shuffler.draw();
      const std::uint64_t number = *shuffler.draw();
      ++at_place[static_cast<std::size_t>((number - 5) * cells / size)];
      ++difference[static_cast<std::size_t>((number + size - before) % size * cells / size)];
    }
    INFO("position " << place);
    CHECK(std::abs(deviation(at_place)) < 4);
    if (place > 0) CHECK(std::abs(deviation(difference)) < 4);
  }
}

TEST_CASE("A shuffler continues from its state") {
  for (const std::uint64_t drawn : {0u, 1u, 500u, 990u, 1000u}) {
    fl::stream_shuffler shuffler(3);
    shuffler.set_range(100, 1100);
    shuffler.start_pass();
    for (std::uint64_t i = 0; i < drawn; ++i) static_cast<void>(shuffler.draw());
    shuffler.set_range(130, 1120);
    static_cast<void>(shuffler.draw());
    const auto words = state_of(shuffler);
    fl::stream_shuffler again(3);
    again.set_range(0, 5000);
    fl::state_reader reader(words);
    again.state(reader);
    CHECK(again.pass() == 1);
    CHECK(again.left() == shuffler.left());
    CHECK(draw_all(again) == draw_all(shuffler));
    again.start_pass();
    shuffler.start_pass();
    CHECK(draw_all(again) == draw_all(shuffler));
  }
}

TEST_CASE("An incomplete or damaged state is refused") {
  fl::stream_shuffler shuffler(3);
  shuffler.set_range(100, 1100);
  while (shuffler.left() > 5) static_cast<void>(shuffler.draw()); // they are listed
  const auto words = state_of(shuffler);
  std::size_t refused = 0;
  for (std::size_t at = 0; at < words.size(); ++at)
    for (const std::uint64_t bits : {std::uint64_t{1}, std::uint64_t{1} << 40, ~std::uint64_t{0}}) {
      auto damaged = words;
      damaged[at] ^= bits;
      fl::stream_shuffler other(3);
      fl::state_reader reader(damaged);
      try {
        other.state(reader);
      } catch (const std::invalid_argument&) {
        ++refused;
        continue;
      }
      const std::uint64_t left = other.left();
      CHECK(draw_all(other).size() == left); // it ends, whatever the state was
    }
  CHECK(refused > words.size());
}

TEST_CASE("An invalid range is refused, and nothing has changed") {
  fl::stream_shuffler shuffler(1);
  shuffler.set_range(10, 20);
  CHECK(throws_saying<std::invalid_argument>("[10, 20): its upper end can't fall",
                                             [&] { shuffler.set_range(5, 19); }));
  CHECK_THROWS_AS(shuffler.set_range(31, 30), std::invalid_argument);
  CHECK(throws_saying<std::length_error>(
      "larger than 2^32", [&] { shuffler.set_range(10, 11 + fl::stream_shuffler::max_window); }));
  CHECK(sorted(draw_all(shuffler)) == from_to(10, 20));
}
