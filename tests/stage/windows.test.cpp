// SPDX-License-Identifier: MIT
#include <feedline/stage/windows.hpp>

#include <feedline/source/range.hpp>
#include <feedline/source/records.hpp>
#include <feedline/stage/batch.hpp>
#include <feedline/stage/map.hpp>
#include <feedline/stage/shuffle.hpp>
#include <feedline/stage/take.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/by_hand.hpp"
#include "support/catch.hpp"
#include "support/elements.hpp"
#include "support/leave_and_resume.hpp"
#include "support/numbers.hpp"
#include "support/outcome.hpp"
#include "support/temporary_folder.hpp"
#include "support/throws_saying.hpp"

namespace fl = feedline;
using namespace feedline::test;

namespace {

using document = std::vector<std::int32_t>;
using documents = std::vector<document>;
using stage = decltype(fl::windows(1));

static_assert(std::is_same_v<fl::stage_output_t<stage, document>, fl::tensor<std::int32_t>>);
static_assert(
    std::is_same_v<fl::stage_output_t<stage, std::span<const std::uint16_t>>, fl::tensor<std::uint16_t>>);
static_assert(std::is_same_v<fl::stage_output_t<stage, std::string_view>, fl::tensor<char>>);
static_assert(fl::stage_for<stage, std::array<long, 3>> && fl::stage_for<stage, fl::tensor<std::uint8_t>>);
static_assert(fl::stage_for<stage, std::uint64_t> && !fl::stage_for<stage, bool>);
static_assert(!fl::stage_for<stage, std::vector<float>> && !fl::stage_for<stage, std::vector<bool>> &&
              !fl::stage_for<stage, std::list<int>> && !fl::stage_for<stage, documents>);

/// The windows of one epoch.
documents cut(std::size_t length, const fl::windows_options& options, documents all) {
  documents windows;
  for (const auto& w : given_by(fl::windows(length, options), std::move(all))) windows.push_back(elements(w));
  return windows;
}

/// The same, one token after another.
documents cut_by_hand(std::size_t length, const fl::windows_options& options, const documents& all) {
  document stream;
  for (const document& d : all) {
    stream.insert(stream.end(), d.begin(), d.end());
    if (options.separator && !d.empty()) stream.push_back(static_cast<std::int32_t>(*options.separator));
  }
  const std::size_t stride = options.stride > 0 ? options.stride : length;
  documents windows;
  std::size_t end = 0;
  for (std::size_t begin = 0; begin < stream.size(); begin += stride) {
    if (begin + length > stream.size() && (options.drop_last || end == stream.size())) break;
    end = std::min(begin + length, stream.size());
    windows.emplace_back(stream.begin() + static_cast<std::ptrdiff_t>(begin),
                         stream.begin() + static_cast<std::ptrdiff_t>(end));
  }
  return windows;
}

/// Documents with the tokens 1, 2, 3, …; some are empty.
documents some_documents(std::size_t count, std::uint64_t seed, std::size_t longest = 12) {
  fl::random_generator random(seed);
  documents all(count);
  std::int32_t next = 0;
  for (document& d : all)
    for (std::uint64_t left = random.below(longest + 1); left > 0; --left) d.push_back(++next);
  return all;
}

using change = std::function<document(document, fl::context&)>;
using show = std::function<std::string(fl::tensor<std::int32_t>, fl::context&)>;

const change keep = [](document d, fl::context&) { return d; };
const change refuse_some = [](document d, fl::context& c) {
  if (c.index % 7 == 3) throw unlucky(static_cast<int>(c.index));
  return d;
};
/// A window with its identity.
const show shown = [](const fl::tensor<std::int32_t>& window, fl::context& c) {
  std::string text =
      std::to_string(c.epoch) + ":" + std::to_string(c.index) + "." + std::to_string(c.sub_index);
  for (const std::int32_t token : window) text += " " + std::to_string(token);
  return text;
};

// One type of pipeline for all runs.
auto run_of(documents all, std::size_t length, const fl::windows_options& options, const change& f = keep,
            std::size_t workers = 2) {
  return fl::from(std::move(all)) | fl::map(f, fl::workers{workers}) | fl::windows(length, options) |
         fl::map(shown, fl::workers{workers});
}

using texts = std::vector<std::string>;

} // namespace

