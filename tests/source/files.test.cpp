// SPDX-License-Identifier: MIT
#include <feedline/source/files.hpp>

#include <feedline/source/global_shuffle.hpp>
#include <feedline/source/lines.hpp>
#include <feedline/source/records.hpp>
#include <feedline/source/tar.hpp>
#include <feedline/stage/map.hpp>
#include <feedline/stage/prefetch.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/asleep.hpp"
#include "support/catch.hpp"
#include "support/outcome.hpp"
#include "support/page_cache.hpp"
#include "support/sanitizers.hpp"
#include "support/temporary_folder.hpp"
#include "support/throws_saying.hpp"

namespace fl = feedline;
using fl::test::collect;
using fl::test::comes_into_memory;
using fl::test::file_system_reads_ahead;
using fl::test::is_in_memory;
using fl::test::run_to_end;
using fl::test::temporary_folder;
using fl::test::worker_counts;

namespace {

using names = std::vector<std::string>;

/// The names of the files found, without their directory.
names found(const temporary_folder& folder, const std::string& pattern = "*",
            fl::files_options options = {}) {
  names all = collect((fl::files(folder.path(), pattern, options) | fl::prefetch(10)).finite());
  for (std::string& name : all) {
    REQUIRE(name.starts_with(folder.path() + "/"));
    name.erase(0, folder.path().size() + 1);
  }
  return all;
}

std::string text_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

} // namespace

TEST_CASE("files yields the paths of a directory's files in the order of their bytes") {
  const temporary_folder folder;
  for (const char* name : {"b", "a", "B", "a10", "a9", "\xc3\xa4", "~"}) folder.write(name, name);
  CHECK(found(folder) == names{"B", "a", "a10", "a9", "b", "~", "\xc3\xa4"});
  const auto p = fl::files(folder.path(), "a*") | fl::prefetch(2);
  const auto order = collect(p.finite());
  CHECK(collect(p.infinite({.seed = 3}), 6) ==
        names{order[0], order[1], order[2], order[0], order[1], order[2]});
}

TEST_CASE("files matches patterns against names") {
  const temporary_folder folder;
  for (const char* name : {"x1.txt", "x2.txt", "y1.txt", "x1.bin", "X1.txt", ".hidden", ".txt"})
    folder.write(name, "");
  CHECK(found(folder, "*.txt") == names{"X1.txt", "x1.txt", "x2.txt", "y1.txt"});
  CHECK(found(folder, "x?.txt") == names{"x1.txt", "x2.txt"});
  CHECK(found(folder, "[xy]1.*") == names{"x1.bin", "x1.txt", "y1.txt"});
  CHECK(found(folder, "x1.bin") == names{"x1.bin"});
  CHECK(found(folder, ".*") == names{".hidden", ".txt"});
  CHECK(fl::test::throws_saying<std::runtime_error>("no file in `" + folder.path() + "` matches `z*`",
                                                    [&] { found(folder, "z*"); }));
}

TEST_CASE("files matches several patterns, and yields a file once that two of them match") {
  const temporary_folder folder;
  for (const char* name : {"b.jpg", "a.jpeg", "c.png"}) folder.write(name, "");
  const auto all = [](const auto& p) { return collect((p | fl::prefetch(2)).finite()); };
  const names both{folder / "a.jpeg", folder / "b.jpg"};
  CHECK(all(fl::files(folder.path(), {"*.jpg", "*.jpeg"})) == both);
  CHECK(all(fl::files(folder.path(), {"b*", "*.jp*g", "*.gif"})) == both);
  CHECK(all(fl::files(folder.path(), names{"*.jpg", "a*"})) == both);
  CHECK(fl::test::throws_saying<std::runtime_error>("matches `x*` or `y*`", [&] {
    fl::files(folder.path(), {"x*", "y*"});
  }));
  CHECK(fl::test::throws_saying<std::invalid_argument>("the list of patterns is empty",
                                                       [&] { fl::files(folder.path(), names{}); }));
}

