// SPDX-License-Identifier: MIT
#include <feedline/core/tensor.hpp>

#include <feedline/core/half.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <new>
#include <numeric>
#include <set>
#include <span>
#include <sstream>
#include <stdexcept>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include "support/catch.hpp"
#include "support/counting_resource.hpp"
#include "support/sanitizers.hpp"

namespace fl = feedline;
using namespace feedline::test;

TEST_CASE("A shape has up to eight extents and counts its elements") {
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

TEST_CASE("A tensor's shape is part of its type or known at run time") {
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

TEST_CASE("Moving leaves an empty tensor, cloning makes an equal one with separate memory") {
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

TEST_CASE("a negative extent, or one that memory can't address, is refused") {
  const auto minus_one = static_cast<std::size_t>(-1);
  CHECK_THROWS_AS(fl::tensor<std::uint8_t>(fl::shape{minus_one}), std::length_error);
  CHECK_THROWS_AS(fl::tensor<std::uint8_t>(fl::shape{minus_one / 2 + 1}), std::length_error);
  CHECK_THROWS_AS(fl::tensor<int>(fl::shape{minus_one / 4}), std::bad_alloc);
  CHECK(to_string(fl::shape{minus_one, 3}) == "[-1, 3]");
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

TEST_CASE("a block is aligned and at least as large as requested, but not much larger") {
  using fl::detail::block_cache;
  std::vector<std::size_t> sizes{1, 100, 4095};
  for (std::size_t power = 4096; power <= std::size_t{1} << 22; power *= 2)
    for (std::size_t eighth = 8; eighth < 16; ++eighth)
      for (const int near : {-1, 0, 1})
        sizes.push_back(static_cast<std::size_t>(static_cast<long>(power / 8 * eighth) + near));
  for (const std::size_t size : sizes) {
    const block_cache::block b = block_cache::of_process().allocate(size);
    REQUIRE(reinterpret_cast<std::uintptr_t>(b.memory) % fl::tensor_alignment == 0);
    REQUIRE(b.bytes >= size);
    REQUIRE(b.bytes <= size + size / 2 + 1);
    static_cast<std::byte*>(b.memory)[b.bytes - 1] = std::byte{1};
    block_cache::of_process().deallocate(b);
  }
}

TEST_CASE("the next tensor reuses the memory of a tensor, and not much of it stays allocated") {
  using fl::detail::block_cache;
  const fl::shape some{300, 1000};
  const std::uint8_t* memory = nullptr;
  {
    const fl::tensor<std::uint8_t> t(some);
    memory = t.data();
  }
  if (!fl::detail::is_address_sanitized) CHECK(fl::tensor<std::uint8_t>(some).data() == memory);
  std::vector<fl::tensor<std::uint8_t>> many;
  for (std::size_t i = 0; i < 40; ++i) many.emplace_back(fl::shape{(i + 1) << 18});
  many.clear(); // 205 MB, never touched
  CHECK(block_cache::of_process().held() <= std::size_t{64} << 20);
}

TEST_CASE("idle blocks, and the excess of blocks of smaller tensors, take at most 64 MB together") {
  using fl::detail::block_cache;
  counting_resource resource;
  const auto cache = block_cache::over(&resource);
  constexpr std::size_t large = 1'400'000, small = 1'000'000;
  std::vector<block_cache::block> blocks;
  for (std::size_t i = 0; i < 300; ++i) blocks.push_back(cache->allocate(large));
  std::size_t reused = 0;
  for (block_cache::block& b : blocks) {
    cache->deallocate(b);
    b = cache->allocate(small);
    reused += b.bytes > block_cache::bytes_for(small);
  }
  if (!fl::detail::is_address_sanitized) CHECK(reused > 100);
  while (blocks.size() < 900) blocks.push_back(cache->allocate(small));
  CHECK(resource.most_bytes() <= 900 * block_cache::bytes_for(small) + (std::size_t{64} << 20));
  for (const block_cache::block& b : blocks) cache->deallocate(b);
  for (block_cache::block& b : blocks) b = cache->allocate(small); // nothing is counted twice
  CHECK(resource.most_bytes() <= 900 * block_cache::bytes_for(small) + (std::size_t{64} << 20));
  for (const block_cache::block& b : blocks) cache->deallocate(b);
}

TEST_CASE("an allocation that fails counts neither as memory in use nor for its peak") {
  using fl::detail::block_cache;
  if (fl::detail::is_address_sanitized) return; // no block is kept
  counting_resource resource;
  const auto cache = block_cache::over(&resource);
  constexpr std::size_t one = std::size_t{1} << 20, limit = std::size_t{64} << 20;
  std::vector<block_cache::block> blocks;
  const auto take = [&](std::size_t count, std::size_t bytes) {
    for (std::size_t i = 0; i < count; ++i) blocks.push_back(cache->allocate(bytes));
  };
  const auto leave = [&](std::size_t count) {
    for (; blocks.size() > count; blocks.pop_back()) cache->deallocate(blocks.back());
  };
  const auto fail = [&](std::size_t bytes) {
    resource.run_out();
    CHECK_THROWS_AS(cache->allocate(bytes), std::bad_alloc);
    resource.run_out(false);
  };
  for (int times = 0; times < 100; ++times) fail(16 * one);
  take(200, one);
  leave(0);
  CHECK(cache->held() <= limit);
  take(100, 2 * one);
  fail(1024 * one);
  for (std::size_t bytes = one / 8; bytes < one;
       bytes *= 2) { // the free blocks are too small or too large for the next ones
    leave(50);
    take(50 * 2 * one / bytes, bytes);
    CHECK(resource.bytes() <= 200 * one + limit);
  }
  leave(0);
  CHECK(cache->held() <= limit);
}

TEST_CASE("many threads make and destroy large tensors while the memory that is kept has reached its limit") {
  using fl::detail::block_cache;
  constexpr std::size_t one = std::size_t{1} << 20;
  std::atomic<bool> all_own{true};
  std::vector<std::thread> threads;
  for (std::uint8_t me = 0; me < 4; ++me)
    threads.emplace_back([&all_own, me] {
      std::vector<fl::tensor<std::uint8_t>> mine;
      for (std::size_t i = 0; i < 400; ++i) {
        auto& t = mine.emplace_back(fl::shape{one + i * 7919 % 31 * one / 2});
        t[0] = t[t.size() / 2] = t[t.size() - 1] = me; // most of it stays untouched
        if (i % 8 != 7) continue;
        for (const auto& each : mine)
          if (each[0] != me || each[each.size() / 2] != me || each[each.size() - 1] != me) all_own = false;
        mine.clear();
      }
    });
  for (std::thread& t : threads) t.join();
  CHECK(all_own);
  CHECK(block_cache::of_process().held() <= 64 * one);
}

TEST_CASE("many threads make and destroy tensors, each with separate memory") {
  std::atomic<bool> all_own{true};
  std::vector<std::thread> threads;
  for (std::uint8_t me = 0; me < 4; ++me)
    threads.emplace_back([&all_own, me] {
      std::vector<fl::tensor<std::uint8_t>> mine;
      for (std::size_t i = 0; i < 2000; ++i) {
        auto& t = mine.emplace_back(fl::shape{3000 + i * 7919 % 9000});
        std::fill(t.begin(), t.end(), me);
        if (i % 8 != 7) continue;
        for (const auto& each : mine)
          if (std::count(each.begin(), each.end(), me) != static_cast<std::ptrdiff_t>(each.size()))
            all_own = false;
        mine.clear();
      }
    });
  for (std::thread& t : threads) t.join();
  CHECK(all_own);
}

TEST_CASE("small blocks that a thread keeps for itself serve others when it has too many, and when it ends") {
  using fl::detail::block_cache;
  if (fl::detail::is_address_sanitized) return; // no block is kept
  using tensor = fl::tensor<std::byte>;
  const fl::shape some{7000};
  std::vector<tensor> free_before; // taken, so that no larger free blocks are used
  std::thread([&] {
    for (int in_a_row = 0; in_a_row < 20;) {
      const std::size_t held = block_cache::of_process().held();
      free_before.emplace_back(some);
      in_a_row = block_cache::of_process().held() == held ? in_a_row + 1 : 0;
    }
  }).join();
  const auto memory_used_by = [&](std::size_t count) {
    std::vector<std::byte*> used;
    std::vector<tensor> mine;
    for (std::size_t i = 0; i < count; ++i) used.push_back(mine.emplace_back(some).data());
    return used;
  };

  SECTION("when it ends") {
    std::set<std::byte*> used;
    for (int i = 0; i < 100; ++i)
      std::thread([&] {
        for (std::byte* const memory : memory_used_by(5)) used.insert(memory);
      }).join();
    CHECK(used.size() <= 20);
  }

  SECTION("when it has too many") {
    std::set<std::byte*> used;
    for (int i = 0; i < 100; ++i) {
      std::vector<tensor> made;
      std::thread([&] {
        for (int n = 0; n < 5; ++n) used.insert(made.emplace_back(some).data());
      }).join();
    } // destroyed here
    CHECK(used.size() <= 20 + (std::size_t{64} << 10) / 7000);
  }

  SECTION("those that it destroys after it has returned them") {
    std::set<std::byte*> used;
    for (int i = 0; i < 100; ++i)
      std::thread([&] {
        static thread_local std::vector<tensor> outlives; // as it was made before the first tensor
        outlives.clear();
        used.insert(outlives.emplace_back(some).data());
      }).join();
    CHECK(used.size() <= 10);
  }

  SECTION("without a peak of memory") {
    free_before.clear();
    const std::size_t before = block_cache::of_process().held();
    for (int i = 0; i < 10; ++i) memory_used_by(20'000); // 143 MB
    const std::size_t most = std::max(before, std::size_t{64} << 20);
    CHECK(block_cache::of_process().held() <= most + (std::size_t{64} << 10)); // and as much as is in use
  }
}

#if !FEEDLINE_TEST_TSAN // which can't follow a fork of several threads
TEST_CASE("tensors work in a child of fork(), whatever other threads did when it was made") {
  std::atomic<bool> done{false};
  std::thread other([&done] {
    while (!done) fl::tensor<int> t(fl::shape{5000});
  });
  int exited_well = 0;
  for (int i = 0; i < 100; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(20);
      { fl::tensor<int> t(fl::shape{5000}); }
      ::_exit(0);
    }
    int status = -1;
    exited_well += child > 0 && ::waitpid(child, &status, 0) == child && status == 0;
  }
  done = true;
  other.join();
  CHECK(exited_well == 100);
}
#endif

TEST_CASE("Tensors are equal if their shapes and elements are") {
  const auto counted = [](const fl::shape& shape) {
    fl::tensor<int> t(shape);
    std::iota(t.begin(), t.end(), 0);
    return t;
  };
  auto other = counted({2, 3});
  CHECK(counted({2, 3}) == other);
  CHECK_FALSE(counted({3, 2}) == other);
  CHECK_FALSE(counted({2, 2}) == other);
  other[5] = 0;
  CHECK(counted({2, 3}) != other);
  CHECK(fl::tensor<int>() == fl::tensor<int>(fl::shape{0}));
  STATIC_REQUIRE(std::equality_comparable<fl::tensor<float, 2, 3>>);

  struct opaque {
    int number;
  };

  STATIC_REQUIRE_FALSE(std::equality_comparable<fl::tensor<opaque>>);
}

TEST_CASE("A tensor prints its type, shape and elements") {
  fl::tensor<float, 2, 2> t;
  t[0] = 0.1f, t[1] = -2, t[2] = 1e20f, t[3] = std::numeric_limits<float>::quiet_NaN();
  CHECK(to_string(t) == "tensor<float> [2, 2]: [[0.1, -2], [1e+20, nan]]");
  std::ostringstream out;
  out << t << t.shape();
  CHECK(out.str() == to_string(t) + "[2, 2]");
  fl::tensor<bool> one(fl::shape{});
  one[0] = true;
  CHECK(to_string(one) == "tensor<bool> []: true");
  fl::tensor<std::uint8_t, 2> bytes;
  bytes[0] = 65, bytes[1] = 255;
  CHECK(to_string(bytes) == "tensor<unsigned char> [2]: [65, 255]");
  fl::tensor<fl::bfloat16, 1> brain;
  brain[0] = fl::bfloat16(1.5f);
  CHECK(to_string(brain) == "tensor<feedline::bfloat16> [1]: [1.5]");
  CHECK(to_string(fl::tensor<double>(fl::shape{2, 0})) == "tensor<double> [2, 0]: [[], []]");

  struct move {
    int from;
    bool takes;
  };

  fl::tensor<move, 1> moves;
  moves[0] = {-1, false};
  CHECK(to_string(moves).ends_with("[1]: [{from: -1, takes: false}]"));
}

TEST_CASE("A large tensor prints the first and last elements of each dimension") {
  fl::tensor<int> t(fl::shape{100, 100});
  std::iota(t.begin(), t.end(), 0);
  CHECK(to_string(t) ==
        "tensor<int> [100, 100]: [[0, 1, 2, …, 97, 98, 99], [100, 101, 102, …, 197, 198, 199], "
        "[200, 201, 202, …, 297, 298, 299], …, [9700, 9701, 9702, …, 9797, 9798, 9799], "
        "[9800, 9801, 9802, …, 9897, 9898, 9899], [9900, 9901, 9902, …, 9997, 9998, 9999]]");
  fl::tensor<int> images(fl::shape{9, 3, 2, 7});
  std::iota(images.begin(), images.end(), 0);
  CHECK(to_string(images) == "tensor<int> [9, 3, 2, 7]: [[[[0, 1, 2, …, 4, 5, 6], [7, 8, 9, …, 11, 12, 13]], "
                             "…, [[28, 29, 30, …, 32, 33, 34], "
                             "[35, 36, 37, …, 39, 40, 41]]], …, [[[336, 337, 338, …, 340, 341, 342], [343, "
                             "344, 345, …, 347, 348, 349]], …, "
                             "[[364, 365, 366, …, 368, 369, 370], [371, 372, 373, …, 375, 376, 377]]]]");
  CHECK(to_string(fl::tensor<char>(fl::shape{1'000'000'000, 0})) ==
        "tensor<char> [1000000000, 0]: [[], [], [], …, [], [], []]");
}
