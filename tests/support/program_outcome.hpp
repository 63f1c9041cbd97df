// SPDX-License-Identifier: MIT
#pragma once
// Runs a program as its users do: what it wrote as JSON, and what it printed.
#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include <sys/wait.h>

#include "temporary_folder.hpp"

namespace feedline::test {

/// The bytes of a file; none if it isn't there.
inline std::string contents_of(const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

struct program_outcome {
  int status;
  std::string log, json;

  /// What stands behind `"key": ` in the JSON.
  std::string value(const std::string& key) const {
    const std::size_t at = json.find("\"" + key + "\": ");
    if (at == std::string::npos) return "no " + key;
    const std::size_t begin = at + key.size() + 4;
    return json.substr(begin, json.find_first_of(",}", begin) - begin);
  }
};

/// Runs `before` + program with these flags, and with `--json` for a file in the folder.
inline program_outcome run_program(const std::string& program, const temporary_folder& folder,
                                   const std::string& flags, const std::string& before) {
  const std::string json = folder / "out.json", log = folder / "log";
  const std::string command = before + program + " --json " + json + " " + flags + " > " + log + " 2>&1";
  const int status = std::system(command.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, contents_of(log), contents_of(json)};
}

} // namespace feedline::test
