// SPDX-License-Identifier: MIT
// A pipeline refuses a checkpoint if it differs in anything that affects its items: a row for each parameter
// of each source and stage.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <feedline/feedline.hpp>

#include "support/catch.hpp"
#include "support/outcome.hpp"
#include "support/temporary_folder.hpp"
#include "support/throws_saying.hpp"

namespace fl = feedline;
using namespace feedline::test;

namespace {

template <class Pipeline, class Other>
bool is_refused(const Pipeline& first, const Other& second) {
  const fl::checkpoint taken = first.infinite().checkpoint();
  try {
    second.infinite({.resume = taken});
  } catch (const std::invalid_argument& error) {
    return std::string(error.what()).find("can't resume from this checkpoint") != std::string::npos;
  }
  return false;
}

template <int Number>
struct own_source {
  std::optional<int> next() { return Number; }
};

template <int Number>
struct own_stage {
  using output = int;

  void operator()(int n, auto& emit) { emit(n); }

  void state(auto&) {}
};

struct fingerprinted : own_stage<0> {
  explicit fingerprinted(std::uint64_t n) : parameter(n) {}

  std::uint64_t fingerprint() const { return parameter; }

  std::uint64_t parameter;
};

struct row {
  std::string what;
  std::function<bool(bool changed)> refuses; ///< whether a run of the pipeline, changed or not, is refused
};

/// `make(parameter)` returns a pipeline.
template <class Make, class Parameter>
row differs(std::string what, Make make, Parameter one, Parameter other) {
  return {std::move(what), [=](bool changed) { return is_refused(make(one), make(changed ? other : one)); }};
}

template <class One, class Other>
row differ(std::string what, One one, Other other) {
  return {std::move(what),
          [=](bool changed) { return changed ? is_refused(one, other) : is_refused(one, one); }};
}

} // namespace

