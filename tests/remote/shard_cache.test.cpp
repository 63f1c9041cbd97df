// SPDX-License-Identifier: MIT
#include <feedline/remote/shard_cache.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <latch>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <feedline/detail/file_draft.hpp>
#include <feedline/remote/detail/cached_part.hpp>

#include "support/catch.hpp"
#include "support/memory_store.hpp"
#include "support/rounds.hpp"
#include "support/sanitizers.hpp"
#include "support/temporary_folder.hpp"
#include "support/throws_saying.hpp"
#include "support/watchdog.hpp"

namespace fl = feedline;
namespace fs = std::filesystem;
using fl::test::memory_store;
using fl::test::throws_saying;

namespace {

constexpr std::size_t part = 1000;

std::string contents(int number, std::size_t size = 10 * part) {
  std::string bytes(size, '\0');
  for (std::size_t i = 0; i < size; ++i)
    bytes[i] = static_cast<char>((i * 7 + static_cast<std::size_t>(number)) % 251);
  return bytes;
}

std::string text(const fl::object_part& p) {
  return {reinterpret_cast<const char*>(p.bytes.data()), p.bytes.size()};
}

fl::object_part get(fl::object_store& store, std::uint64_t offset,
                    std::optional<fl::object_info> expected = {}, const std::string& name = "mem://a") {
  return store.read(name, offset, part, expected)->get(std::stop_token());
}

/// A cache over an object of ten parts.
struct fixture {
  fixture() { inner->put("mem://a", contents(1)); }

  std::shared_ptr<fl::object_store> cached(std::uint64_t bytes = 10'000'000) {
    return fl::cached(inner, {.directory = folder / "cache",
                              .bytes = bytes,
                              .on_notice = [this](const std::string& why) { notices.push_back(why); }});
  }

  std::vector<fs::path> files(const std::string& extension = ".part") const {
    std::vector<fs::path> all;
    for (const auto& entry : fs::directory_iterator(folder / "cache"))
      if (entry.path().extension() == extension) all.push_back(entry.path());
    return all;
  }

  std::size_t requests() const { return inner->requests().size(); }

  fl::test::temporary_folder folder;
  std::shared_ptr<memory_store> inner = std::make_shared<memory_store>(part, 10 * part);
  std::vector<std::string> notices;
};

double number(const fl::object_store& store, const std::string& wanted) {
  double found = -1;
  const auto see = [&](const char* name, double value) {
    if (name == wanted) found = value;
  };
  store.metrics(see, see);
  return found;
}

} // namespace

TEST_CASE("A part is read from the store once, then from the cache") {
  fixture f;
  const auto store = f.cached();
  const fl::object_part first = get(*store, 2 * part);
  CHECK(text(first) == contents(1).substr(2 * part, part));
  CHECK_FALSE(first.is_mapped);
  CHECK(f.requests() == 1);
  for (const auto& again : {store, f.cached()}) { // the same store, and another one
    const fl::object_part kept = get(*again, 2 * part, first.object);
    CHECK(text(kept) == text(first));
    CHECK(kept.object == first.object);
    CHECK(kept.is_mapped);
  }
  CHECK(f.requests() == 1);
  CHECK(number(*store, "cache hits") == 1);
  CHECK(number(*store, "cache misses") == 1);
  CHECK(number(*store, "bytes from the cache") == part);
  CHECK(number(*store, "bytes in the cache") > part);
  CHECK(store->serves("mem://a"));
  CHECK(store->part_bytes() == part);
  CHECK(store->bytes_ahead() == 10 * part);
}

TEST_CASE("Without an expected version, the cache asks for that alone") {
  fixture f;
  const auto store = f.cached();
  get(*store, 0);
  const fl::object_part kept = get(*store, 0);
  CHECK(kept.is_mapped);
  CHECK(kept.object == get(*store, 0, kept.object).object);
  REQUIRE(f.requests() == 2);
  CHECK(f.inner->requests()[1].count == 0);
}

