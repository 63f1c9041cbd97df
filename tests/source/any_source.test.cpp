// SPDX-License-Identifier: MIT
#include <feedline/source/any_source.hpp>

#include <feedline/source/concat.hpp>
#include <feedline/source/files.hpp>
#include <feedline/source/generate.hpp>
#include <feedline/source/global_shuffle.hpp>
#include <feedline/source/lines.hpp>
#include <feedline/source/mix.hpp>
#include <feedline/source/range.hpp>
#include <feedline/source/zip.hpp>
#include <feedline/stage/batch.hpp>
#include <feedline/stage/filter.hpp>
#include <feedline/stage/map.hpp>
#include <feedline/stage/shuffle.hpp>
#include <feedline/testing/check_source.hpp>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/leave_and_resume.hpp"
#include "support/numbers.hpp"
#include "support/outcome.hpp"
#include "support/temporary_folder.hpp"
#include "support/throws_saying.hpp"

namespace fl = feedline;
using namespace feedline::test;

namespace {

using texts = std::vector<std::string>;
using any_text = fl::any_source<std::string>;
using any_file_text = fl::any_source<std::string, true>;

constexpr auto as_text_of_number = [](int n) { return std::to_string(n); };
constexpr auto with_index = [](std::string text, fl::context& c) {
  return std::to_string(c.index) + " " + text;
};

/// Files 0, 1, … of lines "0.0", "0.1", …
class line_files {
 public:
  explicit line_files(int files = 4) {
    for (int file = 0; file < files; ++file) {
      std::string text;
      for (int i = 0; i < 5 + 3 * file; ++i) text += std::to_string(file) + "." + std::to_string(i) + "\n";
      folder_.write(std::to_string(file), text);
    }
  }

  auto lines() const { return fl::lines({folder_ / "?"}); }

 private:
  temporary_folder folder_;
};

/// Yields the numbers below a count, as text. Has neither state() nor seek().
auto counted(int begin, int end) {
  return fl::generate(
      [begin, end]() mutable { return begin < end ? std::optional(std::to_string(begin++)) : std::nullopt; });
}

/// Yields its samples from the last index down, and can't seek.
struct countdown {
  std::optional<std::string> next() {
    return left > 0 ? std::optional(std::to_string(--left)) : std::nullopt;
  }

  std::uint64_t index() const { return static_cast<std::uint64_t>(left); }

  void metrics(auto& out) const { out("left", left); }

  int left = 50;
};

template <class Pipeline>
texts all_of(const Pipeline& p, fl::finite_options options = {}) {
  return collect((p | fl::map(with_index)).finite(options));
}

} // namespace

TEST_CASE("any_source yields what its source yields, with its indices, in every epoch") {
  const line_files files;
  const fl::finite_options options{.seed = 3, .epochs = 3};
  CHECK(all_of(fl::from(any_file_text(files.lines())), options) == all_of(files.lines(), options));
  CHECK(all_of(fl::from(any_text(files.lines())), options) == all_of(files.lines(), options));
  CHECK(all_of(fl::from(any_text(counted(0, 9)))) == all_of(counted(0, 9)));
  CHECK(all_of(fl::from(any_text(countdown()))) == all_of(fl::from(countdown())));
  const auto even =
      fl::from(numbers(9)) | fl::filter([](int n) { return n % 2 == 0; }) | fl::map(as_text_of_number);
  CHECK(all_of(fl::from(any_text(even))) == texts{"0 0", "2 2", "4 4", "6 6", "8 8"});
  CHECK(all_of(fl::from(any_text(numbers(3), as_text_of_number)), {.epochs = 2}) ==
        texts{"0 0", "1 1", "2 2", "0 1000000", "1 1000001", "2 1000002"});
  CHECK(collect((fl::from(any_text(counted(0, 2)))).infinite(), 5) == texts{"0", "1", "0", "1", "0"});
}

TEST_CASE("any_source's failures are those of its source, by name, index and origin") {
  const auto p = fl::from(any_text(numbers(5, {1}), as_text_of_number)) | fl::map([](std::string text) {
                   if (text == "3") throw unlucky(3);
                   return text;
                 });
  const auto result = run_to_end(p.finite({.on_error = fl::on_error::skip}));
  CHECK(result.items == texts{"0", "2", "4"});
  REQUIRE(result.skipped.size() == 2);
  CHECK(result.skipped[0].stage == "numbers");
  CHECK(result.skipped[0].message == "unlucky 1");
  CHECK(result.skipped[1].origin == "number 3");
  CHECK(run_to_end(p.finite()).failed->message == "unlucky 1");
  auto loader = fl::from(any_text(countdown())).finite();
  while (loader.next()) {
  }
  const fl::metrics metrics = loader.metrics();
  const fl::stage_metrics& source = metrics.total.stages.front();
  CHECK(source.name.ends_with("countdown"));
  CHECK(source.user_metrics.size() == 1);
}

