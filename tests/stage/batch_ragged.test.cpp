// SPDX-License-Identifier: MIT
// Batches of lists of structs, arrays and texts: values and offsets, or padded with a mask.
#include <feedline/stage/batch.hpp>

#include <feedline/source/range.hpp>
#include <feedline/stage/map.hpp>
#include <feedline/stage/shuffle.hpp>
#include <feedline/testing/check_stage.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory_resource>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "support/by_hand.hpp"
#include "support/catch.hpp"
#include "support/counting_resource.hpp"
#include "support/elements.hpp"
#include "support/outcome.hpp"

namespace fl = feedline;
using fl::test::count_to;
using fl::test::elements;
using fl::test::given_by;

namespace {

using offsets = std::vector<std::int64_t>;
using texts = std::vector<std::string>;

struct point {
  float x, y;
};

struct box {
  point corner;
  std::array<float, 2> size;
  std::optional<int> label;
  fl::tensor<std::int8_t, 2> flags;
};

struct photo {
  std::vector<box> boxes;
  int number;
  fl::tensor<float, 2> mean;
};

struct polygon {
  std::string name;
  std::vector<point> points;
};

struct annotation {
  std::vector<polygon> polygons;
  std::vector<std::array<float, 4>> boxes;
  texts words;
};

/// A class with a constructor, which names its fields.
class rating {
 public:
  explicit rating(int stars) : stars_(stars), comments_(static_cast<std::size_t>(stars % 3), "good") {}

  auto fields() { return std::tie(stars_, comments_); }

 private:
  int stars_;
  texts comments_;
};

template <class T>
constexpr bool has_shape = fl::stage_for<decltype(fl::batch(2)), T>;
template <class T>
constexpr bool can_be_padded = fl::stage_for<decltype(fl::batch(2, fl::padded{})), T>;

static_assert(has_shape<photo> && has_shape<annotation> && has_shape<std::vector<photo>>);
static_assert(has_shape<std::vector<std::vector<int>>> && has_shape<std::vector<std::pair<int, bool>>>);
static_assert(has_shape<std::span<const point>> && has_shape<std::vector<std::string_view>>);
static_assert(!has_shape<std::span<polygon>>, "the texts aren't the span's to give");
static_assert(!has_shape<std::vector<fl::tensor<int>>>,
              "the shape of one element could differ from that of another");
static_assert(!has_shape<std::vector<void*>>);
static_assert(can_be_padded<photo> && can_be_padded<std::vector<std::array<float, 4>>>);
static_assert(!can_be_padded<annotation> && !can_be_padded<texts> &&
              !can_be_padded<std::vector<fl::tensor<int>>>);
static_assert(std::is_same_v<decltype(std::declval<fl::batch_of<photo, fl::padded>&>().get<&photo::mean>()),
                             fl::tensor<float>&>,
              "a shape in the type needs no padding");
static_assert(std::is_same_v<decltype(std::declval<fl::batch_of<photo>&>().get<&photo::boxes>()),
                             fl::ragged_tensor<fl::struct_columns<box>>&>);

/// Photo i has i % 3 boxes.
photo make_photo(int i) {
  photo p{{}, i, {}};
  p.mean[0] = p.mean[1] = static_cast<float>(i);
  for (int k = 0; k < i % 3; ++k) {
    const auto f = static_cast<float>(10 * i + k);
    box b{{f, f + 0.5f}, {f, -f}, k == 0 ? std::optional(i) : std::nullopt, {}};
    b.flags[0] = static_cast<std::int8_t>(i);
    b.flags[1] = static_cast<std::int8_t>(k);
    p.boxes.push_back(std::move(b));
  }
  return p;
}

/// Annotation i has i polygons, the first of them without points.
annotation make_annotation(int i) {
  annotation a;
  for (int k = 0; k < i; ++k) {
    const auto f = static_cast<float>(k);
    a.polygons.push_back({std::string(static_cast<std::size_t>(k + 1), 'p'),
                          std::vector<point>(static_cast<std::size_t>(k), {f, -f})});
    a.boxes.push_back({f, 1, 2, 3});
    a.words.push_back("word " + std::to_string(i));
  }
  return a;
}

template <class Stage, class Item>
auto first_of(const Stage& stage, std::vector<Item> items) {
  auto batches = given_by(stage, std::move(items));
  REQUIRE_FALSE(batches.empty());
  return std::move(batches[0]);
}

template <class F>
auto made(int first, int last, F make) {
  std::vector<decltype(make(0))> items;
  for (int i = first; i < last; ++i) items.push_back(make(i));
  return items;
}

} // namespace

