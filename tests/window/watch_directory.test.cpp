// SPDX-License-Identifier: MIT
#include <feedline/window/watch_directory.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <feedline/feedline.hpp>

#include "support/asleep.hpp"
#include "support/catch.hpp"
#include "support/parked.hpp"
#include "support/rounds.hpp"
#include "support/temporary_folder.hpp"
#include "support/throws_saying.hpp"
#include "support/watchdog.hpp"

namespace fl = feedline;
namespace fs = std::filesystem;
using namespace feedline::test;
using strings = std::vector<std::string>;
using kind = fl::watched_file::kind;

namespace {

using watch = std::remove_cvref_t<decltype(fl::watch_directory(std::string()).source())>;

static_assert(fl::source<watch>);
static_assert(std::is_same_v<fl::source_item_t<watch>, fl::watched_file>);
static_assert(watch::traits.live);

/// A source called by the thread that changes the directory. The kernel queues an event before the call that makes the
/// change returns.
class watcher {
 public:
  explicit watcher(const std::string& folder, const std::string& pattern = "*",
                   fl::watch_options options = {}, bool endless = true)
      : folder_(folder), source_(fl::watch_directory(folder, pattern, options).source()) {
    fl::epoch e;
    e.endless = endless;
    e.stop = stop_.get_token();
    source_.start_epoch(e);
  }

  /// All that is yielded without a wait: "a.gz" at the start, "|" when the scan is complete, "+a.gz" later, "! error",
  /// "end".
  strings now() {
    strings all;
    while (source_.ready()) {
      all.push_back(step());
      if (all.back() == "end") break;
    }
    return all;
  }

  std::string step() {
    try {
      const auto file = source_.next();
      if (!file) return "end";
      if (!file->is_file()) return file->path.empty() ? "|" : "a mark with a path";
      REQUIRE(file->path.starts_with(folder_ + "/"));
      return (file->what == kind::arrived ? "+" : "") + file->path.substr(folder_.size() + 1);
    } catch (const std::system_error& error) {
      std::string text = error.what();
      if (const auto at = text.find(folder_); at != std::string::npos)
        text.replace(at, folder_.size(), "DIR");
      return "! " + text;
    }
  }

  void stop() { stop_.request_stop(); }

 private:
  std::string folder_;
  std::stop_source stop_;
  watch source_;
};

void move(const std::string& from, const std::string& to) { fs::rename(from, to); }

/// A file that is open for writing.
class writer {
 public:
  explicit writer(const std::string& path) : file_(path, std::ios::binary | std::ios::app) {
    write("beginning");
  }

  void write(const std::string& text) { file_ << text << std::flush; }

  void close() { file_.close(); }

 private:
  std::ofstream file_;
};

std::size_t longest_kernel_queue() {
  std::size_t events = 0;
  std::ifstream("/proc/sys/fs/inotify/max_queued_events") >> events;
  return events;
}

/// Creates more files than the kernel's queue of events holds. Names begin with `first`.
strings overflow(const temporary_folder& folder, const std::string& first) {
  strings names;
  for (std::size_t i = 0; i < longest_kernel_queue() / 2 + 10; ++i) {
    names.push_back(first + std::to_string(1'000'000 + i));
    const int file = ::open((folder / names.back()).c_str(), O_WRONLY | O_CREAT, 0600);
    REQUIRE(file >= 0);
    ::close(file);
  }
  return names;
}

} // namespace

TEST_CASE("existing files are yielded by name, then the mark, then arriving files") {
  const temporary_folder folder;
  folder.write("b", "");
  folder.write("a", "1");
  fs::create_directories(folder / "sub/deep");
  fs::create_directories(folder / "empty");
  folder.write("sub/x", "");
  folder.write("sub/deep/y", "");
  folder.write("sub.x", "");
  watcher w(folder.path());
  CHECK(w.now() == strings{"a", "b", "sub.x", "sub/deep/y", "sub/x", "|"});
  CHECK(w.now().empty());
  folder.write("sub/deep/z", "2");
  folder.write("A", "3");
  CHECK(w.now() == strings{"+sub/deep/z", "+A"});
  const temporary_folder elsewhere;
  move(elsewhere.write("m", "4"), folder / "m");
  move(elsewhere.write("n", "4"), folder / "sub/n");
  CHECK(w.now() == strings{"+m", "+sub/n"});
}

TEST_CASE("an empty directory yields only the mark, and slashes after its name are ignored") {
  const temporary_folder folder;
  CHECK(watcher(folder.path()).now() == strings{"|"});
  const auto source = fl::watch_directory(folder.path() + "///").source();
  auto run = source;
  run.start_epoch({.endless = true});
  CHECK(!run.next().value().is_file());
  const std::string a = folder.write("a", "");
  CHECK(run.next().value().path == a);
}