TEST_CASE("windows joins documents and cuts them into windows of equal length") {
  const documents four{{1, 2, 3, 4, 5}, {6, 7}, {}, {8, 9, 10, 11}};
  CHECK(cut(4, {}, four) == documents{{1, 2, 3, 4}, {5, 6, 7, 8}});
  CHECK(cut(4, {.separator = 0}, four) == documents{{1, 2, 3, 4}, {5, 0, 6, 7}, {0, 8, 9, 10}});
  CHECK(cut(4, {.separator = 0, .drop_last = false}, four) ==
        documents{{1, 2, 3, 4}, {5, 0, 6, 7}, {0, 8, 9, 10}, {11, 0}});
  CHECK(cut(1, {.separator = -1}, {{7}, {8}}) == documents{{7}, {-1}, {8}, {-1}});
  CHECK(cut(11, {}, four).size() == 1);
  CHECK(cut(12, {}, four).empty());
  CHECK(cut(12, {.drop_last = false}, four).size() == 1);
  CHECK(cut(4, {.drop_last = false}, {}).empty());
  CHECK(cut(4, {.separator = 0, .drop_last = false}, {{}, {}}).empty());
}

TEST_CASE("a smaller stride makes windows overlap, a larger one leaves out tokens") {
  const documents all{{1, 2, 3, 4, 5}, {6, 7, 8, 9}};
  CHECK(cut(4, {.stride = 3}, all) == documents{{1, 2, 3, 4}, {4, 5, 6, 7}});
  CHECK(cut(4, {.stride = 1}, {{1, 2}, {3, 4, 5}, {6}}) ==
        documents{{1, 2, 3, 4}, {2, 3, 4, 5}, {3, 4, 5, 6}});
  CHECK(cut(2, {.stride = 4}, all) == documents{{1, 2}, {5, 6}});
  CHECK(cut(2, {.stride = 4, .drop_last = false}, all) == documents{{1, 2}, {5, 6}, {9}});
  CHECK(cut(2, {.stride = 20, .drop_last = false}, all) == documents{{1, 2}});
}

TEST_CASE("the rest of an epoch is emitted if the last window doesn't have its tokens already") {
  const documents six{{1, 2, 3}, {4, 5, 6}};
  CHECK(cut(4, {.stride = 2, .drop_last = false}, six) == documents{{1, 2, 3, 4}, {3, 4, 5, 6}});
  CHECK(cut(4, {.stride = 3, .drop_last = false}, six) == documents{{1, 2, 3, 4}, {4, 5, 6}});
  CHECK(cut(4, {.stride = 3}, six) == documents{{1, 2, 3, 4}});
  // An epoch knows nothing of the windows of the one before.
  by_hand<document, stage> running(fl::windows(4, {.stride = 1, .drop_last = false}));
  CHECK(running.feed({1, 2, 3, 4}).size() == 1);
  CHECK(running.finish().empty());
  CHECK(running.feed({5, 6}).empty());
  CHECK(running.finish().size() == 1);
}

TEST_CASE("windows of all lengths and strides are those of a stream that is joined first") {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    draw d(seed);
    const fl::windows_options options{.stride = d(0, 15),
                                      .separator = d.coin() ? std::optional<std::int64_t>(-7) : std::nullopt,
                                      .drop_last = d.coin()};
    const std::size_t length = d(1, 10);
    const documents all = some_documents(d(0, 12), seed, d(1, 40));
    INFO("seed " << seed);
    CHECK(cut(length, options, all) == cut_by_hand(length, options, all));
  }
}

