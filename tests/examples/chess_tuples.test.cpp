// SPDX-License-Identifier: MIT
// The program that writes a chunk's training tuples, as its users see it.
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include <sys/wait.h>

#include "../../examples/chess_training/synthetic_games.hpp"
#include "support/catch.hpp"
#include "support/temporary_folder.hpp"
#include "support/test_data.hpp"

using feedline::test::temporary_folder;

namespace {

constexpr std::size_t tuple_bytes = 4 * (112 * 64 + 1858 + 3 + 3 + 1);

std::string contents_of(const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

struct outcome {
  int status;
  std::string log;
};

outcome run(const temporary_folder& folder, const std::string& flags) {
  const std::string log = folder / "log";
  const int status = std::system((FEEDLINE_CHESS_TUPLES " " + flags + " > " + log + " 2>&1").c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, contents_of(log)};
}

} // namespace

TEST_CASE("a file with the tuples of a chunk, in its order") {
  const temporary_folder folder;
  const std::string records = chess::synthetic_records(1, {.positions = 3});
  folder.write("1.gz", chess::detail::gzip(records));
  folder.write("2", records);
  for (const std::string chunk : {"1.gz", "2"}) {
    const outcome o = run(folder, "--out " + (folder / "out") + " --chunk " + (folder / chunk));
    INFO(o.log);
    REQUIRE(o.status == 0);
    const std::string tuples = contents_of(folder / "out");
    REQUIRE(tuples.size() == 3 * tuple_bytes);
    for (std::size_t i = 0; i < 3; ++i) // the probabilities are the record's
      CHECK(tuples.compare(i * tuple_bytes + 4 * 112 * 64, 4 * 1858, records, i * 8356 + 8, 4 * 1858) == 0);
  }
}

TEST_CASE("what can't be done is said in a sentence") {
  const temporary_folder folder;
  folder.write("bad.gz", "no game");
  const std::string out = " --out " + (folder / "out");
  const outcome bad = run(folder, "--chunk " + (folder / "bad.gz") + out);
  CHECK(bad.status == 1);
  CHECK(bad.log.find("bad.gz: it isn't a gzip file") != std::string::npos);
  CHECK(run(folder, "--chunk " + (folder / "none.gz") + out).status == 1);
  folder.write("1", chess::synthetic_records(1, {.positions = 1}));
  CHECK(run(folder, "--chunk " + (folder / "1") + " --out /nowhere/out").status == 1);
  for (const std::string flags : {"", "--chunk", "--out x", "--chunk x --in y"})
    CHECK(run(folder, flags).status == 2);
  CHECK(run(folder, "--help").status == 0);
}

TEST_CASE("the first tuples of a real game are those of the field's own parser", "[shared]") {
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