TEST_CASE("newest_first yields the newest files first") {
  const temporary_folder folder;
  const auto write_at = [&](const char* name, int seconds) {
    const std::string path = folder.write(name, "");
    const ::timespec times[2] = {{seconds, 0}, {seconds, 5}};
    REQUIRE(::utimensat(AT_FDCWD, path.c_str(), times, 0) == 0);
  };
  fs::create_directory(folder / "s");
  write_at("a", 1000);
  write_at("b", 3000);
  write_at("s/c", 2000);
  write_at("d", 2000);
  watcher w(folder.path(), "*", {.newest_first = true});
  CHECK(w.now() == strings{"b", "d", "s/c", "a", "|"});
  const temporary_folder elsewhere;
  fs::create_directory(elsewhere / "t");
  elsewhere.write("t/2", "");
  elsewhere.write("t/1", "");
  move(elsewhere / "t", folder / "t");
  CHECK(w.now() == strings{"+t/1", "+t/2"}); // later arrivals by name
}

TEST_CASE("a finite run ends after the mark, whatever arrives") {
  const temporary_folder folder;
  folder.write("a", "");
  watcher w(folder.path(), "*", {}, false);
  CHECK(w.step() == "a");
  folder.write("b", "");
  CHECK(w.now() == strings{"|", "end"});
  CHECK(w.step() == "end");
}

TEST_CASE("names with a dot at the beginning and those that don't match are left out") {
  const temporary_folder folder;
  fs::create_directory(folder / ".hidden");
  fs::create_directory(folder / "sub");
  for (const char* name : {".a.gz", "a.gz", "a.gz.tmp", ".hidden/b.gz", "sub/.c.gz", "sub/c.gz"})
    folder.write(name, "");
  watcher w(folder.path(), "*.gz");
  CHECK(w.now() == strings{"a.gz", "sub/c.gz", "|"});
  for (const char* name : {".d.gz", "d.tmp", ".hidden/d.gz", "sub/d.GZ", "sub/d.gz"}) folder.write(name, "");
  fs::create_directory(folder / ".later");
  folder.write(".later/e.gz", "");
  CHECK(w.now() == strings{"+sub/d.gz"});
  move(folder / "d.tmp", folder / "d.gz"); // complete now
  move(folder / ".d.gz", folder / "sub/f.gz");
  move(folder / ".later", folder / "now");
  CHECK(w.now() == strings{"+d.gz", "+sub/f.gz", "+now/e.gz"});
  move(folder / "a.gz", folder / ".a2.gz");
  move(folder / "now", folder / ".then");
  folder.write(".then/g.gz", "");
  move(folder / ".a2.gz", folder / "a2.gz"); // the same as before
  CHECK(w.now().empty());
  CHECK(throws_saying<std::invalid_argument>("the pattern `a/*` must match names of files",
                                             [&] { fl::watch_directory(folder.path(), "a/*"); }));
  CHECK_THROWS_AS(fl::watch_directory(folder.path(), ""), std::invalid_argument);
}

TEST_CASE("hidden names are yielded if they are wanted") {
  const temporary_folder folder;
  fs::create_directory(folder / ".hidden");
  fs::create_directory(folder / "__MACOSX");
  for (const char* name : {".a.gz", "a.gz", ".hidden/b.gz", "__MACOSX/c.gz"}) folder.write(name, "");
  watcher plain(folder.path(), "*.gz"), all(folder.path(), "*.gz", {.hidden = true});
  CHECK(plain.now() == strings{"a.gz", "|"});
  CHECK(all.now() == strings{".a.gz", ".hidden/b.gz", "__MACOSX/c.gz", "a.gz", "|"});
  for (const char* name : {".hidden/d.gz", "__MACOSX/d.gz"}) folder.write(name, "");
  CHECK(plain.now().empty());
  CHECK(all.now() == strings{"+.hidden/d.gz", "+__MACOSX/d.gz"});
}

TEST_CASE("names match one of several patterns") {
  const temporary_folder folder;
  for (const char* name : {"a.gz", "b.tar", "c.gz.part"}) folder.write(name, "");
  const auto pipeline = fl::watch_directory(folder.path(), {"*.gz", "*.tar"}) | fl::prefetch(1);
  strings found;
  for (const fl::watched_file& file : pipeline.finite())
    if (file.is_file()) found.push_back(file.path);
  CHECK(found == strings{folder / "a.gz", folder / "b.tar"});
  CHECK(throws_saying<std::invalid_argument>("the pattern `a/*` must match names of files", [&] {
    fl::watch_directory(folder.path(), {"*.gz", "a/*"});
  }));
  CHECK(throws_saying<std::invalid_argument>("the list of patterns is empty",
                                             [&] { fl::watch_directory(folder.path(), strings{}); }));
}

TEST_CASE("a file that is written slowly is yielded when it is closed") {
  const temporary_folder folder;
  writer before(folder / "before"); // open when the source starts
  folder.write("whole", "1");
  watcher w(folder.path());
  CHECK(w.now() == strings{"whole", "|"});
  writer after(folder / "after");
  for (int i = 0; i < 100; ++i) {
    before.write(std::string(1000, 'x'));
    after.write(std::string(1000, 'y'));
    CHECK(w.now().empty());
  }
  after.close();
  CHECK(w.now() == strings{"+after"});
  before.close();
  CHECK(w.now() == strings{"+before"});

  fs::create_directory(folder / "sub");
  writer inside(folder / "sub/inside"); // before the source watches the directory
  CHECK(w.now().empty());
  inside.close();
  CHECK(w.now() == strings{"+sub/inside"});
  writer none(folder / "none");
  CHECK(watcher(folder.path(), "none", {}, false).now() == strings{"|", "end"}); // no event will follow
}

