// SPDX-License-Identifier: MIT
// The training on games of chess as its users see it: a program that reads chunks and writes what came out as JSON.
#include <string>

#include "support/catch.hpp"
#include "support/program_outcome.hpp"
#include "support/temporary_folder.hpp"

using feedline::test::temporary_folder;
using outcome = feedline::test::program_outcome;

namespace {

outcome run(const temporary_folder& folder, const std::string& flags, const std::string& before = "") {
  return feedline::test::run_program(FEEDLINE_CHESS_TRAINING, folder, flags, before);
}

std::string games_in(const temporary_folder& folder) {
  REQUIRE(run(folder, "--write-games " + folder.path()).status == 0);
  return " --reservoir 1000 --batch 64 --games " + folder.path();
}

} // namespace

TEST_CASE("it makes games of its own, and learns from them") {
  const temporary_folder folder;
  const outcome o = run(folder, "--batch 64 --steps 120 --watch");
  INFO(o.log);
  REQUIRE(o.status == 0);
  CHECK(o.value("positions") == "7680");
  CHECK(std::stod(o.value("last_loss")) < 0.8 * std::stod(o.value("first_loss")));
  for (const std::string stage : {"shuffling chunk pool", "chunk loader", "chunk validator", "chunk rescorer",
                                  "chunk unpacker", "shuffling frame sampler", "tensor generator"})
    CHECK(o.log.find(stage) != std::string::npos);
  CHECK(o.log.find('\033') == std::string::npos); // it isn't a terminal
}

TEST_CASE("a training repeats itself, whatever the number of workers, and other seeds change it") {
  const temporary_folder folder;
  const std::string games = games_in(folder);
  const outcome first = run(folder, "--steps 12 --values --blunders 0.2 --sampling 0.5 --workers 1" + games);
  REQUIRE(first.status == 0);
  for (const std::string workers : {"2", "16"}) {
    const outcome o =
        run(folder, "--steps 12 --values --blunders 0.2 --sampling 0.5 --workers " + workers + games);
    INFO(o.log);
    for (const std::string key : {"digest", "tensor_digest", "first_loss", "last_loss"})
      CHECK(o.value(key) == first.value(key));
  }
  const outcome other = run(folder, "--steps 12 --values --blunders 0.2 --sampling 0.5 --seed 2" + games);
  CHECK(other.value("tensor_digest") != first.value("tensor_digest"));
  const outcome model =
      run(folder, "--steps 12 --values --blunders 0.2 --sampling 0.5 --model-seed 2" + games);
  CHECK(model.value("tensor_digest") == first.value("tensor_digest"));
  CHECK(model.value("last_loss") != first.value("last_loss"));
}

TEST_CASE("a finite run has each position once, and counts what it leaves out") {
  const temporary_folder folder;
  const std::string games = games_in(folder);
  const outcome whole = run(folder, "--finite" + games);
  INFO(whole.log);
  REQUIRE(whole.status == 0);
  CHECK(whole.value("distinct") == whole.value("positions"));
  CHECK(whole.value("bad_chunks") == "0");

  folder.write("zero.gz", "");
  folder.write("text.gz", "no game");
  const outcome o = run(folder, "--finite" + games);
  CHECK(o.status == 0);
  CHECK(o.value("positions") == whole.value("positions"));
  CHECK(o.value("bad_chunks") == "2");
  CHECK(o.value("not gzip") == "2");
  CHECK(o.log.find("text.gz") != std::string::npos);
  const outcome none = run(folder, "--finite --format v7" + games);
  CHECK(none.value("positions") == "0");
  CHECK(none.value("wrong version") == "200");
}

TEST_CASE("a live pool shows what it has, and its bad files are no bad chunks") {
  const temporary_folder folder;
  const std::string games = games_in(folder);
  folder.write("text.gz", "no game");
  folder.write("cut.tar", std::string(300, 'x'));
  const outcome o = run(folder, "--finite --window 1000 --watch" + games);
  INFO(o.log);
  CHECK(o.status == 0);
  CHECK(o.value("bad_chunks") == "2");
  CHECK(o.value("causes") == "{\"unreadable file\": 1");
  CHECK(o.value("not gzip") == "1");
  CHECK(o.log.find("1 bad, sources 201, chunks 201, window 1000") != std::string::npos);
}

#ifndef __SANITIZE_THREAD__ // which holds a signal back as long as the thread that got it sleeps
TEST_CASE("a live pool that has no games yet is shown, and waits until Ctrl-C") {
  const temporary_folder folder;
  const outcome o = run(folder, "--window 10 --watch --games " + folder.path(),
                        "timeout --preserve-status --signal INT 1.5 ");
  INFO(o.log);
  CHECK(o.status == 130);
  CHECK(o.log.starts_with("waiting for the first batch\nsliding_window_pool"));
}
#endif

TEST_CASE("flags of chess_training that don't fit together are refused in a sentence") {
  const temporary_folder folder;
  const auto refuses = [&](const std::string& flags, const std::string& words) {
    const outcome o = run(folder, flags);
    INFO(flags << ": " << o.log);
    CHECK(o.status == 2);
    CHECK(o.log.find(words) != std::string::npos);
  };
  refuses("--batch 0", "--batch must not be 0");
  refuses("--workers 0", "at least one worker");
  refuses("--reservoir 0", "at least one position");
  refuses("--reservoir 5 --min-fill 6", "--min-fill 6 is above --reservoir 5");
  refuses("--format v8", "`auto`, `v6` or `v7`");
  refuses("--sampling 2", "--sampling wants a number");
  refuses("--games", "at least one folder");
  refuses("--speed 3", "is no flag");
  const outcome none = run(folder, "--games " + (folder / "none"));
  CHECK(none.status != 0);
}

TEST_CASE("Ctrl-C ends a training on games at any moment") {
  const temporary_folder folder;
  const std::string games = games_in(folder);
  for (const std::string after : {"0.05", "0.5"}) {
    const outcome o =
        run(folder, "--steps 1000000" + games, "timeout --preserve-status --signal INT " + after + " ");
    INFO(o.log);
    CHECK((o.status == 130 || after == "0.05")); // so early it may not listen yet
  }
}
