// SPDX-License-Identifier: MIT
#include <feedline/audio/audio_clip.hpp>

#include "support/catch.hpp"

#include <vector>

namespace fl = feedline;

static_assert(fl::audio_range{1, 2} == fl::audio_range{1, 2} &&
              fl::audio_range{1, 2} != fl::audio_range{1, 3});

TEST_CASE("the channels of a clip are stored one after the other") {
  std::vector<float> samples{1, 2, 3, 4, 5, 6};
  const fl::audio_clip clip{samples, 2, 3, 8000};
  CHECK((clip.channel(0).size() == 3 && clip.channel(0)[0] == 1 && clip.channel(1)[0] == 4));
  clip.channel(1)[2] = 7;
  CHECK(samples[5] == 7);
}
