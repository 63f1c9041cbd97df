// SPDX-License-Identifier: MIT
#include <feedline/source/global_shuffle.hpp>

#include <feedline/source/concat.hpp>
#include <feedline/source/detail/tar_index.hpp>
#include <feedline/source/files.hpp>
#include <feedline/source/range.hpp>
#include <feedline/source/records.hpp>
#include <feedline/source/tar.hpp>
#include <feedline/stage/map.hpp>
#include <feedline/stage/prefetch.hpp>
#include <feedline/stage/take.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/catch.hpp"
#include "support/outcome.hpp"
#include "support/rounds.hpp"
#include "support/sanitizers.hpp"
#include "support/tar_writer.hpp"
#include "support/temporary_folder.hpp"
#include "support/test_data.hpp"
#include "support/throws_saying.hpp"
#include "support/watchdog.hpp"

namespace fl = feedline;
using fl::test::collect;
using fl::test::contents_of;
using fl::test::count_to;
using fl::test::run_to_end;
using fl::test::tar_writer;
using fl::test::temporary_folder;
using fl::test::worker_counts;

namespace {

static_assert(fl::indexed_source<fl::tar_samples>);
static_assert(fl::indexed_samples<fl::detail::range_source<std::deque<int>>>);
static_assert(!fl::indexed_samples<fl::detail::range_source<std::set<int>>>);

/// A custom source with positions that fail.
struct squares {
  std::vector<std::uint64_t> bad;
  std::uint64_t reached = 0;

  std::optional<int> next() { return reached < size() ? std::optional(at(reached++)) : std::nullopt; }

  std::uint64_t size() const { return 300; }

  int at(std::uint64_t place) const {
    if (std::find(bad.begin(), bad.end(), place) != bad.end())
      throw std::runtime_error("no " + std::to_string(place));
    return static_cast<int>(place * place);
  }

  std::uint64_t index_at(std::uint64_t place) const { return 1000 + place; }

  std::string origin(std::uint64_t index) const { return "square " + std::to_string(index - 1000); }
};

using mapping = std::function<int(int, fl::context&)>;

const mapping same = [](int n, fl::context&) { return n; };

/// Each item with its index in the source.
struct identified {
  std::uint64_t index;
  std::string value;

  friend auto operator<=>(const identified&, const identified&) = default;
};

constexpr auto identify = [](const auto& item, fl::context& c) {
  return identified{c.index, [&]() -> std::string {
                      if constexpr (requires { item.key(); }) {
                        std::string text(item.key());
                        for (const fl::tar_field& f : item)
                          text.append("|").append(f.name).append("=").append(item.text(f.name));
                        return text;
                      } else if constexpr (requires { std::string(item); }) {
                        return item;
                      } else {
                        return std::to_string(item);
                      }
                    }()};
};

/// The output in the order of the indices; also failures by index and message.
template <class Pipeline>
auto sorted_outcome(const Pipeline& p) {
  auto result = run_to_end((p | fl::map(identify)).finite({.on_error = fl::on_error::skip}));
  std::sort(result.items.begin(), result.items.end());
  std::vector<std::string> failures;
  for (const fl::failure& f : result.skipped) failures.push_back(f.message);
  std::sort(failures.begin(), failures.end());
  return std::pair(result.items, failures);
}

/// Checks that a source yields the same samples with the same indices, shuffled or not.
template <class Source>
void check_same_samples(const Source& source) {
  const auto plain = sorted_outcome(source);
  const auto shuffled = sorted_outcome(source | fl::global_shuffle());
  CHECK(shuffled.first == plain.first);
  CHECK(shuffled.second == plain.second);
}

std::string shard(int first, int count) {
  tar_writer tar;
  for (int i = first; i < first + count; ++i) {
    tar.add(std::to_string(i) + ".txt", "text " + std::to_string(i));
    if (i % 3 == 0) tar.add("directory/", {}, '5');
    tar.add(std::to_string(i) + ".cls", std::to_string(i % 7));
  }
  return tar.closed();
}

/// How many mappings of files of a directory the process has.
std::size_t mappings(const temporary_folder& folder) {
  std::ifstream maps("/proc/self/maps");
  std::size_t count = 0;
  for (std::string line; std::getline(maps, line);) count += line.find(folder.path() + "/") != line.npos;
  return count;
}

void overwrite(const std::string& file, std::string_view contents) {
  std::ofstream(file, std::ios::binary) << contents;
}

} // namespace