TEST_CASE("single tokens and the bytes of texts are cut in the same way") {
  const auto numbers = given_by(fl::windows(3, {.stride = 2}), count_to(6));
  REQUIRE(numbers.size() == 2);
  CHECK(elements(numbers[0]) == std::vector{0, 1, 2});
  CHECK(elements(numbers[1]) == std::vector{2, 3, 4});
  const auto bytes = given_by(fl::windows(4, {.separator = '\n'}), texts{"ab", "cde"});
  REQUIRE(bytes.size() == 1);
  CHECK(elements(bytes[0]) == std::vector{'a', 'b', '\n', 'c'});
}

namespace {

/// Passes numbers on one after another.
struct one_by_one {
  using output = std::uint16_t;

  void operator()(std::uint16_t n, auto& emit) { emit(n); }
};

/// Each window with its identity, then the failures.
template <class Pipeline>
texts windows_of(const Pipeline& p, const fl::finite_options& options) {
  auto loader = p.finite(options);
  texts all;
  while (const auto b = loader.next()) {
    std::string text = std::to_string(b->ids()[0].index) + "." + std::to_string(b->ids()[0].sub_index);
    for (const std::uint16_t token : b->values().at(0)) text += " " + std::to_string(token);
    all.push_back(std::move(text));
  }
  for (const auto& f : loader.failures()) all.push_back(to_string(f));
  return all;
}

/// Files of the tokens 0, 1, 2, …
std::string write_tokens(const temporary_folder& folder, std::vector<std::size_t> sizes,
                         bool is_cut = false) {
  std::uint16_t next = 0;
  for (std::size_t file = 0; file < sizes.size(); ++file) {
    std::vector<std::uint16_t> tokens(sizes[file]);
    for (std::uint16_t& t : tokens) t = next++;
    std::string bytes(reinterpret_cast<const char*>(tokens.data()), tokens.size() * sizeof(std::uint16_t));
    if (is_cut && file == 0) bytes += "x";
    folder.write(std::to_string(file) + ".bin", bytes);
  }
  return folder / "*.bin";
}

} // namespace

TEST_CASE("single tokens that come in rows make the same windows as those that come one by one") {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    draw d(seed);
    const temporary_folder folder;
    const auto tokens =
        fl::records<std::uint16_t>(write_tokens(folder, {d(0, 2000), d(1, 40), d(1, 3000)}, d(0, 3) == 0));
    const fl::windows_options options{.stride = d.coin() ? 0 : d(1, 40), .drop_last = true};
    const std::size_t length = d.coin() ? d(1, 12) : d(20, 1500);
    const fl::finite_options run{.seed = seed,
                                 .epochs = static_cast<std::uint32_t>(d(1, 3)),
                                 .on_error = fl::on_error::skip,
                                 .rank = {0, d.coin() ? 1u : 2u, fl::remainder::keep, nullptr, d.coin()}};
    const std::function<std::uint16_t(std::uint16_t)> refuse = [](std::uint16_t n) {
      if (n % 701 == 700) throw unlucky(n);
      return n;
    };
    INFO("seed " << seed << ", length " << length << ", stride " << options.stride);
    const auto expected =
        windows_of(tokens | one_by_one() | fl::windows(length, options) | fl::batch(1), run);
    CHECK(windows_of(tokens | fl::windows(length, options) | fl::batch(1), run) == expected);
    CHECK(windows_of(tokens | fl::map(refuse) | fl::windows(length, options) | fl::batch(1), run) ==
          windows_of(tokens | fl::map(refuse) | one_by_one() | fl::windows(length, options) | fl::batch(1),
                     run));
  }
}

TEST_CASE("Resumed: windows of single tokens that come in rows") {
  const temporary_folder folder;
  const std::string files = write_tokens(folder, {400, 7, 1200});
  leave_and_resume("rows of tokens", 60, [&](draw& d, const circumstances&) {
    const fl::windows_options options{.stride = d(0, 12), .drop_last = true};
    return fl::records<std::uint16_t>(files) | fl::windows(d(1, 30), options) | fl::batch(d(1, 9));
  });
}

