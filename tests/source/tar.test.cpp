// SPDX-License-Identifier: MIT
#include <feedline/source/tar.hpp>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <new>
#include <set>
#include <span>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include <sys/stat.h>

#include <feedline/core/rank.hpp>
#include <feedline/core/source.hpp>
#include <feedline/detail/tar_reader.hpp>
#include <feedline/source/detail/tar_shard.hpp>
#include <feedline/source/global_shuffle.hpp>
#include <feedline/source/lines.hpp>
#include <feedline/source/records.hpp>
#include <feedline/stage/map.hpp>

#include "support/catch.hpp"
#include "support/no_maps_left.hpp"
#include "support/outcome.hpp"
#include "support/sanitizers.hpp"
#include "support/tar_contents.hpp"
#include "support/tar_writer.hpp"
#include "support/temporary_folder.hpp"
#include "support/throws_saying.hpp"

namespace {

using feedline::tar_error;
using feedline::tar_sample;
using feedline::tar_samples;
using feedline::test::pairs;
using feedline::test::read_all;
using feedline::test::tar_writer;
using feedline::test::temporary_folder;
using feedline::test::throws_saying;
using strings = std::vector<std::string>;

static_assert(feedline::source<tar_samples>);
static_assert(std::is_same_v<feedline::source_item_t<tar_samples>, tar_sample>);

strings read_bytes(const std::string& bytes) { return feedline::test::read_bytes<tar_samples>(bytes); }

constexpr std::uint64_t shard(std::uint64_t number) { return number << 40; }

/// An archive for which one read has no memory.
class memory_with_failure : public feedline::detail::tar_memory {
 public:
  memory_with_failure(const std::string& bytes, std::size_t& reads, std::size_t failing)
      : tar_memory(std::as_bytes(std::span(bytes))), reads_(reads), failing_(failing) {}

  std::string_view read(std::uint64_t count) override {
    if (++reads_ == failing_) throw std::bad_alloc();
    return tar_memory::read(count);
  }

 private:
  std::size_t& reads_;
  std::size_t failing_;
};

} // namespace

TEST_CASE("neighbours with the same name up to the first dot of the base name are one sample") {
  tar_writer tar;
  tar.add("a.d/1.jpg", "p")
      .add("a.d/", "", '5')
      .add("a.d/1.seg.png", "s")
      .add("a.d/2.jpg", "q")
      .add("b/2.jpg", "r");
  tar.add("12.jpg", "t").add("1.jpg", "u").add("12.cls", "v").add("README", "w").add("y.", "z");
  CHECK(read_bytes(tar.closed()) == strings{"a.d/1:jpg=p,seg.png=s", "a.d/2:jpg=q", "b/2:jpg=r", "12:jpg=t",
                                            "1:jpg=u", "12:cls=v", "README:=w", "y:=z"});
}

TEST_CASE("hidden members are no samples and split none, unless they are wanted") {
  tar_writer tar;
  tar.add("a/0.jpg", "p")
      .add("a/.DS_Store", "x")
      .add("a/0.cls", "0")
      .add("__MACOSX/a/._0.jpg", "m")
      .add("a/._1.jpg", "r")
      .add("a/1.jpg", "q")
      .add(".ipynb_checkpoints/1.jpg", "c")
      .add(tar.header("2.jpg", "u").prefix("b/.cache"), "u")
      .add("./2.jpg", "s")
      .add("../3.jpg", "t")
      .add("a/MACOSX", "v");
  CHECK(read_bytes(tar.closed()) ==
        strings{"a/0:jpg=p,cls=0", "a/1:jpg=q", "./2:jpg=s", "../3:jpg=t", "a/MACOSX:=v"});
  CHECK(feedline::test::read_bytes<tar_samples>(tar.closed(), feedline::tar_options{.hidden = true}) ==
        strings{"a/0:jpg=p", "a/:DS_Store=x", "a/0:cls=0", "__MACOSX/a/:_0.jpg=m", "a/:_1.jpg=r", "a/1:jpg=q",
                ".ipynb_checkpoints/1:jpg=c", "b/.cache/2:jpg=u", "./2:jpg=s", "../3:jpg=t", "a/MACOSX:=v"});
}

TEST_CASE("an index and origins have the hidden members that are wanted, also an index that was kept for the "
          "other choice") {
  const temporary_folder folder;
  const std::string shard =
      folder.write("s.tar", tar_writer().add("0.jpg", "p").add(".x.jpg", "q").add("1.jpg", "r").closed());
  for (const bool hidden : {false, true, false}) {
    const tar_samples source(shard, {.keep_index = true, .hidden = hidden});
    const auto samples = source.indexed();
    REQUIRE(samples.size() == (hidden ? 3 : 2));
    const tar_sample second = samples.at(1);
    CHECK(second.key() == (hidden ? "" : "1"));
    CHECK(source.origin(1) == shard + (hidden ? ": .x.jpg" : ": 1.jpg"));
  }
  CHECK(tar_samples(shard).fingerprint(1) != tar_samples(shard, {.hidden = true}).fingerprint(1));
}