TEST_CASE("a new directory is watched, and files already in it are yielded") {
  const temporary_folder folder, elsewhere;
  watcher w(folder.path());
  CHECK(w.now() == strings{"|"});
  fs::create_directories(folder / "a/b/c");
  folder.write("a/b/c/1", "");
  folder.write("a/0", "");
  CHECK(w.now() == strings{"+a/0", "+a/b/c/1"});
  folder.write("a/b/2", "");
  folder.write("a/b/c/3", "");
  CHECK(w.now() == strings{"+a/b/2", "+a/b/c/3"});
  fs::create_directories(elsewhere / "d/e");
  elsewhere.write("d/e/1", "");
  move(elsewhere / "d", folder / "a/d");
  folder.write("a/d/e/2", "");
  CHECK(w.now() == strings{"+a/d/e/1", "+a/d/e/2"});
  // A directory of the same name is another one.
  fs::remove_all(folder / "a");
  CHECK(w.now().empty());
  fs::create_directories(folder / "a/b");
  folder.write("a/b/1", "");
  CHECK(w.now() == strings{"+a/b/1"});
}

TEST_CASE("a new version of a file is yielded again, the same version isn't") {
  const temporary_folder folder, elsewhere;
  folder.write("a", "1");
  watcher w(folder.path());
  CHECK(w.now() == strings{"a", "|"});
  folder.write("a", "22");
  CHECK(w.now() == strings{"+a"});
  move(elsewhere.write("b", "333"), folder / "a"); // replaces it
  CHECK(w.now() == strings{"+a"});
  { std::ofstream opened(folder / "a", std::ios::app); } // and nothing written
  CHECK(w.now().empty());
  folder.write("b", "22");
  CHECK(w.now() == strings{"+b"});
  move(folder / "b", folder / "a"); // yielded under another name
  CHECK(w.now().empty());
  // A pending file is yielded once, in its newest version.
  folder.write("c", "1");
  folder.write("c", "22");
  move(elsewhere.write("c", "333"), folder / "c");
  fs::remove(folder / "c");
  folder.write("c", "4444");
  CHECK(w.now() == strings{"+c"});
  fs::remove(folder / "c");
  folder.write("c", "4444");
  CHECK(w.now() == strings{"+c"});
}

TEST_CASE("a file that is renamed within the directory is yielded once, under its last name") {
  const temporary_folder folder, elsewhere;
  fs::create_directories(folder / "s");
  for (const char* name : {"a", "b", "c"}) folder.write(name, name);
  watcher w(folder.path());
  CHECK(w.step() == "a");
  move(folder / "a", folder / "a2"); // yielded before
  move(folder / "b", folder / "s/b2");
  CHECK(w.now() == strings{"s/b2", "c", "|"});
  move(folder / "c", folder / "c2");
  CHECK(w.now().empty());

  for (int i = 0; i < 10; ++i) elsewhere.write("p" + std::to_string(i), "");
  move(elsewhere / "p0", folder / "p0");
  move(elsewhere / "p1", folder / "p1");
  move(folder / "p0", folder / "q0");
  move(folder / "q0", folder / "s/r0");
  move(folder / "p1", folder / "s/r1");
  CHECK(w.now() == strings{"+s/r0", "+s/r1"});
  // Replaces a pending file, which is gone then.
  move(elsewhere / "p2", folder / "p2");
  move(elsewhere / "p3", folder / "p3");
  move(folder / "p2", folder / "p3");
  CHECK(w.now() == strings{"+p3"});
  // Its old name is free for another file.
  move(elsewhere / "p4", folder / "p4");
  move(folder / "p4", folder / "p5");
  folder.write("p4", "another");
  CHECK(w.now() == strings{"+p4", "+p5"});
  // Two files swap their names.
  move(elsewhere / "p6", folder / "p6");
  move(elsewhere / "p7", folder / "p7");
  move(folder / "p6", folder / "x");
  move(folder / "p7", folder / "p6");
  move(folder / "x", folder / "p7");
  CHECK(w.now() == strings{"+p6", "+p7"});
}

TEST_CASE("files of a renamed directory are not yielded again") {
  const temporary_folder folder, elsewhere;
  fs::create_directories(folder / "a/deep");
  fs::create_directories(folder / "b");
  folder.write("a/1", "");
  folder.write("a/deep/2", "");
  watcher w(folder.path());
  CHECK(w.now() == strings{"a/1", "a/deep/2", "|"});
  folder.write("a/deep/3", "");
  move(folder / "a", folder / "b/c");
  folder.write("b/c/4", "");
  folder.write("b/c/deep/5", "");
  CHECK(w.now() == strings{"+b/c/4", "+b/c/deep/3", "+b/c/deep/5"});
  folder.write("b/c/deep/2", "new version");
  CHECK(w.now() == strings{"+b/c/deep/2"});
  // Moved out of the tree, where it isn't watched, and back.
  move(folder / "b/c", elsewhere / "c");
  folder.write("x", "");
  CHECK(w.now() == strings{"+x"});
  elsewhere.write("c/6", "");
  folder.write("y", "");
  CHECK(w.now() == strings{"+y"});
  move(elsewhere / "c", folder / "c");
  CHECK(w.now() == strings{"+c/6"});
  // Moved out and back at once.
  move(folder / "c", elsewhere / "c");
  elsewhere.write("c/7", "");
  move(elsewhere / "c", folder / "d");
  folder.write("d/8", "");
  CHECK(w.now() == strings{"+d/7", "+d/8"});
}

