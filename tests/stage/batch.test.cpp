// SPDX-License-Identifier: MIT
#include <feedline/stage/batch.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "support/by_hand.hpp"
#include "support/catch.hpp"
#include "support/elements.hpp"
#include "support/outcome.hpp"

namespace fl = feedline;
using fl::test::count_to;
using fl::test::elements;
using fl::test::given_by;

namespace {

enum class color : std::uint8_t { red = 3, green = 7 };

using matrix = std::array<std::array<float, 3>, 2>;

struct example {
  fl::tensor<float, 2, 3> image;
  std::array<std::int16_t, 5> moves;
  double weight;
  bool valid;
  color kind;
};

struct eight {
  int a, b, c, d, e;
  int f[2];
  float g;
  std::array<char, 2> h;
};

struct nine {
  eight first;
  bool b, c, d, e, f, g, h;
  fl::tensor<int, 2> last;
};

struct sixty_four {
  int a[7];
  float b0, b1, b2, b3, b4, b5, b6, b7, c0, c1, c2, c3, c4, c5, c6, c7, d0, d1, d2, d3, d4, d5, d6, d7;
  bool e0, e1, e2, e3, e4, e5, e6, e7, f0, f1, f2, f3, f4, f5, f6, f7, g0, g1, g2, g3, g4, g5, g6, g7;
  color h0, h1, h2, h3, h4, h5, h6, h7, i0, i1, i2, i3, i4, i5;
  std::uint64_t last;
};

/// A class with a constructor, which names its fields.
class constructed {
 public:
  explicit constructed(int number) : number_(number), text_(std::to_string(number)) {}

  auto fields() { return std::tie(number_, text_); }

 private:
  int number_;
  std::string text_;
};

class without_fields {
 public:
  explicit without_fields(int number) : number_(number) {}

  auto fields() { return number_; }

 private:
  int number_;
};

struct point {
  float x, y;
};

struct box {
  point corner;
  std::string name;
};

struct in_c {
  fl::float16 halves[3];
  int matrix[2][2];
  fl::bfloat16 half;
  box place;
  unsigned char pixels[3 * 224 * 224];
};

struct with_pointer {
  int number;
  const char* pointer;
};

template <class T>
constexpr bool has_shape = fl::stage_for<decltype(fl::batch(2)), T>;

static_assert(has_shape<int> && has_shape<bool> && has_shape<color> && has_shape<std::byte>);
static_assert(has_shape<matrix> && has_shape<std::array<bool, 3>>);
static_assert(has_shape<fl::tensor<float, 2, 3>> && has_shape<fl::tensor<float>>);
static_assert(has_shape<example> && has_shape<sixty_four>);
static_assert(has_shape<fl::float16> && has_shape<std::array<fl::bfloat16, 2>> && has_shape<in_c>);
static_assert(has_shape<std::pair<int, box>> && !has_shape<std::pair<int, with_pointer>>);
static_assert(has_shape<std::pair<int, matrix>> && has_shape<std::tuple<int, color, fl::tensor<char>>>);
static_assert(!has_shape<std::unique_ptr<int>> && !has_shape<int*> && !has_shape<with_pointer>);
static_assert(has_shape<constructed> && !has_shape<without_fields> && !has_shape<std::pair<int, void*>> &&
              !has_shape<std::tuple<>>);

using example_batch = fl::stage_output_t<decltype(fl::batch(2)), example>;
template <class B, auto Member>
concept has_member = requires(const B& b) { b.template get<Member>(); };

static_assert(std::is_same_v<example_batch, fl::batch_of<example>>);
static_assert(has_member<example_batch, &example::weight>);
static_assert(std::is_same_v<decltype(std::declval<const example_batch&>().get<&example::moves>()),
                             const fl::tensor<std::int16_t>&>);
static_assert(!std::is_copy_constructible_v<example_batch>);

example make_example(int i) {
  example e{{}, {}, i * 0.5, i % 2 == 0, i % 3 == 0 ? color::red : color::green};
  for (std::size_t k = 0; k < e.image.size(); ++k) e.image[k] = static_cast<float>(10 * i + int(k));
  e.moves.fill(static_cast<std::int16_t>(i));
  return e;
}

/// A tensor of `rows` rows of two, all of them `value`.
fl::tensor<int> rows_of(std::size_t rows, int value) {
  fl::tensor<int> t(fl::shape{rows, 2});
  std::fill(t.begin(), t.end(), value);
  return t;
}

template <class T>
bool is_aligned(const fl::tensor<T>& t) {
  return reinterpret_cast<std::uintptr_t>(t.data()) % 64 == 0;
}

/// The results of `make` for 0, 1, … count - 1.
template <class F>
auto made(int count, F make) {
  std::vector<decltype(make(0))> items;
  for (int i = 0; i < count; ++i) items.push_back(make(i));
  return items;
}

} // namespace

