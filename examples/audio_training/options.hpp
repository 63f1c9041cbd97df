// SPDX-License-Identifier: MIT
#pragma once
// The flags of this program, and the checks between them.
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <feedline/audio.hpp>
#include <feedline/feedline.hpp>

/// A wrong flag; what() names it and says why.
class usage_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct options {
  std::vector<std::string> train, eval; // names or patterns of Arrow files; both empty: make tones
  std::string audio_column = "audio", label_column = "label";
  double hold_out = 0; // percentage of the training set
  std::string recipe = "mel";
  std::size_t rate = 32'000;
  double seconds = 5;
  std::size_t mels = 128, fft = 1024, hop = 320;
  std::size_t window = 0;                // 0: as long as the FFT
  double min_frequency = 0;              // Hz
  std::optional<double> max_frequency{}; // Hz; nullopt: half the rate
  std::size_t batch = 64;
  std::size_t workers = 8, eval_workers = 4;
  std::size_t shuffle = 10'000, min_fill = 8'000, eval_shuffle = 1'000;
  std::size_t raw_queue = 256;
  std::size_t memory_budget = 0; // bytes; 0: no limit
  std::uint64_t seed = 1;
  std::optional<std::uint64_t> steps;
  std::uint64_t epochs = 40;
  feedline::on_error on_error = feedline::on_error::skip;
  std::size_t failure_limit = feedline::default_failure_limit;
  std::string json, write_tones; // a file and a folder
  bool watch = false, help = false;

  /// The number of samples in a clip.
  std::size_t clip_length() const { return static_cast<std::size_t>(seconds * static_cast<double>(rate)); }

  /// Mel spectrograms in decibels, or Kaldi's filter bank as networks for sounds at 32 kHz use it; [mels,
  /// frames].
  feedline::mel_options spectrogram() const {
    feedline::mel_options o;
    if (recipe == "kaldi") o = feedline::kaldi_filter_bank(static_cast<double>(rate));
    else o.values = feedline::mel_values::decibels, o.top_decibels = 80;
    o.sample_rate = static_cast<double>(rate);
    o.fft_length = fft;
    o.window_length = window;
    o.hop_length = hop;
    o.mels = mels;
    if (min_frequency > 0) o.min_frequency = min_frequency;
    if (max_frequency) o.max_frequency = *max_frequency;
    o.layout = feedline::spectrogram_layout::mels_frames;
    return o;
  }

  /// Throws usage_error if options contradict each other.
  void check() const {
    const auto require = [](bool met, const std::string& sentence) {
      if (!met) throw usage_error(sentence);
    };
    require(hold_out == 0 || (!train.empty() && eval.empty()),
            "--hold-out needs --train and can't be used with --eval");
    require(rate > 0, "--rate must not be 0");
    require(seconds > 0, "--seconds must be above 0");
    require(batch > 0, "--batch must not be 0");
    require(workers > 0 && eval_workers > 0, "--workers and --eval-workers must not be 0");
    require(shuffle > 0 && eval_shuffle > 0, "--shuffle and --eval-shuffle must not be 0");
    require(raw_queue > 0, "--raw-queue must not be 0");
    require(min_fill <= shuffle, "--min-fill " + std::to_string(min_fill) + " is above --shuffle " +
                                     std::to_string(shuffle) + ": the shuffle buffer would never reach it");
    try {
      const feedline::mel_spectrogram features(spectrogram()); // throws if its options are wrong
      require(features.frames(clip_length()) > 0, "a clip of " + std::to_string(clip_length()) +
                                                      " samples is shorter than a window: raise --seconds");
    } catch (const std::invalid_argument& error) {
      throw usage_error(error.what());
    }
  }
};

inline constexpr std::string_view help_text =
    R"(Trains a small sound classifier on Arrow files with encoded clips (WAV, FLAC, OGG) and their class numbers, then
evaluates it in one pass. Without --train and --eval it makes a data set of tones.

  --train FILE…         Arrow files, Arrow streams, or patterns, for training
  --eval FILE…          the same for evaluation
  --audio COLUMN        column of the encoded clips: bytes, or a struct with a field `bytes` (audio)
  --label COLUMN        column of their class numbers; clips without one are left out (label)
  --hold-out PERCENT    evaluate on this percentage of the clips of --train, and train on the others
  --recipe mel|kaldi    mel: mel spectrograms in decibels; kaldi: Kaldi's logarithmic filter bank (mel)
  --rate HZ             sample rate to which clips are resampled (32000)
  --seconds S           length to which clips are cropped or padded (5)
  --mels N              number of mel filters (128)
  --fft N, --hop N      samples in each transform (1024), and from one transform to the next (320)
  --window N            samples in a frame before it is padded to --fft (--fft)
  --min-frequency HZ, --max-frequency HZ
                        range of the mel filters (the recipe's minimum, half the rate)
  --batch N             clips per batch (64)
  --workers N, --eval-workers N
                        threads that make spectrograms (8, 4)
  --shuffle N           capacity of the shuffle buffer, in encoded clips (10000)
  --min-fill N          clips in the shuffle buffer before it emits the first one (8000)
  --eval-shuffle N      capacity of the shuffle buffer in evaluation, which has no minimum fill (1000)
  --raw-queue N         encoded clips that wait for a worker (256)
  --memory-budget N     limit on the bytes that a loader holds; its queues are shortened to fit (no limit)
  --seed N              seed of every random decision (1)
  --epochs N            passes over the training set (40)
  --steps N             number of training batches, instead of --epochs
  --on-error skip|fail  whether to skip a clip that can't be read, or to fail (skip)
  --failure-limit N     clips that may be skipped in all; one more ends the run (1000)
  --watch               show what every stage does, below the output of the program
  --json FILE           write the results to this file
  --write-tones FOLDER  only write the data set of tones to this folder, as train.arrows and eval.arrows
  --help                print this text

Exit status: 0 success, 1 failure, 2 wrong flag, 130 interrupted by Ctrl-C.
)";