TEST_CASE("a copy of any_source is the source as described") {
  any_text source(counted(0, 3));
  source.start_epoch({});
  CHECK(source.next() == "0");
  any_text copy(source);
  copy.start_epoch({});
  CHECK(copy.next() == "0");
  CHECK(source.next() == "1");
  copy = source;
  copy.start_epoch({});
  CHECK(copy.next() == "0");
}

TEST_CASE("ranks divide the files of any_source, or its samples") {
  const line_files files(6);
  const auto of_ranks = [](const auto& p) {
    std::vector<texts> all;
    for (std::uint32_t number = 0; number < 3; ++number)
      all.push_back(all_of(
          p, {.seed = 5, .rank = {.number = number, .world_size = 3, .remainder = fl::remainder::keep}}));
    return all;
  };
  CHECK(of_ranks(fl::from(any_file_text(files.lines()))) == of_ranks(files.lines()));
  const auto by_sample = of_ranks(fl::from(any_text(files.lines())));
  const texts whole = all_of(files.lines());
  for (std::size_t i = 0; i < whole.size(); ++i) CHECK(by_sample[i % 3][i / 3] == whole[i]);
  // A source that splits its files, as one whose samples are divided.
  CHECK(of_ranks(fl::from(any_text(any_file_text(files.lines())))) == by_sample);
}

TEST_CASE("any_source keeps the contract of sources") {
  const line_files files;
  fl::testing::check_source([&] { return fl::from(any_text(files.lines())); });
  fl::testing::check_source([&] { return fl::from(any_file_text(files.lines())); });
  fl::testing::check_source([] { return fl::from(any_text(countdown())); });
  fl::testing::check_source([] { return fl::from(any_text(counted(0, 40))); });
  fl::testing::check_source([] { return fl::from(any_text(fl::from(count_to(30)), as_text_of_number)); });
}

namespace {

/// A source with an index() and without seek(), as a zip is, which counts how often it is started.
struct counted_starts {
  void start_epoch(const fl::epoch&) { ++*starts; }

  std::optional<std::string> next() {
    return left > 0 ? std::optional(std::to_string(--left)) : std::nullopt;
  }

  std::uint64_t index() const { return static_cast<std::uint64_t>(left); }

  std::shared_ptr<std::atomic<int>> starts = std::make_shared<std::atomic<int>>(0);
  int left = 500;
};

} // namespace

TEST_CASE("a resumed run reads an any_source whose source can't seek once for all samples of a buffer") {
  const counted_starts source;
  const auto starts_in = [&](const auto& p) {
    auto loader = p.infinite({.seed = 1});
    for (int i = 0; i < 200; ++i) loader.next();
    const auto checkpoint = loader.checkpoint();
    const auto next = loader.next();
    loader.stop();
    *source.starts = 0;
    auto resumed = p.infinite({.seed = 1, .resume = checkpoint});
    CHECK(resumed.next() == next);
    resumed.stop();
    return source.starts->load();
  };
  const int typed = starts_in(fl::from(source) | fl::shuffle({.capacity = 100}));
  const any_text any(source);
  CHECK(starts_in(fl::from(any) | fl::shuffle({.capacity = 100})) <= typed + 1);
  CHECK(starts_in(fl::concat(any, any) | fl::shuffle({.capacity = 100})) <= 2 * typed + 2);
  CHECK(starts_in(fl::from(any_text(any)) | fl::map([](std::string text) { return text; }) |
                  fl::shuffle({.capacity = 100})) <= typed + 1);
  CHECK(starts_in(fl::mix(std::vector{fl::weighted(any, 1), fl::weighted(any, 2)}) |
                  fl::shuffle({.capacity = 100})) <= 2 * typed + 4);
}

TEST_CASE("Resumed: any_source of sources with and without state and seek") {
  const line_files files;
  leave_and_resume("any_source", 40, [&](draw& d, const circumstances& c) {
    const auto source = [&] {
      switch (d(0, 3)) {
      case 0:
        return any_text(files.lines());
      case 1:
        return any_text(countdown());
      case 2:
        return any_text(counted(0, static_cast<int>(d(1, 60))));
      default:
        return any_text(numbers(50, {3, 17}), as_text_of_number);
      }
    }();
    return fl::from(source) | fl::shuffle({.capacity = d(1, 30)}) |
           fl::map([](std::string text) { return text; }, c.pool()) | fl::batch(d(1, 4));
  });
}