TEST_CASE("a batch needs at least one sample") {
  CHECK_THROWS_AS(fl::batch(0), std::invalid_argument);
  CHECK_THROWS_AS(fl::batch(0, fl::as_list), std::invalid_argument);
  CHECK_THROWS_AS(fl::batch(0, fl::padded{}), std::invalid_argument);
}

TEST_CASE("batch gathers numbers into a tensor and keeps the last batch that isn't full") {
  const auto batches = given_by(fl::batch(4), count_to(10));
  REQUIRE(batches.size() == 3);
  CHECK(batches[0].values().shape() == fl::shape{4});
  CHECK(elements(batches[1].values()) == std::vector{4, 5, 6, 7});
  CHECK(batches[2].size() == 2);
  CHECK(batches[2].values().shape() == fl::shape{2});
  CHECK(elements(batches[2].values()) == std::vector{8, 9});
}

TEST_CASE("batch gathers bools, enums and nested arrays") {
  const auto bools = given_by(fl::batch(3), std::vector{false, true, false});
  CHECK(elements(bools.at(0).values()) == std::vector{false, true, false});
  const auto colors = given_by(fl::batch(3), std::vector{color::red, color::green});
  CHECK(elements(colors.at(0).values()) == std::vector{color::red, color::green});
  const auto matrices = given_by(fl::batch(2), made(3, [](int i) {
                                   const auto f = static_cast<float>(i);
                                   return matrix{{{f, 1, 2}, {3, 4, 5}}};
                                 }));
  REQUIRE(matrices.size() == 2);
  CHECK(matrices[0].values().shape() == fl::shape{2, 2, 3});
  CHECK(elements(matrices[0].values()) == std::vector<float>{0, 1, 2, 3, 4, 5, 1, 1, 2, 3, 4, 5});
  CHECK(matrices[1].values().shape() == fl::shape{1, 2, 3});
}

TEST_CASE(
    "batch stacks tensors whose shape is known only at run time, including empty ones and single numbers") {
  const auto stacked = [](const fl::shape& shape) {
    return given_by(fl::batch(2), made(3, [&](int i) {
                      fl::tensor<int> t(shape);
                      std::fill(t.begin(), t.end(), i);
                      return t;
                    }));
  };
  const auto matrices = stacked({2, 1});
  REQUIRE(matrices.size() == 2);
  CHECK(matrices[0].values().shape() == fl::shape{2, 2, 1});
  CHECK(elements(matrices[0].values()) == std::vector{0, 0, 1, 1});
  CHECK(elements(matrices[1].values()) == std::vector{2, 2});
  CHECK(stacked({0, 7}).at(0).values().shape() == fl::shape{2, 0, 7});
  CHECK(elements(stacked({}).at(0).values()) == std::vector{0, 1});
}

TEST_CASE("the shape of tensors may differ from batch to batch") {
  const auto batches = given_by(fl::batch(2), made(4, [](int i) { return rows_of(i < 2 ? 1 : 5, i); }));
  REQUIRE(batches.size() == 2);
  CHECK(batches[0].values().shape() == fl::shape{2, 1, 2});
  CHECK(batches[1].values().shape() == fl::shape{2, 5, 2});
}

TEST_CASE("batch makes one aligned tensor of each field of a struct") {
  auto batches = given_by(fl::batch(3), made(5, make_example));
  REQUIRE(batches.size() == 2);
  auto& b = batches[0];
  CHECK(b.get<&example::image>().shape() == fl::shape{3, 2, 3});
  CHECK(b.get<&example::image>().at(2)[5] == 25);
  CHECK(b.get<&example::moves>().shape() == fl::shape{3, 5});
  CHECK(b.get<&example::moves>().at(1)[4] == 1);
  CHECK(elements(b.get<&example::weight>()) == std::vector{0.0, 0.5, 1.0});
  CHECK(elements(b.get<&example::valid>()) == std::vector{true, false, true});
  CHECK(elements(b.get<&example::kind>()) == std::vector{color::red, color::green, color::green});
  CHECK(&b.get<2>() == &b.get<&example::weight>());
  CHECK(elements(batches[1].get<&example::weight>()) == std::vector{1.5, 2.0});
  for (const auto& each : batches) {
    CHECK(is_aligned(each.get<&example::image>()));
    CHECK(is_aligned(each.get<&example::moves>()));
    CHECK(is_aligned(each.get<&example::weight>()));
    CHECK(is_aligned(each.get<&example::valid>()));
    CHECK(is_aligned(each.get<&example::kind>()));
  }
  b.get<&example::weight>()[0] = 9;
  CHECK(std::as_const(b).get<2>()[0] == 9);
}

