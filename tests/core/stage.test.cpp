// SPDX-License-Identifier: MIT
#include <feedline/core/stage.hpp>

#include <atomic>
#include <chrono>
#include <concepts>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <feedline/feedline.hpp>

#include "support/catch.hpp"
#include "support/leave_and_resume.hpp"
#include "support/numbers.hpp"
#include "support/outcome.hpp"
#include "support/watchdog.hpp"

namespace fl = feedline;
using namespace feedline::test;

// A user's stage: it names its output and emits any number of items.
struct running_sum {
  using output = int;

  void operator()(int n, auto& emit) { emit(sum += n); }

  int sum = 0;
};

// A stage that holds items back, emits the rest at the end, and starts again in the next epoch.
struct pairs {
  static constexpr fl::stage_traits traits{.kind = "pairs"};
  using output = std::pair<int, int>;

  void operator()(int n, auto& emit) {
    if (!held) held = n;
    else emit(output(*std::exchange(held, std::nullopt), n));
  }

  void finish(auto& emit) {
    if (held) emit(output(*held, -1));
  }

  void end_epoch() { held.reset(); }

  std::optional<int> held;
};

// A stage with members whose names have a meaning in the library's stages.
struct with_other_members {
  using output = int;

  int convert(int, fl::context&) { return -1; }

  std::span<int> room() { return {}; }

  void operator()(int n, auto& emit) {
    emit(n);
    emit(n);
  }
};

// A stage that emits two values for each item, the second when the consumer has the first.
struct waits_for_consumer {
  static constexpr fl::stage_traits traits{.stateless = true};
  using output = int;

  void operator()(int n, auto& emit) {
    emit(n);
    emit.hand_over();
    while (received->load() < 2 * n + 1) std::this_thread::yield();
    emit(-1);
  }

  std::atomic<int>* received;
};

// A stage that emits up to three values for each item, and hands over in between.
struct hands_over {
  static constexpr fl::stage_traits traits{.kind = "hands_over", .stateless = true};
  using output = int;

  void operator()(int n, auto& emit) const {
    for (int k = 0; k < n % 4; ++k) {
      if ((n + k) % often == 0) emit.hand_over();
      emit(n + k);
    }
    if (n % often == 0) emit.hand_over();
  }

  int often;
};

// The same with a state.
struct sums_and_hands_over {
  static constexpr fl::stage_traits traits{.kind = "sums_and_hands_over"};
  using output = int;

  void operator()(int n, auto& emit) {
    if (n % 2 == 0) emit.hand_over();
    emit(sum = (sum + n) % 1000);
    if (n % 3 == 0) emit.hand_over();
    if (n % 5 == 0) emit(-sum);
  }

  void state(auto& archive) { archive(sum); }

  int sum = 0;
};

// A stage that emits its items, and has enough after a given number of them in each epoch.
struct enough_after {
  using output = int;

  void operator()(int n, auto& emit) {
    emit(n);
    if (++count < limit(n)) return;
    emit.enough();
    said(n);
  }

  void end_epoch() { count = 0; }

  std::function<int(int)> limit;
  std::function<void(int)> said;
  int count = 0;
};

// A stage that changes the order and keeps the identity of each item.
struct reversed {
  using output = int;

  void operator()(fl::sample<int> s, auto& emit) {
    held.push_front(std::move(s));
    static_cast<void>(emit);
  }

  void finish(auto& emit) {
    for (fl::sample<int>& s : held) emit(std::move(s));
    held.clear();
  }

  std::deque<fl::sample<int>> held;
};

namespace {

struct first_of_each_epoch {
  using output = int;

  void operator()(int n, auto& emit) {
    emit(n);
    emit.enough();
  }
};

struct with_context {
  using output = std::pair<std::uint64_t, std::uint64_t>;

  void operator()(int, auto& emit, fl::context& c) { emit(output(c.index, c.random())); }
};

struct sample_with_context {
  using output = std::uint32_t;

  void operator()(fl::sample<int> s, auto& emit, fl::context& c) {
    emit(fl::sample<std::uint32_t>{c.epoch, s.id});
  }
};

struct until_unwanted {
  using output = int;

  void operator()(int n, auto& emit) {
    while (emit(n)) ++*count;
  }

  std::shared_ptr<int> count = std::make_shared<int>(0);
};

struct takes_text {
  using output = int;

  void operator()(std::string, auto& emit) { emit(1); }
};

struct no_output {
  void operator()(int, auto&) {}
};

struct throwing_move {
  throwing_move() = default;

  throwing_move(throwing_move&&) noexcept(false) {}
};

struct gives_throwing_move {
  using output = throwing_move;

  void operator()(int, auto& emit) { emit(throwing_move()); }
};

} // namespace

