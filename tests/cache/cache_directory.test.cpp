// SPDX-License-Identifier: MIT
// A cache in a directory, shared by processes and by later runs.
#include <feedline/cache/cache.hpp>

#include <feedline/source/range.hpp>
#include <feedline/stage/map.hpp>
#include <feedline/stage/prefetch.hpp>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <span>

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <feedline/cache/detail/cache_directory.hpp>

#include "support/catch.hpp"
#include "support/outcome.hpp"
#include "support/rounds.hpp"
#include "support/sanitizers.hpp"
#include "support/temporary_folder.hpp"
#include "support/throws_saying.hpp"
#include "support/watchdog.hpp"

namespace fl = feedline;
namespace fs = std::filesystem;
using fl::test::collect;
using fl::test::count_to;
using fl::test::run_to_end;
using fl::test::temporary_folder;
using fl::test::watchdog;

namespace {

constexpr std::uint64_t plenty = 1 << 24;

/// Makes a text from each number, and counts its calls.
struct decode {
  std::shared_ptr<std::atomic<int>> calls = std::make_shared<std::atomic<int>>(0);

  std::string operator()(int n) const {
    ++*calls;
    return text_of(n);
  }

  static std::string text_of(int n) {
    return std::string(static_cast<std::size_t>(n % 40), 'x') + std::to_string(n);
  }