TEST_CASE("global_shuffle yields each sample once per epoch, in a different order each time") {
  const auto p = fl::from(count_to(1000)) | fl::global_shuffle() | fl::prefetch(8);
  const auto all = collect(p.finite({.seed = 3, .epochs = 2}));
  REQUIRE(all.size() == 2000);
  std::vector first(all.begin(), all.begin() + 1000), second(all.begin() + 1000, all.end());
  CHECK(first != second);
  CHECK(collect(p.finite({.seed = 3})) == first);
  CHECK(collect(p.infinite({.seed = 3}), 2000) == all);
  CHECK(collect(p.finite({.seed = 4})) != first);
  std::sort(first.begin(), first.end());
  std::sort(second.begin(), second.end());
  CHECK(first == count_to(1000));
  CHECK(second == count_to(1000));
}

TEST_CASE("the order of global_shuffle doesn't depend on the number of workers, and indices are positions") {
  const auto source = fl::from(count_to(500)) | fl::global_shuffle();
  const mapping indices = [](int n, fl::context& c) {
    if (c.index != static_cast<std::uint64_t>(n)) throw std::logic_error("wrong index");
    return n;
  };
  const auto expected = collect((source | fl::map(indices)).finite({.seed = 1}));
  for (const std::size_t workers : worker_counts)
    CHECK(collect((source | fl::map(indices, fl::workers{workers})).finite({.seed = 1})) == expected);
}

TEST_CASE("global_shuffle resumes at every position of a large epoch") {
  const std::size_t size = 300;
  const auto p = fl::from(count_to(static_cast<int>(size))) | fl::global_shuffle() | fl::prefetch(1);
  const auto all = collect(p.finite({.seed = 6}));
  REQUIRE(all.size() == size);
  auto loader = p.finite({.seed = 6});
  for (std::size_t place = 0; place < size; ++place) {
    INFO("position " << place);
    auto resumed = p.finite({.seed = 6, .resume = loader.checkpoint()});
    REQUIRE(resumed.next() == all[place]);
    loader.next();
  }
}

TEST_CASE("global_shuffle of an empty source yields nothing") {
  CHECK(collect((fl::from(std::vector<int>()) | fl::global_shuffle() | fl::prefetch(1)).finite({.epochs = 2}))
            .empty());
  CHECK_THROWS_AS(
      collect((fl::from(std::vector<int>()) | fl::global_shuffle() | fl::prefetch(1)).infinite(), 1),
      fl::pipeline_error);
}

TEST_CASE("files, records and containers are shuffled as a whole") {
  const temporary_folder folder;
  std::string bytes;
  for (int i = 0; i < 100; ++i) bytes += std::string(4, static_cast<char>(i));
  folder.write("a.bin", bytes);
  folder.write("b.bin", "");
  folder.write("c.bin", std::string(7 * 4, 'x'));
  check_same_samples(fl::files(folder.path()));
  check_same_samples(fl::records<std::uint32_t>({folder / "*.bin"}));
  check_same_samples(fl::from(std::deque{3, 1, 2}));
}

TEST_CASE("an incomplete record at a file's end fails at one position of the shuffled order") {
  const temporary_folder folder;
  folder.write("a.bin", std::string(4 * 10 + 3, 'a'));
  folder.write("b.bin", std::string(4 * 5, 'b'));
  const auto source = fl::records<std::uint32_t>({folder / "*.bin"});
  check_same_samples(source);
  CHECK(sorted_outcome(source | fl::global_shuffle()).first.size() == 15);
}

TEST_CASE("samples in memory are announced less and less, others all of them") {
  struct announced {
    std::shared_ptr<std::atomic<int>> calls = std::make_shared<std::atomic<int>>(0);
    bool is_of_use = false;

    std::uint64_t size() const { return 1000; }

    int at(std::uint64_t position) const { return static_cast<int>(position); }

    bool will_need(std::uint64_t) const noexcept {
      ++*calls;
      return is_of_use;
    }
  };

  const announced in_memory, elsewhere{.is_of_use = true};
  CHECK(run_to_end((in_memory | fl::global_shuffle() | fl::prefetch(4)).finite()).items.size() == 1000);
  CHECK(*in_memory.calls == 9); // 1, 3, 7, … 255 are passed over between them
  CHECK(run_to_end((elsewhere | fl::global_shuffle() | fl::prefetch(4)).finite()).items.size() == 1000);
  CHECK(*elsewhere.calls == 999);
  const auto both = fl::concat(announced(in_memory), announced(elsewhere)) | fl::global_shuffle();
  *in_memory.calls = *elsewhere.calls = 0;
  CHECK(run_to_end((both | fl::map([](int n) { return n; }, fl::workers{2})).finite()).items.size() == 2000);
  CHECK(*elsewhere.calls > 0);
}

