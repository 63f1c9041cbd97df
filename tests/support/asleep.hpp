// SPDX-License-Identifier: MIT
#pragma once
// Observes the threads of this process through /proc. Linux only.
#include <fstream>
#include <string>
#include <thread>

#include <dirent.h>
#include <unistd.h>

namespace feedline::test {

/// Calls f(path) with the folder in /proc of each thread but the caller.
template <class F>
void for_each_other_thread(F f) {
  const std::string all = "/proc/self/task";
  DIR* const folder = ::opendir(all.c_str());
  if (folder == nullptr) return;
  while (const dirent* entry = ::readdir(folder)) {
    const std::string name = entry->d_name;
    if (name != "." && name != ".." && name != std::to_string(::gettid())) f(all + "/" + name);
  }
  ::closedir(folder);
}

/// Returns when all other threads have been seen asleep many times in a row: they wait for something that the
/// caller must do. Hangs if they never sleep.
inline void await_all_others_asleep() {
  for (int times = 0; times < 50; ++times, std::this_thread::yield())
    for_each_other_thread([&](const std::string& path) {
      std::ifstream file(path + "/stat");
      std::string text; // stays empty if the thread is gone
      std::getline(file, text);
      const auto name_end = text.rfind(") ");
      if (name_end != std::string::npos && text[name_end + 2] != 'S') times = 0;
    });
}

/// The number of context switches of all other threads, voluntary or not.
inline long switches_of_others() {
  long sum = 0;
  for_each_other_thread([&](const std::string& path) {
    std::ifstream status(path + "/status");
    for (std::string line; std::getline(status, line);)
      if (const auto at = line.find("ctxt_switches:"); at != std::string::npos)
        sum += std::stol(line.substr(at + 14));
  });
  return sum;
}

} // namespace feedline::test