TEST_CASE("members of a sample that aren't neighbours are noticed once, with its name") {
  const temporary_folder folder;
  strings said;
  const feedline::tar_options noticed{
      .on_notice = [&](const std::string& sentence) { said.push_back(sentence); }};
  tar_writer split;
  split.add("a/0.jpg", "p").add("a/1.jpg", "q").add("a/0.cls", "0").add("a/1.cls", "1");
  const std::string whole = folder.write("whole.tar", pairs(3000).closed()),
                    path = folder.write("split.tar", split.closed());
  tar_samples good({whole, folder.write("again.tar", pairs(3000).closed())},
                   noticed); // the keys of another shard
  CHECK(read_all(good).size() == 6000);
  CHECK(said.empty());
  tar_samples bad({whole, path}, noticed), copy = bad;
  CHECK(read_all(bad).size() == 3004);
  CHECK(read_all(copy).size() == 3004);
  REQUIRE(said.size() == 1);
  CHECK(said[0].starts_with(path + ": the members of sample `a/0` aren't neighbours: at offset 2048 "));

  said.clear();
  CHECK(tar_samples(path, noticed).indexed().size() == 4);
  CHECK(said.size() == 1);
  const tar_writer far = pairs(5000).add("0.txt", "t");
  tar_samples late(folder.write("late.tar", far.closed()), noticed);
  CHECK(read_all(late).size() == 5001);
  REQUIRE(said.size() == 2);
  CHECK(said[1].find("sample `0`") != std::string::npos);
  CHECK(late.bytes_held() > 0);
}

TEST_CASE("an archive after the end of another is noticed once, or read with an option") {
  const temporary_folder folder;
  const std::string zeros(512, '\0'), first = pairs(2).closed(), second = pairs(2, 2).closed();
  const std::string path = folder.write("s.tar", first + std::string(9216, '\0') + second);
  const std::string again = folder.write("t.tar", first + second);
  const std::string complete = folder.write("c.tar", first + std::string(9216, '\0') + "no header");
  strings said;
  feedline::tar_options options{.on_notice = [&](const std::string& text) { said.push_back(text); }};
  tar_samples source({path, again}, options), copy = source;
  const strings one{"0:jpg=photo,cls=0", "1:jpg=photo,cls=1"};
  CHECK(read_all(source) == strings{one[0], one[1], one[0], one[1]});
  CHECK(read_all(copy).size() == 4);
  const std::string sentence =
      path + ": the archive ends at offset 4096, and 5120 bytes follow that begin like another "
             "one, which isn't read: set `concatenated` in the source's options to read it "
             "too; further shards aren't reported";
  REQUIRE(said == strings{sentence});
  CHECK(tar_samples(path, options).indexed().size() == 2);
  CHECK(said == strings{sentence, sentence});
  tar_samples other(complete, options);
  CHECK(read_all(other) == one);
  CHECK(said.size() == 2);

  options.concatenated = true;
  options.keep_index = true;
  const strings all{one[0], one[1], "2:jpg=photo,cls=2", "3:jpg=photo,cls=3"};
  for (const std::string& bytes :
       {first + second, first + zeros + second, pairs(2).open() + zeros + second, first + second + first}) {
    strings expected = all;
    if (bytes.size() > first.size() + second.size() + 512)
      expected.insert(expected.end(), one.begin(), one.end());
    tar_samples both(folder.write("both.tar", bytes), options);
    CHECK(read_all(both) == expected);
    for (int kept = 0; kept < 2; ++kept) {
      const auto places = both.indexed();
      REQUIRE(places.size() == expected.size());
      for (std::uint64_t i = 0; i < places.size(); ++i)
        CHECK(feedline::test::as_text(places.at(i)) == expected[i]);
    }
    CHECK(tar_samples(folder / "both.tar", {.keep_index = true, .on_notice = options.on_notice})
              .indexed()
              .size() < expected.size()); // not by the index of the others
  }
  tar_samples same(folder.write("same.tar", pairs(1).closed() + pairs(1).closed()), options);
  CHECK(read_all(same) == strings{one[0], one[0]}); // two samples, although their names are equal
  tar_samples bad(complete, options);
  CHECK(read_all(bad) ==
        strings{one[0], one[1], "! " + complete + ": cut off inside the header at offset 14336"});
  CHECK(tar_samples(path, options).fingerprint(1) != tar_samples(path).fingerprint(1));
}