  int since_last() const { return calls->exchange(0); }
};

std::vector<std::string> texts(int count) {
  std::vector<std::string> all;
  for (int n = 0; n < count; ++n) all.push_back(decode::text_of(n));
  return all;
}

/// A pipeline with a separate cache, as in another process.
auto numbers(int count, const decode& f, fl::cache_options options, std::size_t workers = 1) {
  return fl::from(count_to(count)) | fl::map(f, fl::workers{workers}) | fl::cache(std::move(options)) |
         fl::prefetch(4);
}

fl::cache_options in(const temporary_folder& folder, std::uint64_t bytes = plenty) {
  return {.directory = folder / "cache", .directory_bytes = bytes};
}

std::vector<std::string> segments(const temporary_folder& folder) {
  std::vector<std::string> names;
  for (const auto& item : fs::directory_iterator(folder / "cache"))
    if (item.path().extension() == ".cache") names.push_back(item.path());
  std::sort(names.begin(), names.end());
  return names;
}

std::uint64_t bytes_of(const temporary_folder& folder) {
  std::uint64_t sum = 0;
  for (const std::string& name : segments(folder)) {
    std::error_code gone;
    const auto size = fs::file_size(name, gone);
    sum += gone ? 0 : size;
  }
  return sum;
}

std::string contents(const std::string& name) {
  std::ifstream file(name, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write(const std::string& name, const std::string& bytes) {
  std::ofstream(name, std::ios::binary) << bytes;
}

} // namespace

TEST_CASE("the results that one process stored serve the next") {
  const temporary_folder folder;
  const decode f;
  CHECK(collect(numbers(100, f, in(folder), 3).finite()) == texts(100));
  CHECK(f.since_last() == 100);
  CHECK(collect(numbers(100, f, in(folder), 2).finite()) == texts(100));
  CHECK(f.since_last() == 0);
  CHECK(segments(folder).size() == 1);
  CHECK(bytes_of(folder) < 100 * 150); // bytes that the file didn't need were cut off

  CHECK(collect(numbers(120, f, in(folder)).finite()) == texts(120));
  CHECK(f.since_last() == 20);
  const auto kept = fl::cache(in(folder));
  collect((fl::from(count_to(120)) | fl::map(f) | kept | fl::prefetch(4)).finite({.epochs = 2}));
  CHECK(kept.stats().hits == 240);
  CHECK(kept.stats().misses == 0);
  CHECK(kept.stats().bytes == bytes_of(folder) - 2 * 24);
}

TEST_CASE("a pipeline keeps its directory open from run to run") {
  const temporary_folder folder;
  const decode f;
  const auto p = numbers(50, f, in(folder), 4);
  CHECK(collect(p.finite()) == texts(50));
  CHECK(collect(p.finite({.epochs = 2})).size() == 100);
  CHECK(f.since_last() == 50);
  CHECK(bytes_of(folder) <= plenty);
}

TEST_CASE("two caches that use a directory at once find each other's results") {
  const watchdog guard("caches at once");
  const temporary_folder folder;
  const decode f, g;
  const auto one = numbers(40, f, in(folder)), other = numbers(80, g, in(folder));
  CHECK(collect(one.finite()).size() == 40);
  g.since_last();
  CHECK(collect(other.finite()) == texts(80)); // opened while `one` lives
  CHECK(g.since_last() == 40);
  const auto more = numbers(100, f, in(folder));
  collect(numbers(10, f, in(folder)).finite());
  f.since_last();
  // `one` was opened before the others wrote anything: it looks once a second.
  const auto late = fl::cache(in(folder));
  const auto wanted = fl::from(count_to(120)) | fl::map(f) | late | fl::prefetch(4);
  CHECK(collect((wanted | fl::prefetch(1)).finite()) == texts(120));
  CHECK(f.since_last() == 40);
}

TEST_CASE("results that another cache adds are found within seconds") {
  const watchdog guard("refresh");
  const temporary_folder folder;
  const decode f, g;
  const auto open_early = numbers(1, f, in(folder));
  CHECK(collect(open_early.finite()).size() == 1);
  fl::detail::cache_counters counters;
  const fl::callback<std::string> ignore = [](const std::string&) {};
  fl::detail::directory_table early(folder / "direct", plenty, 1, counters, ignore);
  fl::detail::directory_table writer(folder / "direct", plenty, 1, counters, ignore);
  fl::detail::scratch_memory scratch;
  const fl::detail::cache_key key{1, 2};
  CHECK(early.find(key, scratch).empty());
  std::byte* const room = writer.room(key, 3, scratch);
  REQUIRE(room);
  std::memcpy(room, "abc", 3);
  writer.keep(key, room, 3);
  CHECK(writer.find(key, scratch).size() == 3);
  while (early.find(key, scratch).empty()) continue; // it looks once a second
  CHECK(std::memcmp(early.find(key, scratch).data(), "abc", 3) == 0);
}

TEST_CASE("all files together never exceed their bytes") {
  const temporary_folder folder;
  const decode f;
  for (const std::uint64_t bytes : {std::uint64_t{100}, std::uint64_t{3000}, std::uint64_t{30'000}}) {
    fs::remove_all(folder / "cache");
    std::atomic<std::uint64_t> most{0};
    const auto watched = [&](int n) {
      if (fs::exists(folder / "cache")) most = std::max(most.load(), bytes_of(folder));
      return f(n);
    };
    const auto kept = fl::cache(in(folder, bytes));
    const auto p = fl::from(count_to(1000)) | fl::map(watched) | kept | fl::prefetch(4);
    CHECK(collect(p.finite()) == texts(1000));
    CHECK(f.since_last() == 1000);
    CHECK(most <= bytes);
    CHECK(kept.stats().full);
    // Another process at the same time, for which some results are stored already.
    CHECK(collect(numbers(1000, f, in(folder, bytes), 3).finite()) == texts(1000));
    CHECK(bytes_of(folder) <= bytes);
    f.since_last();
    CHECK(collect(p.finite()) == texts(1000));
    CHECK(f.since_last() < 1000);
    CHECK(bytes_of(folder) <= bytes);
  }
}

TEST_CASE("another version, other stages and other types find nothing, and old files are removed when room "
          "is needed") {
  const temporary_folder folder;
  const decode f;
  auto options = in(folder, 20'000);
  collect(numbers(100, f, options).finite());
  const auto first = segments(folder);
  CHECK(f.since_last() == 100);
  options.version = "2";
  CHECK(collect(numbers(40, f, options).finite()) == texts(40));
  CHECK(f.since_last() == 40);
  const auto named =
      fl::from(count_to(20)) | fl::map(f, fl::name{"decode"}) | fl::cache(options) | fl::prefetch(4);
  CHECK(collect(named.finite()) == texts(20));
  CHECK(f.since_last() == 20);
  const auto other_items = fl::from(std::vector<long>{1, 2, 3}) |
                           fl::map([f](long n) { return f(static_cast<int>(n)); }) | fl::cache(options) |
                           fl::prefetch(4);
  CHECK(collect(other_items.finite()).size() == 3);
  CHECK(f.since_last() == 3);
  CHECK(segments(folder).size() >= first.size() + 3);

  // There is room for everything so far. This pipeline needs more.
  options.version = "3";
  collect(numbers(200, f, options).finite());
  CHECK(bytes_of(folder) <= 20'000);
  for (const std::string& name : first) CHECK_FALSE(fs::exists(name));
  f.since_last();
  collect((fl::from(count_to(200)) | fl::map(f) | fl::cache(options) | fl::prefetch(4)).finite());
  CHECK(f.since_last() < 40);

  // Files in use aren't removed.
  options.version = "4";
  const auto before = segments(folder);
  const auto user = numbers(60, f, options);
  collect(user.finite());
  std::vector<std::string> of_user;
  for (const std::string& name : segments(folder))
    if (std::count(before.begin(), before.end(), name) == 0) of_user.push_back(name);
  CHECK_FALSE(of_user.empty());
  f.since_last();
  options.version = "5";
  collect(numbers(300, f, options).finite());
  for (const std::string& name : of_user) CHECK(fs::exists(name));
  f.since_last();
  CHECK(collect(user.finite()) == texts(60));
  CHECK(f.since_last() == 0);
}

TEST_CASE("other data under the same names and indices is computed") {
  const temporary_folder folder;
  const decode f;
  collect(numbers(50, f, in(folder)).finite());
  f.since_last();
  auto changed = count_to(50);
  changed[25] = 1025; // which a fingerprint of the whole data doesn't cover
  const auto p = fl::from(changed) | fl::map(f) | fl::cache(in(folder)) | fl::prefetch(4);
  auto expected = texts(50);
  expected[25] = decode::text_of(1025);
  CHECK(collect(p.finite()) == expected);
  CHECK(f.since_last() == 1);
}

TEST_CASE("a directory that can't be used is an error at the start of a run") {
  const temporary_folder folder;
  const std::string file = folder.write("file", "text");
  const decode f;
  const auto under_file = numbers(5, f, {.directory = file + "/cache", .directory_bytes = plenty});
  const auto outcome = run_to_end([&] { return under_file.finite({.on_error = fl::on_error::skip}); }());
  REQUIRE(outcome.failed);
  CHECK(to_string(*outcome.failed) == "map | cache failed: " + file + "/cache: Not a directory");
  if (::geteuid() != 0) { // root may do anything
    fs::create_directory(folder / "closed");
    fs::permissions(folder / "closed", fs::perms::owner_read | fs::perms::owner_exec);
    const auto p = numbers(5, f, {.directory = folder / "closed", .directory_bytes = plenty});
    CHECK(fl::test::throws_saying<fl::pipeline_error>("closed/feedline-lock: Permission denied",
                                                      [&] { collect(p.finite()); }));
  }
  const auto deep = numbers(5, f, {.directory = folder / "a/b//c/", .directory_bytes = plenty});
  CHECK(collect(deep.finite()) == texts(5));
  CHECK(fs::exists(folder / "a/b/c/feedline-lock"));
}

TEST_CASE("a directory that another process keeps locked can still be read, and nothing waits for it") {
  const watchdog guard("locked directory");
  const temporary_folder folder;
  const decode f;
  collect(numbers(50, f, in(folder)).finite());
  f.since_last();
  const fl::detail::open_file other(::open((folder / "cache/feedline-lock").c_str(), O_RDWR | O_CLOEXEC));
  REQUIRE(other.lock(false));
  const auto p = numbers(80, f, in(folder));
  CHECK(collect(p.finite()) == texts(80));
  CHECK(f.since_last() == 30);
  CHECK(segments(folder).size() == 1);
  other.unlock();
  CHECK(collect(p.finite()) == texts(80)); // now new results are stored
  CHECK(f.since_last() == 30);
  CHECK(collect(p.finite()) == texts(80));
  CHECK(f.since_last() == 0);
}

TEST_CASE("results are right whichever byte of a file is changed") {
  const temporary_folder folder;
  const decode f;
  collect(numbers(6, f, in(folder)).finite());
  const std::string name = segments(folder).at(0), whole = contents(name);
  REQUIRE(whole.size() < 600);
  const auto check = [&](const std::string& bytes) {
    for (const std::string& other : segments(folder)) fs::remove(other);
    write(name, bytes);
    f.since_last();
    const auto values = collect(numbers(6, f, in(folder)).finite({.epochs = 2}));
    const int calls = f.since_last();
    REQUIRE(std::vector(values.begin(), values.begin() + 6) == texts(6));
    REQUIRE(std::vector(values.begin() + 6, values.end()) == texts(6));
    REQUIRE(calls <= 6);
    // The recomputed result was stored again.
    REQUIRE(collect(numbers(6, f, in(folder)).finite()) == texts(6));
    REQUIRE(f.since_last() == 0);
    return calls;
  };
  CHECK(check(whole) == 0);
  for (std::size_t i = 0; i < whole.size(); ++i) {
    std::string bytes = whole;
    bytes[i] = static_cast<char>(bytes[i] ^ (1 << (i % 8)));
    INFO("byte " << i);
    CHECK(check(bytes) >= 1);
  }
  for (std::size_t size = 0; size < whole.size(); ++size) {
    INFO("cut off at " << size);
    CHECK(check(whole.substr(0, size)) >= 1);
  }
  CHECK(check(whole + std::string(5000, '\0')) == 0);
  CHECK(check(whole + whole) == 0);
}

TEST_CASE("invalid values with a right checksum are computed again") {
  using fl::detail::key;
  const temporary_folder folder;
  const decode f;
  collect(numbers(1, f, in(folder)).finite());
  const std::string name = segments(folder).at(0), whole = contents(name);
  constexpr std::size_t head = 24, record = 48;
  const std::string value = whole.substr(head + record);
  fl::random_generator random(1);
  for (int i = 0; i < fl::test::rounds(200); ++i) {
    std::string junk = value;
    if (i > 0)
      for (char& c : junk)
        if (random.chance(0.2)) c = static_cast<char>(random.below(256));
    if (i % 3 == 1) junk.resize(random.below(value.size()) + 1);
    if (i % 3 == 2) junk += "more";
    std::uint64_t words[6];
    std::memcpy(words, whole.data() + head, sizeof words);
    words[3] = junk.size();
    words[4] = fl::detail::hash_of_block(std::as_bytes(std::span(junk)));
    words[5] = key(words[0], words[1], words[2], words[3], words[4]);
    write(name,
          whole.substr(0, head) + std::string(reinterpret_cast<const char*>(words), sizeof words) + junk);
    f.since_last();
    const auto values = collect(numbers(1, f, in(folder)).finite());
    if (junk == value) CHECK(values == texts(1));
    words[3] = i == 0 ? ~std::uint64_t{0} - 100 : random() >> random.below(64); // more than there is
    words[5] = key(words[0], words[1], words[2], words[3], words[4]);
    for (const std::string& other : segments(folder)) fs::remove(other);
    write(name,
          whole.substr(0, head) + std::string(reinterpret_cast<const char*>(words), sizeof words) + value);
    if (words[3] != value.size()) REQUIRE(collect(numbers(1, f, in(folder)).finite()) == texts(1));
    for (const std::string& other : segments(folder)) fs::remove(other);
    REQUIRE(values.size() <= 1); // a writer of right checksums may also write another text
  }
}

TEST_CASE("a full disk is reported once, and the run continues") {
  struct unlimited {
    unlimited() {
      ::getrlimit(RLIMIT_FSIZE, &before);
      old = ::signal(SIGXFSZ, SIG_DFL); // which ends the process
    }

    void limit(std::uint64_t bytes) const {
      rlimit now = before;
      now.rlim_cur = bytes;
      REQUIRE(::setrlimit(RLIMIT_FSIZE, &now) == 0);
    }

    ~unlimited() {
      ::setrlimit(RLIMIT_FSIZE, &before);
      ::signal(SIGXFSZ, old);
    }

    rlimit before{};
    void (*old)(int);
  } limits;

  const temporary_folder folder;
  const decode f;
  std::vector<std::string> said;
  auto options = in(folder, 100'000);
  options.on_notice = [&](const std::string& sentence) { said.push_back(sentence); };
  SECTION("when a file is created") {
    limits.limit(10);
    const auto kept = fl::cache(options);
    const auto p = fl::from(count_to(200)) | fl::map(f, fl::workers{3}) | kept | fl::prefetch(4);
    CHECK(collect(p.finite({.epochs = 2})).size() == 400);
    CHECK(kept.stats().full);
  }
  SECTION("when a file is written") {
    // The first value creates the file; then there is no room for all of the value.
    const auto p = fl::from(count_to(200)) | fl::map([&](int n) {
                     if (n == 20) limits.limit(3000);
                     return f(n);
                   }) |
                   fl::cache(options) | fl::prefetch(4);
    CHECK(collect(p.finite()) == texts(200));
    const int calls = f.since_last();
    CHECK(collect(p.finite()) == texts(200)); // the results stored before are still there
    CHECK(calls == 200);
    CHECK(f.since_last() < 190);
  }
  REQUIRE(said.size() == 1);
  CHECK(said[0].starts_with("feedline: the cache can't write to " + folder.path() + "/cache/feedline-"));
  CHECK(said[0].ends_with(": File too large; it stores nothing more, and the run continues"));
}

#if !FEEDLINE_TEST_TSAN // which doesn't follow a fork of a process with threads
namespace {

/// Reports when it is called.
struct telling {
  decode f;
  int to = -1;

  // After that many calls it waits to be killed.
  static constexpr int most = 400;

  std::string operator()(int n) const {
    while (to >= 0 && *f.calls >= most) ::pause();
    if (to >= 0 && ::write(to, "", 1) != 1) ::_exit(1);
    return f(n);
  }
};

} // namespace

TEST_CASE("processes that are killed while they write leave complete results") {
  const watchdog guard("kill -9");
  const temporary_folder folder;
  const decode f;
  constexpr int count = 20'000;
  const auto numbers_telling = [&](int to) {
    return fl::from(count_to(count)) | fl::map(telling{f, to}, fl::workers{2}) | fl::cache(in(folder)) |
           fl::prefetch(4);
  };
  constexpr int kills = fl::test::rounds(12);
  for (int round = 0; round < kills; ++round) {
    int pipe[2];
    REQUIRE(::pipe(pipe) == 0);
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      auto loader = numbers_telling(pipe[1]).finite();
      while (loader.next()) continue;
      ::_exit(0);
    }
    ::close(pipe[1]);
    char byte;
    for (int i = 0; i < 300; ++i) REQUIRE(::read(pipe[0], &byte, 1) == 1);
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    ::close(pipe[0]);
    REQUIRE(bytes_of(folder) <= plenty);
  }
  CHECK(collect(numbers_telling(-1).finite()) == texts(count));
  CHECK(f.since_last() <= count - kills * 250); // each lost at most the results in hand
  CHECK(collect(numbers_telling(-1).finite()) == texts(count));
  CHECK(f.since_last() == 0);
}

TEST_CASE("several processes at once stay within the bytes, and find right values") {
  const watchdog guard("several processes");
  const temporary_folder folder;
  const decode f;
  constexpr std::uint64_t bytes = 60'000;
  std::vector<pid_t> children;
  for (int i = 0; i < 4; ++i) {
    children.push_back(::fork());
    REQUIRE(children.back() >= 0);
    if (children.back() == 0) {
      for (int times = 0; times < 5; ++times) {
        const auto p = numbers(600, f, in(folder, bytes), 2);
        if (collect(p.finite()) != texts(600) || collect(p.finite()) != texts(600)) ::_exit(1);
      }
      ::_exit(0);
    }
  }
  std::uint64_t most = 0;
  int ended = 0, well = 0;
  while (ended < 4) {
    if (fs::exists(folder / "cache")) most = std::max(most, bytes_of(folder));
    int status = -1;
    const pid_t child = ::waitpid(-1, &status, WNOHANG);
    if (child <= 0) continue;
    ++ended;
    well += status == 0;
  }
  CHECK(well == 4);
  CHECK(most <= bytes);
  CHECK(bytes_of(folder) > bytes / 2);
}

TEST_CASE("a child of fork() doesn't touch its parent's file") {
  const temporary_folder folder;
  const decode f;
  const auto p = numbers(30, f, in(folder));
  {
    auto loader = p.finite();
    for (int i = 0; i < 10; ++i) loader.next();
  }
  const auto of_parent = segments(folder);
  REQUIRE(of_parent.size() == 1);
  const auto before = contents(of_parent[0]);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const bool right = collect(p.finite()) == texts(30);
    const bool has_own = segments(folder).size() == 2;
    ::_exit(right && has_own && contents(of_parent[0]) == before ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  CHECK(status == 0);
  CHECK(contents(of_parent[0]) == before);
  CHECK(collect(p.finite()) == texts(30));
}
#endif
