// SPDX-License-Identifier: MIT
// The library's sources and stages pass the checks of feedline/testing.hpp for users' ones.
#include <feedline/testing.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <ranges>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <feedline/feedline.hpp>
#include <feedline/source/tar.hpp>

#include "support/catch.hpp"
#include "support/outcome.hpp"
#include "support/rounds.hpp"
#include "support/tar_writer.hpp"
#include "support/temporary_folder.hpp"

namespace fl = feedline;
using namespace feedline::test;
using fl::testing::check_options;

namespace {

// Under a sanitizer fewer places of each run are tried.
check_options with_places(check_options o) {
  o.places = rounds(o.places, 8);
  return o;
}

template <class Make, class... Project>
void test_source(const Make& make, const check_options& o = {}, const Project&... project) {
  fl::testing::check_source(make, with_places(o), project...);
}

template <class Make, class Samples, class... Project>
void test_stage(const Make& make, const Samples& samples, const check_options& o = {},
                const Project&... project) {
  fl::testing::check_stage(make, samples, with_places(o), project...);
}

auto numbers(int size) { return fl::from(count_to(size)); }

/// Files of a few lines each, one of them empty.
std::vector<std::string> texts(const temporary_folder& folder) {
  return {folder.write("a.txt", "a1\na2\na3\n"), folder.write("b.txt", ""),
          folder.write("c.txt", "c1\nc2\n\nc4"), folder.write("d.txt", "d1\n")};
}

} // namespace

TEST_CASE("from, of elements and of a view") {
  test_source([] { return numbers(17); }, {.has_budget = true});
  test_source(
      [] {
        return fl::from(std::vector<std::string>{"a", "bb", "", "dddd", "e"});
      },
      {.has_budget = true});
  test_source([] { return fl::from(std::list{1, 2, 3, 4, 5, 6}); });
}

TEST_CASE("generate") {
  test_source(
      [] { return fl::generate([n = 0]() mutable { return n < 9 ? std::optional(n++) : std::nullopt; }); });
}

TEST_CASE("concat, zip and mix") {
  test_source([] { return fl::concat(numbers(7), numbers(0), numbers(5)); });
  test_source([] { return fl::zip(numbers(7), fl::from(std::vector{0.5, 1.5, 2.5, 3.5, 4.5})); });
  for (const auto how :
       {fl::when_one_ends::continue_with_others, fl::when_one_ends::stop, fl::when_one_ends::repeat})
    test_source(
        [how] {
          return fl::mix(fl::weighted(numbers(9), 0.7), fl::weighted(numbers(4), 0.3), fl::mix_options{how});
        },
        {.may_repeat = how == fl::when_one_ends::repeat,
         .epochs_differ = how != fl::when_one_ends::continue_with_others});
}

TEST_CASE("shuffled and with_replacement") {
  test_source([] { return numbers(19) | fl::global_shuffle(); }, {.has_budget = true});
  test_source([] { return numbers(9) | fl::with_replacement(); }, {.may_repeat = true});
}

TEST_CASE("tar_samples") {
  const temporary_folder folder;
  tar_writer first, second;
  for (const char* key : {"a", "b", "c"})
    first.add(std::string(key) + ".txt", key).add(std::string(key) + ".cls", "1");
  second.add("d.txt", "d").add("e.txt", "e");
  const std::vector<std::string> shards{folder.write("1.tar", first.closed()),
                                        folder.write("2.tar", tar_writer().closed()),
                                        folder.write("3.tar", second.closed())};
  const auto text_of = [](const fl::tar_sample& s) {
    return std::string(s.key()) + std::string(s.text("txt"));
  };
  test_source([=] { return fl::tar_samples(shards); }, {}, text_of);
  test_source([=] { return fl::tar_samples(shards) | fl::global_shuffle(); }, {}, text_of);
}

