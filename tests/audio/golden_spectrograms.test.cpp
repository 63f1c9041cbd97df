// SPDX-License-Identifier: MIT
// Spectrograms that torchaudio computed.
#include <feedline/audio.hpp>
#include <feedline/source/files.hpp>

#include "support/audio_files.hpp"
#include "support/catch.hpp"
#include "support/test_data.hpp"

#include <cmath>
#include <fstream>
#include <sstream>

namespace fl = feedline;
using namespace feedline::test;

TEST_CASE("spectrograms match torchaudio's", "[shared]") {
  const auto root = test_data("audio");
  if (!root) return;
  std::ifstream manifest(*root + "/golden/MANIFEST.tsv");
  std::string line;
  std::getline(manifest, line); // column names
  fl::audio_decoder decoder;
  int banks = 0, mels = 0;
  while (std::getline(manifest, line)) {
    std::istringstream fields(line);
    std::string golden, wav, recipe;
    std::size_t rate = 0, count = 0, rows = 0, columns = 0;
    std::getline(std::getline(fields, golden, '\t'), wav, '\t') >> rate >> count;
    std::getline(fields.ignore(), recipe, '\t') >> rows >> columns;
    INFO(golden << ": " << recipe);

    const auto clip = decoder.decode(fl::read_file(*root + "/../" + wav));
    REQUIRE((clip.rate == rate && clip.frames >= count));
    const bool is_bank = recipe == "kaldi-fbank";
    fl::mel_options options;
    if (is_bank) {
      options = fl::kaldi_filter_bank(static_cast<double>(rate), columns);
    } else {
      options.sample_rate = static_cast<double>(rate);
      options.mels = rows;
      options.fft_length = std::stoul(recipe.substr(recipe.find("n_fft=") + 6));
      options.hop_length = std::stoul(recipe.substr(recipe.find("hop=") + 4));
    }
    const fl::mel_spectrogram features(options);
    REQUIRE((is_bank ? rows : columns) == features.frames(count));
    std::vector<float> out(rows * columns), expected(out.size());
    features(clip.samples.first(count), out);
    const auto file = fl::read_file(*root + "/golden/" + golden);
    REQUIRE(file.size() == expected.size() * sizeof(float));
    std::memcpy(expected.data(), file.data(), file.size());

    double largest = 0, difference = 0, all = 0;
    for (std::size_t i = 0; i < out.size(); ++i) {
      const double d = std::abs(double{out[i]} - double{expected[i]});
      largest = std::max(largest, d);
      difference += d * d;
      all += double{expected[i]} * double{expected[i]};
    }
    if (is_bank) CHECK(largest <= 2e-3);
    else CHECK(std::sqrt(difference / all) <= 1e-4);
    ++(is_bank ? banks : mels);
  }
  CHECK((banks == 6 && mels == 6));
}