TEST_CASE("Resumed: archives one after another, with links") {
  const temporary_folder folder;
  tar_writer second;
  second.add("p.jpg", "p").add(second.header("q.jpg", {}, '1').put(157, "p.jpg")).add("q.cls", "q");
  second.add(second.header("r.jpg", {}, '2').put(157, "x")).add("r.cls", "r").add("s.cls", "s");
  for (const char* name : {"a.tar", "b.tar"})
    folder.write(name, pairs(2).closed() + second.closed() + pairs(1).closed());
  const auto described = tar_samples(folder / "*.tar", {.concatenated = true}) |
                         feedline::map([](const tar_sample& s) { return feedline::test::as_text(s); });
  strings all;
  {
    auto loader = described.finite();
    while (auto text = loader.next()) all.push_back(*text);
  }
  REQUIRE(all.size() == 14);
  for (std::size_t taken = 0; taken < all.size(); ++taken) {
    auto left = described.finite();
    for (std::size_t i = 0; i < taken; ++i) left.next().value();
    auto loader = described.finite({.resume = left.checkpoint()});
    strings rest;
    while (auto text = loader.next()) rest.push_back(*text);
    CHECK(rest == strings(all.begin() + static_cast<std::ptrdiff_t>(taken), all.end()));
  }
}

TEST_CASE("a hard link is the file that it links to, in order and by position") {
  const temporary_folder folder;
  const std::string far = std::string(200, 'f') + ".jpg";
  tar_writer tar;
  tar.add("a.jpg", "first").add("a.cls", "0").add(".h", "hidden").add("./s.x", "dotted");
  tar.add(tar.header("b.jpg", {}, '1').put(157, "a.jpg")).add("b.cls", "1");
  tar.add(tar.header("c.jpg", {}, '1').put(157, "b.jpg")); // to another link
  tar.pax({{"path", far}}).add("cut", "long").long_name(far, 'K').add(tar.header("d.jpg", {}, '1'));
  tar.add("a.jpg", "second").add(tar.header("e.jpg", {}, '1').put(157, "a.jpg"));
  tar.add(tar.header("f.jpg", {}, '1').put(157, ".h")).add(tar.header("g.jpg", {}, '1').put(157, "s.x"));
  tar.add(tar.header("h.jpg", {}, '1').put(157, "later.jpg")).add("h.cls", "2");
  tar.add(tar.header("i.jpg", {}, '1').put(157, "i.jpg")).add("later.jpg", "3");
  const std::string path = folder.write("s.tar", tar.closed());
  tar_samples source(path, {.keep_index = true});
  const auto missing = [&](const std::string& name, const std::string& target, int offset) {
    return "! " + path + ": member `" + name + "` at offset " + std::to_string(offset) +
           " is a hard link to `" + target +
           "`, which isn't a file before it in the archive: store it in full (tar --hard-dereference)";
  };
  const strings all = read_all(source);
  CHECK(all == strings{"a:jpg=first,cls=0", "./s:x=dotted", "b:jpg=first,cls=1", "c:jpg=first",
                       std::string(200, 'f') + ":jpg=long", "d:jpg=long", "a:jpg=second", "e:jpg=second",
                       "f:jpg=hidden", "g:jpg=dotted", missing("h.jpg", "later.jpg", 12288),
                       missing("i.jpg", "i.jpg", 13824), "later:jpg=3"});
  for (int kept = 0; kept < 2; ++kept) {
    const auto places = source.indexed();
    REQUIRE(places.size() == all.size());
    for (std::uint64_t i = 0; i < places.size(); ++i) {
      std::string text;
      try {
        text = feedline::test::as_text(places.at(i));
      } catch (const tar_error& error) {
        text = std::string("! ") + error.what();
      }
      CHECK(text == all[i]);
    }
  }
}

TEST_CASE("the error of a missing field names the symbolic links of its sample, in order and by position") {
  const temporary_folder folder;
  tar_writer tar;
  const auto link = [&](const char* name) { tar.add(tar.header(name, {}, '2').put(157, "x/1.jpg")); };
  link("0.jpg");
  tar.add("a.jpg", "1");
  link("b.jpg");
  tar.add("b.cls", "2");
  link("b.png");
  link("c.jpg");
  link("d.jpg");
  tar.add("d.cls", "3");
  for (int i = 0; i < 40; ++i) link("e.jpg");
  tar.add("e.cls", "4").add("f.cls", "5");
  const std::string path = folder.write("s.tar", tar.closed());
  tar_samples source(path);
  const auto places = source.indexed();
  REQUIRE(places.size() == 5);
  strings in_order;
  for (std::uint64_t i = 0; i < 5; ++i) {
    const auto error_of = [](const tar_sample& sample) {
      try {
        return std::string(sample.text("gif"));
      } catch (const tar_error& error) {
        return std::string(error.what());
      }
    };
    in_order.push_back(error_of(source.next().value()));
    CHECK(error_of(places.at(i)) == in_order.back());
  }
  const auto named = [](const std::string& name, int offset) {
    return "; member `" + name + "` at offset " + std::to_string(offset) + " is a symbolic link to `x/1.jpg`";
  };
  const std::string rest = ", which isn't followed: store the file itself (tar --dereference)";
  CHECK(in_order[0] == path + ": sample `a` has no field `gif`; it has `jpg`");
  CHECK(in_order[1] == path + ": sample `b` has no field `gif`; it has `cls`" + named("b.jpg", 1536) +
                           named("b.png", 3072) + rest);
  CHECK(in_order[2] == path + ": sample `d` has no field `gif`; it has `cls`" + named("d.jpg", 4096) + rest);
  CHECK(in_order[3].find(named("e.jpg", 5632 + 15 * 512) + rest) != std::string::npos);
  CHECK(in_order[4] == path + ": sample `f` has no field `gif`; it has `cls`");
}