TEST_CASE("links to files are files, and links to directories are not followed") {
  const temporary_folder folder, elsewhere;
  elsewhere.write("target", "1");
  fs::create_directory(folder / "sub");
  fs::create_directory_symlink(folder.path(), folder / "sub/loop");
  fs::create_symlink(elsewhere / "target", folder / "link");
  fs::create_symlink(elsewhere / "nothing", folder / "dangling");
  fs::create_symlink("self", folder / "self");
  watcher w(folder.path());
  CHECK(w.now() == strings{"link", "|"});
  fs::create_symlink(elsewhere / "target", folder / "sub/again"); // to the same file
  fs::create_symlink(elsewhere.write("target2", ""), folder / "sub/later");
  fs::create_directory_symlink(elsewhere.path(), folder / "there");
  elsewhere.write("other", "2");
  fs::create_hard_link(elsewhere / "other", folder / "hard"); // a way to publish a complete file
  CHECK(w.now() == strings{"+sub/later", "+hard"});
  // The directory itself may be a link.
  fs::create_directory_symlink(folder.path(), elsewhere / "way");
  CHECK(watcher(elsewhere / "way").now() == strings{"hard", "sub/again", "sub/later", "|"});
}

TEST_CASE("only regular files are yielded") {
  const temporary_folder folder, elsewhere;
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  watcher w(folder.path());
  CHECK(w.now() == strings{"|"});
  REQUIRE(::mkfifo((elsewhere / "pipe2").c_str(), 0600) == 0);
  move(elsewhere / "pipe2", folder / "pipe2");
  fs::create_directory(folder / "d");
  CHECK(w.now().empty());
}

TEST_CASE("names may have any bytes") {
  const temporary_folder folder;
  const std::string odd = "a\n\xff\xfe\x1b*?[ ";
  folder.write(odd, "");
  fs::create_directory(folder / "\x80\\");
  watcher w(folder.path());
  CHECK(w.now() == strings{odd, "|"});
  folder.write("\x80\\/\t", "");
  folder.write(std::string(255, 'x'), "");
  CHECK(w.now() == strings{"+\x80\\/\t", "+" + std::string(255, 'x')});
}

TEST_CASE("a directory that can't be watched is an error when the source is made") {
  const temporary_folder folder;
  folder.write("file", "");
  CHECK(throws_saying<std::system_error>("No such file or directory",
                                         [&] { fl::watch_directory(folder / "none"); }));
  CHECK(throws_saying<std::system_error>("Not a directory", [&] { fl::watch_directory(folder / "file"); }));
}

TEST_CASE("removing or moving the directory is an error that ends the run") {
  for (const bool endless : {true, false}) {
    const temporary_folder outer;
    fs::create_directory(outer / "in");
    const auto described = fl::watch_directory(outer / "in").source();
    fs::remove(outer / "in");
    auto run = described;
    run.start_epoch({.endless = endless});
    CHECK(run.ready());
    CHECK(throws_saying<std::system_error>(
        endless ? "the watched directory was removed: " : "the watched directory", [&] { run.next(); }));
    CHECK(!run.next());
  }
  const temporary_folder outer;
  for (const bool moves : {true, false}) {
    fs::create_directory(outer / "in");
    outer.write("in/a", "");
    watcher w(outer / "in");
    CHECK(w.now() == strings{"a", "|"});
    if (moves) move(outer / "in", outer / "out");
    else fs::remove_all(outer / "in");
    CHECK(w.now() == strings{std::string("! the watched directory was ") +
                                 (moves ? "moved away" : "removed") + ": DIR: No such file or directory",
                             "end"});
  }
}

TEST_CASE("a directory below that can't be read is an error, and the others are watched") {
  const temporary_folder folder;
  fs::create_directory(folder / "closed");
  folder.write("a", "");
  const unsigned somebody = ::geteuid() == 0 ? 65534 : ::geteuid(); // root may read everything
  for (const char* name : {".", "closed", "a"})
    REQUIRE(::chown((folder / name).c_str(), somebody, ::getegid()) == 0);
  ::chmod((folder / "closed").c_str(), 0);
  const ::uid_t before = ::geteuid();
  REQUIRE(::seteuid(somebody) == 0);
  for (const bool endless : {true, false}) {
    watcher w(folder.path(), "*", {}, endless);
    CHECK(w.step() == "! can't watch DIR/closed: Permission denied");
    CHECK(w.step() == "a");
    CHECK(w.step() == "|");
    if (endless) move(folder / "a", folder / "b");
    if (endless) move(folder / "b", folder / "a");
    if (endless) folder.write("c", "");
    if (endless) CHECK(w.now() == strings{"+c"});
    fs::remove(folder / "c");
  }
  REQUIRE(::seteuid(before) == 0);
}

