// SPDX-License-Identifier: MIT
// Large items lie in slots of memory, and queues and buffers hold pointers to them. Nobody may see a difference.
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <feedline/core/held_samples.hpp>
#include <feedline/core/loader.hpp>
#include <feedline/core/pipeline.hpp>
#include <feedline/core/slot.hpp>
#include <feedline/detail/slot_pool.hpp>
#include <feedline/source/global_shuffle.hpp>
#include <feedline/source/range.hpp>
#include <feedline/stage/batch.hpp>
#include <feedline/stage/bucket_batch.hpp>
#include <feedline/stage/filter.hpp>
#include <feedline/stage/flat_map.hpp>
#include <feedline/stage/map.hpp>
#include <feedline/stage/prefetch.hpp>
#include <feedline/stage/shuffle.hpp>
#include <feedline/stage/skip.hpp>
#include <feedline/stage/split.hpp>
#include <feedline/stage/take.hpp>
#include <feedline/stage/tap.hpp>
#include <feedline/testing.hpp>

#include "support/catch.hpp"
#include "support/leave_and_resume.hpp"
#include "support/lifetimes.hpp"
#include "support/numbers.hpp"
#include "support/outcome.hpp"
#include "support/sanitizers.hpp"
#include "support/watchdog.hpp"

namespace fl = feedline;
using namespace feedline::test;

namespace {

/// A large item that owns memory. `first` and `second` are its value.
struct page {
  int first = 0;
  std::string second;
  std::array<std::uint8_t, 5000> rest{};
};

static_assert(fl::detail::is_large_item<page> && !fl::detail::is_large_item<std::array<int, 1000>>);

page page_of(int n) { return {n, "the page of a large book with number " + std::to_string(n), {}}; }

int number_of(const page& p) {
  if (p.second != page_of(p.first).second) throw std::logic_error("another page's text");
  return p.first;
}

/// Keeps pages, as a user's stage does, and emits each two behind the one that follows it.
struct swapped_pages {
  using output = page;

  void operator()(fl::sample<page>&& s, auto& emit) {
    if (held.size() < held.capacity()) return held.push_back(std::move(s));
    emit(std::move(s));
    while (!held.empty()) emit(held.take(held.size() - 1));
  }

  void finish(auto& emit) {
    while (!held.empty()) emit(held.take(0));
  }

  void state(auto& archive) { archive(held); }

  std::size_t items_held() const noexcept { return 2; }

  fl::held_samples<page> held{2};
};

/// A large item that claims to be constructible from anything.
struct anything {
  anything() = default;

  template <class T>
  explicit anything(T&& from) {
    if constexpr (std::is_same_v<std::decay_t<T>, int>) number = from;
  }

  int number = -1;
  std::array<std::uint8_t, 5000> rest{};
};

/// Makes a page of two numbers.
struct joined_pages {
  using output = page;

  void operator()(int n, auto& emit) {
    if (!first) first = n;
    else emit(page_of(*std::exchange(first, std::nullopt) + n));
  }

  void end_epoch() { first.reset(); }

  void state(auto& archive) { archive(first); }

  std::size_t bytes_held() const noexcept { return 0; }

  std::optional<int> first;
};

/// What a function makes of small and of large items must be the same.
template <class Make>
void check_equal(const Make& make) {
  const auto same = [](int n) { return n; };
  const fl::finite_options options{.seed = 5, .epochs = 2, .on_error = fl::on_error::skip};
  auto expected = make(fl::map(same), fl::map(same)).finite(options);
  auto loader = make(fl::map(page_of), fl::map(number_of)).finite(options);
  const auto small = run_to_end(expected), large = run_to_end(loader);
  CHECK(large.items == small.items);
  CHECK(large.skipped_indices() == small.skipped_indices());
  CHECK(loader.digest() == expected.digest());
  CHECK(small.items.size() > 300);
}

const auto value_of = [](const auto& item) {
  if constexpr (std::is_same_v<std::decay_t<decltype(item)>, page>) return number_of(item);
  else return item;
};

} // namespace