TEST_CASE("a list of structs becomes one column for each field of the struct, and offsets") {
  const auto batches = given_by(fl::batch(4), made(0, 6, make_photo));
  REQUIRE(batches.size() == 2);
  const auto& boxes = batches[0].get<&photo::boxes>();
  CHECK(elements(boxes.offsets) == offsets{0, 0, 1, 3, 3});
  const auto& corners = boxes.values.get<&box::corner>();
  CHECK(corners.get<&point::x>().shape() == fl::shape{3});
  CHECK(elements(corners.get<&point::x>()) == std::vector<float>{10, 20, 21});
  CHECK(elements(corners.get<&point::y>()) == std::vector<float>{10.5, 20.5, 21.5});
  CHECK(boxes.values.get<&box::size>().shape() == fl::shape{3, 2});
  CHECK(elements(boxes.values.get<&box::size>()) == std::vector<float>{10, -10, 20, -20, 21, -21});
  CHECK(elements(boxes.values.get<&box::label>().values) == std::vector<int>{1, 2, 0});
  CHECK(elements(boxes.values.get<&box::label>().valid) == std::vector<bool>{true, true, false});
  CHECK(boxes.values.get<&box::flags>().shape() == fl::shape{3, 2});
  CHECK(elements(boxes.values.get<&box::flags>()) == std::vector<std::int8_t>{1, 0, 2, 0, 2, 1});
  CHECK(elements(batches[0].get<&photo::number>()) == std::vector<int>{0, 1, 2, 3});
  CHECK(elements(batches[1].get<&photo::boxes>().offsets) == offsets{0, 1, 3});
  CHECK(elements(batches[1].get<&photo::boxes>().values.get<&box::label>().values) ==
        std::vector<int>{4, 5, 0});
}

TEST_CASE("lists of arrays, texts and lists keep their order, also inside the structs of a list") {
  auto batches = given_by(fl::batch(3), made(0, 3, make_annotation));
  REQUIRE(batches.size() == 1);
  auto& b = batches[0];
  CHECK(b.get<&annotation::boxes>().values.shape() == fl::shape{3, 4});
  CHECK(elements(b.get<&annotation::boxes>().values) ==
        std::vector<float>{0, 1, 2, 3, 0, 1, 2, 3, 1, 1, 2, 3});
  CHECK(b.get<&annotation::boxes>().at(2).size() == 8);
  CHECK(b.get<&annotation::boxes>().at(2)[4] == 1);
  CHECK(b.get<&annotation::boxes>().at(0).empty());
  CHECK_THROWS_AS(b.get<&annotation::boxes>().at(3), std::out_of_range);
  CHECK(b.get<&annotation::words>().values == texts{"word 1", "word 2", "word 2"});
  auto& polygons = b.get<&annotation::polygons>();
  CHECK(elements(polygons.offsets) == offsets{0, 0, 1, 3});
  CHECK(polygons.values.get<&polygon::name>() == texts{"p", "p", "pp"});
  auto& points = polygons.values.get<&polygon::points>();
  CHECK(elements(points.offsets) == offsets{0, 0, 0, 1});
  CHECK(elements(points.values.get<&point::y>()) == std::vector<float>{-1});
}

TEST_CASE("a batch of empty lists has columns without elements") {
  const auto empty = first_of(fl::batch(2), made(0, 2, [](int) { return make_annotation(0); }));
  CHECK(empty.get<&annotation::boxes>().values.shape() == fl::shape{0, 4});
  CHECK(elements(empty.get<&annotation::boxes>().offsets) == offsets{0, 0, 0});
  CHECK(empty.get<&annotation::boxes>().at(1).empty());
  CHECK(empty.get<&annotation::words>().values.empty());
  CHECK(empty.get<&annotation::polygons>().values.get<&polygon::points>().values.get<&point::x>().shape() ==
        fl::shape{0});
  const auto padded =
      first_of(fl::batch(2, fl::padded{.mask = true}), made(0, 2, [](int) { return make_photo(0); }));
  const auto& boxes = padded.get<&photo::boxes>();
  CHECK(boxes.values.get<&box::size>().shape() == fl::shape{2, 0, 2});
  CHECK(boxes.values.get<&box::label>().valid.shape() == fl::shape{2, 0});
  CHECK(boxes.mask.shape() == fl::shape{2, 0});
}