TEST_CASE("a stop ends the indexing of a shard") {
  const temporary_folder folder;
  std::stop_source stop;
  const tar_samples source(folder.write("s.tar", pairs(100).add("0.txt", "t").add("1.txt", "t").closed()),
                           {.on_notice = [&](const std::string&) { stop.request_stop(); }});
  CHECK_THROWS_AS(source.indexed(stop.get_token()), std::runtime_error);
  const tar_samples kept(folder.write("kept.tar", pairs(3).closed()), {.keep_index = true});
  CHECK(kept.indexed().size() == 3);
  CHECK_THROWS_AS(kept.indexed(stop.get_token()), std::runtime_error);
}

TEST_CASE("a notice that fails costs no sample") {
  const temporary_folder folder;
  const std::string path = folder.write("s.tar", pairs(100).add("0.txt", "t").closed());
  int given = 0;
  const tar_samples source(path, {.on_notice = [&](const std::string&) {
                             ++given;
                             throw std::runtime_error("a notice that fails");
                           }});
  auto loader = (source | feedline::map([](const tar_sample& sample) {
                   return std::string(sample.key());
                 })).finite({.on_error = feedline::on_error::skip});
  std::size_t samples = 0;
  while (loader.next()) ++samples;
  CHECK(samples == 101);
  CHECK(loader.failures().empty());
  CHECK(given == 1);
}

TEST_CASE("a sample for which there is no memory is lost as a whole, and the others follow") {
  const std::string bytes = pairs(3).closed();
  for (std::size_t failing = 2; failing <= 12; ++failing) { // reads of headers and contents in turn
    CAPTURE(failing);
    std::size_t reads = 0;
    feedline::detail::tar_shard_of<memory_with_failure> shard(
        std::make_shared<const feedline::detail::named_version>(feedline::detail::named_version{"s.tar", {}}),
        memory_with_failure(bytes, reads, failing), {});
    strings found;
    for (bool goes_on = true; goes_on;) {
      try {
        const auto sample = shard.next();
        if (sample) found.push_back(feedline::test::as_text(*sample));
        goes_on = sample.has_value();
      } catch (const std::bad_alloc&) {
        found.emplace_back("!");
      }
    }
    strings expected{"0:jpg=photo,cls=0", "1:jpg=photo,cls=1", "2:jpg=photo,cls=2"};
    expected.at((failing - 1) / 4) = "!";
    // Without a header nothing is known about what follows, nor whether the first sample is complete.
    if (failing % 2 == 1) expected.resize((failing - 1) / 4 + 1);
    if (failing == 5) expected = {"!"};
    CHECK(found == expected);
  }
}

TEST_CASE("a shard of hidden members only is an error that says so") {
  const temporary_folder folder;
  tar_writer tar;
  tar.add(".cache/", "", '5').add(".cache/ds/1.txt", "one").add(".cache/ds/2.txt", "two");
  const std::string path = folder.write("x.tar", tar.closed());
  const std::string message =
      path + ": all members are hidden (2): set `hidden` in the source's options to read them";
  tar_samples shards({path, folder.write("y.tar", pairs(1).closed())});
  CHECK(read_all(shards) == strings{"! " + message, "0:jpg=photo,cls=0"});
  for (const bool keep : {true, true, false}) { // the second time, with the index that was kept
    const auto indexed = tar_samples(path, {.keep_index = keep}).indexed();
    REQUIRE(indexed.size() == 1);
    CHECK(throws_saying<tar_error>(message, [&] { static_cast<void>(indexed.at(0)); }));
  }
  CHECK(tar_samples(path, {.hidden = true}).indexed().size() == 2);
  CHECK(read_bytes(tar_writer().add("a/", "", '5').closed()).empty());
}

TEST_CASE("a shard that doesn't exist is found at the start of a run, and named") {
  const temporary_folder folder;
  for (int i : {0, 1, 2, 4, 6}) folder.write("s-" + std::to_string(i) + ".tar", pairs(2, 2 * i).closed());
  const auto key = [](const tar_sample& s) { return std::string(s.key()); };
  const auto run = [&](const tar_samples& shards) {
    return feedline::test::run_to_end(
        (shards | feedline::map(key, feedline::workers{2})).finite({.on_error = feedline::on_error::skip}));
  };
  const auto missing = run(tar_samples(folder / "s-{0..4}.tar"));
  CHECK(missing.items.empty());
  REQUIRE(missing.failed);
  CHECK(missing.failed->message.find(folder / "s-3.tar: No such file") != std::string::npos);
  const auto two = run(tar_samples(folder / "s-{0..6}.tar"));
  REQUIRE(two.failed);
  CHECK(two.failed->message.find(folder / "s-3.tar and 1 more file:") != std::string::npos);
  CHECK(run(tar_samples(folder / "s-{0..2}.tar")).items.size() == 6);

  const auto directory = run(tar_samples(folder.path()));
  REQUIRE(directory.failed);
  CHECK(directory.failed->message.find("`" + folder.path() +
                                       "` is a directory: name the files in it, such as `" + folder.path() +
                                       "/*.tar`") != std::string::npos);
  const auto shuffled = feedline::test::run_to_end(
      (tar_samples(folder / "s-{0..4}.tar") | feedline::global_shuffle() | feedline::map(key)).infinite());
  REQUIRE(shuffled.failed);
  CHECK(shuffled.failed->message.find("s-3.tar") != std::string::npos);
}