TEST_CASE("Large items pass all stages as small ones do") {
  const watchdog guard("large items");
  const auto keep = [](const auto& item) {
    if (value_of(item) % 50 == 7) throw std::runtime_error("torn");
    return value_of(item) % 5 != 0;
  };
  const auto look = [](const auto& item) {
    if (value_of(item) % 60 == 11) throw std::runtime_error("unreadable");
  };
  const auto twice = [](auto item) { return std::vector{item, item}; };
  const auto even = [](const auto& item) { return value_of(item) % 2 == 0; };
  const auto same = [](auto&& item) { return std::forward<decltype(item)>(item); };
  const auto source = fl::from(numbers(700, {3, 100, 400}));
  const auto shuffle = fl::shuffle({.capacity = 40, .min_fill = 10});
  check_equal([&](auto in, auto out) { return source | in | shuffle | out; });
  check_equal([&](auto in, auto out) { return source | in | shuffle | fl::prefetch(3) | out; });
  check_equal([&](auto in, auto out) {
    return source | in | fl::skip(10) | shuffle | fl::take(400) | fl::filter(keep) | fl::tap(look) | out;
  });
  check_equal([&](auto in, auto out) {
    return source | in | fl::prefetch(20) | shuffle | fl::map(same, fl::workers{3}) | shuffle | out;
  });
  check_equal([&](auto in, auto out) {
    return source | in | fl::flat_map(twice, fl::workers{2}) | shuffle | fl::filter(keep, fl::workers{2}) |
           out;
  });
  check_equal([&](auto in, auto out) {
    return source | in | shuffle | fl::split(even, fl::map(same), fl::map(same) | fl::filter(keep)) | out;
  });
  check_equal([&](auto in, auto out) {
    return fl::from(count_to(500)) | fl::global_shuffle() | in | fl::map(same, fl::workers{4}) | shuffle |
           out;
  });
}

TEST_CASE("A large item that can be made from anything isn't made from its pointer") {
  const auto make = [](int n) { return anything(n); };
  const auto number = [](const anything& a) { return a.number; };
  const auto even = [](int n) { return n % 2 == 0; };
  const auto source = fl::from(count_to(100));
  CHECK(collect((source | fl::map(make) | fl::shuffle({.capacity = 1}) | fl::map(number)).finite()) ==
        count_to(100));
  CHECK(collect((source | fl::split(even, fl::map(make), fl::map(make)) | fl::map(number)).finite()) ==
        count_to(100));
}

TEST_CASE("Workers read large items themselves") {
  std::vector<page> pages;
  for (int n = 0; n < 200; ++n) pages.push_back(page_of(n));
  const auto check = [&](auto&& loader) {
    const std::vector<int> all = collect(loader);
    CHECK(std::vector<int>(all.begin(), all.begin() + 200) == count_to(200));
    CHECK(all.size() == 400);
  };
  check((fl::from(pages) | fl::map(number_of, fl::workers{3})).finite({.epochs = 2}));
  check((fl::from(pages) | fl::map(number_of)).finite({.epochs = 2}));
}