TEST_CASE("A checkpoint is refused if a parameter differs, and accepted otherwise") {
  const temporary_folder folder;
  std::vector<std::string> files;
  for (const char name : {'a', 'b'})
    files.push_back(folder.write(std::string(1, name), std::string(64, name)));
  const auto all = fl::from(count_to(40));
  const auto half = fl::from(count_to(20));
  const auto batches = fl::batch(4);
  const auto same = [](int n) { return n; };
  const auto length = [](int n) { return static_cast<std::size_t>(n); };
  using size = std::size_t;

  const std::vector<row> rows{
      // sources
      differ("elements", all | batches, half | batches),
      differ("own source's type", own_source<1>() | batches, own_source<2>() | batches),
      differ("files", fl::lines({files[0]}) | fl::batch(2), fl::lines({files[1]}) | fl::batch(2)),
      differs(
          "record's size", [=](size n) { return fl::records({files[0]}, n) | fl::batch(2, fl::as_list); },
          size{4}, size{8}),
      differ("order of the whole", all | batches, all | fl::global_shuffle() | batches),
      differs(
          "draws", [=](size n) { return all | fl::with_replacement({.samples = n}) | batches; }, size{30},
          size{31}),
      differs(
          "weights of draws",
          [=](double w) {
            std::vector<double> weights(40, 1.0);
            weights[7] = w;
            return all | fl::with_replacement({.weights = weights}) | batches;
          },
          2.0, 3.0),
      differs(
          "weights of a mix",
          [=](double w) { return fl::mix(fl::weighted(all, w), fl::weighted(half, 1.0)) | batches; }, 0.5,
          0.25),
      differs(
          "when a mix ends",
          [=](fl::when_one_ends when) {
            return fl::mix(fl::weighted(all, 0.5), fl::weighted(half, 0.5), fl::mix_options{when}) | batches;
          },
          fl::when_one_ends::continue_with_others, fl::when_one_ends::stop),
      differ("what is concatenated", fl::concat(all, half) | batches, fl::concat(half, all) | batches),
      differ("what is zipped", fl::zip(all, half) | fl::batch(2), fl::zip(half, all) | fl::batch(2)),
      // stages
      differ("stage", all | fl::map(same) | batches, all | fl::tap([](int) {}) | batches),
      differ("stages", all | batches, all | fl::map(same) | batches),
      differ("name of a stage", all | fl::map(same, fl::name{"a"}) | batches,
             all | fl::map(same, fl::name{"b"}) | batches),
      differ("threads of a stage", all | fl::map(same) | batches,
             all | fl::map(same, fl::workers{2}) | batches),
      differ("own stage's type", all | own_stage<1>() | batches, all | own_stage<2>() | batches),
      differs(
          "own stage's fingerprint", [=](std::uint64_t n) { return all | fingerprinted(n) | batches; },
          std::uint64_t{1}, std::uint64_t{2}),
      differs(
          "batch's size", [=](size n) { return all | fl::batch(n); }, size{4}, size{5}),
      differs(
          "batch's last one", [=](bool drop) { return all | fl::batch(4, {.drop_last = drop}); }, false,
          true),
      differs(
          "batch_into's size",
          [=](size n) {
            return all | fl::batch_into<int>(n, [](int i, fl::batch_slot<int>& slot) { slot.value() = i; });
          },
          size{4}, size{5}),
      differs(
          "buffer's capacity", [=](size n) { return all | fl::shuffle({.capacity = n}) | batches; }, size{9},
          size{10}),
      differs(
          "buffer's min_fill",
          [=](size n) { return all | fl::shuffle({.capacity = 9, .min_fill = n}) | batches; }, size{3},
          size{4}),
      differs(
          "take's count", [=](size n) { return all | fl::take(n) | batches; }, size{8}, size{9}),
      differs(
          "skip's count", [=](size n) { return all | fl::skip(n) | batches; }, size{8}, size{9}),
      differs(
          "a partition's part",
          [=](size part) {
            return all | fl::partition({0.5, 0.5}, part) | batches;
          },
          size{0}, size{1}),
      differs(
          "a partition's weights",
          [=](double w) {
            return all | fl::partition({w, 1 - w}, 0) | batches;
          },
          0.5, 0.25),
      differs(
          "buckets' bounds",
          [=](size n) {
            return all | fl::bucket_batch({.boundaries = {n, 30}, .batch_size = 4}, length);
          },
          size{5}, size{6}),
      differs(
          "buckets' size",
          [=](size n) { return all | fl::bucket_batch({.boundaries = {5}, .batch_size = n}, length); },
          size{4}, size{5}),
      differs(
          "buckets' tokens",
          [=](size n) { return all | fl::bucket_batch({.boundaries = {5}, .max_tokens = n}, length); },
          size{40}, size{50}),
      differs(
          "buckets' last ones",
          [=](bool drop) {
            return all | fl::bucket_batch({.boundaries = {5}, .batch_size = 4, .drop_last = drop}, length);
          },
          false, true),
  };
  for (const row& r : rows) {
    INFO(r.what);
    CHECK_FALSE(r.refuses(false));
    CHECK(r.refuses(true));
  }
}