TEST_CASE("windows needs a length, and a separator that is a token") {
  CHECK_THROWS_AS(fl::windows(0), std::invalid_argument);
  CHECK_THROWS_AS(fl::windows(static_cast<std::size_t>(-1)), std::invalid_argument);
  CHECK_THROWS_AS(fl::windows(4, {.stride = static_cast<std::size_t>(-2)}), std::invalid_argument);
  const auto refused = [](std::int64_t separator, auto item, const std::string& words) {
    using item_type = decltype(item);
    CHECK(throws_saying<std::invalid_argument>(
        words, [&] { by_hand<item_type, stage>(fl::windows(4, {.separator = separator})); }));
  };
  refused(256, std::vector<std::uint8_t>(), "the separator 256 is not a value of the tokens' type");
  refused(-1, std::vector<std::uint8_t>(), "the separator -1 is not a value");
  refused(0, int(), "single tokens have no separator");
  CHECK_NOTHROW(by_hand<std::vector<std::uint8_t>, stage>(fl::windows(4, {.separator = 255})));
}

TEST_CASE("a window belongs to the document that completes it, with a number of its own") {
  CHECK(collect(run_of({{1}, {2, 3, 4, 5, 6}, {7}}, 2, {.drop_last = false}).finite({.epochs = 2})) ==
        texts{"0:1.0 1 2", "0:1.1 3 4", "0:1.2 5 6", "0:2.0 7", "1:1.0 1 2", "1:1.1 3 4", "1:1.2 5 6",
              "1:2.0 7"});
  CHECK(collect(run_of({{1, 2, 3}}, 2, {.drop_last = false}).finite()) == texts{"0:0.0 1 2", "0:0.1 3"});
  // batch lists them.
  const auto batches =
      collect((fl::from(documents{{1, 2, 3}, {4, 5, 6}}) | fl::windows(2) | fl::batch(2)).finite());
  REQUIRE(batches.size() == 2);
  CHECK(batches[0].values().shape() == fl::shape{2, 2});
  CHECK(elements(batches[0].values()) == document{1, 2, 3, 4});
  CHECK(batches[0].ids()[0] == fl::sample_id{.index = 0});
  CHECK(batches[0].ids()[1] == fl::sample_id{.index = 1});
  CHECK(batches[1].ids()[0] == fl::sample_id{.index = 1, .sub_index = 1});
}

TEST_CASE("in finite mode each epoch begins with a new window, in infinite mode the stream continues") {
  const auto p = run_of({{1, 2, 3}, {4, 5}}, 2, {.stride = 3});
  CHECK(collect(p.finite({.epochs = 2})) == texts{"0:0.0 1 2", "0:1.0 4 5", "1:0.0 1 2", "1:1.0 4 5"});
  CHECK(collect(p.infinite(), 4) == texts{"0:0.0 1 2", "0:1.0 4 5", "1:0.0 2 3", "2:0.0 5 1"});
  CHECK(collect(run_of({}, 2, {.drop_last = false}).finite({.epochs = 2})).empty());
}

TEST_CASE("an epoch that ends early leaves nothing for the next one") {
  const auto p =
      fl::from(documents{{1, 2, 3, 4, 5, 6, 7}, {8, 9}}) | fl::windows(2, {.stride = 1}) | fl::take(2);
  documents windows;
  for (const auto& w : p.finite({.epochs = 2})) windows.push_back(elements(w));
  CHECK(windows == documents{{1, 2}, {2, 3}, {1, 2}, {2, 3}});

  auto running = fl::windows(2).bind<document>({0, {}});
  int emitted = 0;
  auto emit_two = [&](auto&&) { return ++emitted < 2; };
  running(fl::sample<document>{{1, 2, 3, 4, 5, 6, 7, 8}, {}}, emit_two);
  CHECK(emitted == 2);
}