TEST_CASE("each rank looks for its own files, in every kind of source") {
  const temporary_folder folder;
  const strings names{folder.write("0", "a\n"), folder / "1", folder.write("2", "b\n"), folder / "3"};
  const auto run = [](const auto& pipeline, std::uint32_t rank) {
    return feedline::test::run_to_end(pipeline.finite({.rank = {rank, 2, feedline::remainder::keep}}));
  };
  const auto lines = feedline::lines(names) | feedline::map([](std::string line) { return line; });
  CHECK(run(lines, 0).items == strings{"a", "b"});
  REQUIRE(run(lines, 1).failed);
  CHECK(run(lines, 1).failed->message.find(names[1] + " and 1 more file:") != std::string::npos);
  const auto records = feedline::records<char>(names) | feedline::map([](char c) { return c; });
  CHECK(run(records, 0).items == std::vector{'a', '\n', 'b', '\n'});
  CHECK(run(records, 1).failed);
}

TEST_CASE("the index of a sample is its shard and position, and finds the sample again") {
  const temporary_folder folder;
  const std::string a = folder.write("a.tar", pairs(2).closed()),
                    b = folder.write("b.tar", pairs(3, 10).closed());
  const tar_samples pristine(strings{a, b});
  auto run = pristine;
  std::vector<std::uint64_t> indices;
  CHECK(read_all(run, &indices).size() == 5);
  CHECK(indices == std::vector<std::uint64_t>{0, 1, shard(1), shard(1) + 1, shard(1) + 2});
  CHECK(run.index() == shard(1) + 2);
  CHECK(pristine.origin(1) == a + ": 1.jpg, .cls");
  CHECK(pristine.origin(shard(1) + 2) == b + ": 12.jpg, .cls");
  CHECK(pristine.origin(shard(1) + 3) == b + ": sample #3");
  std::filesystem::remove(b);
  CHECK(pristine.origin(shard(1) + 2) == b + ": sample #2");
}

TEST_CASE("a shuffled epoch has a keyed order of shards and the same indices") {
  const temporary_folder folder;
  for (int i = 0; i < 9; ++i) folder.write("s" + std::to_string(i) + ".tar", pairs(2, 2 * i).closed());
  const tar_samples pristine(folder / "s*.tar");
  const auto run = [&](feedline::epoch e) {
    auto source = pristine;
    source.start_epoch(e);
    std::vector<std::uint64_t> indices;
    CHECK(read_all(source, &indices).size() == 18);
    return indices;
  };
  const auto listed = run({.seed = 7, .number = 3, .shuffled = false});
  const auto shuffled = run({.seed = 7, .number = 0, .shuffled = true});
  CHECK(std::is_sorted(listed.begin(), listed.end()));
  CHECK(shuffled == run({.seed = 7, .number = 0, .shuffled = true}));
  CHECK(shuffled != listed);
  CHECK(shuffled != run({.seed = 7, .number = 1, .shuffled = true}));
  CHECK(shuffled != run({.seed = 8, .number = 0, .shuffled = true}));
  CHECK(std::is_permutation(shuffled.begin(), shuffled.end(), listed.begin(), listed.end()));
}

TEST_CASE("a shard that can't be opened is an error at its position") {
  const temporary_folder folder;
  const std::string a = folder.write("a.tar", pairs(1).closed()),
                    c = folder.write("c.tar", pairs(1, 1).closed());
  const std::string gone = folder.write("gone.tar", "x"), pipe = folder / "pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  tar_samples source(strings{a, gone, folder.path(), pipe, c});
  std::filesystem::remove(gone);
  std::vector<std::uint64_t> indices;
  const auto found = read_all(source, &indices);
  CHECK(found == strings{"0:jpg=photo,cls=0", "! " + gone + ": No such file or directory",
                         "! " + folder.path() + ": Is a directory", "! " + pipe + ": is not a regular file",
                         "1:jpg=photo,cls=1"});
  CHECK(indices == std::vector<std::uint64_t>{0, shard(1), shard(2), shard(3), shard(4)});
  CHECK(source.origin(shard(1)) == gone + ": sample #0");
}

