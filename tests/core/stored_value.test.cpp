// SPDX-License-Identifier: MIT
#include <feedline/core/stored_value.hpp>

#include <feedline/core/half.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/elements.hpp"
#include "support/rounds.hpp"

namespace fl = feedline;
using fl::detail::storable;
using fl::test::elements;

namespace {

enum class color : std::uint8_t { red, green };

struct empty {
  bool operator==(const empty&) const = default;
};

struct example {
  std::array<float, 3> inputs;
  std::vector<bool> flags;
  std::string text;
  std::vector<std::vector<std::int16_t>> lists;
  std::tuple<bool, color, double> rest;
  std::vector<empty> nothings;

  bool operator==(const example&) const = default;
};

/// A class with a constructor, which names its fields.
class constructed {
 public:
  constructed() = default;

  constructed(int number, std::string text) : number_(number), text_(std::move(text)) {}

  auto fields() { return std::tie(number_, text_); }

  bool operator==(const constructed&) const = default;

 private:
  int number_ = 0;
  std::string text_;
};

struct in_c {
  std::int16_t matrix[2][2];
  std::string names[2];
  std::vector<float> rest;
};

struct pointers_in_c {
  int* pointers[2];
};

struct photo {
  fl::tensor<float, 2, 3> pixels;
  fl::tensor<std::uint8_t> mask;
  int label;
};

static_assert(storable<int> && storable<bool> && storable<color> && storable<long double> && storable<char>);
static_assert(storable<std::string> && storable<std::vector<std::byte>> &&
              storable<std::vector<std::string>>);
static_assert(storable<fl::float16> && storable<std::array<fl::bfloat16, 2>>);
static_assert(storable<std::pair<int, std::string>> && storable<std::tuple<>> && storable<empty>);
static_assert(storable<in_c> && !storable<pointers_in_c>);
static_assert(storable<example> && storable<photo> && storable<fl::tensor<float>>);
static_assert(!storable<int*> && !storable<std::string_view> && !storable<std::span<int>> &&
              !storable<const int>);
static_assert(!storable<std::unique_ptr<int>> && !storable<std::pair<int, const char*>>);
static_assert(!storable<std::tuple<int&>> && !storable<std::vector<int*>> && !storable<fl::tensor<int*>>);

template <class T>
std::vector<std::byte> stored(const T& value) {
  fl::detail::byte_count count;
  fl::detail::store(count, value);
  std::vector<std::byte> bytes(count.size());
  fl::detail::byte_copy copy(bytes.data());
  fl::detail::store(copy, value);
  return bytes;
}

template <class T>
std::optional<T> taken(std::span<const std::byte> bytes) {
  // In a block of exactly its size, so that a read beyond it is noticed.
  std::vector<std::byte> block(bytes.begin(), bytes.end());
  block.shrink_to_fit();
  fl::detail::stored_bytes from(block);
  T value{};
  if (!fl::detail::take_stored(from, value) || from.left() > 0) return std::nullopt;
  return value;
}

template <class T>
bool comes_back(const T& value) {
  return taken<T>(stored(value)) == value;
}

example some_example() {
  return {{1.5f, -2, 3},      {true, false, true},       "some text",
          {{1, 2}, {}, {-3}}, {true, color::green, 2.5}, {{}, {}}};
}

photo some_photo() {
  photo p{{}, fl::tensor<std::uint8_t>(fl::shape{2, 2}), 7};
  for (float& f : p.pixels) f = 0.25f;
  for (std::uint8_t& byte : p.mask) byte = 9;
  return p;
}

} // namespace

TEST_CASE("stored values are read back unchanged") {
  CHECK(comes_back(17));
  CHECK(comes_back(true));
  CHECK(comes_back(color::green));
  CHECK(comes_back(-0.5L));
  CHECK(std::isnan(*taken<float>(stored(std::numeric_limits<float>::quiet_NaN()))));
  CHECK(comes_back(std::string()));
  CHECK(comes_back(std::string("a\0b", 3)));
  CHECK(comes_back(std::u16string(u"äöü")));
  CHECK(comes_back(std::vector<double>{1, 2, 3}));
  CHECK(comes_back(std::vector<std::string>{"", "x"}));
  CHECK(comes_back(std::array<std::array<bool, 2>, 2>{{{true, false}, {false, true}}}));
  CHECK(comes_back(std::array<int, 0>{}));
  CHECK(comes_back(std::tuple<>()));
  CHECK(comes_back(std::pair(1, std::string("one"))));
  CHECK(comes_back(fl::float16(1.5f)));
  CHECK(comes_back(some_example()));
}

TEST_CASE("padding between values isn't stored") {
  struct padded {
    std::uint8_t small;
    long double large;
  };

  const auto made_in = [](unsigned char garbage) {
    auto p = std::make_unique<padded>();
    std::memset(static_cast<void*>(p.get()), garbage, sizeof(padded));
    p->small = 3;
    p->large = 1 / 3.0L; // its padding stays
    return p;
  };
  const auto one = made_in(0), other = made_in(0xff);
  CHECK(stored(*one) == stored(*other));
  CHECK(stored(one->large) == stored(other->large));
  CHECK(comes_back(one->large));
  fl::tensor<padded> a(fl::shape{1}), b(fl::shape{1});
  std::memcpy(static_cast<void*>(a.data()), one.get(), sizeof(padded));
  std::memcpy(static_cast<void*>(b.data()), other.get(), sizeof(padded));
  CHECK(stored(a) == stored(b));
  CHECK(taken<fl::tensor<padded>>(stored(a)).value()[0].large == 1 / 3.0L);
}

