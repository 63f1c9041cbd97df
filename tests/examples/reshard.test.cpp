// SPDX-License-Identifier: MIT
// The program reshard as users run it: what it writes, and that a killed run ends as if nothing had happened.
#include <feedline/detail/tar_reader.hpp>
#include <feedline/feedline.hpp>
#include <feedline/image.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../examples/reshard/tar_writer.hpp"
#include "support/catch.hpp"
#include "support/jpeg_writer.hpp"
#include "support/program_outcome.hpp"
#include "support/tar_writer.hpp"
#include "support/temporary_folder.hpp"
#include "support/test_data.hpp"

namespace fl = feedline;
namespace fs = std::filesystem;
using fl::test::contents_of;
using fl::test::temporary_folder;
using test_tar = fl::test::tar_writer;

namespace {

const std::string program = FEEDLINE_RESHARD;

/// So that every JPEG is rewritten, with as many segments as --segments allows.
const std::string grow = " --max-growth 10 ";

using members = std::vector<std::pair<std::string, std::string>>; // name and contents

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

std::string as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// A JPEG that differs for each number.
std::string jpeg(int number, const fl::test::jpeg_recipe& recipe = {}) {
  auto image = fl::test::gradient(48, 160, recipe.from == JCS_CMYK ? 4 : 3);
  for (std::size_t i = 0; i < 24; ++i)
    for (std::size_t k = 0; k < 60; ++k)
      if (number >> (i % 12) & 1) image[i * 400 + k] = 255;
  return as_text(fl::test::write_jpeg(image, recipe));
}

/// A JPEG that ends in the middle.
std::string damaged_jpeg() {
  const std::string whole = jpeg(1);
  return whole.substr(0, whole.size() / 2);
}

bool is_jpeg(const std::string& contents) { return contents.starts_with("\xff\xd8\xff"); }

members members_in(const std::string& shard) {
  const std::string archive = contents_of(shard);
  fl::detail::tar_memory memory(bytes_of(archive));
  fl::detail::tar_reader reader(memory);
  reader.keep_hidden();
  members found;
  fl::detail::tar_member member;
  for (;;) {
    const auto status = reader.next(member);
    if (status == fl::detail::tar_status::end) return found;
    REQUIRE(status == fl::detail::tar_status::member);
    found.emplace_back(member.full_name(), as_text(member.bytes));
  }
}

/// Each file of a folder whose name ends in .tar, sorted.
std::vector<std::string> shards_in(const std::string& folder) {
  std::vector<std::string> shards;
  if (!fs::exists(folder)) return shards;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().extension() == ".tar") shards.push_back(entry.path().string());
  std::sort(shards.begin(), shards.end());
  return shards;
}

members members_of(const std::string& folder) {
  members all;
  for (const std::string& shard : shards_in(folder))
    for (auto& m : members_in(shard)) all.push_back(std::move(m));
  return all;
}

std::vector<std::string> names_of(const members& all) {
  std::vector<std::string> names;
  for (const auto& [name, contents] : all) names.push_back(name);
  return names;
}

/// Names and bytes of all files of a folder without .index files, which have the times of their shards.
std::map<std::string, std::string> result_in(const std::string& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().extension() != ".index") files[entry.path().filename()] = contents_of(entry.path());
  return files;
}

/// Checks that the members are the same, except that JPEGs may have other bytes for the same coefficients. Returns how
/// many do.
int check_same(const members& before, const members& after) {
  REQUIRE((names_of(before) == names_of(after)));
  int rewritten = 0;
  for (std::size_t i = 0; i < before.size(); ++i) {
    const auto &old = before[i].second, &now = after[i].second;
    if (old == now) continue;
    INFO(before[i].first);
    REQUIRE(is_jpeg(old));
    CHECK(fl::same_jpeg_coefficients(bytes_of(old), bytes_of(now)));
    ++rewritten;
  }
  return rewritten;
}

/// A folder with shards of samples of a JPEG and a class each.
struct fixture {
  explicit fixture(int shards = 3, int samples = 7, const std::set<int>& damaged = {}) {
    fs::create_directory(folder / "in");
    for (int s = 0; s < shards; ++s) {
      test_tar tar;
      for (int i = s * samples; i < (s + 1) * samples; ++i)
        tar.add(std::to_string(i) + ".jpg", damaged.contains(i) ? damaged_jpeg() : jpeg(i))
            .add(std::to_string(i) + ".cls", std::to_string(i % 3));
      folder.write("in/" + std::to_string(s) + ".tar", tar.closed());
    }
  }

  fl::test::program_outcome run(const std::string& flags) const {
    return fl::test::run_command(program + " " + flags, folder);
  }

