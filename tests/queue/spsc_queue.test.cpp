// SPDX-License-Identifier: MIT
#include <feedline/queue/spsc_queue.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "support/catch.hpp"

using feedline::queue_status;
using feedline::spsc_queue;

TEST_CASE("numbers cross an spsc queue in order, one by one and in bulk", "[queue]") {
  const std::size_t capacity = GENERATE(1U, 7U, 1024U);
  constexpr std::uint64_t count = 100'000;
  spsc_queue<std::uint64_t> queue(capacity);
  const std::jthread producer([&] {
    std::array<std::uint64_t, 10> some{};
    for (std::uint64_t next = 0; next < count; next += some.size()) {
      if (next % 20 == 0) {
        std::iota(some.begin(), some.end(), next);
        queue.push_bulk(some);
      } else {
        for (std::uint64_t i = 0; i < some.size(); ++i) queue.push(next + i);
      }
    }
    queue.close();
  });
  std::uint64_t expected = 0;
  bool in_order = true;
  std::array<std::uint64_t, 16> some{};
  for (std::uint64_t item = 0; queue.pop(item) == queue_status::success;) {
    in_order = in_order && item == expected++;
    const std::size_t more = queue.try_pop_bulk(some);
    for (std::size_t i = 0; i < more; ++i) in_order = in_order && some[i] == expected++;
  }
  REQUIRE(in_order);
  REQUIRE(expected == count);
}

TEST_CASE("bulk operations of an spsc queue wrap around the end of its memory", "[queue]") {
  spsc_queue<std::string> queue(6);
  std::vector<std::string> taken(5);
  for (int lap = 0; lap < 20; ++lap) {
    std::vector<std::string> offered;
    for (int i = 0; i < 5; ++i) offered.push_back(std::string(30, 'a') + std::to_string(lap * 5 + i));
    const auto expected = offered;
    REQUIRE(queue.push_bulk(offered) == 5);
    REQUIRE(queue.pop_bulk(taken) == 5);
    REQUIRE(taken == expected);
  }
}

TEST_CASE("a push of a copy leaves the original unchanged", "[queue]") {
  spsc_queue<std::string> queue(2);
  const std::string item(30, 'x');
  REQUIRE(queue.push(item) == queue_status::success);
  std::string taken;
  REQUIRE(queue.pop(taken) == queue_status::success);
  REQUIRE(taken == item);
}

TEST_CASE("an spsc queue stores items with the alignment of their type", "[queue]") {
  struct alignas(128) wide {
    char byte = 0;
  };

  spsc_queue<wide> queue(3);
  for (int i = 0; i < 8; ++i) {
    REQUIRE(queue.push(wide{static_cast<char>(i)}) == queue_status::success);
    wide taken;
    REQUIRE(queue.pop(taken) == queue_status::success);
    REQUIRE(taken.byte == i);
  }
}
