// SPDX-License-Identifier: MIT
#pragma once
// The flags of this program.
#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <feedline/feedline.hpp>

/// A wrong flag; what() names it and says why.
class usage_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct command_line {
  std::vector<std::string> train, eval; // names or patterns of shards; both empty: draw shapes
  std::size_t workers = feedline::processors();
  std::size_t batch = 32;
  std::size_t shuffle = 1000;
  std::size_t prefetch = 4;
  std::size_t memory_budget = 0; // bytes; 0: no limit
  std::uint64_t seed = 1;
  std::optional<std::uint64_t> steps, epochs;
  feedline::on_error on_error = feedline::on_error::fail;
  std::size_t failure_limit = feedline::default_failure_limit;
  std::string checkpoint, resume; // files
  std::string json;
  bool watch = false, help = false;
};

inline constexpr std::string_view help_text =
    R"(Trains a small image classifier on TAR shards of JPEG files (.jpg) and their class numbers (.cls), then
evaluates it. Without --train and --eval it draws a data set of shapes.

  --train GLOB…         shards for training
  --eval GLOB…          shards for evaluation
  --workers N           threads that decode (one per processor)
  --batch N             samples per batch (32)
  --shuffle N           capacity of the shuffle buffer, in samples; 0: keep the order of the shards (1000)
  --prefetch N          batches to prefetch (4)
  --memory-budget N     limit on the bytes that a loader holds; queues are shortened to fit, and the memory plan is printed
  --seed N              seed of every random decision (1)
  --steps N             number of training batches, instead of training for --epochs
  --epochs N            passes over the training set (6); with --steps or without --train: over the evaluation set (1)
  --on-error skip|fail  whether to skip a sample that can't be read, or to fail (fail)
  --failure-limit N     samples that may be skipped in all; one more ends the run (1000)
  --checkpoint FILE     save the training to this file every 100 batches and when it ends or is interrupted
  --resume FILE         continue a saved training, with the same results as without the interruption
  --watch               show what every stage does, below the output of the program
  --json FILE           write the results to this file
  --help                print this text

Exit status: 0 success, 1 failure, 2 wrong flag, 130 interrupted by Ctrl-C.
)";

/// Parses the flags; `arguments` doesn't include the program's name. Throws usage_error.
inline command_line read_command_line(const std::vector<std::string>& arguments) {
  command_line result;
  for (std::size_t i = 0; i < arguments.size();) {
    const std::string flag = arguments[i++];
    const auto fail = [&](const std::string& why) -> void { throw usage_error(flag + " " + why); };
    const auto at_value = [&] { return i < arguments.size() && !arguments[i].starts_with("--"); };
    const auto value = [&](const std::string& wanted) {
      if (!at_value()) fail("needs " + wanted);
      return arguments[i++];
    };
    const auto number = [&](std::uint64_t min, std::uint64_t max) {
      const std::string wanted = "a whole number from " + std::to_string(min) + " to " + std::to_string(max);
      const std::string text = value(wanted);
      std::uint64_t found = 0;
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), found);
      if (error != std::errc() || end != text.data() + text.size() || found < min || found > max)
        fail("needs " + wanted + ", not `" + text + "`");
      return found;
    };
    const auto patterns = [&](std::vector<std::string>& list) {
      list.push_back(value("at least one file or pattern"));
      while (at_value()) list.push_back(arguments[i++]);
    };

    if (flag == "--train") patterns(result.train);
    else if (flag == "--eval") patterns(result.eval);
    else if (flag == "--workers") result.workers = number(1, feedline::workers::limit);
    else if (flag == "--batch") result.batch = number(1, 1'000'000);
    else if (flag == "--shuffle") result.shuffle = number(0, 100'000'000);
    else if (flag == "--prefetch") result.prefetch = number(1, 1'000'000);
    else if (flag == "--memory-budget") result.memory_budget = number(1, std::uint64_t{1} << 50);
    else if (flag == "--seed") result.seed = number(0, std::numeric_limits<std::uint64_t>::max());
    else if (flag == "--steps") result.steps = number(1, 1'000'000'000'000);
    else if (flag == "--epochs") result.epochs = number(1, 1'000'000);
    else if (flag == "--failure-limit")
      result.failure_limit = number(0, std::numeric_limits<std::uint64_t>::max());
    else if (flag == "--on-error") {
      const std::string choice = value("`skip` or `fail`");
      if (choice != "skip" && choice != "fail") fail("needs `skip` or `fail`, not `" + choice + "`");
      result.on_error = choice == "skip" ? feedline::on_error::skip : feedline::on_error::fail;
    } else if (flag == "--checkpoint") result.checkpoint = value("a file name");
    else if (flag == "--resume") result.resume = value("a file name");
    else if (flag == "--json") result.json = value("a file name");
    else if (flag == "--watch") result.watch = true;
    else if (flag == "--help") result.help = true;
    else throw usage_error("unknown flag " + flag);
  }
  return result;
}
