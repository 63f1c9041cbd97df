// SPDX-License-Identifier: MIT
#pragma once
// The flags of this program, and the checks of their combinations.
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <feedline/feedline.hpp>

#include "blunders.hpp"
#include "loader.hpp"

/// A wrong flag; what() names it and says why.
class usage_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct options {
  chess::loader_options loader;
  std::optional<std::uint64_t> window; ///< chunks of a live pool; none: a fixed set of games
  std::optional<std::string> anchor; ///< the key of a chunk of the live pool; none: the beginning of the run
  std::optional<double> blunders;    ///< a move that loses more q is a blunder; none: games are not changed
  bool finite = false, watch = false, help = false;
  std::uint64_t seed = 1;
  std::optional<std::uint64_t> model_seed, games_seed; ///< none: `seed`
  std::optional<std::uint64_t> steps;                  ///< none: 100, or all batches in finite mode
  double rate = 0.2;
  std::string json, write_games; ///< a file, a folder

  /// Throws usage_error for flags that can't be combined.
  void check() const {
    const auto require = [](bool met, const std::string& sentence) {
      if (!met) throw usage_error(sentence);
    };
    require(loader.batch > 0, "--batch must not be 0");
    require(!window || loader.games.size() == 1, "--window needs --games with one folder");
    require(!anchor || window, "--anchor needs --window: only a live pool counts new chunks");
    require(loader.workers > 0, "there must be at least one worker");
    require(loader.reservoir > 0, "--reservoir must not be 0");
    require(!loader.min_fill || *loader.min_fill <= loader.reservoir,
            "--min-fill " + std::to_string(loader.min_fill.value_or(0)) + " is above --reservoir " +
                std::to_string(loader.reservoir) + ": it can be at most as large");
  }
};

inline constexpr std::string_view help_text =
    R"(Trains a small policy and value network on training chunks of Leela Chess Zero. Without --games it generates games.

  --games PATH…         folders with chunks (.gz) and TAR archives of them, or such files
  --window N            the newest N chunks of a folder in which games arrive (--games FOLDER)
  --anchor KEY          count the chunks newer than this one, a file or ARCHIVE/MEMBER (all chunks of this run)
  --format auto|v6|v7   the version of the records (auto: each record's own, 4 to 7)
  --reservoir N         positions in the shuffling frame sampler (100000)
  --min-fill N          positions in it before it emits the first (as many)
  --sampling SHARE      share of a game's positions that each pass uses, 0 to 1 (1)
  --batch N             positions per batch (1024)
  --workers N           threads that unpack chunks; half as many make tensors (2)
  --blunders Q          correct results before a move that lost more than Q of the expected result (-1 to 1)
  --values              also make the values tensor: q, d, m of result, best, played, orig, root and short term
  --steps N             batches to train on (100)
  --finite              use each position once, then end
  --rate R              learning rate (0.2)
  --seed N              seed of the order of games and positions (1)
  --model-seed N        seed of the network's initial weights (that of --seed)
  --games-seed N        seed of the generated games (that of --seed)
  --watch               show what every stage does, below the output of the program
  --json FILE           write the results
  --write-games FOLDER  only write the generated games to it
  --help                this text

Exit status: 0 success, 1 failure, 2 wrong flag, 130 ended by Ctrl-C.
)";

/// Reads the flags, without the program's name. Throws usage_error.
inline options read_options(const std::vector<std::string>& arguments) {
  options o;
  for (std::size_t i = 0; i < arguments.size();) {
    const std::string flag = arguments[i++];
    const auto at_value = [&] { return i < arguments.size() && !arguments[i].starts_with("--"); };
    const auto text = [&](const char* wanted) {
      if (!at_value()) throw usage_error(flag + " needs " + wanted);
      return arguments[i++];
    };
    const auto number = [&]<class Number>(Number& into, Number least, Number most) {
      const std::string given = text("a number");
      const auto [end, error] = std::from_chars(given.data(), given.data() + given.size(), into);
      if (error != std::errc() || end != given.data() + given.size() || !(into >= least && into <= most))
        throw usage_error(flag + " needs a number from " + std::to_string(least) + " to " +
                          std::to_string(most) + ", not `" + given + "`");
    };
    const auto seed = [&](std::uint64_t& into) {
      number(into, std::uint64_t{0}, std::numeric_limits<std::uint64_t>::max());
    };
    constexpr std::size_t none = 0, many = 100'000'000;

    if (flag == "--games") {
      o.loader.games.push_back(text("at least one folder or file"));
      while (at_value()) o.loader.games.push_back(arguments[i++]);
    } else if (flag == "--format") {
      const std::string given = text("a choice");
      if (given != "auto" && given != "v6" && given != "v7")
        throw usage_error("--format needs `auto`, `v6` or `v7`, not `" + given + "`");
      using enum chess::record_format;
      o.loader.format = given == "v6" ? v6 : given == "v7" ? v7 : any;
    } else if (flag == "--reservoir") number(o.loader.reservoir, none, many);
    else if (flag == "--min-fill") number(o.loader.min_fill.emplace(), none, many);
    else if (flag == "--sampling") number(o.loader.sampling, 0.0, 1.0);
    else if (flag == "--batch") number(o.loader.batch, none, std::size_t{1'000'000});
    else if (flag == "--workers") number(o.loader.workers, none, feedline::workers::limit);
    else if (flag == "--window") number(o.window.emplace(), std::uint64_t{1}, std::uint64_t{1'000'000'000});
    else if (flag == "--anchor") o.anchor = text("the key of a chunk");
    else if (flag == "--blunders") number(o.blunders.emplace(), 0.0, 2.0);
    else if (flag == "--values") o.loader.values = true;
    else if (flag == "--steps") number(o.steps.emplace(), std::uint64_t{1}, std::uint64_t{1'000'000'000'000});
    else if (flag == "--finite") o.finite = true;
    else if (flag == "--rate") number(o.rate, 0.0, 100.0);
    else if (flag == "--seed") seed(o.seed);
    else if (flag == "--model-seed") seed(o.model_seed.emplace());
    else if (flag == "--games-seed") seed(o.games_seed.emplace());
    else if (flag == "--watch") o.watch = true;
    else if (flag == "--json") o.json = text("the name of a file");
    else if (flag == "--write-games") o.write_games = text("the name of a folder");
    else if (flag == "--help") o.help = true;
    else throw usage_error(flag + " is not a flag");
  }
  if (o.blunders) o.loader.rescore = chess::blunder_rescorer(static_cast<float>(*o.blunders));
  o.loader.sampling_seed = o.seed;
  return o;
}