TEST_CASE("batch takes structs of up to 64 fields") {
  const auto b = std::move(given_by(fl::batch(2), made(2,
                                                       [](int i) {
                                                         auto t = std::make_unique<sixty_four>();
                                                         t->a[6] = i;
                                                         t->b0 = t->d7 = static_cast<float>(i) + 0.5f;
                                                         t->g7 = i == 1;
                                                         t->h7 = i == 0 ? color::red : color::green;
                                                         t->last = static_cast<std::uint64_t>(i) << 40;
                                                         return std::move(*t);
                                                       }))
                               .at(0));
  CHECK(b.get<&sixty_four::a>().shape() == fl::shape{2, 7});
  CHECK(b.get<&sixty_four::a>().at(1)[6] == 1);
  CHECK(elements(b.get<&sixty_four::b0>()) == std::vector{0.5f, 1.5f});
  CHECK(elements(b.get<&sixty_four::d7>()) == std::vector{0.5f, 1.5f});
  CHECK(elements(b.get<&sixty_four::g7>()) == std::vector{false, true});
  CHECK(elements(b.get<&sixty_four::h7>()) == std::vector{color::red, color::green});
  CHECK(elements(b.get<63>()) == std::vector<std::uint64_t>{0, std::uint64_t{1} << 40});
  CHECK(&b.get<63>() == &b.get<&sixty_four::last>());
}

TEST_CASE("batch takes structs whose fields fill a block of eight, and one more") {
  const auto b = std::move(
      given_by(
          fl::batch(1),
          made(1,
               [](int) {
                 nine n{
                     {1, 2, 3, 4, 5, {6, 7}, 8, {'9', 'x'}}, true, false, true, false, true, false, true, {}};
                 n.last[0] = n.last[1] = 10;
                 return n;
               }))
          .at(0));
  CHECK(elements(b.get<&nine::first>().get<&eight::e>()) == std::vector{5});
  CHECK(elements(b.get<&nine::first>().get<&eight::f>()) == std::vector{6, 7});
  CHECK(elements(b.get<&nine::first>().get<&eight::h>()) == std::vector{'9', 'x'});
  CHECK(elements(b.get<&nine::h>()) == std::vector{true});
  CHECK(elements(b.get<&nine::last>()) == std::vector{10, 10});
}

TEST_CASE("batch takes a class with a constructor by its function fields()") {
  const auto batches = given_by(fl::batch(2), made(3, [](int i) { return constructed(i); }));
  REQUIRE(batches.size() == 2);
  CHECK(elements(batches[0].get<0>()) == std::vector{0, 1});
  CHECK(batches[0].get<1>() == std::vector<std::string>{"0", "1"});
}

TEST_CASE("batches are equal if their samples and all columns are, and print both") {
  const auto batches =
      given_by(fl::batch(2), made(4, [](int i) { return std::pair(i / 2, constructed(7)); }));
  const auto again =
      given_by(fl::batch(2), made(4, [](int i) { return std::pair(i == 2 ? 9 : i / 2, constructed(7)); }));
  CHECK(batches[0] == again[0]);
  CHECK_FALSE(batches[1] == again[1]); // a number
  CHECK_FALSE(batches[0] == batches[1]);
  CHECK(batches[0].get<1>() == batches[1].get<1>());
  CHECK(to_string(batches[0]) ==
        "batch of 2: (tensor<int> [2]: [0, 0], (tensor<int> [2]: [7, 7], [\"7\", \"7\"]))");
  std::ostringstream out;
  out << given_by(fl::batch(2, fl::padded{.mask = true}), std::vector{point{1, 2.5f}}).at(0);
  CHECK(out.str() == "batch of 1: {x: tensor<float> [1]: [1], y: tensor<float> [1]: [2.5]}");
  const auto same_values = given_by(fl::batch(1), std::vector{5, 5});
  CHECK(same_values[0].values() == same_values[1].values());
  CHECK_FALSE(same_values[0] == same_values[1]); // another sample
}