TEST_CASE("A class is a stage for some item types and not for others") {
  STATIC_REQUIRE(fl::stage_for<running_sum, int>);
  STATIC_REQUIRE(fl::stage_for<running_sum, short>);
  STATIC_REQUIRE(fl::stage_for<pairs, int>);
  STATIC_REQUIRE(fl::stage_for<reversed, int>);
  STATIC_REQUIRE_FALSE(fl::stage_for<reversed, std::string>);
  STATIC_REQUIRE_FALSE(fl::stage_for<takes_text, int>);
  STATIC_REQUIRE_FALSE(fl::stage_for<no_output, int>);
  STATIC_REQUIRE_FALSE(fl::stage_for<gives_throwing_move, int>);
  STATIC_REQUIRE(fl::detail::fit_of<gives_throwing_move, int>() == fl::fit::item_cannot_move);
  STATIC_REQUIRE(std::same_as<fl::stage_output_t<pairs, int>, std::pair<int, int>>);
}

TEST_CASE("A user's stage has a separate state in each run") {
  const auto p = fl::from(numbers(5)) | running_sum{} | fl::prefetch(2);
  CHECK(collect(p.finite()) == std::vector<int>{0, 1, 3, 6, 10});
  CHECK(collect(p.finite()) == std::vector<int>{0, 1, 3, 6, 10});
  const auto behind_workers =
      fl::from(numbers(5)) | fl::map([](int n) { return n + 1; }, fl::workers{3}) | running_sum{};
  CHECK(collect(behind_workers.finite()) == std::vector<int>{1, 3, 6, 10, 15});
}

TEST_CASE("finish() emits the items that a stage holds at the end of each epoch of finite mode only") {
  using list = std::vector<std::pair<int, int>>;
  const auto p = fl::from(std::vector{1, 2, 3}) | pairs{};
  CHECK(collect(p.finite({.epochs = 2})) == list{{1, 2}, {3, -1}, {1, 2}, {3, -1}});
  CHECK(collect(p.infinite(), 3) == list{{1, 2}, {1, 2}, {1, 2}}); // end_epoch() drops the held items
}

TEST_CASE("Items that a stage holds aren't delivered before a failure") {
  const auto p = fl::from(numbers(9, {3})) | pairs{} | fl::prefetch(9);
  const auto outcome = run_to_end(p.finite());
  CHECK(outcome.items == std::vector<std::pair<int, int>>{{0, 1}});
  CHECK(outcome.failed);
}

TEST_CASE("A stage that receives samples decides their order, and they keep their identity") {
  auto batches = collect((fl::from(numbers(3)) | reversed{} | fl::batch(3)).finite());
  REQUIRE(batches.size() == 1);
  CHECK(batches[0].values()[0] == 2);
  CHECK(batches[0].indices() == std::vector<std::uint64_t>{2, 1, 0});
}

TEST_CASE("A stage says that it needs no more of an epoch") {
  const auto own = fl::from(numbers(1000)) | first_of_each_epoch{} | fl::prefetch(1);
  CHECK(collect(own.finite({.epochs = 3})) == std::vector<int>{0, 1'000'000, 2'000'000});
  const auto behind_workers =
      fl::from(numbers(1000)) | fl::map([](int n) { return n; }, fl::workers{4}) | first_of_each_epoch{};
  CHECK(collect(behind_workers.finite({.epochs = 3})) == std::vector<int>{0, 1'000'000, 2'000'000});
}

TEST_CASE("A stage hands over what it has emitted before it waits") {
  const watchdog guard("a stage that waits for the consumer of its first value");
  const auto run = [](const auto& p, std::atomic<int>& received) {
    auto loader = p.finite();
    std::vector<int> got;
    for (const int n : loader) {
      got.push_back(n);
      received = static_cast<int>(got.size());
    }
    return got;
  };
  std::atomic<int> received{0};
  const waits_for_consumer waits{&received};
  const std::vector<int> expected{0, -1, 1, -1, 2, -1};
  CHECK(run(fl::from(numbers(3)) | waits, received) == expected);
  received = 0;
  CHECK(run(fl::from(numbers(3)) | fl::parallel(fl::workers{1}, fl::detail::as_row(waits)), received) ==
        expected);
  received = 0;
  const auto same = [](int n) { return n; };
  CHECK(run(fl::from(numbers(3)) | waits | fl::map(same) | fl::map(same, fl::workers{2}), received) ==
        expected);
}

TEST_CASE("A run with stages that hand over is resumed exactly") {
  leave_and_resume("stages that hand over", 60, [](draw& d, const circumstances& c) {
    const auto same_but_not_5 = [](int n) {
      if (n % 10 == 5) throw std::runtime_error("number " + std::to_string(n));
      return n;
    };
    const bool is_parallel = d.coin();
    return fl::from(numbers(static_cast<int>(d(1, 40)), {3})) | fl::map(same_but_not_5) |
           hands_over{.often = static_cast<int>(d(1, 4))} | sums_and_hands_over{} | fl::prefetch(c.queue) |
           fl::parallel(fl::workers{is_parallel ? c.workers : 1},
                        fl::detail::as_row(hands_over{.often = static_cast<int>(d(1, 4))})) |
           fl::shuffle({.capacity = d(1, 10)}) | fl::batch(d(1, 7));
  });
}