TEST_CASE("a list of sources yields what they yield as arguments") {
  const line_files files;
  const any_text a(files.lines()), b(counted(0, 12)), c(counted(100, 103));
  const fl::finite_options options{.seed = 2, .epochs = 2};
  CHECK(all_of(fl::concat(std::vector{a, b, c}), options) == all_of(fl::concat(a, b, c), options));
  CHECK(all_of(fl::mix(std::vector{fl::weighted(a, 0.5), fl::weighted(b, 2), fl::weighted(c, 1)}), options) ==
        all_of(fl::mix(fl::weighted(a, 0.5), fl::weighted(b, 2), fl::weighted(c, 1)), options));
  const auto repeated = fl::mix_options{.when_one_ends = fl::when_one_ends::repeat};
  CHECK(all_of(fl::mix(std::vector{fl::weighted(a, 0.5), fl::weighted(b, 2)}, repeated), options) ==
        all_of(fl::mix(fl::weighted(a, 0.5), fl::weighted(b, 2), repeated), options));
  const auto zipped = collect(fl::zip(std::vector{a, b}).finite(options));
  const auto pairs = collect(fl::zip(a, b).finite(options));
  REQUIRE(zipped.size() == 24);
  for (std::size_t i = 0; i < zipped.size(); ++i) CHECK(zipped[i] == texts{pairs[i].first, pairs[i].second});
}

TEST_CASE("a list of indexed sources is indexed") {
  const std::vector parts{fl::from(texts{"a", "b", "c"}), fl::from(texts()), fl::from(texts{"d", "e"})};
  const auto p = fl::concat(parts) | fl::global_shuffle();
  CHECK(all_of(p, {.seed = 1}) ==
        all_of(fl::concat(parts[0], parts[1], parts[2]) | fl::global_shuffle(), {.seed = 1}));
  const auto both = fl::zip(std::vector{parts[0], parts[2]}) | fl::global_shuffle();
  auto pairs = collect(both.finite({.seed = 1}));
  std::sort(pairs.begin(), pairs.end());
  CHECK(pairs == std::vector<texts>{{"a", "d"}, {"b", "e"}});
}

TEST_CASE("a list has 1 to 255 sources, and finite weights") {
  const any_text one(counted(0, 1));
  const auto refused = [&](const auto& compose) {
    CHECK(throws_saying<std::invalid_argument>("1 to 255 sources, not 0",
                                               [&] { static_cast<void>(compose(std::vector<any_text>())); }));
    CHECK(throws_saying<std::invalid_argument>(
        "1 to 255 sources, not 256", [&] { static_cast<void>(compose(std::vector<any_text>(256, one))); }));
    CHECK(collect(compose(std::vector<any_text>(255, one)).finite()).size() > 0);
  };
  refused([](const auto& all) { return fl::concat(all); });
  refused([](const auto& all) { return fl::zip(all); });
  refused([](const auto& all) {
    std::vector<decltype(fl::weighted(all[0], 1))> parts;
    for (const any_text& each : all) parts.push_back(fl::weighted(each, 1));
    return fl::mix(parts);
  });
  const double most = std::numeric_limits<double>::max();
  CHECK(throws_saying<std::invalid_argument>("sum of the weights", [&] {
    static_cast<void>(fl::mix(std::vector{fl::weighted(one, most), fl::weighted(one, most)}));
  }));
}

TEST_CASE("Resumed: lists of sources") {
  const line_files files;
  leave_and_resume("concat of a list", 20, [&](draw& d, const circumstances& c) {
    std::vector<any_text> parts(d(1, 5), any_text(countdown()));
    parts.emplace_back(files.lines());
    return fl::concat(parts) | fl::shuffle({.capacity = d(1, 30)}) |
           fl::map([](std::string text) { return text; }, c.pool()) | fl::batch(d(1, 4));
  });
  leave_and_resume("mix of a list", 20, [&](draw& d, const circumstances& c) {
    std::vector parts(d(1, 5), fl::weighted(any_text(counted(0, 20)), 1));
    parts.push_back(fl::weighted(any_text(files.lines()), static_cast<double>(d(1, 4))));
    return fl::mix(parts) | fl::shuffle({.capacity = d(1, 30)}) |
           fl::map([](std::string text) { return text; }, c.pool()) | fl::batch(d(1, 4));
  });
  leave_and_resume("zip of a list", 20, [&](draw& d, const circumstances& c) {
    const std::vector<any_text> parts{any_text(files.lines()), any_text(countdown())};
    return fl::zip(parts) | fl::shuffle({.capacity = d(1, 30)}) |
           fl::map([](const texts& both) { return both[0] + "," + both[1]; }, c.pool()) | fl::batch(d(1, 4));
  });
}

TEST_CASE("any_source tells how much memory its samples take, and what differs on resume") {
  const line_files files;
  const auto bytes = [](const auto& p) { return (p | fl::batch(4)).memory().bytes(); };
  CHECK(bytes(fl::from(any_text(files.lines()))) == bytes(files.lines()));
  auto loader = fl::from(any_text(counted(0, 5))).finite();
  loader.next();
  const auto checkpoint = loader.checkpoint();
  CHECK(collect(fl::from(any_text(counted(0, 5))).finite({.resume = checkpoint})) ==
        texts{"1", "2", "3", "4"});
  CHECK(throws_saying<std::invalid_argument>(
      "countdown", [&] { fl::from(any_text(countdown())).finite({.resume = checkpoint}); }));
}