TEST_CASE("padded pads each field of a list's structs, and marks what is data") {
  const auto batches = given_by(fl::batch(3, fl::padded{.value = -1, .mask = true}), made(0, 5, make_photo));
  REQUIRE(batches.size() == 2);
  const auto& boxes = batches[0].get<&photo::boxes>();
  CHECK(elements(boxes.lengths) == offsets{0, 1, 2});
  CHECK(boxes.mask.shape() == fl::shape{3, 2});
  CHECK(elements(boxes.mask) == std::vector<bool>{false, false, true, false, true, true});
  CHECK(boxes.values.get<&box::corner>().get<&point::x>().shape() == fl::shape{3, 2});
  CHECK(elements(boxes.values.get<&box::corner>().get<&point::x>()) ==
        std::vector<float>{-1, -1, 10, -1, 20, 21});
  CHECK(boxes.values.get<&box::size>().shape() == fl::shape{3, 2, 2});
  CHECK(elements(boxes.values.get<&box::size>()) ==
        std::vector<float>{-1, -1, -1, -1, 10, -10, -1, -1, 20, -20, 21, -21});
  CHECK(elements(boxes.values.get<&box::label>().values) == std::vector<int>{0, 0, 1, 0, 2, 0});
  CHECK(elements(boxes.values.get<&box::label>().valid) ==
        std::vector<bool>{false, false, true, false, true, false});
  CHECK(elements(boxes.values.get<&box::flags>()) ==
        std::vector<std::int8_t>{-1, -1, -1, -1, 1, 0, -1, -1, 2, 0, 2, 1});
  CHECK(batches[0].get<&photo::mean>().shape() == fl::shape{3, 2});
  CHECK(elements(batches[1].get<&photo::boxes>().mask) == std::vector<bool>{false, true});
}

TEST_CASE("padded masks numbers, texts and tensors, and only if asked to") {
  using item = std::tuple<std::vector<int>, std::string, fl::tensor<int>>;
  const auto make = [](int i) {
    const auto n = static_cast<std::size_t>(i);
    item next(std::vector<int>(n, i), std::string(2 - n, 'x'), fl::shape{n, 2});
    std::fill(std::get<2>(next).begin(), std::get<2>(next).end(), i);
    return next;
  };
  const auto batch = first_of(fl::batch(2, fl::padded{.mask = true}), made(1, 3, make));
  CHECK(elements(batch.get<0>().mask) == std::vector<bool>{true, false, true, true});
  CHECK(elements(batch.get<1>().mask) == std::vector<bool>{true, false});
  CHECK(elements(batch.get<2>().mask) == std::vector<bool>{true, false, true, true});
  CHECK(batch.get<2>().values.shape() == fl::shape{2, 2, 2});
  CHECK(elements(batch.get<2>().values) == std::vector<int>{1, 1, 0, 0, 2, 2, 2, 2});
  const auto unmasked = first_of(fl::batch(2, fl::padded{}), made(1, 3, make));
  CHECK(unmasked.get<0>().mask.size() == 0);
  CHECK(unmasked.get<0>().values == batch.get<0>().values);
}

TEST_CASE("the columns of lists keep nothing of a sample that a later column refuses") {
  using item = std::pair<annotation, fl::tensor<int>>;
  for (const int bad : {1, 2}) {
    fl::test::by_hand<item, decltype(fl::batch(9))> batch(fl::batch(9));
    for (int i = 0; i < 3; ++i) {
      item next(make_annotation(i + 1), fl::tensor<int>(fl::shape{i == bad ? 2u : 1u}));
      next.second[0] = i;
      if (i == bad) CHECK_THROWS_AS(batch.feed(std::move(next)), std::invalid_argument);
      else CHECK(batch.feed(std::move(next)).empty());
    }
    const auto batches = batch.finish();
    REQUIRE(batches.size() == 1);
    const auto& kept = batches[0].value.get<0>();
    CHECK(elements(kept.get<&annotation::polygons>().offsets) ==
          (bad == 1 ? offsets{0, 1, 4} : offsets{0, 1, 3}));
    CHECK(kept.get<&annotation::words>().values.back() == (bad == 1 ? "word 3" : "word 2"));
    CHECK(kept.get<&annotation::boxes>().values.shape() == fl::shape{bad == 1 ? 4u : 3u, 4});
  }
}

