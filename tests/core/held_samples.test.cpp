// SPDX-License-Identifier: MIT
#include <feedline/core/held_samples.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <feedline/feedline.hpp>

#include "support/catch.hpp"
#include "support/outcome.hpp"
#include "support/rounds.hpp"
#include "support/throws_saying.hpp"
#include "support/watchdog.hpp"

namespace fl = feedline;
using namespace feedline::test;

namespace {

static_assert(std::is_copy_constructible_v<fl::held_samples<std::unique_ptr<int>>>);

template <class T>
fl::sample<T> numbered(T value, std::uint64_t index) {
  return {std::move(value), {index, 0, 0}};
}

/// Keeps a random choice of all items, and emits it at the end of an epoch (Vitter's algorithm R).
class reservoir {
 public:
  using output = int;

  explicit reservoir(std::size_t size) : kept_(size) {}

  void operator()(fl::sample<int> s, auto& emit, fl::context& c) {
    ++seen_;
    if (kept_.size() < kept_.capacity()) {
      kept_.push_back(std::move(s));
    } else if (const std::uint64_t place = c.random.below(seen_); place < kept_.size()) {
      emit(kept_.exchange(place, std::move(s))); // emit what leaves, so that each sample arrives once
    } else {
      emit(std::move(s));
    }
  }

  void finish(auto& emit) {
    while (!kept_.empty()) emit(kept_.take(0));
    seen_ = 0;
  }

  void state(auto& archive) { archive(seen_, kept_); }

  std::size_t items_held() const { return kept_.capacity(); }

 private:
  fl::held_samples<int> kept_;
  std::uint64_t seen_ = 0;
};

/// Two buffers: even and odd numbers leave in pairs.
struct pairs {
  using output = int;

  void operator()(fl::sample<int> s, auto& emit) {
    fl::held_samples<int>& of = s.value % 2 == 0 ? even : odd;
    if (of.empty()) return of.push_back(std::move(s));
    emit(of.take(0));
    emit(std::move(s));
  }

  void finish(auto& emit) {
    for (fl::held_samples<int>* of : {&even, &odd})
      if (!of->empty()) emit(of->take(0));
  }

  void state(auto& archive) { archive(even, odd); }

  fl::held_samples<int> even{1}, odd{1};
};

template <class Start>
void check_every_place(const Start& start, int items) {
  const watchdog guard("a run that is resumed at every place");
  std::vector<std::optional<int>> expected;
  std::vector<fl::checkpoint> places;
  auto whole = start(std::optional<fl::checkpoint>());
  for (int i = 0; i < items && (expected.empty() || expected.back()); ++i) {
    places.push_back(whole.checkpoint());
    expected.push_back(whole.next());
  }
  for (std::size_t at = 0; at < expected.size(); at += place_step) {
    INFO("left before item " << at);
    auto resumed = start(std::optional(fl::checkpoint::from_bytes(places[at].to_bytes())));
    for (std::size_t i = at; i < expected.size(); ++i) REQUIRE(resumed.next() == expected[i]);
  }
}

} // namespace

TEST_CASE("A buffer keeps samples at the positions where they were put") {
  fl::held_samples<std::string> buffer(3);
  CHECK(buffer.empty());
  CHECK(buffer.capacity() == 3);
  buffer.push_back(numbered<std::string>("a", 0));
  buffer.push_back(numbered<std::string>("b", 1));
  buffer.push_back(numbered<std::string>("c", 2));
  CHECK_THROWS_AS(buffer.push_back(numbered<std::string>("d", 3)), std::length_error);
  CHECK(buffer.exchange(0, numbered<std::string>("e", 4)).value == "a");
  CHECK(buffer.take(0).value == "e"); // the last one moves to its position
  CHECK(buffer[0].value == "c");
  CHECK(buffer[1].id.index == 1);
  CHECK(std::distance(buffer.begin(), buffer.end()) == 2);
  const fl::held_samples<std::string> copy = buffer;
  CHECK(copy.empty());
  CHECK(copy.capacity() == 3);
  buffer.clear();
  CHECK(buffer.empty());
}

TEST_CASE("A buffer of capacity 0 is refused") {
  CHECK_THROWS_AS(fl::held_samples<int>(0), std::invalid_argument);
  CHECK_THROWS_AS(fl::held_samples<int>(static_cast<std::size_t>(-1)), std::invalid_argument);
  fl::held_samples<int> huge(~std::size_t{0} / 2);
  CHECK_THROWS_AS(huge.push_back(numbered(1, 0)), std::bad_alloc);
}