TEST_CASE("a path that is too long to be opened is an error of that directory alone") {
  const temporary_folder folder;
  const std::string name(250, 'd');
  const auto depth = static_cast<int>((4096 - folder.path().size()) / (name.size() + 1)) + 2;
  const int here = ::open(".", O_RDONLY | O_DIRECTORY);
  REQUIRE(::chdir(folder.path().c_str()) == 0);
  for (int i = 0; i < depth; ++i) REQUIRE((::mkdir(name.c_str(), 0700) == 0 && ::chdir(name.c_str()) == 0));
  REQUIRE(::fchdir(here) == 0);
  folder.write("a", "");
  watcher w(folder.path());
  const strings all = w.now();
  REQUIRE(all.size() == 3);
  CHECK(all[0].ends_with(": File name too long"));
  CHECK(all[1] == "a");
  CHECK(all[2] == "|");
  ::close(here);
}

TEST_CASE("after random writes, renames and removals, each version was yielded once") {
  const watchdog guard("random changes");
  constexpr int seeds = 150, changes = 60;
  for (int seed = 0; seed < seeds; ++seed) {
    INFO("seed " << seed);
    fl::random_generator random(static_cast<std::uint64_t>(seed));
    const temporary_folder folder, elsewhere;
    const strings folders{"", "s/", "s/t/", "u/"}, names{"a", "b", "c", "d"};
    const auto any = [&] {
      return folder / (folders[random.below(folders.size())] + names[random.below(names.size())]);
    };
    std::size_t version = 0;
    // Each version has another size, as two may be written in one tick of the clock.
    const auto write = [&](const std::string& path) { std::ofstream(path) << std::string(++version, 'x'); };
    std::multiset<std::uintmax_t> read;
    watcher w(folder.path());
    const auto drain = [&] {
      for (const std::string& text : w.now()) {
        if (text == "|") continue;
        REQUIRE(!text.starts_with("!"));
        std::error_code gone;
        const auto size = fs::file_size(folder / text.substr(text.starts_with("+") ? 1 : 0), gone);
        if (!gone) read.insert(size);
      }
    };
    if (random.below(2) == 0) drain();
    for (int i = 0; i < changes; ++i) {
      std::error_code ignored;
      switch (random.below(10)) {
      case 0:
        fs::create_directory(folder / folders[1 + random.below(3)], ignored);
        break;
      case 1:
        if (random.below(4) == 0) fs::remove_all(folder / folders[1 + random.below(3)], ignored);
        else fs::remove(any(), ignored);
        break;
      case 2: // a directory that may contain others
        fs::rename(folder / folders[1 + random.below(3)], folder / folders[1 + random.below(3)], ignored);
        break;
      case 3:
        write(elsewhere / "in");
        fs::rename(elsewhere / "in", any(), ignored);
        break;
      case 4:
        fs::create_directories(elsewhere / "dir/t");
        write(elsewhere / "dir/t/a");
        write(elsewhere / "dir/b");
        fs::rename(elsewhere / "dir", folder / folders[1 + random.below(3)], ignored);
        fs::remove_all(elsewhere / "dir", ignored);
        break;
      case 5:
      case 6:
        fs::rename(any(), any(), ignored);
        break;
      default:
        write(any());
      }
      if (random.below(8) == 0) drain();
    }
    drain();
    for (const std::uintmax_t size : read) CHECK(read.count(size) == 1);
    for (const auto& entry : fs::recursive_directory_iterator(folder.path()))
      if (entry.is_regular_file()) CHECK(read.count(entry.file_size()) == 1);
  }
}

TEST_CASE("thousands of files that arrive while nobody reads are yielded once each, in order") {
  const temporary_folder folder;
  watcher w(folder.path());
  CHECK(w.now() == strings{"|"});
  strings expected;
  for (int i = 0; i < 5000; ++i) {
    folder.write(std::to_string(9999 - i), "x");
    expected.push_back(std::string("+").append(std::to_string(9999 - i)));
  }
  CHECK((w.now() == expected));
}

TEST_CASE("many directories are watched") {
  const temporary_folder folder;
  strings expected;
  for (int i = 1000; i < 2000; ++i) {
    fs::create_directory(folder / std::to_string(i));
    folder.write(std::to_string(i) + "/a", "");
    expected.push_back(std::to_string(i) + "/a");
  }
  expected.push_back("|");
  watcher w(folder.path());
  CHECK((w.now() == expected));
  folder.write("1999/b", "");
  CHECK(w.now() == strings{"+1999/b"});
}