TEST_CASE("C arrays are read back unchanged") {
  const in_c some{{{1, 2}, {3, 4}}, {"one", "two"}, {0.5f}};
  const auto back = taken<in_c>(stored(some));
  REQUIRE(back);
  CHECK((back->matrix[0][1] == 2 && back->matrix[1][0] == 3));
  CHECK((back->names[0] == "one" && back->names[1] == "two"));
  CHECK(back->rest == some.rest);
}

TEST_CASE("tensors are read back unchanged, with the shape in their type or at run time") {
  const auto p = taken<photo>(stored(some_photo()));
  REQUIRE(p);
  CHECK(std::vector<float>(p->pixels.begin(), p->pixels.end()) == std::vector<float>(6, 0.25f));
  CHECK(p->mask.shape() == fl::shape{2, 2});
  CHECK(elements(p->mask) == std::vector<std::uint8_t>(4, 9));
  CHECK(p->label == 7);
  CHECK(taken<fl::tensor<int>>(stored(fl::tensor<int>()))->shape() == fl::shape{0});
  const auto scalar = taken<fl::tensor<int>>(stored([] {
    fl::tensor<int> t{fl::shape{}};
    t[0] = 5;
    return t;
  }()));
  REQUIRE(scalar);
  CHECK(scalar->shape().rank() == 0);
  CHECK((*scalar)[0] == 5);
  CHECK_FALSE(taken<fl::tensor<float, 3, 2>>(stored(fl::tensor<float, 2, 3>()))); // another shape
}

TEST_CASE("bytes that end too early, or too late, are no value") {
  for (const auto& bytes :
       {stored(some_example()), stored(std::vector<int>{1, 2, 3}), stored(std::string("text"))})
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      CHECK_FALSE(taken<example>(std::span(bytes).first(size)));
      CHECK_FALSE(taken<photo>(std::span(bytes).first(size)));
    }
  auto longer = stored(some_example());
  longer.push_back({});
  CHECK_FALSE(taken<example>(longer));
}

TEST_CASE(
    "arbitrary bytes are refused or read as some value, without reading or allocating more than they hold") {
  const auto words = [](std::initializer_list<std::uint64_t> all) {
    std::vector<std::byte> bytes(all.size() * 8);
    std::memcpy(bytes.data(), std::data(all), bytes.size());
    return bytes;
  };
  constexpr std::uint64_t huge = ~std::uint64_t{0};
  for (const std::uint64_t n : {std::uint64_t{1}, huge, huge / 2, huge / 8 + 2}) {
    const auto bytes = words({n});
    CHECK_FALSE(taken<std::string>(bytes));
    CHECK_FALSE(taken<std::vector<double>>(bytes));
    CHECK_FALSE(taken<std::vector<std::string>>(bytes));
    CHECK_FALSE(taken<std::vector<empty>>(bytes));
    CHECK_FALSE(taken<fl::tensor<double>>(bytes));
  }
  CHECK_FALSE(taken<fl::tensor<double>>(words({1, huge})));
  CHECK_FALSE(taken<fl::tensor<double>>(words({2, huge, 2})));
  CHECK_FALSE(taken<fl::tensor<double>>(words({3, huge, 2, 0}))); // the product overflows before the 0
  CHECK_FALSE(taken<fl::tensor<double>>(words({9, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1})));
  CHECK_FALSE(taken<bool>(std::array{std::byte{2}}));

  fl::random_generator random(1);
  const auto good = stored(std::pair(some_example(), 1));
  const auto photos = stored(some_photo());
  for (int i = 0; i < fl::test::rounds(20'000); ++i) {
    auto bytes = i % 2 ? good : photos;
    for (std::uint64_t changes = random.below(4); changes > 0; --changes)
      bytes[random.below(bytes.size())] = static_cast<std::byte>(random.below(256));
    if (random.chance(0.3)) bytes.resize(random.below(bytes.size()));
    static_cast<void>(taken<std::pair<example, int>>(bytes));
    static_cast<void>(taken<photo>(bytes));
  }
  SUCCEED();
}

TEST_CASE("hashes differ for blocks that differ in any byte or in their length") {
  std::vector<std::byte> bytes(100);
  const auto whole = fl::detail::hash_of_block(bytes);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    CHECK(fl::detail::hash_of_block(std::span(bytes).first(i)) != whole);
    bytes[i] = std::byte{0x80};
    CHECK(fl::detail::hash_of_block(bytes) != whole);
    bytes[i] = {};
  }
}

TEST_CASE("A class that names its fields comes back, also in a list") {
  CHECK(comes_back(constructed(7, "seven")));
  CHECK(comes_back(std::vector<constructed>{{1, "one"}, {}, {-1, "minus one"}}));
  const std::vector<std::byte> bytes = stored(constructed(7, "seven"));
  CHECK_FALSE(taken<constructed>(std::span(bytes).first(5)));
}
