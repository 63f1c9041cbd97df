// SPDX-License-Identifier: MIT
#pragma once
// The flags of this program.
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
#include <feedline/image.hpp>

/// A wrong flag; what() names it and says why.
class usage_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

enum class on_unreadable { fail, skip, keep };

struct command_line {
  std::vector<std::string> input; // names or patterns of shards, or one folder
  std::string out, name = "shard";
  std::optional<std::uint64_t> shuffle_seed;
  std::optional<std::uint64_t> shard_bytes, shards;
  feedline::restart_marker_options markers;
  on_unreadable on_error = on_unreadable::fail;
  std::size_t workers = feedline::processors();
  bool verify = false;
  bool help = false;

  std::uint64_t bytes_per_shard() const { return shard_bytes.value_or(500'000'000); }
};

inline constexpr std::string_view help_text =
    R"(Rewrites the JPEGs of a data set with restart markers, so that random crops of them decode faster. Their pixels and
metadata stay the same. All other files are copied.

  --input GLOB…              TAR shards, or one folder of files
  --out FOLDER               where the new shards go: FOLDER/NAME-000000.tar and so on, each with an .index file
  --name NAME                beginning of their names (shard)
  --shard-bytes N            most bytes in a shard, unless a single sample is larger (500000000)
  --shards N                 number of shards, instead of --shard-bytes; each gets the same number of samples
  --shuffle-seed N           shuffle all samples, by this seed; without it they keep their order
  --segments N               most segments in each row of a JPEG (16)
  --max-growth X             a JPEG that would grow by more than this fraction gets fewer segments, or none (0.02)
  --verify                   decode each rewritten JPEG and compare its coefficients with the original's
  --on-error fail|skip|keep  for a JPEG that can't be read: fail, leave its sample out, or copy it as it is (fail)
  --workers N                threads that rewrite (one per processor)
  --help                     print this text

Files with equal names up to the first dot after the last slash are a sample. A file is a JPEG if it begins with the bytes
ff d8 ff, whatever its name is. TAR entries other than files, and hidden files of a folder, are left out. The new entries
have no owner and no time.

A run that was interrupted or killed goes on if it is started again with the same flags: finished shards are kept, and the
result is the same. FOLDER/NAME.reshard has its state. --workers and --verify may change in between, and --on-error as long
as nothing has failed.

Exit status: 0 success, 1 failure, 2 wrong flag, 130 interrupted by Ctrl-C, 143 by SIGTERM.
)";

/// Parses the flags; `arguments` doesn't include the program's name. Throws usage_error.
inline command_line read_command_line(const std::vector<std::string>& arguments) {
  command_line result;
  for (std::size_t i = 0; i < arguments.size();) {
    const std::string flag = arguments[i++];
    const auto fail = [&](const std::string& why) -> void { throw usage_error(flag + " " + why); };
    const auto at_value = [&] { return i < arguments.size() && !arguments[i].starts_with("--"); };
    const auto value = [&](const std::string& wanted) {
      if (!at_value() || arguments[i].empty()) fail("needs " + wanted);
      return arguments[i++];
    };
    const auto number = [&]<class Number>(Number min, Number max, const std::string& kind) {
      const std::string text = value(kind);
      Number found{};
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), found);
      if (error != std::errc() || end != text.data() + text.size() || !(found >= min && found <= max))
        fail("needs " + kind + ", not `" + text + "`");
      return found;
    };
    const auto whole = [&](std::uint64_t min, std::uint64_t max) {
      return number(min, max, "a whole number from " + std::to_string(min) + " to " + std::to_string(max));
    };

    if (flag == "--input") {
      result.input.push_back(value("at least one file, pattern or folder"));
      while (at_value()) result.input.push_back(arguments[i++]);
    } else if (flag == "--out") result.out = value("a folder");
    else if (flag == "--name") result.name = value("the beginning of a file name");
    else if (flag == "--shard-bytes") result.shard_bytes = whole(1, std::uint64_t{1} << 48);
    else if (flag == "--shards") result.shards = whole(1, 1'000'000);
    else if (flag == "--shuffle-seed")
      result.shuffle_seed = whole(0, std::numeric_limits<std::uint64_t>::max());
    else if (flag == "--segments") result.markers.segments_per_row = whole(1, 8192);
    else if (flag == "--max-growth") result.markers.max_growth = number(0.0, 10.0, "a fraction from 0 to 10");
    else if (flag == "--verify") result.verify = true;
    else if (flag == "--on-error") {
      const std::string choice = value("`fail`, `skip` or `keep`");
      if (choice == "skip") result.on_error = on_unreadable::skip;
      else if (choice == "keep") result.on_error = on_unreadable::keep;
      else if (choice != "fail") fail("needs `fail`, `skip` or `keep`, not `" + choice + "`");
    } else if (flag == "--workers") result.workers = whole(1, feedline::workers::limit);
    else if (flag == "--help") result.help = true;
    else throw usage_error("unknown flag " + flag);
  }
  if (result.help) return result;
  if (result.input.empty()) throw usage_error("--input is missing");
  if (result.out.empty()) throw usage_error("--out is missing");
  if (result.shard_bytes && result.shards) throw usage_error("--shard-bytes and --shards exclude each other");
  if (result.name.find('/') != std::string::npos)
    throw usage_error("--name is the beginning of a file name, without folders: put them into --out");
  return result;
}