TEST_CASE("when the kernel loses events, no file is lost or yielded twice") {
  if (longest_kernel_queue() > 100'000) return; // it would need too many files
  const watchdog guard("an overflow");
  const temporary_folder folder, elsewhere;
  fs::create_directories(folder / "a/deep");
  fs::create_directory(folder / "gone");
  for (const char* name : {"old", "renamed", "changed", "a/1", "a/deep/2", "gone/3"})
    folder.write(name, name);
  watcher w(folder.path());
  CHECK(w.now() == strings{"a/1", "a/deep/2", "changed", "gone/3", "old", "renamed", "|"});
  for (int round = 0; round < 2; ++round) {
    const std::string r = std::to_string(round);
    strings names = overflow(folder, "many" + r + "-");
    // The kernel drops the events of all this.
    folder.write("late" + r, "");
    folder.write("changed", "changed in round " + r);
    move(folder / (round == 0 ? "renamed" : "renamed0"), folder / ("renamed" + r));
    writer slow(folder / ("slow" + r));
    fs::create_directories(folder / ("new" + r + "/below"));
    folder.write("new" + r + "/below/4", "");
    if (round == 0) {
      fs::remove_all(folder / "gone");
      move(folder / "a", folder / "b");
    } else {
      fs::create_directory(folder / "gone");
      folder.write("gone/3", "again");
      names.push_back("gone/3");
    }
    for (const std::string& name : {"late" + r, std::string("changed"), "new" + r + "/below/4"})
      names.push_back(name);
    for (std::string& name : names) name.insert(0, "+");
    strings found = w.now();
    std::sort(names.begin(), names.end());
    std::sort(found.begin(), found.end());
    CHECK(found.size() == names.size());
    CHECK((found == names));
    slow.write("more");
    CHECK(w.now().empty());
    slow.close();
    // Everything is watched as before.
    folder.write("b/deep/later" + r, "");
    folder.write("new" + r + "/below/later", "");
    CHECK(w.now() == strings{"+slow" + r, "+b/deep/later" + r, "+new" + r + "/below/later"});
  }
}

TEST_CASE("a file that is removed before it is read is the only failure") {
  const watchdog guard("files that vanish");
  const temporary_folder folder;
  for (const char* name : {"a", "b", "c"}) folder.write(name, name);
  const auto is_file = [](const fl::watched_file& f) { return f.is_file(); };
  for (const std::size_t workers : {1u, 2u, 64u}) {
    const auto read = [&](const fl::watched_file& f) {
      if (f.path.ends_with("/b")) fs::remove(f.path);
      const auto bytes = fl::read_file(f.path);
      return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    };
    folder.write("b", "b");
    auto loader = (fl::watch_directory(folder.path()) | fl::filter(is_file) |
                   fl::map(read, fl::workers{workers}) | fl::prefetch(4))
                      .finite({.on_error = fl::on_error::skip});
    CHECK(loader.next() == "a");
    CHECK(loader.next() == "c");
    CHECK(!loader.next());
    REQUIRE(loader.failures().size() == 1);
    CHECK(loader.failures()[0].message.find(folder / "b: No such file or directory") != std::string::npos);
  }
}

TEST_CASE("a run yields files at once, with any number of workers, until it is stopped") {
  const watchdog guard("a live directory");
  for (const std::size_t workers : {1u, 2u, 64u}) {
    const temporary_folder folder;
    folder.write("first", "");
    const auto name = [](const fl::watched_file& f) { return fs::path(f.path).filename().string(); };
    const auto pipeline =
        fl::watch_directory(folder.path()) | fl::map(name, fl::workers{workers}) | fl::prefetch(1000);
    auto loader = pipeline.infinite();
    CHECK(loader.next() == "first");
    CHECK(loader.next() == "");
    for (int i = 0; i < 50; ++i) { // no other file arrives before this one is yielded
      folder.write(std::to_string(i), "x");
      REQUIRE(loader.next() == std::to_string(i));
    }
    CHECK(!loader.try_next());
    CHECK(loader.state() == fl::run_state::running);
    // The same pipeline can run again, also at the same time.
    auto other = pipeline.finite();
    std::size_t files = 0;
    while (other.next()) ++files;
    CHECK(files == 52);
    if (workers == 2) {
      folder.write("last", "");
      while (loader.metrics().total.stages[0].emitted < 53) std::this_thread::yield();
      loader.close();
      CHECK(loader.next() == "last");
    } else {
      loader.stop();
    }
    CHECK(!loader.next());
    CHECK(loader.state() == (workers == 2 ? fl::run_state::finished : fl::run_state::stopped));
  }
}

TEST_CASE("a source that waits uses no processor time, and a stop wakes it") {
  const watchdog guard("a stop");
  const temporary_folder folder;
  watcher w(folder.path());
  CHECK(w.now() == strings{"|"});
  std::string last;
  {
    parking_thread reader([&] { last = w.step(); });
    reader.await_parked();
    const long before = reader.switches();
    burn(50);
    CHECK(reader.switches() == before);
    w.stop();
  }
  CHECK(last == "end");
  watcher early(folder.path());
  early.stop();
  CHECK(early.step() == "end");

  std::stop_source stop;
  auto loader = (fl::watch_directory(folder.path()) | fl::prefetch(1)).infinite({.stop = stop.get_token()});
  CHECK(loader.next().has_value());
  await_all_others_asleep();
  stop.request_stop();
  CHECK(!loader.next());
  auto closed = (fl::watch_directory(folder.path()) | fl::prefetch(1)).infinite();
  CHECK(closed.next().has_value());
  await_all_others_asleep();
  closed.close();
  CHECK(!closed.next());
  CHECK(closed.state() == fl::run_state::finished);
  {
    auto left = (fl::watch_directory(folder.path()) | fl::prefetch(1)).infinite();
  } // one whose next() is never called
}

TEST_CASE("with concurrent writers, renames and removals, each file is yielded exactly once") {
  const watchdog guard("writers");
  const temporary_folder folder;
  constexpr int writers = 3, each = 400;
  const auto whole = [](const fl::watched_file& f) -> std::string {
    if (!f.is_file()) return {};
    const auto bytes = fl::read_file(f.path);
    const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (text.size() < 3 || text.substr(0, 3) != "<<<" || text.substr(text.size() - 3) != ">>>")
      throw std::runtime_error("half a file: " + f.path);
    return text;
  };
  auto loader =
      (fl::watch_directory(folder.path(), "*.gz") | fl::map(whole, fl::workers{2}) | fl::prefetch(100))
          .infinite();
  std::vector<std::jthread> threads;
  for (int t = 0; t < writers; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < each; ++i) {
        const std::string name = std::to_string(t) + "-" + std::to_string(i);
        std::string path = folder / name;
        if (i % 5 == 0) {
          fs::create_directory(folder / ("d" + name));
          path = folder / ("d" + name) + "/x";
        }
        const bool renames = i % 2 == 0;
        {
          std::ofstream file(renames ? path + ".tmp" : path + ".gz");
          for (const char* part : {"<<<", name.c_str(), ">>>"}) file << part << std::flush;
        }
        if (renames) fs::rename(path + ".tmp", path + ".gz");
      }
    });
  std::set<std::string> names;
  std::size_t files = 0;
  while (files < writers * each) {
    const auto text = loader.next();
    REQUIRE(text);
    if (text->empty()) continue;
    ++files;
    CHECK(names.insert(*text).second);
  }
  threads.clear();
  CHECK(names.size() == writers * each);
  CHECK(!loader.try_next());
}

