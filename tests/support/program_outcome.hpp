// SPDX-License-Identifier: MIT
#pragma once
// Runs a program as its users do and collects its JSON and its output.
#include <cstddef>
#include <cstdlib>
#include <string>

#include <sys/wait.h>

#include "temporary_folder.hpp"

namespace feedline::test {

struct program_outcome {
  int status; ///< of its exit; -1: a signal ended it
  std::string log, json{};

  bool says(const std::string& words) const { return log.find(words) != std::string::npos; }

  /// The value of `"key": ` in the JSON.
  std::string value(const std::string& key) const {
    const std::size_t at = json.find("\"" + key + "\": ");
    if (at == std::string::npos) return "no " + key;
    const std::size_t begin = at + key.size() + 4;
    return json.substr(begin, json.find_first_of(",}", begin) - begin);
  }
};

/// Runs a command; what it prints is kept as `log` in the folder, too.
inline program_outcome run_command(const std::string& command, const temporary_folder& folder) {
  const std::string log = folder / "log";
  const int status = std::system((command + " > " + log + " 2>&1").c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, contents_of(log)};
}

/// Runs `before` + program with these flags and with `--json` for a file in the folder.
inline program_outcome run_program(const std::string& program, const temporary_folder& folder,
                                   const std::string& flags, const std::string& before = {}) {
  const std::string json = folder / "out.json";
  program_outcome o = run_command(before + program + " --json " + json + " " + flags, folder);
  o.json = contents_of(json);
  return o;
}

} // namespace feedline::test