TEST_CASE("patterns list shards in the order of the bytes of their names") {
  const temporary_folder folder;
  for (const char* name : {"t-10.tar", "t-2.tar", "t-B.tar", "t-a.tar", "odd[1].tar", "odd{1,2}.tar"})
    folder.write(name, "");
  const auto names = [&](strings patterns) {
    for (std::string& pattern : patterns) pattern = folder / pattern;
    strings shards = tar_samples(patterns).shards();
    for (std::string& name : shards) name.erase(0, folder.path().size() + 1);
    return shards;
  };
  CHECK(names({"t-*.tar"}) == strings{"t-10.tar", "t-2.tar", "t-B.tar", "t-a.tar"});
  CHECK(names({"t-[a2].tar", "t-10.tar", "new.tar"}) == strings{"t-2.tar", "t-a.tar", "t-10.tar", "new.tar"});
  CHECK(names({"odd[1].tar", "odd{1,2}.tar"}) == strings{"odd[1].tar", "odd{1,2}.tar"});
  CHECK(names({"{08..11}-{a,b}.tar"}).size() == 8);
  CHECK(names({"x{08..10}"}) == strings{"x08", "x09", "x10"});
  CHECK(names({"x{000..100..50}"}) == strings{"x000", "x050", "x100"});
  CHECK(names({"x{9..0..4}"}) == strings{"x9", "x5", "x1"});
  CHECK(names({"x{0..18446744073709551615..9000000000000000000}"}).size() == 3);
  CHECK(names({"x{0..3..0}", "x{0..3..}", "x{0..3..a}", "x{0..3..1..1}"}).size() ==
        4); // stand for themselves
  CHECK(names({"{2..0}{,y}"}) == strings{"2", "2y", "1", "1y", "0", "0y"});
  CHECK(names({"{}{x}{a..c}{1..}{", "}"}) == strings{"{}{x}{a..c}{1..}{", "}"});
  CHECK(names({"{../a.tar,../b.tar}"}) == strings{"../a.tar", "../b.tar"});
  CHECK(names({"x{1..2,5}"}) == strings{"x1..2", "x5"});
  CHECK(names({"t-{1?,[ab]}.tar"}) == strings{"t-10.tar", "t-a.tar"});
}

TEST_CASE("patterns that match nothing, or too much, are errors at once") {
  const temporary_folder folder;
  CHECK(throws_saying<std::runtime_error>("no file matches `" + (folder / "x*.tar`"),
                                          [&] { tar_samples(folder / "x*.tar"); }));
  folder.write("a.tar", "");
  CHECK_THROWS_AS(tar_samples(folder / "{a*,x*}"), std::runtime_error);
  CHECK_THROWS_AS(tar_samples("{0..99999999}.tar"), std::length_error);
  CHECK_THROWS_AS(tar_samples("{0..9999}{0..9999}.tar"), std::length_error);
  CHECK_THROWS_AS(tar_samples("{0..18446744073709551615}.tar"), std::length_error);
  const std::string zeros(2000, '0');
  CHECK(throws_saying<std::length_error>("take more than 1 GB",
                                         [&] { tar_samples("{" + zeros + "..9999999}.tar"); }));
  CHECK(throws_saying<std::length_error>("take more than 1 GB",
                                         [&] { tar_samples("{0..9999}" + zeros + "{0..999}" + zeros); }));
  CHECK(throws_saying<std::length_error>(
      "take more than 1 GB", [&] { tar_samples("{0..9999}{0..99}{" + zeros + "," + zeros + "}"); }));
  CHECK(tar_samples({"a.tar", "b.tar"}).shards() == strings{"a.tar", "b.tar"});
  CHECK(tar_samples{"a.tar"}.shards() == strings{"a.tar"});
  CHECK(throws_saying<std::invalid_argument>("feedline::tar_samples: the list of files is empty",
                                             [&] { tar_samples(strings{}); }));
  CHECK(throws_saying<std::invalid_argument>("feedline::tar_samples: a file in the list has an empty name",
                                             [&] {
                                               tar_samples({"a.tar", ""});
                                             }));
}

TEST_CASE("control characters of names are escaped in messages") {
  const temporary_folder folder;
  const std::string name = folder.write("a\n\x1bZ.tar", "no shard"), shown = folder / "a\\x0a\\x1bZ.tar";
  tar_samples source(strings{name});
  CHECK(read_all(source) == strings{"! " + shown + ": not a TAR file: there is no valid header at offset 0"});
  CHECK(source.origin(0) == shown + ": sample #0");
  folder.write("a\n\x1bZ.tar", tar_writer().add("b\n.x\n", "1").open());
  CHECK(tar_samples(strings{name}).origin(0) == shown + ": b\\x0a.x\\x0a");
  std::filesystem::remove(name);
  tar_samples gone(strings{name});
  CHECK(read_all(gone) == strings{"! " + shown + ": No such file or directory"});
  CHECK(throws_saying<std::runtime_error>(shown, [&] { tar_samples(name + "*"); }));
}