TEST_CASE("a memory budget includes the longest possible path") {
  const temporary_folder folder;
  const auto pipeline =
      fl::watch_directory(folder.path()) | fl::map([](const fl::watched_file&) { return 1; });
  auto loader = pipeline.finite({.memory_budget = 20'000'000});
  CHECK(loader.next() == 1);
  CHECK(*loader.memory().bytes() <= 20'000'000);
}

namespace {

/// A file without a name in a folder, open for writing.
class nameless_file {
 public:
  explicit nameless_file(const std::string& folder)
      : file_(::open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0644)) {}

  nameless_file(const nameless_file&) = delete;

  ~nameless_file() { close(); }

  bool is_possible() const { return file_ >= 0; } ///< some file systems have none

  void write(std::string_view text) const {
    REQUIRE(::write(file_, text.data(), text.size()) == static_cast<::ssize_t>(text.size()));
  }

  void link(const std::string& to) const {
    const std::string from = "/proc/self/fd/" + std::to_string(file_);
    REQUIRE(::linkat(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), AT_SYMLINK_FOLLOW) == 0);
  }

  void close() {
    if (file_ >= 0) ::close(std::exchange(file_, -1));
  }

 private:
  int file_;
};

/// As maildir does.
void link_and_unlink(const std::string& from, const std::string& to) {
  REQUIRE(::link(from.c_str(), to.c_str()) == 0);
  REQUIRE(::unlink(from.c_str()) == 0);
}

} // namespace