  /// The flags that read all shards and write to a folder.
  std::string to(const std::string& out, const std::string& flags = grow) const {
    return "--input '" + (folder / "in/*.tar") + "' --out " + (folder / out) + " " + flags;
  }

  members input() const { return members_of(folder / "in"); }

  members output(const std::string& out) const { return members_of(folder / out); }

  /// Makes an input of one shard.
  void set_input(const std::string& archive) const {
    fs::remove_all(folder / "in");
    fs::create_directory(folder / "in");
    folder.write("in/0.tar", archive);
  }

  temporary_folder folder;
};

/// Starts the program with its output in a pipe, sends it a signal with its second line, after at least a
/// tenth of the work, and waits for its end.
struct interrupted_run {
  interrupted_run(const std::string& flags, int signal) {
    int ends[2];
    REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
    const std::string command = "exec " + program + " " + flags + " 2>&1";
    const ::pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      ::dup2(ends[1], STDOUT_FILENO);
      ::execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
      ::_exit(127);
    }
    ::close(ends[1]);
    char buffer[4096];
    bool sent = false;
    for (;;) {
      const ::ssize_t got = ::read(ends[0], buffer, sizeof buffer);
      if (got <= 0) break;
      output.append(buffer, static_cast<std::size_t>(got));
      if (!sent && std::count(output.begin(), output.end(), '\n') > 1) sent = ::kill(child, signal) == 0;
    }
    ::close(ends[0]);
    REQUIRE(::waitpid(child, &status, 0) == child);
  }

  bool ended_with(int exit_status) const { return WIFEXITED(status) && WEXITSTATUS(status) == exit_status; }

  std::string output;
  int status = 0;
};

/// Starts the program and interrupts it with the signal, until one ends by itself. Returns the number of starts that the
/// signal ended. `between` is called after each of them.
int interrupt_until_done(const std::string& flags, int signal,
                         const std::function<void(const interrupted_run&)>& between) {
  for (int interruptions = 0;; ++interruptions) {
    const interrupted_run run(flags, signal);
    INFO(run.output);
    if (run.ended_with(0)) return interruptions;
    if (signal != SIGKILL && WIFSIGNALED(run.status))
      continue; // it came after the end, when nothing handles it
    REQUIRE((signal == SIGKILL ? WIFSIGNALED(run.status) : run.ended_with(128 + signal)));
    between(run);
  }
}

} // namespace

TEST_CASE("Without a shuffle the output equals the input, except for the bytes of the JPEGs") {
  const fixture f;
  const auto o = f.run(f.to("out", grow + "--verify"));
  INFO(o.log);
  REQUIRE(o.status == 0);
  CHECK(check_same(f.input(), f.output("out")) == 21);
  CHECK(o.says("21 samples, 42 files"));
  CHECK(o.says("21 JPEGs"));
  CHECK(o.says("rewritten: 21\n"));
  CHECK(o.says("failed: 0\n"));
  CHECK(o.says("JPEGs/s"));
  CHECK(!o.says("\r"));
  CHECK(names_of(f.output("out"))[1] == "0.cls");
}

TEST_CASE("An index is kept beside each shard and used") {
  const fixture f;
  REQUIRE(f.run(f.to("out", grow + "--shards 2")).status == 0);
  const auto shards = shards_in(f.folder / "out");
  REQUIRE(shards.size() == 2);
  const auto number_of = [](const std::string& file) {
    struct stat status {};
    REQUIRE(::stat(file.c_str(), &status) == 0);
    return status.st_ino;
  };
  std::vector<::ino_t> before;
  for (const auto& shard : shards) before.push_back(number_of(shard + ".index"));
  CHECK(fl::tar_samples(shards, {.keep_index = true}).indexed().size() == 21);
  for (std::size_t i = 0; i < shards.size(); ++i)
    CHECK(number_of(shards[i] + ".index") == before[i]); // an index that doesn't fit would be replaced
}

TEST_CASE("A shuffle is a permutation, which depends on the seed alone") {
  const fixture f;
  REQUIRE(f.run(f.to("1", grow + "--shuffle-seed 5 --workers 1")).status == 0);
  REQUIRE(f.run(f.to("64", grow + "--shuffle-seed 5 --workers 64")).status == 0);
  REQUIRE(f.run(f.to("other", grow + "--shuffle-seed 6")).status == 0);
  CHECK((result_in(f.folder / "1") == result_in(f.folder / "64")));
  auto sorted = f.output("1"), input = f.input();
  CHECK((names_of(sorted) != names_of(input)));
  CHECK((names_of(sorted) != names_of(f.output("other"))));
  for (std::size_t i = 0; i < sorted.size(); i += 2) { // samples stay whole
    CHECK(sorted[i].first.ends_with(".jpg"));
    CHECK(sorted[i + 1].first == sorted[i].first.substr(0, sorted[i].first.find('.')) + ".cls");
  }
  const auto by_name = [](const auto& a, const auto& b) { return a.first < b.first; };
  std::sort(sorted.begin(), sorted.end(), by_name);
  std::sort(input.begin(), input.end(), by_name);
  CHECK(check_same(input, sorted) == 21);
}