TEST_CASE("a failed document is left out of the stream") {
  const documents all{{1}, {2}, {3}, {4}, {5}};
  const auto p = run_of(all, 2, {}, refuse_some);
  CHECK(run_to_end(p.finite({.on_error = fl::on_error::skip})).items == texts{"0:1.0 1 2", "0:4.0 3 5"});
  const auto result = run_to_end(p.finite());
  CHECK(result.items == texts{"0:1.0 1 2"});
  REQUIRE(result.failed);
  CHECK(result.failed->index == 3);
}

TEST_CASE("the memory of windows is known") {
  const auto p = fl::from(count_to(100)) | fl::windows(1000) | fl::batch(4);
  const auto plan = p.memory({.memory_budget = 10'000'000});
  REQUIRE(plan.bytes());
  const auto bytes_of = [&](const std::string& name) {
    for (const auto& part : plan.parts)
      if (part.name.starts_with(name)) return part.bytes.value();
    return std::size_t{0};
  };
  CHECK(bytes_of("kept by windows") == 16000);
  CHECK(bytes_of("notes of windows") >= 8000);
  CHECK(bytes_of("batch -> caller") >= 4 * 4000);
}

TEST_CASE("a state with more tokens than fit is refused") {
  std::vector<std::uint64_t> words;
  fl::state_writer writer(words);
  auto longer = fl::windows(10).bind<int>({0, {}}), shorter = fl::windows(3).bind<int>({0, {}});
  auto ignore = [](auto&&) { return true; };
  for (const int token : {1, 2, 3}) longer(fl::sample<int>{token, {}}, ignore);
  longer.state(writer);
  fl::state_reader reader(words);
  CHECK_THROWS_AS(shorter.state(reader), std::invalid_argument);
}

TEST_CASE("a state has all that decides the windows after it") {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    draw d(seed);
    const auto described = fl::windows(d(1, 8), {.stride = d(0, 12), .separator = 0, .drop_last = false});
    const documents all = some_documents(6, seed);
    texts given;
    const auto emit = [&](fl::sample<fl::tensor<std::int32_t>> w) {
      fl::context c = fl::detail::make_context(w.id, 0, {});
      given.push_back(shown(std::move(w.value), c));
      return true;
    };
    const auto continue_from = [&](auto running, std::size_t first, std::size_t end) {
      for (std::size_t i = first; i < end; ++i)
        running(fl::sample<document>{document(all[i]), {.index = i}}, emit);
      return running;
    };
    continue_from(described.bind<document>({0, {}}), 0, all.size()).finish(emit);
    const texts whole = std::exchange(given, {});
    for (std::size_t cut = 0; cut <= all.size(); ++cut) {
      auto before = continue_from(described.bind<document>({0, {}}), 0, cut);
      std::vector<std::uint64_t> words;
      fl::state_writer writer(words);
      before.state(writer);
      auto after = described.bind<document>({0, {}});
      fl::state_reader reader(words);
      after.state(reader);
      continue_from(std::move(after), cut, all.size()).finish(emit);
      INFO("seed " << seed << ", cut " << cut);
      CHECK(std::exchange(given, {}) == whole);
    }
  }
}

TEST_CASE("Resumed: windows downstream of workers and failures") {
  leave_and_resume("windows", 40, [](draw& d, const circumstances& c) {
    const fl::windows_options options{.stride = d(0, 12),
                                      .separator = d.coin() ? std::optional<std::int64_t>(0) : std::nullopt,
                                      .drop_last = d.coin()};
    return run_of(some_documents(d(1, 60), d(1, 1000)), d(1, 9), options, d.coin() ? keep : refuse_some,
                  c.workers);
  });
}

TEST_CASE("Resumed: batches of shuffled windows") {
  leave_and_resume("shuffled windows", 40, [](draw& d, const circumstances&) {
    const fl::windows_options options{.stride = d(0, 12), .drop_last = d.coin()};
    return fl::from(some_documents(d(1, 60), d(1, 1000))) | fl::windows(d(1, 9), options) |
           fl::shuffle({.capacity = d(1, 30)}) | fl::map(shown);
  });
}