TEST_CASE("A part may be shorter at the end of the object") {
  fixture f;
  f.inner->put("mem://a", contents(1, part + 10));
  const auto store = f.cached();
  const fl::object_part first = get(*store, part), kept = get(*store, part, first.object);
  CHECK(kept.is_mapped);
  CHECK(text(kept) == contents(1, part + 10).substr(part));
  CHECK(get(*store, 5 * part, first.object).bytes.empty());
  CHECK(store->read("mem://a", 0, 0, {})->get(std::stop_token()).object == first.object);
}

TEST_CASE("Another version of an object isn't taken from the cache, and replaces the earlier one") {
  fixture f;
  const auto store = f.cached();
  const fl::object_info before = get(*store, 0).object;
  f.inner->put("mem://a", contents(2));
  CHECK(text(get(*store, 0)) == contents(2).substr(0, part));
  const fl::object_part now = get(*store, 0);
  CHECK(now.is_mapped);
  CHECK(text(now) == contents(2).substr(0, part));
  CHECK(f.files().size() == 1);
  CHECK_THROWS_AS(get(*store, 0, before), fl::object_error);
}

TEST_CASE("The least recently used parts leave the cache") {
  fixture f;
  constexpr std::size_t large = 100'000;
  f.inner->put("mem://a", contents(1, 30 * large));
  const auto store = f.cached(1 << 20);
  const auto read = [&](std::uint64_t i, const std::optional<fl::object_info>& expected = {}) {
    return store->read("mem://a", i * large, large, expected)->get(std::stop_token());
  };
  const fl::object_info version = read(0).object;
  for (std::uint64_t i = 1; i < 30; ++i) {
    read(i, version);
    CHECK(read(0, version).is_mapped); // used all the time
    std::uint64_t bytes = 0;
    for (const fs::path& file : f.files()) bytes += fs::file_size(file);
    CHECK(bytes <= 1 << 20);
  }
  CHECK(read(29, version).is_mapped);
  CHECK_FALSE(read(1, version).is_mapped);
}

TEST_CASE("A part that is in use stays valid when it leaves the cache") {
  fixture f;
  const auto store = f.cached();
  const fl::object_info version = get(*store, 0).object;
  const fl::object_part kept = get(*store, 0, version);
  for (const fs::path& file : f.files()) fs::remove(file);
  CHECK(text(kept) == contents(1).substr(0, part));
  CHECK_FALSE(get(*store, 0, version).is_mapped);
}