TEST_CASE("A run of large items resumes at each item") {
  const auto fails = [](page&& p) {
    if (p.first % 31 == 5) throw std::runtime_error("torn");
    return std::move(p);
  };
  const auto source = fl::from(numbers(150, {20, 21}));
  leave_and_resume("large items in a buffer", 15, [&](draw& d, const circumstances& c) {
    return source | fl::map(page_of) | fl::shuffle({.capacity = d(1, 60)}) |
           fl::map(fails, fl::workers{c.workers}) | fl::prefetch(c.queue);
  });
  leave_and_resume("large items of workers in a buffer", 15, [&](draw& d, const circumstances& c) {
    return fl::from(count_to(150)) | fl::global_shuffle() | fl::map(page_of, fl::workers{c.workers}) |
           fl::shuffle({.capacity = d(1, 60)}) | fl::map(fails) | fl::skip(d(0, 3));
  });
  leave_and_resume("large items in a user's buffer", 15, [&](draw&, const circumstances& c) {
    return source | fl::map(page_of) | swapped_pages() | fl::map(fails, fl::workers{c.workers});
  });
  leave_and_resume("large items whose values are saved", 15, [&](draw& d, const circumstances& c) {
    return source | joined_pages() | fl::shuffle({.capacity = d(1, 60)}) |
           fl::map(fails, fl::workers{c.workers});
  });
  leave_and_resume("large items by their length", 15, [&](draw& d, const circumstances& c) {
    const auto length = [](const page& p) { return static_cast<unsigned>(p.first % 40); };
    return source | fl::map(page_of) | fl::map(fails, fl::workers{c.workers}) |
           fl::bucket_batch({.boundaries = {10, 20}, .batch_size = d(1, 6)}, length) |
           fl::map([](const auto& b) { return static_cast<int>(b.size()); });
  });
}

TEST_CASE("Each large item ends once, wherever it is when its run ends") {
  struct counted_page {
    counted_item item;
    std::array<std::uint8_t, 5000> rest{};
  };

  const watchdog guard("lifetimes of large items");
  lifetimes all;
  const auto make = [&](int n) {
    if (n % 10 == 3) throw std::runtime_error("torn");
    return counted_page{counted_item(all, n)};
  };
  const auto fails = [](counted_page&& p) {
    if (p.item.value() % 10 == 5) throw std::runtime_error("torn");
    return std::move(p);
  };
  const auto pipeline = fl::from(numbers(1000)) | fl::map(make, fl::workers{3}) |
                        fl::shuffle({.capacity = 50}) | fl::map(fails, fl::workers{2}) | fl::prefetch(5);
  for (const int taken : {0, 1, 100, 10'000}) {
    {
      auto loader = pipeline.finite({.on_error = fl::on_error::skip});
      for (int i = 0; i < taken; ++i) {
        const auto next = loader.next();
        if (!next) break;
        CHECK_FALSE(next->item.empty());
      }
    }
    CHECK(all.live() == 0);
  }
  {
    auto loader = pipeline.finite(); // fails
    CHECK_THROWS_AS(collect(loader), fl::pipeline_error);
  }
  CHECK(all.live() == 0);
}

TEST_CASE("A stage that keeps large items can be tested") {
  const auto value = [](const page& p) { return p.first; };
  CHECK_NOTHROW(fl::testing::check_stage([] { return swapped_pages(); },
                                         std::vector{page_of(1), page_of(2), page_of(3), page_of(4)}, {},
                                         value));
}

TEST_CASE("Slots are used again, and their memory is returned with the last one") {
  struct value {
    std::array<std::byte, 7000> bytes;
  };

  using slot = fl::detail::slot<value>;
  constexpr std::size_t bytes = fl::detail::slot_pool::bytes_for(sizeof(fl::sample<value>));
  static_assert(bytes >= sizeof(fl::sample<value>) && bytes % 64 == 0);
  std::vector<slot> slots;
  for (std::size_t i = 0; i < 2000; ++i) {
    slots.emplace_back([&] { return value{{static_cast<std::byte>(i)}}; });
    CHECK(reinterpret_cast<std::uintptr_t>(&*slots.back()) % 64 == 0);
  }
  for (std::size_t i = 0; i < 2000; ++i) CHECK((*slots[i]).bytes[0] == static_cast<std::byte>(i));
  const void* const address = &*slots.back();
  slots.pop_back();
  slots.emplace_back([] { return value{}; });
  if (!is_sanitized) CHECK(&*slots.back() == address);
  CHECK_THROWS_AS(slot([]() -> value { throw std::runtime_error("no value"); }), std::runtime_error);
  slots.clear();
}
