// SPDX-License-Identifier: MIT
// The program chess_tuples as its users see it.
#include <string>

#include "../examples/chess_training/synthetic_games.hpp"
#include "support/catch.hpp"
#include "support/program_outcome.hpp"
#include "support/temporary_folder.hpp"
#include "support/test_data.hpp"

using feedline::test::contents_of;
using feedline::test::temporary_folder;

namespace {

constexpr std::size_t tuple_bytes = 4 * (112 * 64 + 1858 + 3 + 3 + 1);

feedline::test::program_outcome run(const temporary_folder& folder, const std::string& flags) {
  return feedline::test::run_command(FEEDLINE_CHESS_TUPLES " " + flags, folder);
}

} // namespace

TEST_CASE("chess_tuples writes the tuples of a chunk in order") {
  const temporary_folder folder;
  const std::string records = chess::synthetic_records(1, {.positions = 3});
  folder.write("1.gz", chess::detail::gzip(records));
  folder.write("2", records);
  for (const std::string chunk : {"1.gz", "2"}) {
    const auto o = run(folder, "--out " + (folder / "out") + " --chunk " + (folder / chunk));
    INFO(o.log);
    REQUIRE(o.status == 0);
    const std::string tuples = contents_of(folder / "out");
    REQUIRE(tuples.size() == 3 * tuple_bytes);
    for (std::size_t i = 0; i < 3; ++i) // the probabilities are those of the record
      CHECK(tuples.compare(i * tuple_bytes + 4 * 112 * 64, 4 * 1858, records, i * 8356 + 8, 4 * 1858) == 0);
  }
}

TEST_CASE("errors of chess_tuples are reported in a sentence") {
  const temporary_folder folder;
  folder.write("bad.gz", "no game");
  const std::string out = " --out " + (folder / "out");
  const auto bad = run(folder, "--chunk " + (folder / "bad.gz") + out);
  CHECK(bad.status == 1);
  CHECK(bad.says("bad.gz: it is not a gzip file"));
  CHECK(run(folder, "--chunk " + (folder / "none.gz") + out).status == 1);
  folder.write("1", chess::synthetic_records(1, {.positions = 1}));
  CHECK(run(folder, "--chunk " + (folder / "1") + " --out /nowhere/out").status == 1);
  for (const std::string flags : {"", "--chunk", "--out x", "--chunk x --in y"})
    CHECK(run(folder, flags).status == 2);
  CHECK(run(folder, "--help").status == 0);
}

TEST_CASE("the first tuples of a real game equal those of the reference parser", "[shared]") {
  const auto data = feedline::test::test_data("leela");
  if (!data) return;
  const temporary_folder folder;
  REQUIRE(run(folder, "--chunk " + *data + "/v7/training.187127055.gz --out " + (folder / "out")).status ==
          0);
  const std::string tuples = contents_of(folder / "out"),
                    golden = contents_of(*data + "/golden/v7-training.187127055.f32");
  CHECK(tuples.size() == 293 * tuple_bytes);
  const bool is_equal =
      tuples.substr(0, 2 * tuple_bytes) == golden.substr(0, 2 * tuple_bytes); // frames 0 and 1
  CHECK(is_equal);
}