/// Parses the flags; `arguments` doesn't include the program's name. Throws usage_error.
inline options read_options(const std::vector<std::string>& arguments) {
  options o;
  for (std::size_t i = 0; i < arguments.size();) {
    const std::string flag = arguments[i++];
    const auto at_value = [&] { return i < arguments.size() && !arguments[i].starts_with("--"); };
    const auto text = [&](const char* wanted) {
      if (!at_value()) throw usage_error(flag + " needs " + wanted);
      return arguments[i++];
    };
    const auto number = [&]<class Number>(Number& into, Number min, Number max) {
      const std::string given = text("a number");
      const auto [end, error] = std::from_chars(given.data(), given.data() + given.size(), into);
      if (error != std::errc() || end != given.data() + given.size() || !(into >= min && into <= max))
        throw usage_error(flag + " needs a number from " + std::to_string(min) + " to " +
                          std::to_string(max) + ", not `" + given + "`");
    };
    const auto count = [&](std::size_t& into) { number(into, std::size_t{0}, std::size_t{100'000'000}); };
    const auto hertz = [&] {
      double value = 0;
      number(value, 0.0, 1e9);
      return value;
    };
    const auto files = [&](std::vector<std::string>& into) {
      into.push_back(text("at least one file or pattern"));
      while (at_value()) into.push_back(arguments[i++]);
    };
    const auto choice = [&](const char* first, const char* second) {
      const std::string given = text("a choice");
      if (given != first && given != second)
        throw usage_error(flag + " needs `" + first + "` or `" + second + "`, not `" + given + "`");
      return given;
    };

    if (flag == "--train") files(o.train);
    else if (flag == "--eval") files(o.eval);
    else if (flag == "--audio") o.audio_column = text("a column name");
    else if (flag == "--label") o.label_column = text("a column name");
    else if (flag == "--hold-out") number(o.hold_out, 0.0, 99.0);
    else if (flag == "--recipe") o.recipe = choice("mel", "kaldi");
    else if (flag == "--rate") number(o.rate, std::size_t{0}, std::size_t{10'000'000});
    else if (flag == "--seconds") number(o.seconds, 0.0, 3600.0);
    else if (flag == "--mels") count(o.mels);
    else if (flag == "--fft") count(o.fft);
    else if (flag == "--hop") count(o.hop);
    else if (flag == "--window") count(o.window);
    else if (flag == "--min-frequency") o.min_frequency = hertz();
    else if (flag == "--max-frequency") o.max_frequency = hertz();
    else if (flag == "--batch") count(o.batch);
    else if (flag == "--workers") number(o.workers, std::size_t{0}, feedline::workers::limit);
    else if (flag == "--eval-workers") number(o.eval_workers, std::size_t{0}, feedline::workers::limit);
    else if (flag == "--shuffle") count(o.shuffle);
    else if (flag == "--min-fill") count(o.min_fill);
    else if (flag == "--eval-shuffle") count(o.eval_shuffle);
    else if (flag == "--raw-queue") count(o.raw_queue);
    else if (flag == "--memory-budget") number(o.memory_budget, std::size_t{1}, std::size_t{1} << 50);
    else if (flag == "--seed") number(o.seed, std::uint64_t{0}, std::numeric_limits<std::uint64_t>::max());
    else if (flag == "--epochs") number(o.epochs, std::uint64_t{1}, std::uint64_t{1'000'000});
    else if (flag == "--steps") number(o.steps.emplace(), std::uint64_t{1}, std::uint64_t{1'000'000'000'000});
    else if (flag == "--failure-limit") count(o.failure_limit);
    else if (flag == "--on-error")
      o.on_error = choice("skip", "fail") == "skip" ? feedline::on_error::skip : feedline::on_error::fail;
    else if (flag == "--write-tones") o.write_tones = text("a folder name");
    else if (flag == "--json") o.json = text("a file name");
    else if (flag == "--watch") o.watch = true;
    else if (flag == "--help") o.help = true;
    else throw usage_error("unknown flag " + flag);
  }
  return o;
}
