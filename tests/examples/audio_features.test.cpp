// SPDX-License-Identifier: MIT
// The program audio_features writes the same bytes for any number of workers.
#include <cstddef>
#include <string>

#include "support/catch.hpp"
#include "support/program_outcome.hpp"
#include "support/temporary_folder.hpp"

using feedline::test::contents_of;
using feedline::test::temporary_folder;

namespace {

int run(const temporary_folder& folder, const std::string& command) {
  return feedline::test::run_command(command, folder).status;
}

} // namespace

TEST_CASE("Features are the same for any number of workers, and have the shape in their .json file") {
  const temporary_folder folder;
  REQUIRE(run(folder, FEEDLINE_AUDIO_TRAINING " --write-tones " + (folder / "")) == 0);

  struct recipe {
    std::string flags, shape;
    std::size_t numbers; // per clip
  };

  for (const auto& [flags, shape, numbers] :
       {recipe{"mel --rate 8000 --seconds 1 --fft 256 --hop 160 --mels 20", "[200, 20, 51]", 20 * 51},
        recipe{"kaldi --rate 16000 --seconds 0.5 --fft 512 --hop 160 --mels 40", "[200, 48, 40]", 48 * 40}}) {
    std::string expected;
    for (const std::string workers : {"1", "8", "64"}) {
      const std::string out = folder / ("features-" + workers);
      REQUIRE(run(folder, FEEDLINE_AUDIO_FEATURES " --input " + (folder / "eval.arrows") + " --out " + out +
                              " --workers " + workers + " --recipe " + flags) == 0);
      const std::string features = contents_of(out);
      CHECK(features.size() == 200 * numbers * sizeof(float));
      CHECK(contents_of(out + ".json").find(shape) != std::string::npos);
      if (expected.empty()) expected = features;
      CHECK((features == expected));
    }
  }
}

TEST_CASE("A file that can't be read is an error") {
  const temporary_folder folder;
  const std::string junk = folder.write("junk.arrows", "no table");
  CHECK(run(folder, FEEDLINE_AUDIO_FEATURES " --input " + junk + " --out " + (folder / "features")) == 1);
  CHECK(contents_of(folder / "log").find("junk.arrows") != std::string::npos);
  CHECK(run(folder, FEEDLINE_AUDIO_FEATURES " --out x") == 2);
}

TEST_CASE("An output file that is also an input file is rejected") {
  const temporary_folder folder;
  REQUIRE(run(folder, FEEDLINE_AUDIO_TRAINING " --write-tones " + (folder / "")) == 0);
  const std::string clips = folder / "eval.arrows", before = contents_of(clips);
  for (const std::string& input : {clips, folder / "./eval.arrows", "'" + (folder / "*.arrows") + "'"})
    CHECK(run(folder, FEEDLINE_AUDIO_FEATURES " --input " + input + " --out " + clips) == 2);
  CHECK((contents_of(clips) == before));
}