TEST_CASE("files matches patterns with directories, ** for any number of them") {
  const temporary_folder folder;
  std::filesystem::create_directories(folder / "a/b/c");
  std::filesystem::create_directories(folder / "d/.e/c");
  std::filesystem::create_directory_symlink(folder / "a", folder / "link");
  for (const char* name :
       {"1.jpg", "a/2.jpg", "a/2.txt", "a/b/3.jpg", "a/b/c/4.jpg", "d/5.jpg", "d/.e/c/6.jpg"})
    folder.write(name, "");
  CHECK(found(folder, "*/*.jpg") == names{"a/2.jpg", "d/5.jpg", "link/2.jpg"});
  CHECK(found(folder, "a/*.jpg") == names{"a/2.jpg"});
  CHECK(found(folder, "[ad]//?.jpg") == names{"a/2.jpg", "d/5.jpg"});
  CHECK(found(folder, "**/*.jpg") == names{"1.jpg", "a/2.jpg", "a/b/3.jpg", "a/b/c/4.jpg", "d/5.jpg"});
  CHECK(found(folder, "**/c/**") == names{"a/b/c/4.jpg"});
  CHECK(found(folder, "**/c/**", {.hidden = true}) == names{"a/b/c/4.jpg", "d/.e/c/6.jpg"});
  CHECK(found(folder, "**/.e/**") == names{"d/.e/c/6.jpg"});
  CHECK(found(folder, "**/**/b/**/*") == names{"a/b/3.jpg", "a/b/c/4.jpg"});
  CHECK(found(folder, "a/**/2.txt") == names{"a/2.txt"});
  CHECK(found(folder, "b/*.jpg", {.recursive = true}) == names{"a/b/3.jpg"});
  CHECK_THROWS_AS(found(folder, "a"), std::runtime_error);
  CHECK_THROWS_AS(found(folder, "1.jpg/*"), std::runtime_error);
  CHECK_THROWS_AS(found(folder, ""), std::runtime_error);

  const names in_both{folder / "a/b/3.jpg", folder / "a/b/c/4.jpg"};
  CHECK(fl::tar_samples(folder / "a/b/**/[0-9].jpg").shards() == in_both);
  CHECK(fl::tar_samples(folder / "*/b/{,c/}*.jpg").shards() ==
        names{folder / "a/b/3.jpg", folder / "link/b/3.jpg", folder / "a/b/c/4.jpg",
              folder / "link/b/c/4.jpg"});
}

TEST_CASE("files leaves out hidden files, and those in hidden directories, unless they are wanted") {
  const temporary_folder folder;
  for (const char* directory : {"cat", ".ipynb_checkpoints", "__MACOSX/cat"})
    std::filesystem::create_directories(folder / directory);
  const names hidden{
      ".DS_Store",  ".ipynb_checkpoints/1.jpg", "__MACOSX/cat/._1.jpg", "__MACOSX/cat/2.jpg", "cat/.DS_Store",
      "cat/._1.jpg"};
  for (const std::string& name : hidden) folder.write(name, "");
  for (const char* name : {"1.jpg", "cat/1.jpg", "cat/..", "cat/...jpg"})
    if (!std::filesystem::is_directory(folder / name)) folder.write(name, "");
  CHECK(found(folder, "*", {.recursive = true}) == names{"1.jpg", "cat/1.jpg"});
  CHECK(found(folder, "*/*") == names{"cat/1.jpg"});
  CHECK(found(folder, "**") == names{"1.jpg", "cat/1.jpg"});
  CHECK(found(folder, "__MACOSX/*/*") == names{"__MACOSX/cat/2.jpg"}); // named
  CHECK(found(folder, "cat/._*") == names{"cat/._1.jpg"});
  names all = hidden;
  for (const char* name : {"1.jpg", "cat/1.jpg", "cat/...jpg"}) all.emplace_back(name);
  std::ranges::sort(all);
  CHECK(found(folder, "*", {.recursive = true, .hidden = true}) == all);
  CHECK(found(folder, "*/*", {.hidden = true}).size() == 5);
}

TEST_CASE("files searches subdirectories only on request") {
  const temporary_folder folder;
  std::filesystem::create_directories(folder / "b/c");
  for (const char* name : {"a", "b/1", "b/c/2", "b.x"}) folder.write(name, "");
  CHECK(found(folder) == names{"a", "b.x"});
  CHECK(found(folder, "*", {.recursive = true}) == names{"a", "b.x", "b/1", "b/c/2"});
  CHECK(found(folder, "[0-9]", {.recursive = true}) == names{"b/1", "b/c/2"});
}

TEST_CASE("files yields regular files, also through links, and nothing else") {
  const temporary_folder folder, elsewhere;
  folder.write("file", "");
  std::filesystem::create_symlink(folder / "file", folder / "link");
  std::filesystem::create_symlink("nowhere", folder / "dangling");
  std::filesystem::create_directory_symlink(elsewhere.path(), folder / "linked_folder");
  elsewhere.write("far", "");
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  CHECK(found(folder, "*", {.recursive = true}) == names{"file", "link"});
}