TEST_CASE("batch takes pairs and tuples field by field") {
  const auto pairs = given_by(fl::batch(3), made(3, [](int i) { return std::pair(i, i * 0.5); }));
  CHECK(elements(pairs.at(0).get<0>()) == std::vector{0, 1, 2});
  CHECK(elements(pairs.at(0).get<1>()) == std::vector{0.0, 0.5, 1.0});
  const auto tuples = given_by(fl::batch(3), made(3, [](int i) {
                                 return std::tuple(std::array{i, -i}, i == 2, rows_of(1, i));
                               }));
  CHECK(elements(tuples.at(0).get<0>()) == std::vector{0, 0, 1, -1, 2, -2});
  CHECK(elements(tuples.at(0).get<1>()) == std::vector{false, false, true});
  CHECK(tuples.at(0).get<2>().shape() == fl::shape{3, 1, 2});
}

TEST_CASE("batch stacks numbers of 16 bits, C arrays and the fields of nested structs") {
  const auto make = [](int i) {
    const auto f = static_cast<float>(i);
    const auto item = std::make_unique<in_c>();
    for (int k = 0; k < 3; ++k) item->halves[k] = fl::float16(f + static_cast<float>(k) / 4);
    item->matrix[0][1] = i;
    item->matrix[1][0] = 10 * i;
    item->half = fl::bfloat16(-f);
    item->place = {{f, 2 * f}, std::to_string(i)};
    item->pixels[3 * 224 * 224 - 1] = static_cast<unsigned char>(i);
    return *item;
  };
  auto batches = given_by(fl::batch(2), made(3, make));
  REQUIRE(batches.size() == 2);
  const auto& b = batches[0];
  CHECK(b.get<&in_c::halves>().shape() == fl::shape{2, 3});
  CHECK(static_cast<float>(b.get<&in_c::halves>().at(1)[2]) == 1.5f);
  CHECK(b.get<&in_c::matrix>().shape() == fl::shape{2, 2, 2});
  CHECK(elements(b.get<&in_c::matrix>()) == std::vector{0, 0, 0, 0, 0, 1, 10, 0});
  CHECK(static_cast<float>(b.get<&in_c::half>()[1]) == -1);
  CHECK(elements(b.get<&in_c::place>().get<&box::corner>().get<&point::y>()) == std::vector{0.0f, 2.0f});
  CHECK(b.get<&in_c::place>().get<1>() == std::vector<std::string>{"0", "1"});
  CHECK(b.get<&in_c::pixels>().at(1).back() == 1);
  CHECK(elements(batches[1].get<3>().get<&box::corner>().get<0>()) == std::vector{2.0f});
  const auto filled = given_by(fl::batch(3, fl::padded{}), made(3, make));
  CHECK(elements(filled.at(0).get<&in_c::place>().get<&box::name>().lengths) ==
        std::vector<std::int64_t>{1, 1, 1});
}

TEST_CASE("a batch keeps nothing of a refused sample, at any position in the batch") {
  using item = std::tuple<int, fl::tensor<int>, fl::tensor<int>, std::array<int, 2>>;
  for (int bad = 1; bad < 8; ++bad) { // the first sample of a batch can't be wrong: it sets the shape
    fl::test::by_hand<item, decltype(fl::batch(100))> batch(fl::batch(100));
    for (int i = 0; i < 8; ++i) {
      item next(i, rows_of(1, i), rows_of(i == bad ? 3 : 2, i), std::array{i, i});
      if (i == bad) CHECK_THROWS_AS(batch.feed(std::move(next)), std::invalid_argument);
      else CHECK(batch.feed(std::move(next)).empty());
    }
    const auto batches = batch.finish();
    REQUIRE(batches.size() == 1);
    const auto& b = batches[0].value;
    REQUIRE(b.size() == 7);
    CHECK(b.get<1>().shape() == fl::shape{7, 1, 2});
    CHECK(b.get<2>().shape() == fl::shape{7, 2, 2});
    for (std::size_t row = 0; row < 7; ++row) {
      const int expected = static_cast<int>(row) + (static_cast<int>(row) >= bad);
      CHECK(b.indices()[row] == static_cast<std::uint64_t>(expected));
      CHECK(b.get<0>()[row] == expected);
      CHECK(b.get<1>().at(row)[1] == expected);
      CHECK(b.get<2>().at(row)[3] == expected);
      CHECK(b.get<3>().at(row)[1] == expected);
    }
  }
}