TEST_CASE("lines, interleaved lines, records and files") {
  const temporary_folder folder;
  const auto paths = texts(folder);
  for (const std::size_t most : {std::size_t{0}, std::size_t{8}})
    test_source([=] { return fl::lines(paths, {.max_line_bytes = most}); }, {.has_budget = most > 0});
  test_source([=] { return fl::lines(paths) | fl::interleave(2); });
  test_source([=] { return fl::indexed_lines(paths, {.keep_index = true}); });
  test_source([=] { return fl::indexed_lines(paths) | fl::global_shuffle(); });
  const std::vector<std::string> binary{folder.write("a.bin", "aaaabbbbcccc"), folder.write("b.bin", ""),
                                        folder.write("c.bin", "ddddeeee")};
  test_source([=] { return fl::records<std::array<char, 4>>(binary); }, {.has_budget = true});
  test_source([=] { return fl::records<std::uint32_t>(binary) | fl::global_shuffle(); },
              {.has_budget = true});
  test_source([path = folder.path()] { return fl::files(path, "*.txt"); });
}

TEST_CASE("map, filter, flat_map and tap, with workers and random numbers") {
  test_stage(
      [] {
        return fl::map([](int n, fl::context& c) { return n + c.random.uniform(); }, fl::workers{3}) |
               fl::filter([](double x, fl::context& c) { return x > 2 && c.random.chance(0.8); }) |
               fl::tap([](double) {});
      },
      count_to(17));
  test_stage(
      [] {
        return fl::flat_map([](int n) { return std::vector<int>(static_cast<std::size_t>(n % 4), n); },
                            fl::workers{2});
      },
      count_to(13));
}

TEST_CASE("take and skip") {
  test_stage([] { return fl::take(5); }, count_to(12));
  test_stage([] { return fl::skip(5); }, count_to(12));
  test_stage([] { return fl::skip(3) | fl::take(4); }, count_to(12));
}

TEST_CASE("shuffle, prefetch and enumerate") {
  const check_options keeps{.keeps_all = true, .has_budget = true};
  for (const fl::shuffle_options o : {fl::shuffle_options{.capacity = 5}, {.capacity = 50, .min_fill = 20}})
    test_stage([o] { return fl::shuffle(o); }, count_to(14), keeps);
  test_stage([] { return fl::prefetch(3); }, count_to(14), keeps);
  test_stage([] { return fl::shuffle({.capacity = 4}) | fl::prefetch(2) | fl::shuffle({.capacity = 3}); },
             count_to(14), keeps);
  test_stage([] { return fl::enumerate(); }, count_to(9), {.has_budget = true},
             [](const fl::enumerated<int>& e) { return std::pair(e.number, e.value); });
}

TEST_CASE("partition") {
  for (const std::size_t part : {0u, 1u})
    test_stage([part] { return fl::partition({60, 40}, part); }, count_to(20));
}

TEST_CASE("batch and bucket_batch") {
  for (const bool drop_last : {false, true})
    test_stage([=] { return fl::batch(4, {.drop_last = drop_last}); }, count_to(14));
  const std::vector<std::string> words{"a",       "bb", "cccccc", "dd",   "",   "ffff",
                                       "ggggggg", "h",  "ii",     "jjjj", "kkk"};
  test_stage([] { return fl::batch(3, fl::as_list); }, words);
  test_stage([] { return fl::bucket_batch({.boundaries = {2, 4}, .batch_size = 2}, fl::as_list); }, words);
  test_stage([] { return fl::batch(3, fl::padded{}); }, words);
}

TEST_CASE("windows of documents and of single tokens") {
  const std::vector<std::vector<int>> documents{{1, 2, 3}, {}, {4}, {5, 6, 7, 8, 9, 10, 11}, {12, 13}};
  test_stage([] { return fl::windows(3, {.stride = 2, .separator = 0, .drop_last = false}); }, documents);
  test_stage([] { return fl::windows(3, {.stride = 5}); }, count_to(19));
}