TEST_CASE("a custom source with size() and at() can be shuffled") {
  const auto p = squares{{7}} | fl::global_shuffle() | fl::prefetch(4);
  const auto result = run_to_end(p.finite({.on_error = fl::on_error::skip}));
  CHECK(result.items.size() == 299);
  REQUIRE(result.skipped.size() == 1);
  CHECK(result.skipped[0].message == "no 7");
}

TEST_CASE("workers that read the source themselves yield the same as a source thread") {
  const auto source = squares{{3, 70, 71, 250}} | fl::global_shuffle();
  const mapping refuse = [](int n, fl::context& c) {
    if (c.index % 50 == 11) throw std::runtime_error("refused " + std::to_string(n));
    return n;
  };
  const auto queued = source | fl::prefetch(4) | fl::map(refuse);
  const auto of_epochs = [](const auto& p, std::uint32_t epochs, fl::on_error mode) {
    const auto result = run_to_end(p.finite({.seed = 2, .epochs = epochs, .on_error = mode}));
    std::vector<std::string> messages;
    for (const fl::failure& f : result.skipped) messages.push_back(fl::to_string(f));
    if (result.failed) messages.push_back(fl::to_string(*result.failed));
    return std::pair(result.items, messages);
  };
  for (const std::size_t workers : worker_counts) {
    const auto dealt = source | fl::map(refuse, fl::workers{workers});
    for (const auto mode : {fl::on_error::skip, fl::on_error::fail})
      for (const std::uint32_t epochs : {1u, 3u})
        CHECK(of_epochs(dealt, epochs, mode) == of_epochs(queued, epochs, mode));
    CHECK(of_epochs(dealt | fl::take(5), 3, fl::on_error::skip) ==
          of_epochs(queued | fl::take(5), 3, fl::on_error::skip));
    CHECK(collect((dealt | fl::take(5)).infinite({.on_error = fl::on_error::skip}), 100) ==
          collect((queued | fl::take(5)).infinite({.on_error = fl::on_error::skip}), 100));
    CHECK(collect(dealt.infinite({.on_error = fl::on_error::skip}), 1000) ==
          collect(queued.infinite({.on_error = fl::on_error::skip}), 1000));
  }
}

TEST_CASE("unordered workers that read the source themselves lose nothing and keep epochs separate") {
  const auto p =
      fl::from(count_to(300)) | fl::global_shuffle() | fl::map(same, fl::workers{4}, fl::unordered);
  auto items = collect(p.finite({.epochs = 2}));
  REQUIRE(items.size() == 600);
  std::sort(items.begin(), items.begin() + 300);
  std::sort(items.begin() + 300, items.end());
  CHECK(std::vector(items.begin(), items.begin() + 300) == count_to(300));
  CHECK(std::vector(items.begin() + 300, items.end()) == count_to(300));
}

