// SPDX-License-Identifier: MIT
// The program chess_training as its users see it: reads chunks, trains, and writes its results as JSON.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/program_outcome.hpp"
#include "support/rounds.hpp"
#include "support/sanitizers.hpp"
#include "support/temporary_folder.hpp"

using feedline::test::rounds;
using feedline::test::temporary_folder;
using outcome = feedline::test::program_outcome;

namespace {

outcome run(const temporary_folder& folder, const std::string& flags, const std::string& before = "") {
  return feedline::test::run_program(FEEDLINE_CHESS_TRAINING, folder, flags, before);
}

constexpr int games = rounds(200, 40);
const std::string all_games = std::to_string(games);

std::string games_in(const temporary_folder& folder) {
  static const temporary_folder written;
  static const int status = run(written, "--write-games " + written.path()).status;
  REQUIRE(status == 0);
  for (int i = 0; i < games; ++i) {
    const std::string name = "training." + std::to_string(i) + ".gz";
    std::filesystem::copy(written / name, folder / name);
  }
  return " --reservoir 1000 --batch 64 --games " + folder.path();
}

} // namespace

TEST_CASE("chess_training generates games and learns from them") {
  const temporary_folder folder;
  const outcome o = run(folder, "--batch 64 --steps 120 --watch");
  INFO(o.log);
  REQUIRE(o.status == 0);
  CHECK(o.value("positions") == "7680");
  CHECK(std::stod(o.value("last_loss")) < 0.8 * std::stod(o.value("first_loss")));
  for (const std::string stage : {"shuffling chunk pool", "chunk loader", "chunk validator", "chunk rescorer",
                                  "chunk unpacker", "shuffle", "tensor generator"})
    CHECK(o.log.find(stage) != std::string::npos);
  CHECK(o.says("feedline: "));                    // the live view
  CHECK(o.log.find('\033') == std::string::npos); // the output isn't a terminal
}

TEST_CASE("a training is the same with any number of workers, and differs with another seed") {
  const temporary_folder folder;
  const std::string from = games_in(folder);
  const std::string flags =
      "--steps " + std::to_string(rounds(12)) + " --values --blunders 0.2 --sampling 0.5 ";
  const outcome first = run(folder, flags + "--workers 1" + from);
  REQUIRE(first.status == 0);
  for (const std::string workers : {"2", "16"}) {
    const outcome o = run(folder, flags + "--workers " + workers + from);
    INFO(o.log);
    for (const std::string key : {"digest", "tensor_digest", "first_loss", "last_loss"})
      CHECK(o.value(key) == first.value(key));
  }
  const outcome other = run(folder, flags + "--seed 2" + from);
  CHECK(other.value("tensor_digest") != first.value("tensor_digest"));
  const outcome model = run(folder, flags + "--model-seed 2" + from);
  CHECK(model.value("tensor_digest") == first.value("tensor_digest"));
  CHECK(model.value("last_loss") != first.value("last_loss"));
}

TEST_CASE("a finite run uses each position once, and counts bad chunks") {
  const temporary_folder folder;
  const std::string from = games_in(folder);
  const outcome whole = run(folder, "--finite" + from);
  INFO(whole.log);
  REQUIRE(whole.status == 0);
  CHECK(whole.value("distinct") == whole.value("positions"));
  CHECK(whole.value("bad_chunks") == "0");

  folder.write("zero.gz", "");
  folder.write("text.gz", "no game");
  const outcome o = run(folder, "--finite" + from);
  CHECK(o.status == 0);
  CHECK(o.value("positions") == whole.value("positions"));
  CHECK(o.value("bad_chunks") == "2");
  CHECK(o.value("not gzip") == "2");
  CHECK(o.log.find("text.gz") != std::string::npos);
  const outcome none = run(folder, "--finite --format v7" + from);
  CHECK(none.value("positions") == "0");
  CHECK(none.value("wrong version") == all_games);
}

TEST_CASE("a live pool reports its contents, and counts bad files apart from bad chunks") {
  const temporary_folder folder;
  const std::string from = games_in(folder);
  folder.write("text.gz", "no game");
  folder.write("cut.tar", std::string(300, 'x'));
  const outcome o = run(folder, "--finite --window 1000 --watch" + from);
  INFO(o.log);
  CHECK(o.status == 0);
  CHECK(o.value("bad_chunks") == "2");
  CHECK(o.value("causes") == "{\"unreadable file\": 1");
  CHECK(o.value("not gzip") == "1");
  const std::string sources = std::to_string(games + 1);
  CHECK(o.says("chunks left out: 2\n"));
  const std::string metrics = o.json.substr(std::min(o.json.find("\"sliding_window_pool\""), o.json.size()));
  CHECK(metrics.find("\"failures\": 1,") < metrics.find("\"failures\": 0,"));
  for (const std::string& number : {"\"sources\", \"value\": " + sources, "\"chunks\", \"value\": " + sources,
                                    std::string("\"window\", \"value\": 1000")})
    CHECK(metrics.find(number) != std::string::npos);
}

