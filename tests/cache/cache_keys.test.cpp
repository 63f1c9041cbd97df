// SPDX-License-Identifier: MIT
// How a cache distinguishes samples, and notices that their data changed.
#include <feedline/cache/cache.hpp>

#include <feedline/source/concat.hpp>
#include <feedline/source/files.hpp>
#include <feedline/source/global_shuffle.hpp>
#include <feedline/source/mix.hpp>
#include <feedline/source/range.hpp>
#include <feedline/source/tar.hpp>
#include <feedline/source/zip.hpp>
#include <feedline/stage/batch.hpp>
#include <feedline/stage/flat_map.hpp>
#include <feedline/stage/map.hpp>
#include <feedline/stage/prefetch.hpp>
#include <feedline/stage/shuffle.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "support/cached.hpp"
#include "support/catch.hpp"
#include "support/numbers.hpp"
#include "support/outcome.hpp"
#include "support/tar_writer.hpp"
#include "support/temporary_folder.hpp"

namespace fl = feedline;
using fl::test::collect;
using fl::test::count_to;
using fl::test::counted;
using fl::test::in_runs;
using fl::test::plenty;
using fl::test::temporary_folder;

namespace {

/// An item that can be neither stored nor identified by its content.
struct opaque {
  explicit opaque(int n) : number(std::make_unique<int>(n)) {}

  opaque(const opaque& other) : opaque(*other.number) {}

  opaque(opaque&&) noexcept = default;

  std::string name() const { return "opaque-" + std::to_string(*number); }

  std::unique_ptr<int> number;
};

} // namespace

TEST_CASE("items that can't be identified need a key, which replaces the index") {
  const counted f;
  std::vector<opaque> items;
  for (int i = 0; i < 40; ++i) items.emplace_back(i);
  const auto get = [f](const opaque& o, fl::context& c) {
    return std::pair(f(*o.number), std::pair(c.index, c.random.uniform()));
  };
  const auto make = [&](auto key) {
    return fl::from(items) | fl::map(get, fl::workers{2}) | fl::cache({.memory_bytes = plenty}, key) |
           fl::prefetch(4);
  };
  const auto by_name = make([](const opaque& o) { return o.name(); });
  const auto values = in_runs(by_name, 2);
  CHECK(f.since_last() == 40);
  CHECK(values[7].first == 21);
  CHECK(values[7].second.first == fl::stable_hash("opaque-7"));
  CHECK(std::equal(values.begin(), values.begin() + 40, values.begin() + 40, values.end()));
  const auto by_number = make([](const opaque& o) { return *o.number; });
  CHECK(in_runs(by_number, 2)[47].first == 21);
  CHECK(f.since_last() == 40);

  // One key stands for one sample.
  const auto all_alike = make([](const opaque&) { return "the same"; });
  for (const auto& value : in_runs(all_alike, 2)) CHECK(value.first % 3 == 0);
  CHECK(f.since_last() <= 40);
  // The items that the run yields keep the identity of their sample.
  const auto batches = by_name | fl::batch(5, fl::as_list);
  CHECK(batches.finite().next().value().indices() == std::vector<std::uint64_t>{0, 1, 2, 3, 4});
}

TEST_CASE("samples with the same index are distinguished by their content") {
  const counted f;
  // Another value under the same index in each epoch.
  const auto p =
      fl::from(fl::test::numbers(20)) | fl::map(f) | fl::cache({.memory_bytes = plenty}) | fl::prefetch(1);
  const auto values = collect(p.finite({.epochs = 2}));
  for (std::size_t i = 0; i < 40; ++i)
    CHECK(values[i] == 3 * (static_cast<int>(i % 20) + (i < 20 ? 0 : fl::test::numbers::next_epoch)));
  CHECK(f.since_last() == 40);

  // Stages upstream of a stage of another kind aren't cached, but their results are distinguished.
  const auto random = [](int n, fl::context& c) { return n + 100 * static_cast<int>(c.random.below(2)); };
  const auto mixed = fl::from(count_to(50)) | fl::map(random) | fl::shuffle({.capacity = 9}) | fl::map(f);
  const auto options = fl::finite_options{.seed = 3, .epochs = 5};
  CHECK(collect((mixed | fl::cache({.memory_bytes = plenty}) | fl::prefetch(1)).finite(options)) ==
        collect((mixed | fl::prefetch(1)).finite(options)));
  CHECK(f.since_last() < 250 + 101);
}

TEST_CASE("parts of a sample with equal content are distinguished") {
  const counted f;
  const auto twice = [](int n) { return std::vector{n, n}; };
  const auto random = [f](int n, fl::context& c) { return std::pair(f(n), c.random()); };
  const auto p = fl::from(count_to(20)) | fl::flat_map(twice) | fl::shuffle({.capacity = 5}) |
                 fl::map(random) | fl::cache({.memory_bytes = plenty}) | fl::prefetch(1);
  auto values = collect(p.finite());
  CHECK(f.since_last() == 40);
  const auto again = collect(p.finite());
  CHECK(again == values);
  CHECK(f.since_last() == 0);
  std::sort(values.begin(), values.end());
  CHECK(std::adjacent_find(values.begin(), values.end()) == values.end());
}