TEST_CASE("The output doesn't depend on the number of workers") {
  const fixture f;
  REQUIRE(f.run(f.to("1", grow + "--shards 4 --workers 1")).status == 0);
  REQUIRE(f.run(f.to("64", grow + "--shards 4 --workers 64")).status == 0);
  CHECK((result_in(f.folder / "1") == result_in(f.folder / "64")));
}

TEST_CASE("--shards divides the samples evenly") {
  const fixture f;
  REQUIRE(f.run(f.to("out", grow + "--shards 4")).status == 0);
  std::vector<std::size_t> sizes;
  for (const auto& shard : shards_in(f.folder / "out")) sizes.push_back(members_in(shard).size() / 2);
  CHECK((sizes == std::vector<std::size_t>{6, 5, 5, 5}));
  CHECK(fs::exists(f.folder / "out/shard-000003.tar"));
  CHECK(check_same(f.input(), f.output("out")) == 21);
  const auto too_many = f.run(f.to("many", grow + "--shards 22"));
  CHECK(too_many.status == 1);
  CHECK(too_many.says("--shards 22 is more than the 21 samples of the input"));
  CHECK(f.run(f.to("many", grow + "--shards 21")).status == 0); // flags may change until a shard is finished
  CHECK(shards_in(f.folder / "many").size() == 21);
}

