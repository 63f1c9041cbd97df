// SPDX-License-Identifier: MIT
#include <feedline/audio/spectrogram_view.hpp>

#include "support/catch.hpp"
#include "support/throws_saying.hpp"

#include <vector>

namespace fl = feedline;
using fl::test::throws_saying;

TEST_CASE("a view finds the values of either layout") {
  std::vector<float> numbers{0, 1, 2, 3, 4, 5};
  const fl::spectrogram_view by_mels(numbers, 2, 3, fl::spectrogram_layout::mels_frames);
  CHECK((by_mels(0, 2) == 2 && by_mels(1, 0) == 3));
  const fl::spectrogram_view by_frames(numbers, 2, 3, fl::spectrogram_layout::frames_mels);
  CHECK((by_frames(0, 2) == 4 && by_frames(1, 0) == 1));
  by_frames(1, 2) = 7;
  CHECK(numbers[5] == 7);
}

TEST_CASE("a wrong number of values is refused") {
  std::vector<float> numbers(6);
  for (const std::size_t mels : {std::size_t{3}, std::size_t{1} << 63})
    CHECK(throws_saying<std::invalid_argument>("doesn't have 6 elements", [&] {
      fl::spectrogram_view(numbers, mels, 4, fl::spectrogram_layout::mels_frames);
    }));
}