TEST_CASE("a shard that is listed twice is an error that names it") {
  const temporary_folder folder;
  folder.write("a.tar", "");
  const auto refuses = [&](const strings& names) {
    return throws_saying<std::invalid_argument>("a.tar` is listed twice", [&] { tar_samples source(names); });
  };
  CHECK(refuses({folder / "a.tar", folder / "b.tar", folder / "*.tar"}));
  CHECK(refuses({"a.tar", ".//./a.tar"}));
  CHECK(refuses({"{a,b,a}.tar"}));
  CHECK(refuses({"x/a.tar", "x//a.tar"}));
  CHECK_FALSE(refuses({"a.tar", "/a.tar", "x/a.tar", "b.tar", "a.tar.", "a..tar"}));
}

TEST_CASE("a sample cut off inside a member is an error, after the samples before it") {
  const std::string whole = pairs(3).open();
  const std::size_t header = 4 * 1024; // of the last sample; each member has a header and a block
  const std::string a = "0:jpg=photo,cls=0", b = "1:jpg=photo,cls=1";
  CHECK(read_bytes(whole.substr(0, header + 512 + 3)) ==
        strings{a, b, "! s.tar: member `2.jpg` at offset 4096 is cut off: 5 bytes announced, 3 left"});
  CHECK(read_bytes(whole.substr(0, header + 1024 + 512)) ==
        strings{a, b, "! s.tar: member `2.cls` at offset 5120 is cut off: 1 bytes announced, 0 left"});
  CHECK(read_bytes(whole.substr(0, header + 1024 + 300)) ==
        strings{a, b,
                "! s.tar: cut off inside the header at offset 5120; sample `2` before it may have lost "
                "members there"});
  CHECK(read_bytes(whole.substr(0, header + 300)) ==
        strings{a, b, "! s.tar: cut off inside the header at offset 4096"});
  CHECK(
      read_bytes(whole.substr(0, header + 1024 + 513)) ==
      strings{a, b, "2:jpg=photo,cls=2", "! s.tar: cut off inside the last member's padding at offset 5633"});
  CHECK(read_bytes(whole.substr(0, header + 1000)) ==
        strings{a, b,
                "! s.tar: cut off inside the last member's padding at offset 5096; sample `2` before it may "
                "have lost members there"});
}

TEST_CASE("a damaged header never results in a partial sample") {
  const std::string whole = pairs(2).closed();
  for (std::size_t member = 0; member < 4; ++member) {
    for (std::size_t at = 0; at < 512; at += at < 8 || (at >= 120 && at < 160) ? 1 : 7) {
      std::string bytes = whole;
      bytes[member * 1024 + at] = static_cast<char>(bytes[member * 1024 + at] ^ 0x11);
      const auto found = read_bytes(bytes);
      INFO("byte " << at << " of member " << member);
      for (const auto& text : found) {
        const bool is_whole = text == "0:jpg=photo,cls=0" || text == "1:jpg=photo,cls=1";
        REQUIRE((is_whole || text.starts_with("! s.tar: ")));
      }
      if (member == 3) REQUIRE(found.front() == "0:jpg=photo,cls=0");
      const bool reported =
          std::any_of(found.begin(), found.end(), [](const auto& text) { return text.starts_with("!"); });
      REQUIRE(reported == (at != 155)); // the byte after the checksum's end isn't read
    }
  }
}

TEST_CASE("complete samples before a damaged header are yielded") {
  std::string bytes = pairs(3).closed();
  bytes.replace(2 * 2048, 512, 512, '#'); // the header of 2.jpg: sample 1 has as many fields as sample 0
  CHECK(read_bytes(bytes) ==
        strings{"0:jpg=photo,cls=0", "1:jpg=photo,cls=1", "! s.tar: damaged header at offset 4096"});
  bytes = pairs(2).closed();
  bytes[2048 + 130] = 'x'; // the header of 1.jpg: sample 0 has a jpg already
  CHECK(read_bytes(bytes) == strings{"0:jpg=photo,cls=0", "! s.tar: damaged header at offset 2048"});
}

TEST_CASE("a sample that seems complete isn't yielded if its next member may be lost") {
  tar_writer tar = pairs(2);
  tar.add("1.txt", "x");
  std::string bytes = tar.closed();
  bytes[4096 + 130] = 'x'; // the header of 1.txt, a third field of sample 1
  CHECK(read_bytes(bytes) ==
        strings{"0:jpg=photo,cls=0",
                "! s.tar: damaged header at offset 4096; sample `1` before it may have lost members there"});

  tar_writer skipped; // after a cut off member of an unknown type, 0.cls may have followed
  skipped.add("0.jpg", "x").add(skipped.header("1.jpg", {}, 'V').size(9));
  CHECK(read_bytes(skipped.open()) ==
        strings{"! s.tar: member `1.jpg` at offset 1024 is cut off: 9 bytes announced, 0 left; "
                "sample `0` before it may have lost members there"});
}

