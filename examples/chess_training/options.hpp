// SPDX-License-Identifier: MIT
#pragma once
// The flags of this program, and what must hold between them.
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

/// A flag that isn't right; what() says which and why.
class usage_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct options {
  chess::loader_options loader;
  std::optional<std::uint64_t> window; ///< chunks of a live pool; none: the games that are there
  std::optional<double> blunders;      ///< the loss of q that makes a move one; none: games stay as they are
  bool finite = false, watch = false, help = false;
  std::uint64_t seed = 1;
  std::optional<std::uint64_t> model_seed, games_seed; ///< none: that one
  std::optional<std::uint64_t> steps;                  ///< none: 100, or in finite mode all that there are
  double rate = 0.2;
  std::string json, write_games; ///< a file, a folder

  /// Throws usage_error, in a sentence, for what doesn't fit together.
  void check() const {
    const auto require = [](bool met, const std::string& sentence) {
      if (!met) throw usage_error(sentence);
    };
    require(loader.batch > 0, "--batch must not be 0");
    require(!window || loader.games.size() == 1, "--window wants --games with one folder");
    require(loader.workers > 0, "there must be at least one worker");
    require(loader.reservoir > 0, "a reservoir needs room for at least one position");
    require(!loader.min_fill || *loader.min_fill <= loader.reservoir,
            "--min-fill " + std::to_string(loader.min_fill.value_or(0)) + " is above --reservoir " +
                std::to_string(loader.reservoir) + ": the reservoir would never be full enough");
  }
};

inline constexpr std::string_view help_text =
    R"(Trains a small policy and value network on training chunks of Leela Chess Zero. Without --games it makes games of its own.

  --games PATH…         folders with chunks (.gz) and TAR archives of them, or such files
  --window N            the newest N chunks of a folder in which games keep arriving (--games FOLDER)
  --format auto|v6|v7   the records' version (auto: 4 to 7, as they say)
  --reservoir N         positions in the shuffling frame sampler (100000)
  --min-fill N          … before it gives the first (as many)
  --sampling SHARE      of a game's positions that each pass takes (1)
  --batch N             positions per batch (1024)
  --workers N           threads that unpack chunks, and half as many that make tensors (2)
  --blunders Q          don't trust results before a move that lost more than Q of the expected result (-1 to 1)
  --values              make the values tensor, too: q, d, m of result, best, played, orig, root and short term
  --steps N             batches to train on (100)
  --finite              each position once, and no more
  --rate R              of learning (0.2)
  --seed N              of the order of games and positions (1)
  --model-seed N        of the network's first weights (that of --seed)
  --games-seed N        of the games that it makes (that of --seed)
  --watch               show every stage once a second: in place on a terminal, as lines elsewhere
  --json FILE           write what came out
  --write-games FOLDER  only write the set of games there
  --help                this text

Exit status: 0 all went well, 1 it failed, 2 a flag is wrong, 130 Ctrl-C ended it.
)";

/// Reads the flags, the program's name not among them. Throws usage_error.
inline options read_options(const std::vector<std::string>& arguments) {
  options o;
  for (std::size_t i = 0; i < arguments.size();) {
    const std::string flag = arguments[i++];
    const auto at_value = [&] { return i < arguments.size() && !arguments[i].starts_with("--"); };
    const auto text = [&](const char* wanted) {
      if (!at_value()) throw usage_error(flag + " wants " + wanted);
      return arguments[i++];
    };
    const auto number = [&]<class Number>(Number& into, Number least, Number most) {
      const std::string given = text("a number");
      const auto [end, error] = std::from_chars(given.data(), given.data() + given.size(), into);
      if (error != std::errc() || end != given.data() + given.size() || !(into >= least && into <= most))
        throw usage_error(flag + " wants a number from " + std::to_string(least) + " to " +
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
        throw usage_error("--format wants `auto`, `v6` or `v7`, not `" + given + "`");
      using enum chess::record_format;
      o.loader.format = given == "v6" ? v6 : given == "v7" ? v7 : any;
    } else if (flag == "--reservoir") number(o.loader.reservoir, none, many);
    else if (flag == "--min-fill") number(o.loader.min_fill.emplace(), none, many);
    else if (flag == "--sampling") number(o.loader.sampling, 0.0, 1.0);
    else if (flag == "--batch") number(o.loader.batch, none, std::size_t{1'000'000});
    else if (flag == "--workers") number(o.loader.workers, none, feedline::workers::limit);
    else if (flag == "--window") number(o.window.emplace(), std::uint64_t{1}, std::uint64_t{1'000'000'000});
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
    else throw usage_error(flag + " is no flag");
  }
  if (o.blunders) o.loader.rescore = chess::blunder_rescorer(static_cast<float>(*o.blunders));
  o.loader.sampling_seed = o.seed;
  return o;
}