TEST_CASE("Damaged files in the cache are read again and replaced") {
  fixture f;
  const auto store = f.cached();
  const fl::object_info version = get(*store, 0).object;
  const fs::path file = f.files().at(0);
  const std::string whole = fl::test::contents_of(file);
  const auto damaged = GENERATE_COPY(values<std::string>(
      {"", "x", whole.substr(1), whole.substr(0, whole.size() - 1), whole + "x",
       whole.substr(0, whole.size() - 20) + std::string(20, 'x'), std::string(100'000, '\0')}));
  std::ofstream(file, std::ios::binary | std::ios::trunc) << damaged;
  CHECK(text(get(*store, 0, version)) == contents(1).substr(0, part));
  CHECK(fl::test::contents_of(file) == whole);
  CHECK(get(*store, 0, version).is_mapped);
}

TEST_CASE("A file of another part isn't taken for this one") {
  fixture f;
  const auto store = f.cached();
  const fl::object_info version = get(*store, 0).object;
  const fs::path first = f.files().at(0);
  get(*store, part, version);
  for (const fs::path& file : f.files())
    if (file != first) fs::copy_file(first, file, fs::copy_options::overwrite_existing);
  CHECK(text(get(*store, part, version)) == contents(1).substr(part, part));
}

TEST_CASE("An object without a version isn't kept") {
  struct unversioned final : fl::object_store {
    struct answer final : fl::object_read {
      bool ready() const override { return true; }

      fl::object_part get(const std::stop_token&) override {
        return {{4, ""}, std::as_bytes(std::span("abcd", 4)), {}};
      }
    };

    bool serves(std::string_view) const override { return true; }

    std::unique_ptr<fl::object_read> read(const std::string&, std::uint64_t, std::size_t,
                                          const std::optional<fl::object_info>&) override {
      return std::make_unique<answer>();
    }
  };

  fixture f;
  const auto store = fl::cached(std::make_shared<unversioned>(), {.directory = f.folder / "cache"});
  for (int n = 0; n < 2; ++n) CHECK_FALSE(get(*store, 0).is_mapped);
  CHECK(f.files().empty());
  CHECK(f.files(".draft").empty());
}

TEST_CASE("Names don't appear in the folder") {
  fixture f;
  f.inner->put("mem://secret", contents(1));
  const auto store = f.cached();
  get(*store, 0, {}, "mem://secret");
  for (const fs::path& file : f.files()) {
    CHECK(file.string().find("secret") == std::string::npos);
    CHECK(fl::test::contents_of(file).find("secret") == std::string::npos);
  }
}

TEST_CASE("Objects whose names differ in what isn't shown have parts of their own") {
  struct hiding_store final : fl::object_store {
    bool serves(std::string_view name) const override { return objects.serves(name); }

    std::string shown(std::string_view) const override { return "mem://…"; }

    std::unique_ptr<fl::object_read> read(const std::string& name, std::uint64_t offset, std::size_t count,
                                          const std::optional<fl::object_info>& expected) override {
      return objects.read(name, offset, count, expected);
    }

    memory_store objects{part, 10 * part};
  };

  fixture f;
  const auto inner = std::make_shared<hiding_store>();
  for (const int number : {1, 2})
    inner->objects.put("mem://" + std::to_string(number), contents(number), "same");
  for (int pass = 0; pass < 2; ++pass) {
    const auto store = fl::cached(inner, {.directory = f.folder / "cache"});
    for (const int number : {1, 2})
      CHECK(text(get(*store, part, fl::object_info{10 * part, "same"}, "mem://" + std::to_string(number))) ==
            contents(number).substr(part, part));
    CHECK(number(*store, "cache hits") == 2 * pass);
  }
}

TEST_CASE("Threads and stores that need the same part wait for one of them") {
  const fl::test::watchdog guard("several threads");
  fixture f;
  const fl::object_info version = get(*f.inner, 0).object;
  for (int round = 0; round < fl::test::rounds(40); ++round) {
    fs::remove_all(f.folder / "cache");
    const std::size_t before = f.requests();
    const auto one = f.cached(), other = f.cached();
    std::latch ready(8);
    std::vector<std::thread> threads;
    std::atomic<int> right{0};
    for (int t = 0; t < 8; ++t)
      threads.emplace_back([&, t] {
        fl::object_store& store = t % 2 == 0 ? *one : *other;
        ready.arrive_and_wait();
        for (std::uint64_t i = 0; i < 10; ++i) {
          const std::uint64_t offset = (t < 4 ? i : 9 - i) * part;
          right += text(get(store, offset, version)) == contents(1).substr(offset, part);
        }
      });
    for (std::thread& t : threads) t.join();
    CHECK(right.load() == 80);
    CHECK(f.requests() - before == 10);
    CHECK(f.files(".draft").empty());
  }
  CHECK(f.inner->reads_open() == 0);
}

TEST_CASE("Two readers that requested each other's parts ahead don't wait for ever") {
  const fl::test::watchdog guard("crossed requests");
  fixture f;
  const fl::object_info version = get(*f.inner, 0).object;
  const auto one = f.cached(), other = f.cached();
  const auto first = one->read("mem://a", 0, part, version),
             second = other->read("mem://a", part, part, version);
  const auto first_again = other->read("mem://a", 0, part, version),
             second_again = one->read("mem://a", part, part, version);
  CHECK(text(second_again->get(std::stop_token())) == contents(1).substr(part, part));
  CHECK(text(first_again->get(std::stop_token())) == contents(1).substr(0, part));
  CHECK(text(first->get(std::stop_token())) == contents(1).substr(0, part));
  CHECK(text(second->get(std::stop_token())) == contents(1).substr(part, part));
}

TEST_CASE("When a fetch fails, another reader tries") {
  const fl::test::watchdog guard("a failed fetch");
  fixture f;
  std::atomic<int> calls{0};
  f.inner->before([&](const memory_store::request&, const std::stop_token&) {
    if (calls++ == 0) throw fl::object_error("mem://a: unlucky");
  });
  const auto one = f.cached(), other = f.cached();
  const auto first = one->read("mem://a", 0, part, {}), second = other->read("mem://a", 0, part, {});
  CHECK_THROWS_WITH(first->get(std::stop_token()), "mem://a: unlucky");
  CHECK(text(second->get(std::stop_token())) == contents(1).substr(0, part));
  CHECK(get(*one, 0).is_mapped);
}

TEST_CASE("A stop ends the wait for another reader's fetch, and for the own one") {
  const fl::test::watchdog guard("a stop");
  fixture f;
  std::latch begun(1);
  std::atomic<bool> has_begun{false};
  f.inner->before([&](const memory_store::request&, const std::stop_token& stop) {
    if (!has_begun.exchange(true)) begun.count_down();
    std::atomic<bool> stopped{false};
    const auto wake = [&] {
      stopped = true;
      stopped.notify_one();
    };
    const std::stop_callback<decltype(wake)> at_stop(stop, wake);
    stopped.wait(false);
  });
  const auto one = f.cached(), other = f.cached();
  auto first = one->read("mem://a", 0, part, {});
  std::stop_source stop;
  begun.wait(); // the thread of the store is at it
  std::atomic<int> stopped{0};
  const auto waits_for = [&](fl::object_read& read) {
    stopped += throws_saying<fl::object_error>("", [&] { read.get(stop.get_token()); });
  };
  const auto second = other->read("mem://a", 0, part, {});
  std::thread own([&] { waits_for(*first); }), waits([&] { waits_for(*second); });
  stop.request_stop();
  own.join();
  waits.join();
  CHECK(stopped.load() == 2);
  first.reset(); // cancels it
  f.inner->before({});
  CHECK(text(get(*other, 0)) == contents(1).substr(0, part));
}

TEST_CASE("A read that is given up lets others fetch, at any moment") {
  const fl::test::watchdog guard("reads that are given up");
  fixture f;
  for (int round = 0; round < fl::test::rounds(100); ++round) {
    fs::remove_all(f.folder / "cache");
    const auto one = f.cached();
    { const auto given_up = one->read("mem://a", 0, part, {}); }
    CHECK(text(get(*one, 0)) == contents(1).substr(0, part));
    CHECK(f.files(".draft").empty());
  }
  auto store = f.cached();
  const auto outlives = store->read("mem://a", 3 * part, part, {});
  store.reset();
  CHECK(text(outlives->get(std::stop_token())) == contents(1).substr(3 * part, part));
}

TEST_CASE("When the process that fetches a part is killed, another one fetches it") {
  const fl::test::watchdog guard("a killed process");
  fixture f;
  const auto other = f.cached(); // made before, as it removes drafts that nobody writes
  int pipe[2];
  REQUIRE(::pipe(pipe) == 0);
  const ::pid_t child = ::fork();
  if (child == 0) {
    const auto draft = fl::detail::file_draft::begin(
        f.folder / "cache/" + fl::detail::part_key("mem://a", 0, part).file_name() + ".draft");
    static_cast<void>(::write(pipe[1], draft ? "1" : "0", 1));
    for (;;) ::pause();
  }
  char has_draft = 0;
  REQUIRE(::read(pipe[0], &has_draft, 1) == 1);
  REQUIRE(has_draft == '1');
  const auto waits = other->read("mem://a", 0, part, {});
  CHECK_FALSE(waits->ready());
  std::thread killer([&] { ::kill(child, SIGKILL); });
  CHECK(text(waits->get(std::stop_token())) == contents(1).substr(0, part));
  killer.join();
  CHECK(::waitpid(child, nullptr, 0) == child);
  ::close(pipe[0]);
  ::close(pipe[1]);
  CHECK(f.files(".draft").empty());
}

TEST_CASE("What a killed process has written of a part is overwritten") {
  fixture f;
  const auto store = f.cached();
  f.folder.write("cache/" + fl::detail::part_key("mem://a", 0, part).file_name() + ".draft",
                 std::string(5 * part, 'x'));
  const fl::object_info version = get(*store, 0).object;
  const fl::object_part kept = get(*store, 0, version);
  CHECK(kept.is_mapped);
  CHECK(text(kept) == contents(1).substr(0, part));
}

TEST_CASE("A new cache removes drafts that nobody writes, and nothing else") {
  fixture f;
  f.cached();
  f.folder.write("cache/" + fl::detail::part_key("mem://a", 0, part).file_name() + ".draft", "half");
  const std::vector<std::string> mine{"thesis.draft",
                                      "film.part",
                                      "notes.txt",
                                      "00.draft",
                                      std::string(32, 'g') + ".draft",
                                      std::string(33, 'a') + ".part"};
  for (const std::string& name : mine) f.folder.write("cache/" + name, std::string(1 << 20, 'x'));
  const auto small = f.cached(1 << 20);
  CHECK(number(*small, "bytes in the cache") == 0);
  for (std::size_t i = 0; i < 10; ++i) get(*small, i * part);
  for (const std::string& name : mine) {
    INFO(name);
    CHECK(fs::file_size(f.folder / "cache/" + name) == 1 << 20);
  }
  CHECK(f.files(".draft").size() == 3);
}

TEST_CASE("A folder with files of others isn't made a cache") {
  fixture f;
  fs::create_directories(f.folder / "cache");
  f.folder.write("cache/thesis.draft", "mine");
  const auto is_refused = [&](const std::string& other) {
    return throws_saying<std::invalid_argument>(
        "cache` is no folder of a cache, and has other files, such as `" + other + "`", [&] { f.cached(); });
  };
  CHECK(is_refused("thesis.draft"));
  CHECK(fl::test::contents_of(f.folder / "cache/thesis.draft") == "mine");
  fs::remove(f.folder / "cache/thesis.draft");
  fs::create_directory(f.folder / "cache/photos");
  CHECK(is_refused("photos"));
  fs::remove(f.folder / "cache/photos");
  f.folder.write("cache/.DS_Store", "");
  const std::string name = fl::detail::part_key("mem://a", 0, part).file_name();
  f.folder.write("cache/" + name + ".part", "of a cache that had no mark");
  get(*f.cached(), part);
  CHECK(f.files().size() == 2);
  f.folder.write("cache/notes.txt", "mine"); // now it is a cache
  get(*f.cached(), 2 * part);
  CHECK(f.files().size() == 3);
}

TEST_CASE("A new cache doesn't remove a draft that has taken the place of an abandoned one") {
  fixture f;
  const std::string path = f.folder.write("1.draft", "");
  const fl::detail::open_file found(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  fs::rename(path, path + ".part"); // its writer keeps it in between
  const auto draft = fl::detail::file_draft::begin(path);
  REQUIRE(draft);
  fl::detail::file_draft::remove_if_abandoned(found, path);
  CHECK(fs::exists(path));
  fs::remove(path);
  fs::rename(path + ".part", path);
  fl::detail::file_draft::remove_if_abandoned(found, path);
  CHECK_FALSE(fs::exists(path));
}

TEST_CASE("A part whose bytes on disk have changed is noticed and fetched again") {
  fixture f;
  const fl::object_info version = get(*f.cached(), 0).object;
  const std::string path = f.files().at(0);
  const auto size = fs::file_size(path);
  std::size_t fetched = f.requests();
  for (const std::uintmax_t at : {std::uintmax_t{0}, std::uintmax_t{part / 2}, std::uintmax_t{part - 1},
                                  size - 1}) { // also in the hash
    {
      std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
      file.seekg(static_cast<std::streamoff>(at));
      const char c = static_cast<char>(file.get() ^ 4);
      file.seekp(static_cast<std::streamoff>(at));
      file.put(c);
    }
    const auto store = f.cached();
    const fl::object_part mended = get(*store, 0, version);
    CHECK(text(mended) == contents(1).substr(0, part));
    CHECK_FALSE(mended.is_mapped);
    CHECK(f.requests() == ++fetched);
    CHECK(number(*store, "damaged parts in the cache") == 1);
    CHECK(number(*store, "cache hits") == 0);
    const fl::object_part again = get(*store, 0, version);
    CHECK(again.is_mapped);
    CHECK(text(again) == text(mended));
    CHECK(f.requests() == fetched);
    CHECK(f.files().size() == 1);
    CHECK(number(*store, "bytes in the cache") == static_cast<double>(size));
  }
  CHECK(f.notices.empty());
}

TEST_CASE("A damaged part that can't be removed is read past the cache") {
  if (::geteuid() == 0) return; // root may remove everything
  fixture f;
  const fl::object_info version = get(*f.cached(), 0).object;
  const std::string path = f.files().at(0);
  std::ofstream(path, std::ios::binary | std::ios::in) << "damage";
  const auto store = f.cached();
  fs::permissions(f.folder / "cache", fs::perms::owner_read | fs::perms::owner_exec);
  CHECK(text(get(*store, 0, version)) == contents(1).substr(0, part));
  fs::permissions(f.folder / "cache", fs::perms::owner_all);
  CHECK(f.notices.size() == 1);
}

TEST_CASE("If the folder can't be written, the cache says so once and goes on without") {
  fixture f;
  const auto store = f.cached();
  const ::rlimit none{0, RLIM_INFINITY};
  ::rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &none) == 0); // as a full disk does, writes fail
  const std::string first = text(get(*store, 0)), second = text(get(*store, part));
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
  CHECK(first == contents(1).substr(0, part));
  CHECK(second == contents(1).substr(part, part));
  CHECK(f.files().empty());
  CHECK(f.files(".draft").empty());
  REQUIRE(f.notices.size() == 1);
  CHECK(f.notices[0].find("nothing is added") != std::string::npos);
}

TEST_CASE("A folder that is removed during a run is an unwritable one") {
  fixture f;
  const auto store = f.cached();
  fs::remove_all(f.folder / "cache");
  CHECK(text(get(*store, 0)) == contents(1).substr(0, part));
  CHECK(text(get(*store, part)) == contents(1).substr(part, part));
  CHECK(f.notices.size() == 1);
}

TEST_CASE("cached() refuses what can't work") {
  fixture f;
  f.folder.write("file", "");
  CHECK_THROWS_AS(fl::cached(nullptr, {.directory = f.folder / "cache"}), std::invalid_argument);
  CHECK_THROWS_AS(fl::cached(f.inner, {.directory = ""}), std::invalid_argument);
  CHECK_THROWS_AS(fl::cached(f.inner, {.directory = f.folder / "cache", .bytes = 1000}),
                  std::invalid_argument);
  CHECK(throws_saying<std::system_error>("file",
                                         [&] { fl::cached(f.inner, {.directory = f.folder / "file"}); }));
  CHECK(throws_saying<std::system_error>(
      "file/below", [&] { fl::cached(f.inner, {.directory = f.folder / "file/below"}); }));
  CHECK_NOTHROW(fl::cached(f.inner, {.directory = f.folder / "a/b/c/"}));
}