TEST_CASE("each way to publish a file yields it once, when it is complete") {
  const temporary_folder folder, outside;
  fs::create_directories(folder / "sub");
  watcher w(folder.path(), "*.gz");
  CHECK(w.now() == strings{"|"});
  SECTION("it is written and closed") {
    writer slow(folder / "a.gz");
    CHECK(w.now().empty());
    slow.close();
    CHECK(w.now() == strings{"+a.gz"});
  }
  SECTION("it is renamed") {
    move(folder.write(".a", "1"), folder / "a.gz");
    move(outside.write("b.gz", "1"), folder / "sub/b.gz");
    CHECK(w.now() == strings{"+a.gz", "+sub/b.gz"});
  }
  SECTION("it is linked, and its first name removed") {
    link_and_unlink(folder.write(".a", "1"), folder / "a.gz");
    link_and_unlink(outside.write("b", "1"), folder / "sub/b.gz");
    CHECK(w.now() == strings{"+a.gz", "+sub/b.gz"});
  }
  SECTION("it is linked and keeps its first name") {
    fs::create_hard_link(outside.write("a", ""), folder / "a.gz");
    fs::create_hard_link(outside.write("b", "1"), folder / "b.gz");
    CHECK(w.now() == strings{"+a.gz", "+b.gz"});
  }
  SECTION("it is linked while it is open for writing") {
    writer slow(outside / "a");
    fs::create_hard_link(outside / "a", folder / "a.gz");
    CHECK(w.now().empty());
    slow.write("more");
    CHECK(w.now().empty());
    slow.close();
    CHECK(w.now() == strings{"+a.gz"});
  }
  SECTION("a symbolic link leads to it") {
    fs::create_symlink(outside.write("a", "1"), folder / "a.gz");
    writer slow(outside / "b");
    fs::create_symlink(outside / "b", folder / "b.gz");
    CHECK(w.now() == strings{"+a.gz"});
    slow.close();
    CHECK(w.now() == strings{"+b.gz"});
  }
  SECTION("it had no name before") {
    nameless_file closed(folder.path()), open(folder.path());
    if (!closed.is_possible()) return;
    closed.write("1");
    closed.link(folder / "a.gz");
    closed.close();
    open.write("1");
    open.link(folder / "sub/b.gz");
    CHECK(w.now() == strings{"+a.gz"});
    open.write("2");
    open.close();
    CHECK(w.now() == strings{"+sub/b.gz"});
  }
  SECTION("it is empty") {
    const std::string empty = outside.write("a", "");

    struct statx status {};

    do { // until the clock of the file system has advanced
      fs::permissions(empty, fs::perms::owner_read | fs::perms::owner_write);
      REQUIRE(::statx(AT_FDCWD, empty.c_str(), 0, STATX_BASIC_STATS | STATX_BTIME, &status) == 0);
      if ((status.stx_mask & STATX_BTIME) == 0) return;
    } while (status.stx_ctime.tv_sec == status.stx_btime.tv_sec &&
             status.stx_ctime.tv_nsec == status.stx_btime.tv_nsec);
    link_and_unlink(empty, folder / "a.gz");
    folder.write("b.gz", "");
    CHECK(w.now() == strings{"+b.gz", "+a.gz"});
  }
  SECTION("its folder is moved") {
    fs::create_directories(outside / "new/deep");
    outside.write("new/b.gz", "1");
    link_and_unlink(outside.write("x", "1"), outside / "new/deep/a.gz");
    move(outside / "new", folder / "new");
    CHECK(w.now() == strings{"+new/b.gz", "+new/deep/a.gz"});
  }
  SECTION("another process copies it") {
    outside.write("a", "1");
    REQUIRE(std::system(("cp " + outside / "a" + " " + (folder / "a.gz")).c_str()) == 0);
    CHECK(w.now() == strings{"+a.gz"});
  }
  SECTION("it is written again") {
    folder.write("a.gz", "1");
    CHECK(w.now() == strings{"+a.gz"});
    {
      std::ofstream again(folder / "a.gz", std::ios::trunc);
      again << "22" << std::flush;
      CHECK(w.now().empty());
    }
    CHECK(w.now() == strings{"+a.gz"});
  }
  SECTION("it is open for writing during the scan, by a name outside") {
    writer slow(outside / "a");
    fs::create_hard_link(outside / "a", folder / "sub/a.gz");
    watcher other(folder.path(), "*.gz");
    CHECK(other.now() == strings{"|"});
    slow.close();
    CHECK(other.now() == strings{"+sub/a.gz"});
    CHECK(w.now() == strings{"+sub/a.gz"});
  }
  CHECK(w.now().empty());
}

TEST_CASE("files that many threads publish in different ways are yielded once each, and whole") {
  const watchdog guard("publishers");
  const temporary_folder folder;
  const int count = fl::test::rounds(60);
  std::atomic<bool> is_scanned{false};
  std::stop_source stop;
  std::multiset<std::string> seen;
  const std::string content(5000, 'x');
  std::jthread reader([&] {
    auto loader =
        (fl::watch_directory(folder.path(), "*.gz") | fl::prefetch(4)).infinite({.stop = stop.get_token()});
    while (const auto file = loader.next()) {
      if (!file->is_file()) is_scanned = true;
      else seen.insert(contents_of(file->path) == content ? file->path : "in part: " + file->path);
      is_scanned.notify_all();
      if (seen.size() >= static_cast<std::size_t>(4 * count)) break;
    }
  });
  is_scanned.wait(false);
  std::multiset<std::string> expected;
  const auto name = [&](int way, int i) {
    return folder / (std::to_string(way) + "-" + std::to_string(i) + ".gz");
  };
  for (int way = 0; way < 4; ++way)
    for (int i = 0; i < count; ++i) expected.insert(name(way, i));
  {
    std::vector<std::jthread> publishers;
    for (int way = 0; way < 4; ++way)
      publishers.emplace_back([&, way] {
        for (int i = 0; i < count; ++i) {
          const std::string to = name(way, i), draft = folder / (".tmp" + std::to_string(way));
          if (way == 0) { // piece by piece
            const int file = ::open(to.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
            for (std::size_t at = 0; at < content.size(); at += 1000)
              static_cast<void>(!::write(file, content.data() + at, 1000));
            ::close(file);
            continue;
          }
          std::ofstream(draft) << content;
          if (way == 1) link_and_unlink(draft, to);
          else if (way == 2) fs::rename(draft, to);
          else fs::create_hard_link(draft, to), fs::remove(draft);
        }
      });
  }
  reader.join();
  CHECK(seen == expected);
}