TEST_CASE(
    "What determines a source's samples is named with its value before and now, and the data isn't blamed") {
  const temporary_folder folder;
  const std::string file = folder.write("a", std::string(64, 'a'));
  const auto all = fl::from(count_to(3));
  const auto many = fl::from(count_to(40));
  const auto says = [](const std::string& why, const auto& make, const auto& one, const auto& other) {
    const auto taken = fl::checkpoint::from_bytes(make(one).infinite().checkpoint().to_bytes());
    make(one).infinite({.resume = taken});
    return throws_saying<std::invalid_argument>("feedline: can't resume from this checkpoint: " + why,
                                                [&] { make(other).infinite({.resume = taken}); });
  };
  const auto drawn = [&](double w) {
    return all | fl::with_replacement({.weights = {1, 2, w}, .samples = 100});
  };
  CHECK(says("with_replacement.weights was 1, 2, 3, here it is 1, 2, 0.1", drawn, 3, 0.1));
  CHECK(says(
      "with_replacement.samples was 100, here it is all",
      [&](int n) {
        return all | fl::with_replacement({.samples = static_cast<std::uint64_t>(n)}) | fl::batch(2);
      },
      100, 0));
  CHECK(says(
      "with_replacement.weights was 1, 1, 1, 1, 1, 1, 1, 1, … (40 weights, checksum ",
      [&](double w) {
        std::vector<double> weights(40, 1.0);
        weights[30] = w;
        return many | fl::with_replacement({.weights = weights}) | fl::batch(2);
      },
      1.0, 2.0));
  CHECK(says(
      "its source had no further option, here it has with_replacement.weights: 1, 2, 3",
      [&](bool weighted) {
        return all | fl::with_replacement(
                         {.weights = weighted ? std::vector<double>{1, 2, 3} : std::vector<double>()});
      },
      false, true));
  CHECK(says(
      "mix.weights was 3, 1, here it is 4, 1",
      [&](double w) { return fl::mix(fl::weighted(all, w), fl::weighted(many, 1)) | fl::batch(2); }, 3, 4));
  CHECK(says(
      "mix.when_one_ends was stop, here it is repeat",
      [&](fl::when_one_ends when) {
        return fl::mix(fl::weighted(all, 1), fl::weighted(many, 1), fl::mix_options{when}) | fl::batch(2);
      },
      fl::when_one_ends::stop, fl::when_one_ends::repeat));
  CHECK(says(
      "with_replacement.weights was 1, 2, 3, here it is 1, 2, 4",
      [&](double w) { return fl::mix(fl::weighted(many, 1), fl::weighted(drawn(w), 1)) | fl::batch(2); }, 3,
      4));
  CHECK(says(
      "with_replacement.weights was 1, 2, 3, here it is 1, 2, 4",
      [&](double w) { return fl::concat(many, drawn(w)) | fl::batch(2); }, 3, 4));
  CHECK(says(
      "the number of files of interleave was 2, here it is 3",
      [&](int n) { return fl::lines({file}) | fl::interleave(static_cast<std::size_t>(n)); }, 2, 3));
  CHECK(says(
      "the size of records was 4, here it is 8",
      [&](int n) { return fl::records({file}, static_cast<std::size_t>(n)) | fl::global_shuffle(); }, 4, 8));
  CHECK(says(
      "the stages after from was map `a`, here it is map `b`",
      [&](const char* name) {
        return fl::concat(all | fl::map([](int n) { return n; }, fl::name{name}), many) | fl::batch(2);
      },
      "a", "b"));
  CHECK(says(
      "the data set of from has changed since the checkpoint",
      [&](int n) {
        return fl::from(std::vector{1, 2, n}) | fl::global_shuffle() | fl::batch(2);
      },
      3, 4));
}

TEST_CASE("A checkpoint is refused if the run's options differ") {
  const auto all = fl::from(count_to(40)) | fl::global_shuffle() | fl::batch(4);
  const auto refused = [](const auto& start) {
    try {
      start();
    } catch (const std::invalid_argument& error) {
      return std::string(error.what()).find("can't resume from this checkpoint") != std::string::npos;
    }
    return false;
  };
  const fl::finite_options options{.seed = 1, .epochs = 2, .rank = {0, 3, fl::remainder::drop}};
  auto other = options;
  other.resume = all.finite(options).checkpoint();
  CHECK_FALSE(refused([&] { all.finite(other); }));
  auto seed = other, rest = other, once = other;
  seed.seed = 2;
  rest.rank.remainder = fl::remainder::wrap;
  once.epochs = 1;
  CHECK(refused([&] { all.finite(seed); }));
  CHECK(refused([&] { all.finite(rest); }));
  CHECK(refused([&] { all.finite(once); }));
  CHECK(refused([&] { all.infinite({.seed = 1, .rank = {0, 3}, .resume = other.resume}); }));
}