TEST_CASE("changed files are computed again, and no others") {
  const temporary_folder folder;
  std::vector<std::string> names;
  for (int i = 0; i < 10; ++i)
    names.push_back(folder.write("f" + std::to_string(i) + ".txt", std::to_string(i)));
  const counted f;
  const auto read = [f](const std::string& name) {
    f(0);
    const auto bytes = fl::read_file(name);
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  const auto check = [&](const auto& files) {
    for (int i = 0; i < 10; ++i) folder.write("f" + std::to_string(i) + ".txt", std::to_string(i));
    const auto p =
        files | fl::map(read, fl::workers{2}) | fl::cache({.memory_bytes = plenty}) | fl::prefetch(1);
    collect(p.finite());
    CHECK(f.since_last() == 10);
    folder.write("f3.txt", "another length");
    auto values = in_runs(p, 2);
    CHECK(f.since_last() == 1);
    CHECK(std::count(values.begin(), values.end(), "another length") == 2);
    CHECK(std::count(values.begin(), values.end(), "4") == 2);
  };
  check(fl::files(folder.path(), "*.txt"));
  check(fl::files(folder.path(), "*.txt") | fl::global_shuffle());
  check(fl::concat(fl::files(folder.path(), "*[0-3].txt"), fl::files(folder.path(), "*[4-9].txt")));
}

TEST_CASE("samples of changed shards are computed again, and no others") {
  const temporary_folder folder;
  const counted f;
  const auto shard = [&](const std::string& name, const std::string& second) {
    fl::test::tar_writer w;
    w.add("1.txt", "first").add("1.cls", "1").add("2.txt", second).add("2.cls", "2");
    // Writes another file first, then renames it. No two files have the same time.
    static int writes = 0;
    const std::string draft = folder.write("draft", w.closed());
    std::filesystem::last_write_time(draft, std::filesystem::file_time_type::clock::now() +
                                                std::chrono::seconds(++writes));
    std::filesystem::rename(draft, folder / name);
  };
  const auto text = [f](const fl::tar_sample& s) {
    f(0);
    return std::string(s.text("txt"));
  };
  const auto check = [&](const auto& source) {
    const temporary_folder cache_folder;
    shard("a.tar", "second");
    shard("b.tar", "second");
    for (const bool in_memory : {true, false}) {
      const auto options =
          in_memory ? fl::cache_options{.memory_bytes = plenty}
                    : fl::cache_options{.directory = cache_folder.path(), .directory_bytes = plenty};
      const auto make = [&] { return source() | fl::map(text) | fl::cache(options) | fl::prefetch(1); };
      const auto early = make();
      CHECK(collect(early.finite()).size() == 4);
      CHECK(f.since_last() == 4);
      CHECK(collect(early.finite()).size() == 4);
      CHECK(f.since_last() == 0);
      shard("b.tar", "SECOND"); // as long as before
      auto values = collect(in_memory ? make().finite() : make().finite({.epochs = 2}));
      CHECK(f.since_last() == (in_memory ? 4 : 2));
      CHECK(std::count(values.begin(), values.end(), "SECOND") == (in_memory ? 1 : 2));
      shard("b.tar", "second");
    }
  };
  const std::vector<std::string> names{folder / "a.tar", folder / "b.tar"};
  check([&] { return fl::from(fl::tar_samples(names)); });
  check([&] { return fl::tar_samples(names) | fl::global_shuffle(); });

  // Between the stages that one pipeline caches.
  shard("b.tar", "second");
  const auto p =
      fl::tar_samples(names) | fl::map(text) | fl::cache({.memory_bytes = plenty}) | fl::prefetch(1);
  collect(p.finite());
  f.since_last();
  shard("b.tar", "SECOND");
  const auto values = collect(p.finite());
  CHECK(f.since_last() == 2);
  CHECK(values == std::vector<std::string>{"first", "second", "first", "SECOND"});
}

TEST_CASE("samples of several sources are identified by all of them") {
  const counted f;
  const auto sum = [f](const std::pair<int, std::string>& both) {
    return f(both.first) + std::stoi(both.second);
  };
  std::vector<std::string> texts;
  for (const int n : count_to(20)) texts.push_back(std::to_string(100 * n));
  // The second source has another order in each epoch.
  const auto zipped = fl::zip(fl::from(count_to(20)), fl::from(texts) | fl::global_shuffle()) | fl::map(sum);
  const auto options = fl::finite_options{.seed = 4, .epochs = 4};
  CHECK(collect((zipped | fl::cache({.memory_bytes = plenty}) | fl::prefetch(1)).finite(options)) ==
        collect((zipped | fl::prefetch(1)).finite(options)));
  CHECK(f.since_last() > 100);
}

TEST_CASE("a sample that appears in several passes of a mix is computed once") {
  const counted f;
  const auto mixed = fl::mix(fl::weighted(fl::from(count_to(3)), 1), fl::weighted(fl::from(count_to(60)), 1),
                             fl::mix_options{fl::when_one_ends::repeat});
  const auto p = mixed |
                 fl::map([f](int n, fl::context& c) { return std::pair(f(n), c.random.below(1000)); }) |
                 fl::cache({.memory_bytes = plenty}) | fl::prefetch(1);
  const auto values = collect(p.finite());
  CHECK(values.size() > 80);
  CHECK(f.since_last() == 63);
  CHECK(std::set(values.begin(), values.end()).size() <= 63);
}
