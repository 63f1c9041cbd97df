// SPDX-License-Identifier: MIT
// The program audio_training as users run it: it reads Arrow files and writes its results as JSON.
#include <string>

#include "support/catch.hpp"
#include "support/program_outcome.hpp"
#include "support/temporary_folder.hpp"

using feedline::test::contents_of;
using feedline::test::temporary_folder;
using outcome = feedline::test::program_outcome;

namespace {

// Short clips with few features: these tests don't measure speed.
const std::string small = " --rate 8000 --seconds 1 --fft 256 --hop 160 --mels 20 --batch 16";

outcome run(const temporary_folder& folder, const std::string& flags, const std::string& before = "") {
  return feedline::test::run_program(FEEDLINE_AUDIO_TRAINING, folder, flags, before);
}

/// The folder of the generated clips.
const temporary_folder& tones() {
  static const temporary_folder written;
  static const int status = run(written, "--write-tones " + (written / "")).status;
  REQUIRE(status == 0);
  return written;
}

std::string tone_files() {
  return " --train " + (tones() / "train.arrows") + " --eval " + (tones() / "eval.arrows");
}

} // namespace

TEST_CASE("evaluation sees each clip once and training is repeatable with any number of workers") {
  const temporary_folder folder;
  const std::string files = tone_files();
  outcome first;
  for (const std::string workers : {"1", "3", "8"}) {
    const outcome o = run(folder, "--steps 6 --shuffle 100 --min-fill 40 --workers " + workers +
                                      " --eval-workers " + workers + small + files);
    INFO(o.log);
    REQUIRE(o.status == 0);
    CHECK(o.value("trained") == "96");
    CHECK(o.value("evaluated") == "200");
    CHECK(o.value("distinct") == "200");
    if (workers == "1") first = o;
    for (const std::string key : {"digest", "first_loss", "last_loss", "accuracy"})
      CHECK(o.value(key) == first.value(key));
  }
  const outcome other = run(folder, "--steps 6 --seed 2 --shuffle 100 --min-fill 40" + small + files);
  CHECK(other.value("digest") != first.value("digest"));
}

TEST_CASE("held-out clips are evaluated and the others are used for training") {
  const temporary_folder folder;
  const outcome o = run(folder, "--steps 1 --shuffle 10 --min-fill 0 --hold-out 25 --train " +
                                    (tones() / "train.arrows") + small);
  REQUIRE(o.status == 0);
  CHECK(o.value("evaluated") == o.value("distinct"));
  const int evaluated = std::stoi(o.value("evaluated"));
  CHECK(evaluated > 100);
  CHECK(evaluated < 200);
}

TEST_CASE("clips that can't be read are left out and reported with file and row") {
  const temporary_folder folder;
  std::string damaged = contents_of(tones() / "train.arrows");
  const std::size_t wav = damaged.find("RIFF", damaged.size() / 2);
  REQUIRE(wav != std::string::npos);
  damaged.replace(wav, 4, "JUNK");
  const std::string file = folder.write("damaged.arrows", damaged),
                    junk = folder.write("junk.arrows", "no table");

  const outcome some = run(folder, "--eval " + file + " " + junk + small);
  INFO(some.log);
  REQUIRE(some.status == 0);
  CHECK(some.value("evaluated") == "599");
  CHECK(some.value("failures") == "2");
  CHECK(some.log.find("damaged.arrows: row") != std::string::npos);
  CHECK(some.log.find("junk.arrows") != std::string::npos);

  const outcome all = run(folder, "--train " + junk + small);
  CHECK(all.status == 1);
  CHECK(all.log.find("no clip can be read") != std::string::npos);
  const outcome strict = run(folder, "--on-error fail --eval " + file + small);
  CHECK(strict.status == 1);
}

TEST_CASE("contradictory flags are rejected with a message") {
  const temporary_folder folder;
  const auto refuses = [&](const std::string& flags, const std::string& words) {
    const outcome o = run(folder, flags);
    INFO(flags << ": " << o.log);
    CHECK(o.status == 2);
    CHECK(o.log.find(words) != std::string::npos);
  };
  refuses("--shuffle 10 --min-fill 11", "--min-fill 11 is above --shuffle 10");
  refuses("--seconds 0", "--seconds");
  refuses("--batch 0", "--batch must not be 0");
  refuses("--workers 0", "--workers and --eval-workers must not be 0");
  refuses("--hop 0", "hop");
  refuses("--mels 0", "mel");
  refuses("--max-frequency 20000", "half the sample rate");
  refuses("--recipe kaldi --seconds 0.01", "shorter than a window");
  refuses("--train", "at least one file");
  refuses("--speed 3", "unknown flag --speed");
  CHECK(run(folder, "--train " + (folder / "nothing-*.arrow")).status == 1);
}

TEST_CASE("Ctrl-C ends a training at any time") {
  const temporary_folder folder;
  const std::string files = tone_files();
  for (const std::string after : {"0.05", "0.5", "1.5"}) {
    const outcome o = run(folder, "--epochs 1000" + files,
                          "timeout --foreground --preserve-status --signal INT " + after + " ");
    INFO(o.log);
    CHECK((o.status == 130 || after == "0.05")); // the signal handler may not be installed yet
  }
}
