// SPDX-License-Identifier: MIT
#include <feedline/core/tensor.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <new>
#include <numeric>
#include <span>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include "support/catch.hpp"

namespace fl = feedline;

TEST_CASE("A shape holds up to eight extents and counts its elements") {
  constexpr fl::shape s{2, 3, 4};
  STATIC_REQUIRE(s.rank() == 3);
  STATIC_REQUIRE(s[2] == 4);
  STATIC_REQUIRE(s.count() == 24);
  STATIC_REQUIRE(fl::shape().count() == 1);
  CHECK(to_string(s) == "[2, 3, 4]");
  CHECK(to_string(fl::shape()) == "[]");
  CHECK(s == fl::shape{2, 3, 4});
  CHECK_FALSE(s == fl::shape{2, 3});
  CHECK_FALSE(s == fl::shape{2, 3, 5});
  const std::array<std::size_t, 9> nine{};
  CHECK_THROWS_AS(fl::shape(nine), std::length_error);
  CHECK(fl::shape(std::span(nine).first(8)).rank() == 8);
}

TEST_CASE("A shape of more elements than memory can address is refused") {
  const std::size_t huge = std::numeric_limits<std::size_t>::max() / 2;
  CHECK_THROWS_AS((fl::shape{huge, 3}.count()), std::length_error);
  CHECK_THROWS_AS((fl::tensor<char>(fl::shape{huge, 3})), std::length_error);
  CHECK_THROWS_AS((fl::tensor<double>(fl::shape{huge})), std::bad_alloc);
}

TEST_CASE("A tensor's memory is aligned, contiguous and row-major") {
  STATIC_REQUIRE_FALSE(std::is_copy_constructible_v<fl::tensor<float>>);
  STATIC_REQUIRE(std::is_nothrow_move_constructible_v<fl::tensor<float>>);
  for (const std::size_t n : {1u, 3u, 1000u}) {
    fl::tensor<float> t(fl::shape{n, 2});
    CHECK(reinterpret_cast<std::uintptr_t>(t.data()) % fl::tensor_alignment == 0);
    CHECK(t.size() == 2 * n);
    std::iota(t.begin(), t.end(), 0.0F);
    CHECK(t.at(n - 1)[1] == static_cast<float>(2 * n - 1));
    CHECK(t.at(n - 1).size() == 2);
    CHECK_THROWS_AS(t.at(n), std::out_of_range);
  }
}

TEST_CASE("A tensor's shape stands in its type or is known at run time") {
  const fl::tensor<float, 3, 2> fixed;
  CHECK(fixed.shape() == fl::shape{3, 2});
  CHECK(fixed.size() == 6);
  const fl::tensor<float> empty;
  CHECK(empty.shape() == fl::shape{0});
  CHECK(empty.begin() == empty.end());
  CHECK_THROWS_AS(empty.at(0), std::out_of_range);
  const fl::tensor<float> scalar{fl::shape{}};
  CHECK(scalar.size() == 1);
  CHECK_THROWS_AS(scalar.at(0), std::out_of_range);
  const fl::tensor<float> none(fl::shape{0, 5});
  CHECK(none.size() == 0);
}

TEST_CASE("Moving leaves an empty tensor, cloning an equal one with memory of its own") {
  fl::tensor<int> a(fl::shape{2, 2});
  std::iota(a.begin(), a.end(), 1);
  fl::tensor<int> b = a.clone();
  CHECK(b.data() != a.data());
  CHECK(b[3] == 4);
  const int* const memory = a.data();
  fl::tensor<int> c = std::move(a);
  CHECK(c.data() == memory);
  CHECK(a.size() == 0);
  CHECK(a.shape() == fl::shape{0});
  b = std::move(c);
  CHECK(b.data() == memory);
  fl::tensor<int>& itself = b;
  b = std::move(itself);
  CHECK(b.data() == memory);
}

TEST_CASE("truncate() keeps the first elements and the memory") {
  fl::tensor<int> t(fl::shape{4, 3});
  std::iota(t.begin(), t.end(), 0);
  const int* const memory = t.data();
  t.truncate(2);
  CHECK(t.shape() == fl::shape{2, 3});
  CHECK(t.size() == 6);
  CHECK(t.data() == memory);
  CHECK(t.at(1)[2] == 5);
  CHECK_THROWS_AS(t.truncate(3), std::out_of_range);
  t.truncate(0);
  CHECK(t.size() == 0);
}
