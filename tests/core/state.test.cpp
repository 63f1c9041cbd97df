// SPDX-License-Identifier: MIT
#include <feedline/core/state.hpp>

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <limits>
#include <list>
#include <new>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <feedline/feedline.hpp>

#include "support/catch.hpp"
#include "support/outcome.hpp"
#include "support/watchdog.hpp"

namespace fl = feedline;
using namespace feedline::test;

namespace {

template <class Value>
std::vector<std::uint64_t> words_of(const Value& value) {
  std::vector<std::uint64_t> words;
  fl::state_writer writer(words);
  writer(value);
  return words;
}

template <class Value>
Value value_of(std::vector<std::uint64_t> words, Value value = {}) {
  while (!words.empty() && words.back() == 0) words.pop_back(); // as checkpoints do
  fl::state_reader reader(words);
  reader(value);
  if (!reader.is_empty()) throw std::logic_error("words are left");
  return value;
}

template <class Value>
Value there_and_back(const Value& value, Value before = {}) {
  return value_of(words_of(value), before);
}

enum class color : std::uint8_t { red, green, blue = 255 };

enum direction { left, right };

struct point {
  float x = 0, y = 0;
  std::string label;

  void state(auto& archive) { archive(x, y, label); }

  friend bool operator==(const point&, const point&) = default;
};

struct nothing {
  void state(auto&) {}

  friend bool operator==(const nothing&, const nothing&) = default;
};

} // namespace

TEST_CASE("Numbers, bools and enums are restored") {
  CHECK(there_and_back(-7) == -7);
  CHECK(there_and_back(std::numeric_limits<std::int64_t>::min(), std::int64_t{3}) ==
        std::numeric_limits<std::int64_t>::min());
  CHECK(there_and_back(~std::uint64_t{0}) == ~std::uint64_t{0});
  CHECK(there_and_back(true));
  CHECK_FALSE(there_and_back(false, true));
  CHECK(there_and_back('x') == 'x');
  CHECK(there_and_back(std::byte{200}) == std::byte{200});
  CHECK(there_and_back(color::blue) == color::blue);
  CHECK(there_and_back(color::red, color::green) == color::red);
  CHECK(there_and_back(right) == right);
}

