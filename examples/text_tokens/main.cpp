// SPDX-License-Identifier: MIT
// Lines of text as batches of tokens: packed into sequences of one length, or padded in buckets of similar length. Press
// Ctrl-C and start it again with the same --checkpoint: the end is the same as if nothing had happened.
#include <cinttypes>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <feedline/feedline.hpp>

namespace fl = feedline;
constexpr std::size_t sequence_length = 64;
constexpr int no_token = 0; // after each packed line, and where a line is padded

/// The hashes of the words of a line, from 1 to 49,999.
std::vector<int> tokenize(const std::string& line) {
  std::istringstream stream(line);
  std::vector<int> tokens;
  for (std::string w; stream >> w;) tokens.push_back(static_cast<int>(1 + fl::stable_hash(w) % 49'999));
  return tokens;
}

/// What was learned: here a hash of all tokens in their order. It is saved together with the loader's checkpoint.
struct training {
  std::uint64_t step = 0, digest = 0;

  void learn(const fl::tensor<int>& batch) { // your model
    for (const int token : batch) digest = (digest ^ static_cast<std::uint64_t>(token)) * 0x100000001b3;
    ++step;
  }

  void save(const std::string& path, const fl::checkpoint& data) const {
    if (path.empty()) return;
    std::ofstream file(path + ".draft"); // a program that is killed here leaves the last checkpoint as it was
    file << step << ' ' << digest << '\n' << data.to_json();
    if (!file.flush()) throw std::runtime_error("can't write " + path);
    std::filesystem::rename(path + ".draft", path);
  }

  fl::checkpoint load(const std::string& path) {
    std::ifstream file(path);
    if (!(file >> step >> digest)) throw std::runtime_error(path + " isn't a checkpoint of text_tokens");
    return fl::checkpoint::from_json(std::string(std::istreambuf_iterator<char>(file), {}));
  }
};

int run(const auto& pipeline, const std::string& checkpoint, std::uint64_t steps, std::uint64_t seed) {
  training t;
  std::optional<fl::checkpoint> data;
  if (std::filesystem::exists(checkpoint)) data = t.load(checkpoint);
  const fl::stop_on_signal interrupt(SIGINT, SIGTERM);
  auto loader = pipeline.infinite({.seed = seed, .stop = interrupt.token(), .resume = data});
  const auto save = [&] { t.save(checkpoint, loader.checkpoint()); };
  while (t.step < steps) {
    const auto batch = loader.next();
    if (!batch) break; // interrupted
    if constexpr (requires { batch->values().lengths; }) t.learn(batch->values().values);
    else t.learn(batch->values());
    if (t.step % 100 == 0) save();
  }
  save();
  std::printf("%s after step %" PRIu64 ", digest %016" PRIx64 "\n",
              t.step < steps ? "interrupted" : "finished", t.step, t.digest);
  return t.step < steps ? 128 + interrupt.signal() : 0;
}

/// A text to try it with: lines of up to 39 random words.
std::vector<std::string> make_lines() {
  fl::random_generator random(1);
  std::vector<std::string> lines(2000);
  for (std::string& line : lines)
    for (std::uint64_t words = random.below(40); words > 0; --words)
      line += "word" + std::to_string(random.below(1000)) + ' ';
  return lines;
}

int main(int count, char** arguments) try {
  std::vector<std::string> files;
  std::string checkpoint;
  bool buckets = false;
  std::map<std::string, std::uint64_t> numbers{{"--steps", 1000}, {"--workers", 2}, {"--seed", 1}};
  for (int i = 1; i < count; ++i) {
    const std::string argument = arguments[i];
    if (argument == "--buckets") buckets = true;
    else if (!argument.starts_with("--")) files.push_back(argument);
    else if (argument == "--checkpoint" && i + 1 < count) checkpoint = arguments[++i];
    else if (numbers.contains(argument) && i + 1 < count) numbers[argument] = std::stoull(arguments[++i]);
    else
      throw std::runtime_error("usage: text_tokens [FILE...] [--buckets] [--checkpoint FILE] [--steps N] "
                               "[--workers N] [--seed N]");
  }
  const auto train = [&](const auto& lines) {
    const auto tokens = lines | fl::shuffle({.capacity = 1000}) |
                        fl::map(tokenize, fl::workers{numbers["--workers"]}, fl::name{"tokenize"});
    const auto not_empty = [](const std::vector<int>& line) { return !line.empty(); };
    const auto padded = tokens | fl::filter(not_empty) |
                        fl::bucket_batch({.boundaries = {8, 16, 32}, .max_tokens = 1024}, fl::padded{});
    const auto packed = tokens | fl::windows(sequence_length, {.separator = no_token}) | fl::batch(16);
    if (buckets) return run(padded, checkpoint, numbers["--steps"], numbers["--seed"]);
    return run(packed, checkpoint, numbers["--steps"], numbers["--seed"]);
  };
  return files.empty() ? train(fl::from(make_lines())) : train(fl::lines(files));
} catch (const std::exception& error) {

  std::fprintf(stderr, "text_tokens: %s\n", error.what());
  return 1;
}