TEST_CASE("files names a directory that can't be listed") {
  const temporary_folder folder;
  const auto list = [&] { fl::files(folder / "missing"); };
  CHECK_THROWS_AS(list(), std::system_error);
  CHECK(fl::test::throws_saying<std::system_error>(folder / "missing", list));
  CHECK_THROWS_AS(fl::files(folder.write("file", "")), std::system_error);
}

TEST_CASE("files are read in order by any number of workers, and indices count them") {
  const temporary_folder folder;
  for (int i = 100; i < 150; ++i) folder.write(std::to_string(i), "content of " + std::to_string(i));
  for (const std::size_t workers : worker_counts) {
    const auto p = fl::files(folder.path()) |
                   fl::map([](const std::string& path,
                              fl::context& c) { return std::pair(c.index, text_of(fl::read_file(path))); },
                           fl::workers{workers});
    const auto items = collect(p.finite());
    REQUIRE(items.size() == 50);
    for (std::size_t i = 0; i < 50; ++i) {
      CHECK(items[i].first == i);
      CHECK(items[i].second == "content of " + std::to_string(100 + i));
    }
  }
}

TEST_CASE("a file that was deleted is a failure that names it, and with skip the rest is yielded") {
  const temporary_folder folder;
  for (const char* name : {"a", "b", "c", "d"}) folder.write(name, name);
  const auto p =
      fl::files(folder.path()) | fl::map(fl::read_file, fl::workers{2}, fl::name{"read"}) | fl::map(text_of);
  std::filesystem::remove(folder / "c");
  const auto result = run_to_end(p.finite());
  CHECK(result.items == names{"a", "b"});
  REQUIRE(result.failed);
  CHECK(result.failed->stage == "map `read`");
  CHECK(result.failed->index == 2);
  CHECK(result.failed->origin == folder / "c");
  CHECK(result.failed->message.find(folder / "c") != std::string::npos);

  const auto skipping = run_to_end(p.finite({.on_error = fl::on_error::skip}));
  CHECK(skipping.items == names{"a", "b", "d"});
  CHECK(skipping.skipped_indices() == std::vector<std::uint64_t>{2});
}

TEST_CASE("read_file returns every byte of files of any size, and names a file that it can't read") {
  const temporary_folder folder;
  for (const std::size_t size : {0u, 1u, 65'535u, 65'536u, 65'537u, 300'000u}) {
    std::string content(size, '\0');
    for (std::size_t i = 0; i < size; ++i) content[i] = static_cast<char>(i * 7 % 251);
    CHECK((text_of(fl::read_file(folder.write("file", content))) == content));
  }
  CHECK(fl::test::throws_saying<std::system_error>(folder / "missing",
                                                   [&] { fl::read_file(folder / "missing"); }));
  CHECK(fl::test::throws_saying<std::system_error>(folder.path(), [&] { fl::read_file(folder.path()); }));
  CHECK_FALSE(fl::read_file("/proc/self/status").empty()); // the system reports size 0
}

TEST_CASE("read_file reads a pipe to its end, whatever signals arrive") {
  static std::atomic<int> signals{0};
  const temporary_folder folder;
  const std::string path = folder / "pipe";
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);

  struct sigaction counting {
  }, before{};

  counting.sa_handler = [](int) { ++signals; }; // without SA_RESTART
  REQUIRE(::sigaction(SIGUSR1, &counting, &before) == 0);
  std::string text;
  std::atomic<bool> has_ended{false};
  std::thread reader([&] {
    try {
      text = text_of(fl::read_file(path));
    } catch (const std::system_error& error) {
      text = error.what();
    }
    has_ended = true;
  });
  const auto interrupt = [&] {
    fl::test::await_all_others_asleep();
    const int count = signals;
    ::pthread_kill(reader.native_handle(), SIGUSR1);
    while (signals == count && !has_ended) std::this_thread::yield();
  };
  interrupt(); // while it opens the pipe
  {
    const fl::detail::open_file writer(::open(path.c_str(), O_RDWR));
    const auto write = [&](std::string_view part) {
      REQUIRE(::write(writer.number(), part.data(), part.size()) == static_cast<::ssize_t>(part.size()));
    };
    interrupt(); // while it reads
    write("one");
    interrupt();
    write("two");
    fl::test::await_all_others_asleep();
  }
  reader.join();
  CHECK(text == "onetwo");
  ::sigaction(SIGUSR1, &before, nullptr);
}