TEST_CASE(
    "a batch releases its lists when it is complete, and is lost if there is no memory for their elements") {
  fl::test::counting_resource of_lists, of_batches;
  const auto two = fl::batch(2, {.memory = &of_batches});
  using list = std::pmr::vector<int>;
  fl::test::by_hand<list, std::decay_t<decltype(two)>> batch(two);
  CHECK(batch.feed(list({1, 2}, &of_lists)).empty());
  CHECK_FALSE(of_lists.is_unused());
  const auto batches = batch.feed(list({3}, &of_lists));
  REQUIRE(batches.size() == 1);
  CHECK(elements(batches[0].value.values().values) == std::vector<int>{1, 2, 3});
  CHECK(of_lists.is_unused());
  of_batches.run_out();
  CHECK(batch.feed(list(10'000, &of_lists)).empty());
  CHECK_THROWS_AS(batch.feed(list({3}, &of_lists)), std::runtime_error);
  CHECK(batch.finish().empty());
}

TEST_CASE("batches of lists keep the promises of stages, also within a memory budget") {
  const auto padded = [] {
    return fl::map(make_photo, fl::workers{3}, fl::max_item_bytes{1000}) | fl::shuffle({.capacity = 5}) |
           fl::batch(4, fl::padded{.value = 2, .mask = true});
  };
  fl::testing::check_stage(padded, count_to(14), {.places = 6});
  const auto ragged = [] {
    return fl::map([](int i) { return std::pair(make_annotation(i % 4), rating(i)); }) | fl::batch(3);
  };
  fl::testing::check_stage(ragged, count_to(11), {.places = 6});
  const auto photos = fl::from(count_to(20)) | padded();
  const auto expected = fl::test::collect(photos.finite({.seed = 3}));
  CHECK(fl::test::collect(photos.finite({.seed = 3, .memory_budget = 1'000'000})) == expected);
  CHECK_FALSE(fl::test::collect(photos.finite({.seed = 4})) == expected);
}

TEST_CASE("Lists of tensors with a shape in their type have their elements in the batch") {
  const auto tensors = [](std::vector<float> numbers) {
    std::vector<fl::tensor<float, 2>> all(numbers.size());
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      all[i][0] = numbers[i];
      all[i][1] = -numbers[i];
    }
    return all;
  };
  const auto samples = fl::from(std::vector<std::vector<float>>{{1, 2, 3}, {}, {4}}) | fl::map(tensors);
  const auto ragged = *(samples | fl::batch(3)).finite().next();
  CHECK(elements(ragged.values().values) == std::vector<float>{1, -1, 2, -2, 3, -3, 4, -4});
  const auto padded = *(samples | fl::batch(3, fl::padded{.value = 9})).finite().next();
  CHECK(elements(padded.values().values) ==
        std::vector<float>{1, -1, 2, -2, 3, -3, 9, 9, 9, 9, 9, 9, 4, -4, 9, 9, 9, 9});
}

TEST_CASE("What can't be a whole number pads those with 0") {
  const std::vector<std::vector<std::int8_t>> samples{{1}, {1, 2}};
  for (const double value : {std::numeric_limits<double>::quiet_NaN(), 1e30, -1e30}) {
    const auto b = *(fl::from(samples) | fl::batch(2, fl::padded{.value = value})).finite().next();
    CHECK(elements(b.values().values) == std::vector<std::int8_t>{1, 0, 1, 2});
  }
}

TEST_CASE("A batch of paths can be printed") {
  const std::vector<std::filesystem::path> samples{"a/b", "c"};
  const auto b = *(fl::from(samples) | fl::batch(2, fl::as_list)).finite().next();
  CHECK(to_string(b).find("\"a/b\", \"c\"") != std::string::npos);
}