TEST_CASE("A stage that has enough of a later epoch still has it when a stage downstream is slow") {
  const watchdog dog("two stages that have enough");

  struct source {
    std::shared_ptr<std::atomic<bool>> go_on;
    std::uint32_t epoch = 0;
    int given = 0;

    void start_epoch(const fl::epoch& e) { epoch = e.number; }

    std::optional<int> next() {
      if (epoch == 1 && given == 2)
        while (!*go_on) std::this_thread::yield();
      if (given == 3000) return std::nullopt;
      return static_cast<int>(epoch) * 100'000 + given++;
    }
  };

  std::atomic<bool> second_epoch_is_enough{false};
  const auto go_on = std::make_shared<std::atomic<bool>>(false);
  const enough_after quick{.limit = [](int) { return 2; },
                           .said =
                               [&](int n) {
                                 if (n >= 100'000) second_epoch_is_enough = true;
                               }};
  const enough_after slow{.limit = [](int n) { return n < 100'000 ? 1 : 1'000'000; },
                          .said =
                              [&](int) {
                                while (!second_epoch_is_enough) std::this_thread::yield();
                                std::this_thread::sleep_for(std::chrono::milliseconds(50));
                                *go_on = true;
                              }};
  const auto p = fl::from(source{go_on}) | fl::prefetch(64) | quick | fl::prefetch(64) | slow;
  CHECK(collect(p.finite({.epochs = 2})) == std::vector{0, 100'000, 100'001});
}

TEST_CASE("A stage's other members may have any name") {
  const std::vector expected{0, 0, 1, 1, 2, 2};
  CHECK(collect((fl::from(count_to(3)) | with_other_members()).finite()) == expected);
  CHECK(collect((fl::from(count_to(3)) | fl::prefetch(2) | with_other_members()).finite()) == expected);
}

TEST_CASE("A stage may take a context, whose random numbers don't depend on threads") {
  const auto p = fl::from(numbers(4)) | with_context{};
  const auto once = collect(p.finite({.seed = 1}));
  REQUIRE(once.size() == 4);
  for (std::size_t i = 0; i < 4; ++i) CHECK(once[i].first == i);
  CHECK(collect(p.finite({.seed = 1})) == once);
  CHECK_FALSE(collect(p.finite({.seed = 2})) == once);
  const auto at_another_position = fl::from(numbers(4)) | fl::map([](int n) { return n; }) | with_context{};
  CHECK_FALSE(collect(at_another_position.finite({.seed = 1})) == once); // other numbers
  CHECK(collect((fl::from(numbers(1)) | sample_with_context{}).finite({.epochs = 2})) ==
        std::vector<std::uint32_t>{0, 1});
}

TEST_CASE("emit returns false once no more items are needed") {
  until_unwanted stage;
  const auto p = fl::from(numbers(3)) | stage | fl::take(10);
  CHECK(collect(p.finite()).size() == 10);
  CHECK(*stage.count == 9);
}

TEST_CASE("A stage that emits endless items for one notices a stop") {
  const watchdog guard("endless stage");
  auto loader = (fl::from(numbers(3)) | until_unwanted{} | fl::filter([](int) { return false; })).finite();
  loader.stop();
  CHECK_FALSE(loader.next()); // and the destructor returns
}

TEST_CASE("A stage's name has its kind and the user's name") {
  CHECK(fl::detail::stage_name(fl::map([](int n) { return n; })) == "map");
  CHECK(fl::detail::stage_name(fl::map([](int n) { return n; }, fl::name{"decode"})) == "map `decode`");
  CHECK(fl::detail::stage_name(pairs{}) == "pairs");
  CHECK(fl::detail::stage_name(running_sum{}).find("running_sum") != std::string::npos);
}

TEST_CASE(
    "Samples after the position where an epoch was cut off have no effect, however far others ran ahead") {
  const watchdog guard("cut epochs");
  const auto fails_at_15 = [](int n) { return n % numbers::next_epoch == 15 ? throw unlucky(n) : n; };
  const auto by_work = fl::from(numbers(100)) | fl::map(fails_at_15, fl::workers{4}) | fl::take(10);
  const auto by_source = fl::from(numbers(100, {15})) | fl::prefetch(50) | fl::take(10);
  const auto shuffled = fl::from(numbers(100)) | fl::shuffle({.capacity = 20}) |
                        fl::map(fails_at_15, fl::workers{4}) | fl::take(10);
  const auto expected = run_to_end(shuffled.finite({.epochs = 3, .on_error = fl::on_error::skip}));
  for (int round = 0; round < 100; ++round) {
    for (const auto on_error : {fl::on_error::fail, fl::on_error::skip}) {
      const auto a = run_to_end(by_work.finite({.epochs = 2, .on_error = on_error}));
      CHECK(a.items.size() == 20);
      CHECK((!a.failed && a.skipped.empty()));
      const auto b = run_to_end(by_source.finite({.epochs = 2, .on_error = on_error}));
      CHECK(b.items.size() == 20);
      CHECK((!b.failed && b.skipped.empty()));
    }
    const auto c = run_to_end(shuffled.finite({.epochs = 3, .on_error = fl::on_error::skip}));
    CHECK(c.items == expected.items);
    CHECK(c.skipped_indices() == expected.skipped_indices());
  }
}