TEST_CASE("Samples in the buffer of a user's stage are read again, and its calls aren't repeated") {
  for (const std::size_t size :
       {std::size_t{3}, std::size_t{40}}) { // listed in checkpoints, and noted in a log
    const auto pipeline = fl::from(count_to(150)) | fl::map([](int n) { return n + 1000; }, fl::workers{2}) |
                          reservoir(size) | fl::prefetch(3);
    check_every_place(
        [&](const auto& resume) { return pipeline.finite({.seed = 3, .epochs = 2, .resume = resume}); }, 400);
    check_every_place([&](const auto& resume) { return pipeline.infinite({.seed = 3, .resume = resume}); },
                      400);
  }
}

TEST_CASE("A stage may have several buffers") {
  const auto pipeline = fl::from(std::vector<int>{1, 3, 2, 5, 4, 6, 8, 7, 9, 2}) | pairs() | fl::prefetch(1);
  check_every_place([&](const auto& resume) { return pipeline.finite({.epochs = 3, .resume = resume}); }, 40);
}

TEST_CASE("A resumed run reads held samples again, and no other earlier ones") {
  const watchdog guard("a buffer of a stage of one's own");
  std::atomic<int> reads = 0;
  const auto pipeline = fl::from(count_to(10'000)) | fl::map([&](int n) {
                          ++reads;
                          return n;
                        }) |
                        reservoir(50) | fl::prefetch(1);
  const fl::checkpoint place = [&] {
    auto first = pipeline.finite();
    for (int i = 0; i < 9'000; ++i) first.next();
    return first.checkpoint();
  }();
  reads = 0;
  int left = 0;
  auto again = pipeline.finite({.resume = place});
  while (again.next()) ++left;
  CHECK(left == 1'000);
  CHECK(reads < 1'000 + 50 + 100);
}

TEST_CASE("A checkpoint with more samples than the buffer's capacity is refused") {
  const watchdog guard("a smaller buffer");
  const auto with = [](std::size_t size) { return fl::from(count_to(100)) | reservoir(size) | fl::batch(4); };
  auto first = with(20).infinite();
  first.next();
  auto again = with(10).infinite({.resume = first.checkpoint()});
  CHECK(throws_saying<fl::pipeline_error>("more samples than the buffer", [&] { again.next(); }));
}

namespace {

/// Keeps items in one of two buffers; its state names the first `buffers` of them.
struct two_buffers {
  using output = int;

  void operator()(fl::sample<int> s, auto& emit) {
    if (second.size() < 3) second.push_back(std::move(s));
    else emit(std::move(s));
  }

  void state(auto& archive) {
    if (buffers > 1) archive(first, second);
    else archive(first);
  }

  std::size_t buffers = 2;
  fl::held_samples<int> first{3}, second{3};
};

/// Its buffer has another type than its input.
struct holds_others {
  using output = int;

  void operator()(int n, auto& emit) {
    if (texts.empty()) texts.push_back({std::to_string(n), {0, 0, 0}});
    emit(n);
  }

  void state(auto& archive) { archive(texts); }

  fl::held_samples<std::string> texts{3};
};

} // namespace

TEST_CASE("Samples of a buffer that a stage doesn't name any more are reported as lost") {
  const watchdog guard("a buffer that is gone");
  const auto with = [](std::size_t buffers) {
    return fl::from(count_to(100)) | two_buffers{buffers} | fl::prefetch(1);
  };
  auto first = with(2).finite();
  first.next();
  auto again = with(1).finite({.resume = first.checkpoint()});
  CHECK(throws_saying<fl::pipeline_error>("a buffer that", [&] { again.next(); }));
}

TEST_CASE("A buffer of another type than the stage's input is refused when its samples are read again") {
  const watchdog guard("a buffer of other items");
  const auto pipeline = fl::from(count_to(100)) | holds_others() | fl::prefetch(1);
  auto first = pipeline.finite();
  first.next();
  auto again = pipeline.finite({.resume = first.checkpoint()});
  CHECK(throws_saying<fl::pipeline_error>("must be the type of the stage's input", [&] { again.next(); }));
}

namespace {

/// Makes one item of each three numbers.
struct triples {
  using output = std::vector<int>;

  void operator()(int n, auto& emit) {
    held.push_back(n);
    if (held.size() < 3) return;
    emit(std::exchange(held, {}));
  }

  void state(auto& archive) { archive(held); }

  std::vector<int> held{};
};

/// The values of all items from now on.
template <class Loader>
std::vector<int> values_left(Loader& loader) {
  std::vector<int> all;
  for (const auto& item : loader) all.insert(all.end(), item.begin(), item.end());
  return all;
}

} // namespace

TEST_CASE("A buffer of items that can't be read again by an index is resumed with their values") {
  const watchdog guard("a buffer downstream of a stage that packs");
  constexpr int count = 60'000;
  const auto calls = std::make_shared<std::atomic<int>>(0);
  for (const std::size_t workers : {1u, 3u}) {
    const auto p = fl::from(count_to(count)) | fl::tap([calls](int) { ++*calls; }) | triples() |
                   fl::map([](std::vector<int> t) { return t; }, fl::workers{workers}) |
                   fl::shuffle({.capacity = 40}) | fl::prefetch(4);
    for (const int at : {0, 1, 9'000, 19'990}) {
      auto whole = p.finite({.seed = 3});
      for (int i = 0; i < at; ++i) REQUIRE(whole.next());
      const auto left = fl::checkpoint::from_bytes(whole.checkpoint().to_bytes());
      *calls = 0;
      auto resumed = p.finite({.resume = left});
      REQUIRE(resumed.next());
      if (at == 19'990) {
        CHECK(*calls < count / 2); // it didn't start from the beginning
        CHECK(left.to_json().find("\"held_bytes\": 0,") == std::string::npos);
      }
      REQUIRE(whole.next());
      CHECK(values_left(resumed) == values_left(whole));
    }
  }
}

TEST_CASE("A checkpoint that the caller keeps doesn't prevent later ones") {
  const watchdog guard("a kept checkpoint");
  const auto calls = std::make_shared<std::atomic<int>>(0);
  const auto p = fl::from(count_to(60'000)) | fl::tap([calls](int) { ++*calls; }) | triples() |
                 fl::shuffle({.capacity = 40}) | fl::prefetch(4);
  auto loader = p.finite({.seed = 3});
  for (int i = 0; i < 500; ++i) loader.next();
  const fl::checkpoint kept = loader.checkpoint();
  for (int i = 500; i < 19'900; ++i) loader.next();
  const fl::checkpoint late = loader.checkpoint();
  *calls = 0;
  auto resumed = p.finite({.resume = late});
  REQUIRE(resumed.next());
  CHECK(*calls < 30'000);
  CHECK(loader.next());
  CHECK(values_left(resumed) == values_left(loader));
}

TEST_CASE("Damaged values of a buffer are refused, whatever byte is wrong") {
  const auto p = fl::from(count_to(300)) | triples() | fl::shuffle({.capacity = 5}) | fl::prefetch(1);
  auto loader = p.finite();
  for (int i = 0; i < 50; ++i) loader.next();
  const fl::checkpoint left = loader.checkpoint();
  std::size_t with_values = 0;
  for (const fl::detail::held& h : left.state().at.held) with_values += h.values != nullptr;
  REQUIRE(with_values == 1);
  const auto refused = [&](auto change) {
    fl::detail::checkpoint_state state = left.state();
    fl::detail::held_parts changed;
    for (const fl::detail::held& h : state.at.held) {
      fl::detail::held& copy = changed.add();
      copy = h;
      std::vector<std::byte> bytes = *h.values;
      change(bytes);
      copy.values = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
    }
    state.at.held = std::move(changed);
    return throws_saying<std::invalid_argument>(
        "incomplete or damaged", [&] { p.finite({.resume = fl::checkpoint(std::move(state))}); });
  };
  CHECK(refused([](auto& bytes) { bytes.pop_back(); }));
  CHECK(refused([](auto& bytes) { bytes.push_back({}); }));
  CHECK(refused([](auto& bytes) { bytes.clear(); }));
  CHECK(refused([](auto& bytes) { bytes[0] = std::byte{0xff}; })); // the length of a vector
  CHECK(refused([](auto& bytes) { bytes[7] = std::byte{0xff}; }));
}

TEST_CASE("A function without workers is called by one thread also while held samples are read again") {
  const watchdog guard("a map on one thread");
  std::atomic<int> inside = 0, most = 0;
  const auto pipeline = fl::from(count_to(2000)) | fl::map([&](int n) {
                          const int now = ++inside;
                          if (now > most) most = now;
                          std::this_thread::yield();
                          --inside;
                          return n;
                        }) |
                        fl::map([](int n) { return n; }, fl::workers{4}) | fl::shuffle({.capacity = 300}) |
                        fl::prefetch(1);
  const fl::checkpoint place = [&] {
    auto first = pipeline.infinite();
    for (int i = 0; i < 200; ++i) first.next();
    return first.checkpoint();
  }();
  CHECK(most == 1);
  auto again = pipeline.infinite({.resume = place});
  again.next();
  CHECK(most == 1);
}
