// SPDX-License-Identifier: MIT
// The example resume: a training can be interrupted at any time and has the same result.
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include <sys/wait.h>

#include "support/catch.hpp"
#include "support/temporary_folder.hpp"

using feedline::test::temporary_folder;

namespace {

/// Runs a command and returns its exit status.
int run(const std::string& command, const std::string& log) {
  const int status = std::system((command + " > " + log + " 2>&1").c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/// The last lines: the weights and the digest.
std::string end_of(const std::string& log) {
  std::ifstream stream(log);
  const std::string text(std::istreambuf_iterator<char>(stream), {});
  const std::size_t end = text.find("weights");
  return end == std::string::npos ? "no end: " + text : text.substr(end);
}

} // namespace

TEST_CASE("A training that is interrupted repeatedly has the same result as an uninterrupted one") {
  const temporary_folder folder;
  const std::string program = FEEDLINE_RESUME, file = folder / "training", log = folder / "log";
  int interruptions = 0, status = 130;
  // A fast machine may finish before the first interruption.
  for (int steps = 4000; interruptions == 0 && steps < 1'000'000; steps *= 4) {
    const std::string command = program + " --steps " + std::to_string(steps) + " --checkpoint " + file;
    REQUIRE(run(command, folder / "whole") == 0);
    std::string resume;
    status = 130;
    for (double seconds = 0.03; status == 130; seconds *= 1.3) {
      status = run("timeout --foreground --preserve-status -s INT " + std::to_string(seconds) + " " +
                       command + resume,
                   log);
      // Before the program handles Ctrl-C, the signal just ends it.
      if (status == 130 && end_of(log).find("interrupted after step") != std::string::npos) {
        resume = " --resume " + file;
        ++interruptions;
      }
    }
  }
  CHECK(interruptions > 0);
  CHECK(status == 0);
  CHECK(end_of(log) == end_of(folder / "whole"));
  CHECK(end_of(log).find("digest of the samples") != std::string::npos);
  CHECK(run(program + " --resume " + (folder / "whole"), log) == 1);
}