TEST_CASE("All bits of a floating-point number are restored") {
  const auto bits = [](double value) { return std::bit_cast<std::uint64_t>(value); };
  using limits = std::numeric_limits<double>;
  for (const double value : {0.0, -0.0, 0.1, -1e300, limits::denorm_min(), limits::infinity(),
                             limits::quiet_NaN(), std::bit_cast<double>(0x7ff8'0000'dead'beef)})
    CHECK(bits(there_and_back(value, 1.0)) == bits(value));
  CHECK(std::bit_cast<std::uint32_t>(there_and_back(-0.0f, 1.0f)) == 0x8000'0000);
  CHECK(there_and_back(1.0f / 3.0f) == 1.0f / 3.0f);
  CHECK(there_and_back(1.0L / 3.0L) == 1.0L / 3.0L);
  CHECK(there_and_back(-0.0L, 2.0L) == 0.0L);
  CHECK(std::signbit(there_and_back(-0.0L, 2.0L)));
  CHECK(there_and_back(fl::float16(1.5f)) == fl::float16(1.5f));
  CHECK(there_and_back(fl::bfloat16(-3)) == fl::bfloat16(-3));
}

TEST_CASE("Text and lists are restored, including zeros at their ends") {
  for (const std::string& text :
       {std::string(), std::string("a"), std::string("eight ch"), std::string("nine char"),
        std::string(20, '\0'), std::string("\xff\xfe and more", 11)}) {
    CHECK(there_and_back(text, std::string("before")) == text);
    CHECK(there_and_back(std::pair(text, 0), {"before", 9}) == std::pair(text, 0));
  }
  CHECK(words_of(std::string(16, 'x')).size() == 4);
  for (const std::vector<int>& list :
       {std::vector<int>(), {0}, {0, 0, 0}, {-1, 0, 5}, std::vector<int>(1000, 0)})
    CHECK(there_and_back(list, {1, 2}) == list);
  for (const std::size_t size : {0u, 1u, 63u, 64u, 65u, 200u}) {
    std::vector<bool> bits(size);
    CHECK(there_and_back(bits, {true}) == bits);
    for (std::size_t i = 0; i < size; i += 3) bits[i] = true;
    CHECK(there_and_back(bits) == bits);
    CHECK(words_of(bits).size() <= 2 + (size + 63) / 64);
  }
  CHECK(there_and_back(std::vector<signed char>{-1, 0, 0}) == std::vector<signed char>{-1, 0, 0});
  CHECK(there_and_back(std::vector<color>{color::blue, color::red}) ==
        std::vector<color>{color::blue, color::red});
  CHECK(there_and_back(std::u32string(U"ab")) == U"ab");
  CHECK(there_and_back(std::deque<double>{0.5, 0.0}) == std::deque<double>{0.5, 0.0});
  CHECK(there_and_back(std::list<std::string>{"", "x", ""}) == std::list<std::string>{"", "x", ""});
}

TEST_CASE("Arrays, pairs, tuples, optionals and classes are restored, also inside each other") {
  CHECK(there_and_back(std::array{0, 3, 0}, {1, 1, 1}) == std::array{0, 3, 0});
  CHECK(there_and_back(std::array<int, 0>{}) == std::array<int, 0>{});
  CHECK(there_and_back(std::tuple(1, 0.0, std::string()), {2, 2.0, "x"}) ==
        std::tuple(1, 0.0, std::string()));
  CHECK(there_and_back(std::tuple<>()) == std::tuple<>());
  CHECK(there_and_back(std::optional<int>(), std::optional(4)) == std::nullopt);
  CHECK(there_and_back(std::optional(0), std::optional(4)) == std::optional(0));
  CHECK(there_and_back(std::optional(std::optional<int>())) == std::optional(std::optional<int>()));
  CHECK(there_and_back(point{0.5f, -2, "here"}) == point{0.5f, -2, "here"});
  using deep = std::vector<std::pair<std::optional<std::vector<std::array<point, 2>>>, std::vector<bool>>>;
  const deep value{{std::nullopt, {}},
                   {std::vector<std::array<point, 2>>{}, {true, false}},
                   {std::vector<std::array<point, 2>>{{point{1, 0, ""}, point{}}}, {false}},
                   {std::nullopt, {}}};
  CHECK(there_and_back(value, deep(3)) == value);
  CHECK(there_and_back(std::vector<std::vector<int>>(5)) == std::vector<std::vector<int>>(5));
  CHECK(there_and_back(std::vector<nothing>(7)) == std::vector<nothing>(7));
  CHECK(there_and_back(std::vector<std::array<int, 0>>(3)).size() == 3);
  const fl::sample<std::string> held{"value", {5, 1, 2}};
  const auto back = there_and_back(std::vector{held}).at(0);
  CHECK(back.value == held.value);
  CHECK(back.id == held.id);
}

TEST_CASE("A state reads what it wrote, or refuses it before it allocates memory") {
  using wide = std::array<std::vector<int>, 100>;
  const auto refused = [](auto value, std::vector<std::uint64_t> words) {
    CHECK_THROWS_AS(value_of(words, value), std::invalid_argument);
  };
  refused(std::uint8_t(), {256});
  refused(false, {2});
  refused(color(), {256});
  refused(std::int32_t(), {0x8000'0000});
  refused(1.0f, {std::uint64_t{1} << 32});
  refused(std::optional<int>(), {2, 1});
  for (const std::uint64_t size : {std::uint64_t{1} << 62, std::uint64_t{3}, ~std::uint64_t{0}}) {
    refused(std::vector<int>(), {size, 7, 1});
    refused(std::vector<wide>(), {size, 7, 1});
    refused(std::vector<nothing>(), {size, 7, 1});
    refused(std::string(), {size | 8, 7, 1});
    refused(std::vector<bool>(), {size});
    refused(std::vector<bool>(), {size, 0, 2});
  }
  refused(std::string(), {1, 0x4141, 1}); // more text than the length says
  refused(std::vector<int>(), {1, 7});
  refused(std::vector<int>(), {1, 7, 2});
  refused(std::vector<std::vector<int>>(), {2, 1, 1, 1, 0}); // the end of the outer list is missing
  CHECK(value_of(std::vector<std::uint64_t>{1, 7, 1}, std::vector<int>()) == std::vector{7});
}

TEST_CASE("A message says that the checkpoint is incomplete or damaged") {
  const std::vector<std::uint64_t> words{9, 1};
  fl::state_reader reader(words);
  std::string text;
  try {
    reader(text);
    FAIL("it should be refused");
  } catch (const std::invalid_argument& error) {
    CHECK(error.what() == std::string("feedline: the checkpoint is incomplete or damaged"));
  }
}

namespace {

/// Text, lists and numbers that change with each item, and are sometimes reset to zero or nothing.
struct diary {
  using output = std::string;
  static constexpr fl::stage_traits traits{.kind = "diary"};

  void operator()(int n, auto& emit) {
    mean += (n - mean) / 3;
    text += static_cast<char>('a' + n % 26);
    if (n % 5 == 0) text.assign(static_cast<std::size_t>(n % 3), '\0');
    seen.push_back(n);
    if (seen.size() > 4) seen.clear();
    bits.push_back(n % 3 == 0);
    last = n % 4 == 0 ? std::nullopt : std::optional(n);
    pairs.emplace_back(n, std::to_string(n));
    if (pairs.size() > 3) pairs.erase(pairs.begin());
    counts[static_cast<std::size_t>(n) % counts.size()] += 1;
    hue = n % 2 == 0 ? color::red : color::blue;
    where.x += 0.25f;
    where.label = n % 7 == 0 ? "" : "point";
    odd = !odd;
    std::string all = std::to_string(mean) + text + std::to_string(last.value_or(-1)) + (odd ? "o" : "e");
    for (const int s : seen) all += "," + std::to_string(s);
    for (const bool b : bits) all += b ? "1" : "0";
    for (const auto& [number, name] : pairs) all += name + std::to_string(number);
    for (const int c : counts) all += std::to_string(c);
    emit(all + std::to_string(static_cast<int>(hue)) + std::to_string(where.x) + where.label);
  }

  void end_epoch() { bits.clear(); }

  void state(auto& archive) { archive(mean, text, seen, bits, last, pairs, counts, hue, where, odd); }

  double mean = 0;
  std::string text;
  std::vector<int> seen;
  std::vector<bool> bits;
  std::optional<int> last;
  std::vector<std::pair<int, std::string>> pairs;
  std::array<int, 3> counts{};
  color hue = color::green;
  point where;
  bool odd = false;
};

/// A source whose position is text.
struct spelled {
  static constexpr fl::source_traits traits{.kind = "spelled"};

  std::optional<int> next() {
    if (place.size() == 9) return std::nullopt;
    place += 'x';
    history.push_back(static_cast<int>(place.size()));
    return static_cast<int>(history.size());
  }

  void state(auto& archive) { archive(place, history); }

  std::string place;
  std::vector<int> history;
};

auto diary_pipeline() { return fl::from(spelled()) | diary() | fl::prefetch(1); }

} // namespace

TEST_CASE("A stage and a source with every kind of state are resumed after each item") {
  const watchdog guard("resuming a diary");
  const auto pipeline = diary_pipeline();
  const auto check = [](auto start) {
    std::vector<std::string> expected;
    std::vector<std::vector<std::byte>> places;
    auto whole = start(std::optional<fl::checkpoint>());
    for (int i = 0; i < 27; ++i) {
      places.push_back(whole.checkpoint().to_bytes());
      const auto item = whole.next();
      expected.push_back(item ? *item : "end");
    }
    for (std::size_t at = 0; at < places.size(); ++at) {
      auto resumed = start(std::optional(fl::checkpoint::from_bytes(places[at])));
      for (std::size_t i = at; i < expected.size(); ++i) {
        INFO("left after item " << at << ", item " << i);
        const auto item = resumed.next();
        REQUIRE((item ? *item : "end") == expected[i]);
      }
    }
  };
  check([&](auto resume) { return pipeline.finite({.epochs = 3, .queue_capacity = 1, .resume = resume}); });
  check([&](auto resume) { return pipeline.infinite({.queue_capacity = 1, .resume = resume}); });
}

TEST_CASE("A checkpoint with changed words is refused or can be resumed, and allocates no memory for them") {
  const watchdog guard("hostile checkpoints");
  const auto pipeline = diary_pipeline();
  auto whole = pipeline.finite({.epochs = 2, .queue_capacity = 1});
  for (int i = 0; i < 13; ++i) whole.next();
  const fl::detail::checkpoint_state good = whole.checkpoint().state();
  int refused = 0;
  const auto resume = [&](const fl::detail::checkpoint_state& state) {
    try {
      const auto bytes = fl::checkpoint(state).to_bytes(); // with a valid checksum
      auto loader =
          pipeline.finite({.epochs = 2, .queue_capacity = 1, .resume = fl::checkpoint::from_bytes(bytes)});
      for (int i = 0; i < 30; ++i) loader.next();
    } catch (const std::invalid_argument&) {
      ++refused;
    } catch (const fl::pipeline_error& error) {
      CHECK(error.cause<std::bad_alloc>() == nullptr);
      CHECK(error.cause<std::length_error>() == nullptr);
      ++refused;
    }
  };
  for (std::size_t word = 0; word < good.at.words.size(); ++word)
    for (const std::uint64_t value : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{20},
                                      std::uint64_t{1} << 33, std::uint64_t{1} << 62, ~std::uint64_t{0}}) {
      fl::detail::checkpoint_state bad = good;
      bad.at.words[word] = value;
      resume(bad);
    }
  CHECK(refused > 50);
}
