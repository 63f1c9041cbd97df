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

/// A flag that isn't right; what() says which and why.
class usage_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct command_line {
  std::vector<std::string> train, eval; // names or patterns of shards; none of either: drawn shapes
  std::size_t workers = feedline::processors();
  std::size_t batch = 32;
  std::size_t shuffle = 1000;
  std::size_t prefetch = 4;
  std::size_t memory_budget = 0; // bytes; 0: none
  std::uint64_t seed = 1;
  std::optional<std::uint64_t> steps, epochs;
  feedline::on_error on_error = feedline::on_error::fail;
  std::string checkpoint, resume; // files
  std::string json;
  bool help = false;
};

inline constexpr std::string_view help_text =
    R"(Trains a small image classifier on TAR shards of JPEG files (.jpg) with their class numbers (.cls),
then evaluates it. Without --train and --eval it draws a data set of its own.

  --train GLOB…         shards to train on
  --eval GLOB…          shards to evaluate on
  --workers N           threads that decode (default: one per processor)
  --batch N             samples per batch (32)
  --shuffle N           samples in the shuffle buffer (1000); 0: keep the order of the shards
  --prefetch N          batches that lie ready (4)
  --memory-budget N     bytes that a loader may hold: it says what that will be, and shortens its queues to fit
  --seed N              of every random decision (1)
  --steps N             batches to train on; without it, as many as --epochs takes
  --epochs N            passes over the training set (6); with --steps or without --train: over the evaluation set (1)
  --on-error skip|fail  what to do about a sample that can't be read (fail)
  --checkpoint FILE     keep the training in this file, every 100 batches and when Ctrl-C ends it
  --resume FILE         go on with a training that was kept: as if it had never been interrupted
  --json FILE           write what came out
  --help                this text

Exit status: 0 all went well, 1 it failed, 2 a flag is wrong, 130 Ctrl-C ended it.
)";

/// Reads the flags, the program's name not among them. Throws usage_error.
inline command_line read_command_line(const std::vector<std::string>& arguments) {
  command_line result;
  for (std::size_t i = 0; i < arguments.size();) {
    const std::string flag = arguments[i++];
    const auto fail = [&](const std::string& why) -> void { throw usage_error(flag + " " + why); };
    const auto at_value = [&] { return i < arguments.size() && !arguments[i].starts_with("--"); };
    const auto value = [&](const std::string& wanted) {
      if (!at_value()) fail("wants " + wanted);
      return arguments[i++];
    };
    const auto number = [&](std::uint64_t least, std::uint64_t most) {
      const std::string wanted =
          "a whole number from " + std::to_string(least) + " to " + std::to_string(most);
      const std::string text = value(wanted);
      std::uint64_t found = 0;
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), found);
      if (error != std::errc() || end != text.data() + text.size() || found < least || found > most)
        fail("wants " + wanted + ", not `" + text + "`");
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
    else if (flag == "--on-error") {
      const std::string choice = value("`skip` or `fail`");
      if (choice != "skip" && choice != "fail") fail("wants `skip` or `fail`, not `" + choice + "`");
      result.on_error = choice == "skip" ? feedline::on_error::skip : feedline::on_error::fail;
    } else if (flag == "--checkpoint") result.checkpoint = value("the name of a file");
    else if (flag == "--resume") result.resume = value("the name of a file");
    else if (flag == "--json") result.json = value("the name of a file");
    else if (flag == "--help") result.help = true;
    else fail("is no flag");
  }
  return result;
}