TEST_CASE("files of an empty directory are an error") {
  const temporary_folder folder;
  CHECK(fl::test::throws_saying<std::runtime_error>("no file in `" + folder.path() + "` matches `*`",
                                                    [&] { found(folder); }));
}

TEST_CASE("on request the system reads a file when the name before it is yielded") {
  const temporary_folder folder;
  constexpr std::size_t size = 1 << 20;
  const auto first = folder.write("a", std::string(size, 'a')),
             second = folder.write("b", std::string(size, 'b'));
  if (!file_system_reads_ahead(second, size / 2)) return;
  for (const bool read_ahead : {false, true}) {
    auto loader = (fl::files(folder.path(), "*", {.read_ahead = read_ahead}) | fl::prefetch(4)).finite();
    REQUIRE(loader.next() == first);
    REQUIRE(loader.next() == second);
    CHECK((read_ahead ? comes_into_memory(second, size / 2) : !is_in_memory(second, size / 2)));
  }
}

#if !FEEDLINE_TEST_TSAN // TSan can't follow a fork of a process with threads
namespace {

/// Whether `check` is true in a separate process.
template <class Check>
bool holds_in_child(Check check) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(check() ? 0 : 1);
  int status = -1;
  return ::waitpid(child, &status, 0) == child && status == 0;
}

} // namespace

TEST_CASE("every source reports a directory without read permission instead of treating it as empty") {
  namespace fs = std::filesystem;
  const temporary_folder folder;
  fs::permissions(folder.path(), fs::perms::all);
  fs::create_directory(folder / "closed");
  folder.write("closed/a.txt", "text");
  fs::permissions(folder / "closed", fs::perms::none);
  const std::string closed = folder / "closed", sentence = "can't list the folder " + closed;
  const auto refuses = [&](auto make) {
    return holds_in_child([&] {
      constexpr uid_t nobody = 65534; // root may read everything
      if (::geteuid() == 0 && ::seteuid(nobody) != 0) return false;
      return fl::test::throws_saying<std::system_error>(sentence, make) &&
             fl::test::throws_saying<std::system_error>(": Permission denied", make);
    });
  };
  CHECK(refuses([&] { fl::files(closed); }));
  CHECK(refuses([&] { fl::files(folder.path(), "*/*.txt"); }));
  CHECK(refuses([&] { fl::files(folder.path(), "*.txt", {.recursive = true}); }));
  CHECK(refuses([&] { fl::lines({closed + "/*.txt"}); }));
  CHECK(refuses([&] { fl::lines({folder / "**/*.txt"}); }));
  CHECK(refuses([&] { fl::records({folder / "c*/*.txt"}, 4); }));
  CHECK(refuses([&] { fl::tar_samples(folder / "{closed,open}/*.txt"); }));
  fs::permissions(folder / "closed", fs::perms::owner_all);
}

TEST_CASE("every source reports too many open files instead of treating them as missing, in both modes") {
  if (fl::test::is_sanitized) return; // sanitizers open files too
  const temporary_folder folder;
  folder.write("a.txt", "text");
  const auto lines = fl::lines({folder / "*.txt"}) | fl::prefetch(1);
  const auto records = fl::records({folder / "*.txt"}, 4) | fl::global_shuffle() | fl::prefetch(1);
  const auto samples = fl::tar_samples(folder / "*.txt") | fl::prefetch(1);
  const auto shuffled = fl::tar_samples(folder / "*.txt") | fl::global_shuffle() | fl::prefetch(1);
  CHECK(holds_in_child([&] {
    const rlimit none{3, 3}; // files
    if (::setrlimit(RLIMIT_NOFILE, &none) != 0) return false;
    const auto says = [](auto call) {
      return fl::test::throws_saying<std::runtime_error>("Too many open files", call);
    };
    const auto fails = [&](const auto& p) {
      return says([&] { collect(p.finite(), 1); }) && says([&] { collect(p.infinite(), 1); });
    };
    return says([&] { fl::files(folder.path()); }) && says([&] { fl::lines({folder / "*.txt"}); }) &&
           fails(lines) && fails(records) && fails(samples) && fails(shuffled);
  }));
}
#endif
