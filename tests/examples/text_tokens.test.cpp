// SPDX-License-Identifier: MIT
// The example on text: interrupted or killed at any moment, it ends as if nothing had happened.
#include <filesystem>
#include <string>

#include "support/catch.hpp"
#include "support/program_outcome.hpp"
#include "support/rounds.hpp"
#include "support/temporary_folder.hpp"

using result = feedline::test::program_outcome;
using feedline::test::rounds;
using feedline::test::temporary_folder;

namespace {

result run(const std::string& flags, const std::string& before = "") {
  const temporary_folder folder;
  return feedline::test::run_command(before + FEEDLINE_TEXT_TOKENS " " + flags, folder);
}

/// Interrupts a run with a signal again and again until it has finished; gives what that run wrote last.
std::string run_with_interruptions(const std::string& flags, const std::string& signal, int& interruptions) {
  result r{1, {}};
  for (double seconds = 0.05; r.status != 0 && seconds < 100; seconds *= 1.3) {
    r = run(flags,
            "timeout --foreground --preserve-status -s " + signal + " " + std::to_string(seconds) + " ");
    interruptions += r.status != 0;
  }
  return r.log;
}

/// Whether each signal changes nothing of the end.
void check_interruptions(const std::string& mode) {
  const temporary_folder folder;
  for (const std::string signal : {"INT", "KILL"}) {
    int interruptions = 0;
    // A fast machine may finish before it is first interrupted.
    for (int steps = rounds(2000, 400); interruptions == 0 && steps < 1'000'000; steps *= 4) {
      const std::string flags = mode + " --steps " + std::to_string(steps);
      const std::string file = folder / (signal + std::to_string(steps));
      const result whole = run(flags);
      INFO(whole.log);
      REQUIRE(whole.status == 0);
      CHECK(whole.says("finished after step " + std::to_string(steps) + ", digest "));
      CHECK(run_with_interruptions(flags + " --checkpoint " + file, signal, interruptions) == whole.log);
    }
    CHECK(interruptions > 0);
  }
}

} // namespace

TEST_CASE("text_tokens packs the same sequences, however often it is interrupted or killed") {
  check_interruptions("");
}

TEST_CASE("text_tokens fills the same buckets, however often it is interrupted or killed") {
  check_interruptions("--buckets");
}

TEST_CASE("text_tokens continues after any step, with any number of workers") {
  for (const std::string mode : {"", "--buckets "}) {
    const std::string whole = run(mode + "--steps 60").log;
    CHECK(run(mode + "--steps 60 --seed 2").log != whole);
    for (const std::string steps : {"0", "1", "17", "60"}) {
      const temporary_folder folder;
      const std::string flags = mode + "--checkpoint " + (folder / "run");
      REQUIRE(run(flags + " --workers 5 --steps " + steps).status == 0);
      CHECK(run(flags + " --workers 1 --steps 60").log == whole);
    }
  }
}

TEST_CASE("text_tokens reads files with empty lines, and refuses a checkpoint of another text or mode") {
  const temporary_folder folder;
  const std::string text = folder.write("a.txt", "one two three\n\n\r\nfour\n"), file = folder / "run";
  const std::string flags = "--steps 5 --checkpoint " + file + " ";
  REQUIRE(run(flags + text).status == 0);
  const auto refuses = [&](const std::string& other, const std::string& words) {
    const result r = run(other);
    INFO(r.log);
    CHECK(r.status == 1);
    CHECK(r.says(words));
  };
  refuses(flags + "--buckets " + text, "can't resume from this checkpoint");
  refuses(flags + "--seed 2 " + text, "seed");
  refuses(flags + folder.write("b.txt", "one two"), "can't resume from this checkpoint");
  folder.write("run", "no checkpoint");
  refuses(flags + text, "isn't a checkpoint of text_tokens");
  refuses("--checkpoint " + (folder / "no/folder"), "can't write");
  refuses(folder / "nothing.txt", "No such file");
  refuses("--checkpoint", "usage:");
  CHECK(run("--buckets --steps 5 " + text).status == 0);
}