TEST_CASE("a live pool counts the games that are newer than the anchor") {
  const temporary_folder folder;
  const std::string from = games_in(folder);
  std::vector<std::string> newest;
  for (int i = 0; i < 3; ++i) {
    newest.push_back(folder / ("training." + std::to_string(i) + ".gz"));
    std::filesystem::last_write_time(newest[static_cast<std::size_t>(i)],
                                     std::filesystem::file_time_type::clock::now() +
                                         std::chrono::hours(1 + i));
  }
  const auto since = [&](const std::string& flags) {
    const outcome o = run(folder, "--finite --window 1000" + flags + from);
    INFO(o.log);
    CHECK(o.status == 0);
    const std::string count = o.value("since_anchor");
    CHECK(o.log.find("chunks since the anchor: " + count + "\n") != std::string::npos);
    return count;
  };
  CHECK(since("") == all_games);
  CHECK(since(" --anchor " + newest[0]) == "2");
  CHECK(since(" --anchor " + newest[2]) == "0");
  CHECK(since(" --anchor none.gz") == all_games);
  CHECK(run(folder, "--steps 1" + from).value("since_anchor") == "no since_anchor");
}

TEST_CASE("notices of a live pool are printed once, with and without --watch") {
  const temporary_folder folder;
  const std::string from = games_in(folder);
  for (const std::string flags : {"", " --watch"}) {
    const outcome o = run(folder, "--steps 50 --sampling 0.5 --window 1000" + flags + from);
    INFO(o.log);
    CHECK(o.status == 0);
    for (const std::string& words : {"sliding_window_pool: starts with " + all_games + " chunks",
                                     "sliding_window_pool: all " + all_games}) {
      const std::size_t at = o.log.find(words);
      REQUIRE(at != std::string::npos);
      CHECK((at == 0 || o.log[at - 1] == '\n'));
      CHECK(o.log.find(words, at + 1) == std::string::npos);
    }
  }
}

#if !FEEDLINE_TEST_TSAN // its runtime delays a signal while the thread that received it sleeps
TEST_CASE("a live pool without games is shown, and waits until Ctrl-C") {
  const temporary_folder folder;
  outcome o;
  for (const std::string seconds : {"1.5", "20", "100"}) { // a busy machine may need long to start it
    o = run(folder, "--window 10 --watch --games " + folder.path(),
            "timeout --foreground --preserve-status --signal INT " + seconds + " ");
    if (o.says("\nsliding_window_pool")) break;
  }
  INFO(o.log);
  CHECK(o.status == 130);
  CHECK(o.says("feedline: 0 items/s"));
  CHECK(o.says("\nsliding_window_pool"));
}
#endif

TEST_CASE("flags of chess_training that can't be combined are refused with a reason") {
  const temporary_folder folder;
  const auto refuses = [&](const std::string& flags, const std::string& words) {
    const outcome o = run(folder, flags);
    INFO(flags << ": " << o.log);
    CHECK(o.status == 2);
    CHECK(o.log.find(words) != std::string::npos);
  };
  refuses("--batch 0", "--batch must not be 0");
  refuses("--workers 0", "at least one worker");
  refuses("--reservoir 0", "--reservoir must not be 0");
  refuses("--reservoir 5 --min-fill 6", "--min-fill 6 is above --reservoir 5");
  refuses("--format v8", "`auto`, `v6` or `v7`");
  refuses("--sampling 2", "--sampling needs a number");
  refuses("--games", "at least one folder");
  refuses("--anchor a.gz", "--anchor needs --window");
  refuses("--speed 3", "is not a flag");
  const outcome none = run(folder, "--games " + (folder / "none"));
  CHECK(none.status != 0);
}

TEST_CASE("Ctrl-C ends a training on games at any moment") {
  const temporary_folder folder;
  const std::string from = games_in(folder);
  for (const std::string after : {"0.05", "0.5"}) {
    const outcome o = run(folder, "--steps 1000000" + from,
                          "timeout --foreground --preserve-status --signal INT " + after + " ");
    INFO(o.log);
    CHECK((o.status == 130 || after == "0.05")); // it may not handle signals so early
  }
}