TEST_CASE("a sample with a sparse or duplicate member is left out, and its neighbours are yielded") {
  tar_writer tar;
  tar.add("0.txt", "a")
      .add("1.txt", "b")
      .add("1.bin", "c", 'S')
      .add("1.cls", "d")
      .add("2.txt", "e")
      .add("3.txt", "f")
      .add("3.cls", "g")
      .add("3.txt", "h")
      .add("4.txt", "i");
  CHECK(read_bytes(tar.closed()) ==
        strings{"0:txt=a",
                "! s.tar: member `1.bin` at offset 2048 is a sparse file, which feedline doesn't read: store "
                "it in full",
                "2:txt=e", "! s.tar: sample `3` at offset 5120 has the field `txt` more than once",
                "4:txt=i"});
  tar_writer many;
  for (int i = 0; i < 50; ++i) many.add("0.f" + std::to_string(i % 49), "x");
  CHECK(read_bytes(many.closed()) ==
        strings{"! s.tar: sample `0` at offset 0 has the field `f0` more than once"});
  tar_writer nameless;
  nameless.add("0.txt", "a").add("1", "b").add("1.txt", "c").add("1", "d");
  CHECK(read_bytes(nameless.closed()) ==
        strings{"0:txt=a", "! s.tar: sample `1` at offset 1024 has more than one member without an "
                           "extension: give each a different extension"});
}

TEST_CASE("a lost sample has an index, so that the others keep theirs") {
  const temporary_folder folder;
  tar_writer tar;
  tar.add("0.txt", "a").add("1.txt", "b", 'S').add("2.txt", "c");
  tar_samples source(folder.write("s.tar", tar.closed()));
  std::vector<std::uint64_t> indices;
  CHECK(read_all(source, &indices).size() == 3);
  CHECK(indices == std::vector<std::uint64_t>{0, 1, 2});
  CHECK(source.origin(1) == folder / "s.tar: sample #1");
  CHECK(source.origin(2) == folder / "s.tar: 2.txt");
}

TEST_CASE("a shard that isn't plain TAR is an error, and the next one follows") {
  const temporary_folder folder;
  const std::string packed = folder.write("a.tar.gz", "\x1f\x8b\x08 and so on"),
                    empty = folder.write("b.tar", "");
  tar_samples source(strings{packed, empty, folder.write("c.tar", pairs(1).closed())});
  CHECK(read_all(source) ==
        strings{"! " + packed +
                    ": compressed: gzip data begins at offset 0: read it in order, without "
                    "global_shuffle, with tar_options::decompress = {feedline::gunzip_stream}, "
                    "which is in feedline/gzip.hpp of the component feedline::gzip",
                "! " + empty + ": empty file: there is no header at offset 0", "0:jpg=photo,cls=0"});
}

TEST_CASE("a copy of a tar_samples in the middle of a shard continues independently") {
  const temporary_folder folder;
  tar_samples source(folder.write("s.tar", pairs(3).closed()));
  (void)source.next();
  auto copy = source;
  CHECK(read_all(source) == strings{"1:jpg=photo,cls=1", "2:jpg=photo,cls=2"});
  CHECK(read_all(copy) == strings{"1:jpg=photo,cls=1", "2:jpg=photo,cls=2"});
}

TEST_CASE("Where the system has no more maps, files are read instead") {
  const temporary_folder folder;
  const std::string big(40'000, 'x');
  const std::string tar =
      folder.write("a.tar", tar_writer().add("1.jpg", big).add("1.cls", "q").add("2.jpg", big).closed());
  const std::string text = folder.write("a.txt", big + "\n" + big);
  tar_samples shards(tar);
  auto lines = feedline::lines({text}).source();
  auto records = feedline::records({tar}, 512).source();
  if (feedline::test::is_sanitized) return;
  std::optional<tar_sample> first, second;
  {
    const feedline::test::no_maps_left none;
    if (!none.is_complete()) return;
    first = shards.next();
    second = shards.next();
    CHECK_FALSE(shards.next());
    const tar_sample by_position = tar_samples(tar).indexed().at(1);
    CHECK(by_position.text("jpg") == big);
    CHECK(lines.next() == big);
    CHECK(records.next()->size() == 512);
  }
  REQUIRE(first);
  CHECK(first->text("jpg") == big);
  CHECK(first->text("cls") == "q");
  REQUIRE(second);
  CHECK(second->text("jpg") == big);
}

TEST_CASE("The samples of a shard share one map, also those of several sources") {
  const temporary_folder folder;
  const std::string path =
      folder.write("a.tar", tar_writer().add("1.jpg", std::string(40'000, 'x')).add("2.jpg", "y").closed());
  tar_samples a(path), b(path);
  const auto first = a.next(), second = a.next(), other = b.next();
  const tar_sample by_position = a.indexed().at(0);
  const auto begin_of = [](const auto& sample) { return sample->text("jpg").data(); };
  CHECK(begin_of(second) - begin_of(first) == 40'448 + 512);
  CHECK(begin_of(other) == begin_of(first));
  CHECK(by_position.text("jpg").data() == begin_of(first));
}