TEST_CASE("--shard-bytes is the most that a shard of several samples has") {
  const fixture f;
  REQUIRE(f.run(f.to("out", grow + "--shard-bytes 20000 --name train")).status == 0);
  const auto shards = shards_in(f.folder / "out");
  CHECK(shards.size() > 2);
  CHECK(shards.front() == f.folder / "out/train-000000.tar");
  for (std::size_t i = 0; i < shards.size(); ++i) {
    CHECK(fs::file_size(shards[i]) <= 20'000);
    if (i == 0) continue;
    std::uintmax_t first = 0; // of the shard's first sample, which had no room in the shard before
    const auto in_shard = members_in(shards[i]);
    for (std::size_t k = 0; k < 2; ++k) first += 512 + (in_shard[k].second.size() + 511) / 512 * 512;
    CHECK(fs::file_size(shards[i - 1]) + first > 20'000);
  }
  CHECK(check_same(f.input(), f.output("out")) == 21);
  REQUIRE(f.run(f.to("one", grow + "--shard-bytes 1")).status == 0);
  CHECK(shards_in(f.folder / "one").size() == 21);
}

TEST_CASE("Every name of a member is kept") {
  const fixture f;
  const std::string deep = std::string(90, 'd') + "/" + std::string(90, 'e');
  test_tar tar;
  tar.add("./a.b/17.seg.png", "1").add("./a.b/17.JPG", jpeg(1));
  tar.add("no_extension", "2");
  tar.add("dot_at_the_end.", "3");
  tar.add("two..dots", "4").add(".hidden", "5").add("dir/.hidden.jpg", jpeg(2));
  tar.add("with space and \xc3\xbc and \n.txt", "6").add("empty", "");
  tar.add(std::string(99, 'x') + "y", "7").add(test_tar::record("a", "b"), "8");
  tar.pax({{"path", deep + "/in pax.jpg"}}).add("short", jpeg(3));
  tar.pax({{"path", deep + "/in pax.cls"}}).add("short", "9");
  tar.long_name(deep + "/in GNU").add("short", "10");
  tar.add(tar.header("name.cls", "11").prefix("dir/ectory"), "11");
  tar.add("._17.jpg", "a fork of macOS");
  const members expected = [&] {
    f.set_input(tar.closed());
    return f.input();
  }();
  tar.add("directory/", "", '5').add("link", "", '2');
  f.set_input(tar.closed());
  const auto o = f.run(f.to("out"));
  INFO(o.log);
  REQUIRE(o.status == 0);
  CHECK(check_same(expected, f.output("out")) == 3);
  CHECK(expected.size() == 16);
  // Shuffled, names stay with their samples.
  REQUIRE(f.run(f.to("shuffled", grow + "--shuffle-seed 1")).status == 0);
  auto sorted = f.output("shuffled"), before = expected;
  std::sort(sorted.begin(), sorted.end());
  std::sort(before.begin(), before.end());
  CHECK((names_of(sorted) == names_of(before)));
}

TEST_CASE("A member of more than 8 GiB has its size in a pax header") {
  const std::string headers = tar_writer::headers_of("big.bin", 9'000'000'001);
  CHECK(headers.size() == 3 * 512);
  CHECK(tar_writer::size_of("big.bin", 9'000'000'001) == 9'000'000'512 + headers.size());
  fl::detail::tar_memory memory(bytes_of(headers));
  fl::detail::tar_reader reader(memory);
  fl::detail::tar_member member;
  CHECK(reader.next(member) == fl::detail::tar_status::cut_off);
  CHECK(reader.problem().find("9000000001 bytes announced") != std::string::npos);
}

TEST_CASE("Neighbours with the same name don't become one sample") {
  const fixture f;
  test_tar one, other;
  one.add("1.jpg", jpeg(1));
  other.add("1.cls", "1").add("2.cls", "2");
  f.set_input(one.closed());
  f.folder.write("in/1.tar", other.closed());
  REQUIRE(f.run(f.to("out")).status == 0);
  CHECK(shards_in(f.folder / "out").size() == 2);
  CHECK(check_same(f.input(), f.output("out")) == 1);
  CHECK(f.run(f.to("three", grow + "--shards 3")).status == 0);
  const auto single = f.run(f.to("single", grow + "--shards 1"));
  CHECK(single.status == 1);
  CHECK(single.says("two samples with the name 1"));
}

TEST_CASE("What isn't rewritten passes through and is counted") {
  const fixture f;
  test_tar tar;
  tar.add("1.jpg", jpeg(1, {.arithmetic = true})).add("2.jpg", jpeg(2, {.arithmetic = true}));
  tar.add("3.jpg", jpeg(3, {.from = JCS_CMYK, .stored = JCS_CMYK, .adobe_marker = false}));
  tar.add("4.jpg", "a text").add("5.bin", jpeg(5)).add("6.png", "\x89PNG").add("7.jpeg", "");
  f.set_input(tar.closed());
  const auto o = f.run(f.to("out", "--max-growth 0.5"));
  INFO(o.log);
  REQUIRE(o.status == 0);
  CHECK(o.says("7 samples, 7 files"));
  CHECK(o.says("4 JPEGs"));
  CHECK(o.says("rewritten: 1\n"));
  CHECK(o.says("unchanged: 2: it has arithmetic coding\n"));
  CHECK(o.says("unchanged: 1: it is CMYK without an Adobe marker\n"));
  CHECK(o.says("unchanged: 2: it isn't a JPEG, although its name says so\n"));
  CHECK(check_same(f.input(), f.output("out")) == 1);

  fs::rename(f.folder / "out", f.folder / "again"); // a second pass finds nothing to do
  const auto again = f.run("--input " + (f.folder / "again/shard-000000.tar") + " --max-growth 0.5 --out " +
                           (f.folder / "twice"));
  CHECK(again.says("unchanged: 1: it has restart markers already\n"));
  CHECK((members_of(f.folder / "again") == members_of(f.folder / "twice")));

  // Each of these would grow by another fraction; they are one reason.
  test_tar small;
  for (int i = 0; i < 9; ++i) small.add(std::to_string(i) + ".jpg", jpeg(1 << i, {.optimized = true}));
  f.set_input(small.closed());
  const auto growing = f.run(f.to("growing", "--max-growth 0"));
  INFO(growing.log);
  CHECK(growing.says("unchanged: 9: it would grow by more than 0.0 %\n"));
  CHECK((f.input() == f.output("growing")));
}

TEST_CASE("--segments limits the segments of a row") {
  const fixture f(1, 1);
  const auto size = [&](const std::string& segments) {
    REQUIRE(f.run(f.to("out" + segments, grow + "--segments " + segments)).status == 0);
    return f.output("out" + segments)[0].second.size();
  };
  CHECK(size("1") < size("4"));
}

TEST_CASE("--on-error decides what happens to a JPEG that can't be read") {
  const fixture f(1, 8, {2, 6});
  const auto fails = f.run(f.to("out", grow + "--shard-bytes 1"));
  INFO(fails.log);
  CHECK(fails.status == 1);
  CHECK(fails.says("0.tar: 2.jpg, .cls"));
  CHECK(std::count(fails.log.begin() + static_cast<std::ptrdiff_t>(fails.log.find("reshard:")),
                   fails.log.end(), '\n') == 1);
  CHECK(!fs::exists(f.folder / "out/shard-000002.tar"));
  CHECK(!fs::exists(f.folder / "out/shard-000002.tar.draft"));

  SECTION("skip") {
    const auto o = f.run(f.to("out", grow + "--shard-bytes 1 --on-error skip")); // continues the failed run
    INFO(o.log);
    REQUIRE(o.status == 0);
    CHECK(o.says("6 shards in"));
    CHECK(o.says("failed: 2\n"));
    CHECK(o.says("0.tar: 6.jpg, .cls"));
    members expected = f.input();
    expected.erase(expected.begin() + 12, expected.begin() + 14);
    expected.erase(expected.begin() + 4, expected.begin() + 6);
    CHECK(check_same(expected, f.output("out")) == 6);
    REQUIRE(f.run(f.to("whole", grow + "--shard-bytes 1 --on-error skip")).status == 0);
    CHECK((result_in(f.folder / "whole") == result_in(f.folder / "out")));
    // The samples that are left out keep their places.
    REQUIRE(f.run(f.to("four", grow + "--shards 4 --on-error skip")).status == 0);
    CHECK((names_of(members_in(f.folder / "four/shard-000001.tar")) ==
           std::vector<std::string>{"3.jpg", "3.cls"}));
    REQUIRE(f.run(f.to("eight", grow + "--shards 8 --on-error skip")).status == 0);
    CHECK(shards_in(f.folder / "eight").size() == 8);
    CHECK(members_in(f.folder / "eight/shard-000002.tar").empty());
  }
  SECTION("keep") {
    const auto o = f.run(f.to("out", grow + "--shard-bytes 1 --on-error keep"));
    REQUIRE(o.status == 0);
    CHECK(o.says("failed: 2\n"));
    CHECK(o.says("in/0.tar: 6.jpg: "));
    CHECK(check_same(f.input(), f.output("out")) == 6);
    const auto changed = f.run(f.to("out", grow + "--shard-bytes 1 --on-error skip"));
    CHECK(changed.status == 1);
    CHECK(changed.says("were begun with --on-error keep, not skip"));
  }
}

TEST_CASE("A shard that can't be read is one sentence") {
  const fixture f;
  const std::string shard = f.folder / "in/1.tar";
  fs::resize_file(shard, fs::file_size(shard) / 2 / 512 * 512 + 100);
  for (const std::string mode : {"fail", "keep"}) {
    const auto o = f.run(f.to(mode, grow + "--on-error " + mode));
    INFO(o.log);
    CHECK(o.status == 1);
    CHECK(o.says("in/1.tar: member `"));
  }
  const auto o = f.run(f.to("skip", grow + "--on-error skip"));
  CHECK(o.status == 0);
  CHECK(o.says("failed: 1\n"));
  CHECK(f.output("skip").front().first == "0.jpg");
  CHECK(f.output("skip").back().first == "20.cls");
  const auto missing = f.run("--input " + (f.folder / "none.tar") + " --out " + (f.folder / "out"));
  CHECK(missing.status == 1);
  CHECK(missing.says("can't read " + (f.folder / "none.tar") + ": No such file"));
  const auto no_match = f.run("--input '" + (f.folder / "none*.tar") + "' --out " + (f.folder / "out"));
  CHECK(no_match.status == 1);
  CHECK(no_match.says("no file matches"));
}

TEST_CASE("A folder of files becomes shards") {
  const fixture f;
  fs::create_directories(f.folder / "photos/b");
  f.folder.write("photos/2.jpg", jpeg(2));
  f.folder.write("photos/2-a.jpg", jpeg(3)); // sorts between the files of sample 2
  f.folder.write("photos/2", "no extension");
  f.folder.write("photos/b/1.jpg", jpeg(1));
  f.folder.write("photos/b/1.cls", "7");
  const std::string flags = "--input " + (f.folder / "photos") + grow;
  const auto o = f.run(flags + "--shards 2 --out " + (f.folder / "out"));
  INFO(o.log);
  REQUIRE(o.status == 0);
  const auto all = f.output("out");
  CHECK((names_of(all) == std::vector<std::string>{"2", "2.jpg", "2-a.jpg", "b/1.cls", "b/1.jpg"}));
  for (const auto& [name, contents] : all) {
    const std::string before = contents_of(f.folder / ("photos/" + name));
    if (is_jpeg(before)) CHECK(fl::same_jpeg_coefficients(bytes_of(before), bytes_of(contents)));
    else CHECK(before == contents);
  }
  CHECK(o.says("3 samples, 5 files"));
  CHECK(o.says("rewritten: 3\n"));
  CHECK(f.run(flags + "--shuffle-seed 3 --out " + (f.folder / "shuffled")).status == 0);
  CHECK(f.output("shuffled").size() == 5);

  f.folder.write("photos/b/1.jpg", damaged_jpeg());
  const auto damaged = f.run(flags + "--out " + (f.folder / "damaged"));
  CHECK(damaged.status == 1);
  CHECK(damaged.says("photos/b/1.cls): b/1.jpg: "));
  const auto kept = f.run(flags + "--on-error keep --out " + (f.folder / "kept"));
  CHECK(kept.says("photos/b/1.jpg: "));
  fs::create_directory(f.folder / "empty");
  CHECK(f.run("--input " + (f.folder / "empty") + " --out " + (f.folder / "x")).status == 1);
}

TEST_CASE("A run that is killed again and again has the same result") {
  const std::string flags =
      GENERATE(as<std::string>(), "--shard-bytes 5000", "--shuffle-seed 3 --shards 40 --on-error skip",
               "--shard-bytes 5000 --on-error skip --workers 3");
  int interruptions = 0;
  for (int samples = 60; interruptions == 0 && samples < 10'000;
       samples *= 3) { // a fast machine may finish first
    std::set<int> damaged;
    if (flags.find("skip") != std::string::npos) damaged = {0, samples, samples + 7, 2 * samples - 1};
    const fixture f(2, samples, damaged);
    REQUIRE(f.run(f.to("whole", grow + flags)).status == 0);
    const auto whole = result_in(f.folder / "whole");
    interruptions = interrupt_until_done(f.to("killed", grow + flags), SIGKILL, [&](const interrupted_run&) {
      // What a killed run has left of the next shard is replaced.
      const std::size_t finished = shards_in(f.folder / "killed").size();
      const auto all = shards_in(f.folder / "whole");
      if (finished < all.size())
        f.folder.write("killed/" + fs::path(all[finished]).filename().string() + ".draft", "half a shard");
    });
    CHECK((result_in(f.folder / "killed") == whole));
    for (const auto& shard : shards_in(f.folder / "killed")) CHECK(fs::exists(shard + ".index"));
  }
  CHECK(interruptions > 0);
}

TEST_CASE("A shard that was finished, but not yet counted, is replaced") {
  const fixture f(1, 8, {2});
  REQUIRE(f.run(f.to("whole", grow + "--shard-bytes 1 --on-error keep")).status == 0);
  REQUIRE(f.run(f.to("out", grow + "--shard-bytes 1")).status == 1);
  REQUIRE(shards_in(f.folder / "out").size() == 1);
  f.folder.write("out/shard-000001.tar", "from a run that was killed before it saved its state");
  f.folder.write("out/shard-000001.tar.draft", "half a shard");
  f.folder.write("out/shard-000001.tar.index", "an index of that shard");
  f.folder.write("out/shard-000001.tar.index.123-0", "half an index");
  REQUIRE(f.run(f.to("out", grow + "--shard-bytes 1 --on-error keep")).status == 0);
  CHECK((result_in(f.folder / "whole") == result_in(f.folder / "out")));
}

TEST_CASE("Ctrl-C ends a run, which then continues with the same result") {
  int interruptions = 0;
  for (int samples = 100; interruptions == 0 && samples < 10'000; samples *= 3) {
    const fixture f(1, samples);
    const std::string flags = grow + "--shard-bytes 5000";
    REQUIRE(f.run(f.to("whole", flags)).status == 0);
    interruptions = interrupt_until_done(f.to("out", flags), SIGINT, [&](const interrupted_run& run) {
      CHECK(run.output.find("interrupted after ") != std::string::npos);
      CHECK(run.output.find("start it again with the same flags to continue") != std::string::npos);
      for (const auto& entry : fs::directory_iterator(f.folder / "out"))
        CHECK(entry.path().extension() != ".draft");
    });
    CHECK((result_in(f.folder / "whole") == result_in(f.folder / "out")));
  }
  CHECK(interruptions > 0);
}

TEST_CASE("A run continues only with the same flags and input") {
  const fixture f(2, 5, {7});
  const std::string flags = "--shard-bytes 5000 ";
  REQUIRE(f.run(f.to("out", grow + flags)).status == 1); // at sample 7
  const auto before = result_in(f.folder / "out");
  REQUIRE(before.size() > 2);
  const auto refuses = [&](const std::string& other, const std::string& words) {
    const auto o = f.run(f.to("out", other));
    INFO(o.log);
    CHECK(o.status == 1);
    CHECK(o.says(words));
    CHECK(std::count(o.log.begin(), o.log.end(), '\n') == 1);
    CHECK((result_in(f.folder / "out") == before));
  };
  refuses(grow + flags + "--segments 4", "were begun with --segments 16, not 4: use the same flags");
  refuses(grow + flags + "--shuffle-seed 4", "were begun with --shuffle-seed none, not 4");
  refuses(grow + "--shards 4", "were begun with --shard-bytes 5000, not none");
  refuses(grow + "--shard-bytes 6000", "were begun with --shard-bytes 5000, not 6000");
  refuses(flags, "were begun with --max-growth 10, not 0.02");

  const std::string shard = f.folder / "out/shard-000000.tar", contents = contents_of(shard);
  fs::resize_file(shard, contents.size() - 512);
  CHECK(
      f.run(f.to("out", grow + flags)).says("shard-000000.tar was changed or removed after it was finished"));
  fs::remove(shard);
  CHECK(
      f.run(f.to("out", grow + flags)).says("shard-000000.tar was changed or removed after it was finished"));
  f.folder.write("out/shard-000000.tar", contents);

  // Workers, --verify and, as long as nothing has failed, --on-error may change.
  const std::string input = contents_of(f.folder / "in/1.tar");
  SECTION("the same") {
    const auto o = f.run(f.to("out", grow + flags + "--workers 3 --verify --on-error keep"));
    INFO(o.log);
    CHECK(o.status == 0);
    CHECK(check_same(f.input(), f.output("out")) == 9);
    const auto again = f.run(f.to("out", grow + flags + "--on-error keep"));
    CHECK(again.status == 0);
    CHECK(again.says("nothing to do"));
    CHECK(again.says("10 samples, 20 files"));
    CHECK(f.run(f.to("out", grow + flags)).status == 1);
  }
  SECTION("another file") {
    f.folder.write("in/1.tar", input + input);
    refuses(grow + flags, "the input isn't the one with which the shards in " + (f.folder / "out"));
  }
  SECTION("one more file") {
    f.folder.write("in/2.tar", input);
    refuses(grow + flags, "the input isn't the one with which the shards in " + (f.folder / "out"));
  }
  SECTION("a damaged state") {
    f.folder.write("out/shard.reshard", "nothing");
    const auto o = f.run(f.to("out", grow + flags));
    CHECK(o.status == 1);
    CHECK(o.says("shard.reshard isn't the state of a run of this program"));
  }
}

TEST_CASE("Shards of others are never overwritten") {
  const fixture f;
  fs::create_directory(f.folder / "out");
  const std::string name = GENERATE(as<std::string>(), "shard-000003.tar", "shard-000000.tar.index");
  f.folder.write("out/" + name, "mine");
  const auto o = f.run(f.to("out"));
  CHECK(o.status == 1);
  CHECK(o.says(name + " exists and isn't of this run: choose another --out or --name"));
  CHECK(result_in(f.folder / "out").size() == (name.ends_with(".tar") ? 1 : 0));
  CHECK(contents_of(f.folder / ("out/" + name)) == "mine");
  CHECK(f.run(f.to("out", grow + "--name other")).status == 0);
  CHECK(contents_of(f.folder / ("out/" + name)) == "mine");
  const int other = ::open((f.folder / "out").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  REQUIRE(::flock(other, LOCK_EX) == 0);
  CHECK(f.run(f.to("out", grow + "--name third")).says("another run writes to it"));
  ::close(other);
}

TEST_CASE("An output in the folder of the input is refused") {
  const fixture f;
  const auto before = result_in(f.folder / "in");
  fs::create_directory_symlink(f.folder / "in", f.folder / "link");
  fs::create_directory(f.folder / "links");
  fs::create_symlink(f.folder / "in/0.tar", f.folder / "links/0.tar");
  const auto refused = [&](const std::string& flags) {
    const auto o = f.run(flags + grow);
    INFO(flags << o.log);
    CHECK(o.status == 2);
    CHECK(o.says("choose another folder"));
    CHECK((result_in(f.folder / "in") == before));
  };
  const std::string in = f.folder / "in";
  refused(f.to("in"));
  refused(f.to("./in/"));
  refused(f.to("link"));
  refused("--input " + (f.folder / "link/0.tar") + " --out " + in);
  refused("--input " + (f.folder / "links/0.tar") + " --out " + in);
  refused("--input " + (f.folder / "links/0.tar") + " --out " + (f.folder / "links"));
  refused("--input " + in + " --out " + in);
  refused("--input " + in + " --out " + in + "/new/folder");
  refused("--input " + in + "/ --out " + (f.folder / "link/new"));
  CHECK(!fs::exists(f.folder / "in/new"));
}

TEST_CASE("A full disk is one sentence, and the run continues once there is room") {
  const fixture f(1, 12);
  // Writes beyond 40 blocks of 512 bytes fail.
  const auto o =
      fl::test::run_command("{ ulimit -f 40; exec " + program + " " + f.to("out") + "; }", f.folder);
  INFO(o.log);
  CHECK(o.status == 1);
  CHECK(o.says("reshard: can't write " + (f.folder / "out/shard-000000.tar") + ": File too large\n"));
  CHECK((names_of({}) == names_of(f.output("out"))));
  CHECK(!fs::exists(f.folder / "out/shard-000000.tar.draft"));
  REQUIRE(f.run(f.to("out")).status == 0);
  REQUIRE(f.run(f.to("whole")).status == 0);
  CHECK((result_in(f.folder / "whole") == result_in(f.folder / "out")));
}

TEST_CASE("An input without samples is an error") {
  const fixture f;
  f.set_input(test_tar().closed());
  const auto o = f.run(f.to("out"));
  CHECK(o.status == 1);
  CHECK(o.says("the input has no samples"));
  CHECK(f.run(f.to("shuffled", "--shuffle-seed 1 --shards 1")).says("the input has no samples"));
  f.folder.write("in/1.tar", "");
  CHECK(f.run(f.to("empty")).says("in/1.tar: empty file"));
  CHECK(f.run(f.to("skipped", "--on-error skip")).says("no sample can be read: "));
  f.folder.write("in/1.tar", test_tar().add("1.cls", "1").closed());
  CHECK(f.run(f.to("one")).status == 0); // beside an empty one
}

TEST_CASE("A terminal gets a bar that is redrawn in place") {
  const fixture f(1, 4);
  const int terminal = ::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  REQUIRE((terminal >= 0 && ::grantpt(terminal) == 0 && ::unlockpt(terminal) == 0));
  const std::string name = ::ptsname(terminal);
  REQUIRE(std::system((program + " " + f.to("out") + " > " + name).c_str()) == 0);
  std::string shown(4096, '\0');
  const ::ssize_t got = ::read(terminal, shown.data(), shown.size());
  ::close(terminal);
  REQUIRE(got > 0);
  CHECK(shown.find("\r[") != std::string::npos);
  CHECK(shown.find("%  ") != std::string::npos);
}

TEST_CASE("Wrong flags are one sentence") {
  const fixture f(1, 1);
  const auto wrong = [&](const std::string& flags, const std::string& words) {
    const auto o = f.run(flags);
    INFO(flags << "\n" << o.log);
    CHECK(o.status == 2);
    CHECK(o.says(words));
    CHECK(o.says("--help lists the flags"));
  };
  wrong("", "--input is missing");
  wrong("--input a.tar", "--out is missing");
  wrong("--input", "--input needs at least one file, pattern or folder");
  wrong("--colour blue", "unknown flag --colour");
  wrong(f.to("out", "--shards 0"), "--shards needs a whole number from 1 to 1000000, not `0`");
  wrong(f.to("out", "--shards 2 --shard-bytes 3"), "--shard-bytes and --shards exclude each other");
  wrong(f.to("out", "--max-growth -1"), "--max-growth needs a fraction from 0 to 10, not `-1`");
  wrong(f.to("out", "--max-growth nan"), "--max-growth needs a fraction");
  wrong(f.to("out", "--segments 2x"), "--segments needs a whole number from 1 to 8192, not `2x`");
  wrong(f.to("out", "--on-error wait"), "--on-error needs `fail`, `skip` or `keep`, not `wait`");
  wrong(f.to("out", "--name a/b"), "--name is the beginning of a file name");
  wrong("--input " + (f.folder / "in") + " " + (f.folder / "in") + " --out x", "TAR shards or one folder");
  const auto help = f.run("--help");
  CHECK(help.status == 0);
  for (const char* flag : {"--input", "--out", "--name", "--shard-bytes", "--shards", "--shuffle-seed",
                           "--segments", "--max-growth", "--verify", "--on-error", "--workers"})
    CHECK(help.says(flag));
}

TEST_CASE("Real photographs keep their coefficients", "[shared]") {
  const auto photos = fl::test::test_data("photos");
  if (!photos) return;
  const temporary_folder folder;
  const auto o = fl::test::run_command(
      program + " --verify --shards 3 --input '" + *photos + "/*.tar' --out " + (folder / "out"), folder);
  INFO(o.log);
  CHECK(o.status == 0);
  CHECK(o.says("320 samples, 640 files"));
  CHECK(check_same(members_of(*photos), members_of(folder / "out")) > 300);
}
