// SPDX-License-Identifier: MIT
#include <feedline/async/async_generator.hpp>

#include <feedline/async/async_flat_map.hpp>
#include <feedline/async/async_map.hpp>
#include <feedline/async/blocking.hpp>
#include <feedline/source/range.hpp>

#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/coroutines.hpp"
#include "support/lifetimes.hpp"
#include "support/outcome.hpp"

namespace fl = feedline;
using fl::async_context;
using fl::async_generator;
using fl::test::collect;
using fl::test::count_to;
using fl::test::random_pause;

static_assert(!std::is_copy_constructible_v<async_generator<int>>);
static_assert(std::is_nothrow_move_constructible_v<async_generator<int>>);
static_assert(std::is_same_v<async_generator<std::string>::value_type, std::string>);

TEST_CASE("A generator yields values, variables, and what converts to its type") {
  const auto three = [](int) -> async_generator<std::string> {
    co_yield "one";
    const std::string two = "two";
    co_yield two;
    std::string three_of_them = "three";
    co_yield std::move(three_of_them);
  };
  CHECK(collect((fl::from(count_to(1)) | fl::async_flat_map(three)).finite()) ==
        std::vector<std::string>{"one", "two", "three"});
}

TEST_CASE("A generator that is never started or is moved destroys its coroutine once") {
  fl::test::lifetimes alive;
  const auto holds = [](fl::test::counted_item item) -> async_generator<int> {
    co_yield item.empty() ? 0 : 1;
  };
  {
    auto a = holds(fl::test::counted_item(alive, 1));
    auto b = std::move(a);
    auto c = holds(fl::test::counted_item(alive, 2));
    c = std::move(b);
    CHECK(alive.live() == 2);
  }
  CHECK(alive.live() == 0);
}

TEST_CASE("A generator waits for functions with results, without, and for those that throw") {
  const auto half = fl::blocking([](int i) { return i % 2 == 0 ? i / 2 : throw std::runtime_error("odd"); },
                                 fl::threads{1});
  const auto halves = [half](int i, async_context& c) -> async_generator<int> {
    co_await random_pause(c);
    bool is_odd = false;
    int value = 0;
    try {
      value = co_await half(i);
    } catch (const std::runtime_error&) {
      is_odd = true;
    }
    if (is_odd) co_yield -1;
    else co_yield value;
  };
  CHECK(collect((fl::from(count_to(6)) | fl::async_flat_map(halves)).finite()) ==
        std::vector<int>{0, -1, 1, -1, 2, -1});
}
