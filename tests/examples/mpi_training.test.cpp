// SPDX-License-Identifier: MIT
// The example mpi_training: the losses are the same with any number of ranks, even if some are killed.
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "support/catch.hpp"
#include "support/temporary_folder.hpp"

using feedline::test::temporary_folder;

namespace {

/// The output of rank 0: a line for each step.
std::string losses(const temporary_folder& folder, int ranks, const std::string& flags = {}) {
  const std::string log = folder / "losses";
  const std::string command = "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 " FEEDLINE_MPIEXEC
                              " --oversubscribe -n " +
                              std::to_string(ranks) + " " FEEDLINE_MPI_TRAINING " " + flags + " > " + log +
                              " 2> " + (folder / "errors");
  static_cast<void>(std::system(command.c_str())); // a killed run has no useful status
  std::ifstream stream(log);
  return {std::istreambuf_iterator<char>(stream), {}};
}

} // namespace

TEST_CASE("The losses are the same with 1, 2 and 4 ranks") {
  const temporary_folder folder;
  const std::string alone = losses(folder, 1);
  CHECK(alone.find("step 300 loss ") != std::string::npos);
  CHECK(losses(folder, 2) == alone);
  CHECK(losses(folder, 4) == alone);
}

TEST_CASE("Four killed ranks resume as two, then as one, with the same losses") {
  const temporary_folder folder;
  const std::string alone = losses(folder, 1), file = folder / "training";
  const std::string killed = losses(folder, 4, "--checkpoint " + file + " --killed-behind 130");
  CHECK(alone.starts_with(killed));
  CHECK(killed.find("step 120 ") != std::string::npos);
  CHECK(killed.find("step 200 ") == std::string::npos);
  const std::string rest =
      losses(folder, 2, "--resume " + file + " --checkpoint " + file + " --killed-behind 220");
  CHECK(rest.starts_with("step 101 "));
  CHECK(alone.substr(alone.find("step 101 ")).starts_with(rest));
  const std::string end = losses(folder, 1, "--resume " + file);
  CHECK(end.starts_with("step 201 "));
  CHECK(alone.ends_with(end));
}