TEST_CASE("workers that read the source themselves stop when the consumer stops") {
  const auto p = fl::from(count_to(100'000)) | fl::global_shuffle() | fl::map(same, fl::workers{4});
  for (int times = 0; times < 50; ++times) {
    auto loader = p.infinite();
    for (int i = 0; i < times; ++i) REQUIRE(loader.next());
    if (times % 2 == 0) loader.stop();
  }
}

TEST_CASE("workers that read a slow source themselves take few positions at a time") {
  struct slow {
    std::shared_ptr<std::atomic<int>> asked = std::make_shared<std::atomic<int>>(0);

    std::optional<int> next() { return std::nullopt; }

    std::uint64_t size() const { return 100'000; }

    int at(std::uint64_t place) const {
      ++*asked;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      return static_cast<int>(place);
    }
  };

  const slow source;
  const auto p = source | fl::global_shuffle() | fl::map(same, fl::workers{2});
  auto loader = p.finite();
  for (int i = 0; i < 200; ++i) REQUIRE(loader.next());
  CHECK(*source.asked <= 200 + 20);
}

TEST_CASE("a source that can't start an epoch fails, also when workers read it themselves") {
  const temporary_folder folder;
  folder.write("a.bin", "12345678");
  const auto p = fl::records<std::uint32_t>({folder / "*.bin"}) | fl::global_shuffle() |
                 fl::map([](std::uint32_t n) { return n; }, fl::workers{3});
  std::filesystem::remove(folder / "a.bin");
  const auto result = run_to_end(p.finite());
  REQUIRE(result.failed);
  CHECK(result.failed->stage == "records");
  CHECK(result.failed->message.find("a.bin") != std::string::npos);
  CHECK_THROWS_AS(
      collect(
          (fl::from(std::vector<int>()) | fl::global_shuffle() | fl::map(same, fl::workers{2})).infinite(),
          1),
      fl::pipeline_error);
}

TEST_CASE("metrics name a source together with the workers that read it") {
  auto loader = (fl::from(count_to(1000)) | fl::global_shuffle() | fl::map(same, fl::workers{2})).finite();
  while (loader.next()) {
  }
  const fl::interval_metrics m = loader.metrics().total;
  REQUIRE(m.segments.size() == 1);
  CHECK(m.segments[0].name == "from + map");
  CHECK(m.segments[0].workers.size() == 2);
  REQUIRE(m.queues.size() == 1);
  CHECK(m.queues[0].name == "from + map -> consumer");
  REQUIRE(m.stages.size() == 2);
  CHECK(m.stages[0].emitted == 1000);
  CHECK(m.stages[1].received == 1000);
}

TEST_CASE("samples of TAR shards are the same by position as in order") {
  const temporary_folder folder;
  folder.write("0.tar", shard(0, 40));
  folder.write("1.tar", shard(40, 1));
  folder.write("2.tar", tar_writer().closed());
  folder.write("3.tar", shard(41, 25));
  check_same_samples(fl::tar_samples(folder / "*.tar"));
  const auto p =
      fl::tar_samples(folder / "*.tar") | fl::global_shuffle() |
      fl::map([](const fl::tar_sample& s) { return std::stoi(std::string(s.key())); }, fl::workers{3});
  auto keys = collect(p.finite());
  CHECK_FALSE(std::is_sorted(keys.begin(), keys.end()));
  std::sort(keys.begin(), keys.end());
  CHECK(keys == count_to(66));
}

TEST_CASE(
    "samples of many shards, whose indices several threads make, are the same by position as in order") {
  const temporary_folder folder;
  for (int i = 0; i < 60; ++i) folder.write(std::to_string(100 + i) + ".tar", shard(100 * i, i * 7 % 13));
  folder.write("150.tar", "damaged");
  for (int i = 0; i < 2; ++i) { // without saved indices, and with them
    CAPTURE(i);
    check_same_samples(fl::tar_samples(folder / "*.tar", {.keep_index = true}));
  }
  CHECK(std::filesystem::exists(folder / "159.tar.index"));
  std::stop_source stop;
  stop.request_stop();
  CHECK_THROWS_AS(fl::tar_samples(folder / "*.tar").indexed(stop.get_token()), std::runtime_error);
}

TEST_CASE("long names apply to samples read by position too") {
  const temporary_folder folder;
  tar_writer tar;
  const auto named = [&](const char* path) -> tar_writer& { return tar.pax({{"path", path}}); };
  tar.add("plain.txt", "1").long_name(std::string(200, 'n') + ".txt").add("short", "2");
  tar.pax({{"comment", "everything"}}, 'g').add("a.txt", "3");
  named("own.txt").add("b.txt", "4").add("c.txt", "5");
  named("mine.txt").add("d.txt", "6");
  tar.pax({{"comment", "other"}}, 'g').add("e.txt", "7");
  named("ours.txt").add("f.txt", "8").add("g.txt", "9");
  folder.write("x.tar", tar.closed());
  check_same_samples(fl::tar_samples(folder / "x.tar"));
}

TEST_CASE("damaged, cut off and missing shards have the same failures by position as in order") {
  const temporary_folder folder;
  const std::string whole = shard(0, 20);
  std::string damaged = whole;
  damaged.replace(512 * 41, 100, 100, 'z');
  folder.write("damaged.tar", damaged);
  // The last sample counts as complete because it has as many fields as the one before it.
  folder.write("damaged-behind.tar", tar_writer()
                                         .add("a.x", "1")
                                         .add("a.y", "2")
                                         .add("b.x", "3")
                                         .add("b.y", "4")
                                         .raw(std::string(1024, 'z'))
                                         .open());
  for (const std::size_t size :
       {100u, 512u * 3 + 7, 512u * 20, 512u * 21 + 5, 512u * 22 - 3, 512u * 22 - 500})
    folder.write("cut-" + std::to_string(size) + ".tar", whole.substr(0, size));
  folder.write("empty.tar", "");
  folder.write("no.tar", std::string(5000, 'n'));
  tar_writer twice;
  twice.add("a.txt", "1").add("b.txt", "2").add("b.txt", "3").add("c.txt", "4");
  folder.write("twice.tar", twice.closed());
  const std::string link = folder / "gone.tar";
  std::filesystem::create_symlink("nowhere", link);
  std::vector<std::string> names{link};
  for (const auto& file : std::filesystem::directory_iterator(folder.path()))
    if (file.path() != link) names.push_back(file.path());
  check_same_samples(fl::tar_samples(names));
}

TEST_CASE("each archive of the test data yields the same samples by position as in order", "[shared]") {
  const auto data = fl::test::test_data("tar");
  if (!data) return;
  std::vector<std::string> names;
  for (const auto& file : std::filesystem::recursive_directory_iterator(*data))
    if (file.is_regular_file() && file.path().string().find(".tar") != std::string::npos)
      names.push_back(file.path());
  std::sort(names.begin(), names.end());
  REQUIRE_FALSE(names.empty());
  for (const std::string& name : names) {
    CAPTURE(name);
    check_same_samples(fl::tar_samples(std::vector{name}));
  }
}

TEST_CASE("an index is saved next to its shard, used while it matches, and made again when it doesn't") {
  const temporary_folder folder;
  const std::string tar = folder.write("x.tar", shard(0, 10)), kept = tar + ".index";
  const auto samples = [&] {
    return sorted_outcome(fl::tar_samples(tar, {.keep_index = true}) | fl::global_shuffle()).first.size();
  };
  CHECK(sorted_outcome(fl::tar_samples(tar) | fl::global_shuffle()).first.size() == 10);
  CHECK_FALSE(std::filesystem::exists(kept));
  CHECK(samples() == 10);
  REQUIRE(std::filesystem::exists(kept));
  const std::string good = contents_of(kept);
  CHECK(good.size() < 200);
  REQUIRE(good.starts_with("ftaridx"));

  // The file is used: one without half of the samples, but with a matching checksum, is accepted.
  auto half = fl::detail::read_tar_index(kept);
  REQUIRE(half);
  half->begins.resize(5);
  fl::detail::write_tar_index(kept, *half);
  CHECK(samples() == 5);

  // Any changed byte or length is found, and the file replaced.
  for (std::size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ (1 << (i % 8)));
    overwrite(kept, bad);
    REQUIRE(samples() == 10);
    REQUIRE(contents_of(kept) ==
            (i < 7 ? bad : good)); // without its magic bytes it isn't recognised as an index
    overwrite(kept, good.substr(0, i));
    REQUIRE(samples() == 10);
  }

  overwrite(tar, shard(0, 12));
  CHECK(samples() == 12);
  overwrite(tar, shard(50, 12)); // with the same size
  std::filesystem::last_write_time(tar, std::filesystem::last_write_time(tar) + std::chrono::seconds(1));
  CHECK(samples() == 12);
  CHECK(contents_of(kept) != good);
}

TEST_CASE("an index isn't used for a shard of the same size and time with a different beginning or end") {
  const temporary_folder folder;
  const std::string large(600, 'x');
  const std::string tar = folder.write("x.tar", tar_writer().add("a", large).add("b", "1").open());
  const auto samples = [&] {
    return sorted_outcome(fl::tar_samples(tar, {.keep_index = true}) | fl::global_shuffle()).first.size();
  };
  CHECK(samples() == 2);
  const auto time = std::filesystem::last_write_time(tar);
  overwrite(tar, tar_writer().add("a", "1").add("b", large).open());
  std::filesystem::last_write_time(tar, time);
  CHECK(samples() == 2);
}

TEST_CASE("another file with the name of an index isn't overwritten") {
  const temporary_folder folder;
  const std::string tar = folder.write("x.tar", shard(0, 10)), other = tar + ".index";
  const auto samples = [&] { return fl::tar_samples(tar, {.keep_index = true}).indexed().size(); };
  for (const std::string text : {"x", "ftarid", "ftarid.x", "a list of one's own: 1, 2, 3\n"}) {
    overwrite(other, text);
    CHECK(samples() == 10);
    const bool may_be_index = text == "ftarid";
    CHECK((contents_of(other) == text) == !may_be_index);
  }
  std::filesystem::remove(other);
  std::filesystem::create_symlink(folder.write("elsewhere", ""), other);
  CHECK(samples() == 10);
  CHECK(std::filesystem::is_symlink(other));
  CHECK(contents_of(folder / "elsewhere").empty());
}

#if !FEEDLINE_TEST_TSAN // TSan can't follow a fork of a process with threads
TEST_CASE("an index over the file size limit neither ends the process nor leaves a partial file") {
  const temporary_folder folder;
  const std::string tar = folder.write("x.tar", shard(0, 10));
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const rlimit few{100, 100};
    if (::signal(SIGXFSZ, SIG_DFL) == SIG_ERR || ::setrlimit(RLIMIT_FSIZE, &few) != 0) ::_exit(2);
    ::_exit(fl::tar_samples(tar, {.keep_index = true}).indexed().size() == 10 ? 0 : 1);
  }
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  std::size_t entries = 0;
  for ([[maybe_unused]] const auto& e : std::filesystem::directory_iterator(folder.path())) ++entries;
  CHECK(entries == 1);
}
#endif

TEST_CASE("a failure to write an index is ignored") {
  const temporary_folder folder;
  const std::string tar = folder.write("x.tar", shard(0, 10));
  std::filesystem::create_directory(tar + ".index");
  CHECK(sorted_outcome(fl::tar_samples(tar, {.keep_index = true}) | fl::global_shuffle()).first.size() == 10);
  std::size_t entries = 0;
  for ([[maybe_unused]] const auto& e : std::filesystem::directory_iterator(folder.path())) ++entries;
  CHECK(entries == 2);
}

TEST_CASE("a shard that is replaced during a run is an error") {
  const temporary_folder folder;
  const std::string tar = folder.write("x.tar", shard(0, 10));
  const auto p = fl::tar_samples(tar) | fl::global_shuffle() | fl::prefetch(1);
  CHECK(collect(p.finite()).size() == 10);
  folder.write("y.tar", shard(0, 3));
  std::filesystem::rename(folder / "y.tar", tar);
  const auto samples = fl::tar_samples(tar).indexed();
  folder.write("z.tar", shard(0, 4));
  std::filesystem::rename(folder / "z.tar", tar);
  CHECK_THROWS_AS(samples.at(0), fl::tar_error);
}

TEST_CASE("a damaged shard that is replaced by a shorter one fails at its positions, and the run ends") {
  const fl::test::watchdog guard("replaced shard");
  const temporary_folder folder;
  const std::string whole = shard(0, 5), tar = folder.write("x.tar", whole.substr(0, 512 * 19 + 2));
  const auto p = fl::tar_samples(tar) | fl::global_shuffle() | fl::prefetch(1);
  const auto before = run_to_end(p.finite({.on_error = fl::on_error::skip}));
  CHECK(before.items.size() == 4);
  CHECK(before.skipped.size() == 1);
  folder.write("y.tar", shard(0, 1));
  std::filesystem::rename(folder / "y.tar", tar);
  const auto after =
      run_to_end(p.finite({.on_error = fl::on_error::skip})); // from the old mapping of the shard
  CHECK(after.items.size() + after.skipped.size() == 5);

  folder.write("z.tar", whole.substr(0, 512 * 19 + 2));
  const auto samples = fl::tar_samples(folder / "z.tar").indexed();
  REQUIRE(samples.size() == 5);
  folder.write("y.tar", shard(0, 1));
  std::filesystem::rename(folder / "y.tar", folder / "z.tar");
  for (const std::uint64_t place : {4u, 0u})
    CHECK(fl::test::throws_saying<fl::tar_error>("z.tar has changed since it was indexed",
                                                 [&] { samples.at(place); }));
}

TEST_CASE("a saved index with positions that its shard doesn't have is an error at those positions") {
  const fl::test::watchdog guard("wrong index");
  const temporary_folder folder;
  const std::string tar = folder.write("x.tar", shard(0, 3));
  const auto run = [&] {
    return run_to_end((fl::tar_samples(tar, {.keep_index = true}) | fl::global_shuffle() | fl::prefetch(1))
                          .finite({.on_error = fl::on_error::skip}));
  };
  CHECK(run().items.size() == 3);
  auto wrong = fl::detail::read_tar_index(tar + ".index");
  REQUIRE(wrong);
  wrong->begins.push_back(~std::uint64_t{0});
  wrong->begins.push_back(wrong->bytes);
  wrong->begins.push_back(wrong->bytes + 512);
  fl::detail::write_tar_index(tar + ".index", *wrong);
  const auto result = run();
  CHECK(result.items.size() == 3);
  REQUIRE(result.skipped.size() == 3);
  for (const fl::failure& f : result.skipped) CHECK(f.message.starts_with(tar + ": no sample at offset "));
}

TEST_CASE("a shard of unreadable samples takes one pass, not one for each of them") {
  const fl::test::watchdog guard("unreadable samples");
  const temporary_folder folder;
  constexpr std::size_t count = fl::test::rounds(100'000);
  std::string headers;
  headers.reserve(count * 512);
  for (std::size_t i = 0; i < count; ++i)
    headers += fl::test::tar_header_block().name(std::to_string(i)).type('S').bytes();
  const fl::tar_samples source(folder.write("x.tar", headers));
  const auto failures_of = [&](const auto& p) {
    const auto result = run_to_end(p.finite({.on_error = fl::on_error::skip, .failure_limit = count}));
    CHECK(result.items.empty());
    return result.skipped.size();
  };
  CHECK(failures_of(source | fl::global_shuffle() | fl::prefetch(1)) == count);
  CHECK(failures_of(source | fl::prefetch(1)) == count);
}

TEST_CASE("a shard is mapped once, however many runs and epochs hold its samples") {
  const temporary_folder folder;
  tar_writer tar;
  for (int i = 0; i < 3; ++i) tar.add(std::to_string(i) + ".txt", std::string(10'000, 'x'));
  folder.write("a.tar", tar.closed());
  folder.write("b.tar", tar.closed());
  std::filesystem::create_hard_link(folder / "a.tar", folder / "c.tar");
  const fl::tar_samples source(std::vector<std::string>{folder / "a.tar", folder / "b.tar"});
  const auto in_order = source | fl::prefetch(1);
  const auto shuffled = source | fl::global_shuffle() | fl::prefetch(1);
  const auto linked = fl::tar_samples(folder / "c.tar") | fl::prefetch(1);
  {
    const auto first = collect(in_order.finite({.epochs = 3})), second = collect(in_order.finite()),
               third = collect(shuffled.finite({.epochs = 3})), fourth = collect(linked.finite());
    CHECK(first.size() + third.size() == 36);
    CHECK(mappings(folder) == 2);
    CHECK(first.at(0).file() == folder / "a.tar");
    CHECK(fourth.at(0).file() == folder / "c.tar");

    // The file that replaces it is a different one.
    folder.write("d.tar", tar.closed());
    std::filesystem::rename(folder / "d.tar", folder / "a.tar");
    const auto fifth = collect(in_order.finite());
    CHECK(mappings(folder) == 3);
    CHECK(fifth.at(0)["txt"].data() != first.at(0)["txt"].data());
  }
  CHECK(mappings(folder) <= 3);
}

TEST_CASE("of many shuffled files only a few are mapped at a time, and small ones not at all") {
  const temporary_folder folder;
  constexpr std::size_t most = fl::detail::lazy_maps::most, size = 20'000;
  for (std::size_t i = 0; i < most + 100; ++i) {
    const std::string name = folder.write("large-" + std::to_string(i), {});
    std::filesystem::resize_file(name, size);
    folder.write("small-" + std::to_string(i), "12345678");
  }
  const auto large = fl::records({folder / "large-*"}, size) | fl::global_shuffle() | fl::prefetch(1);
  CHECK(collect(large.finite()).size() == most + 100);
  CHECK(mappings(folder) == most);
  const auto small = fl::records({folder / "small-*"}, 8) | fl::global_shuffle() | fl::prefetch(1);
  CHECK(collect(small.finite()).size() == most + 100);
  CHECK(mappings(folder) == most);
}
