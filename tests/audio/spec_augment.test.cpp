// SPDX-License-Identifier: MIT
#include <feedline/audio/spec_augment.hpp>

#include "support/catch.hpp"
#include "support/throws_saying.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

namespace fl = feedline;
using fl::test::throws_saying;

namespace {

constexpr std::size_t mels = 20, frames = 30;

struct masks {
  std::vector<bool> of_mels = std::vector<bool>(mels), of_frames = std::vector<bool>(frames);
  bool whole = true; // masks cover the whole other axis, and other values are unchanged

  static std::size_t count(const std::vector<bool>& v) {
    return static_cast<std::size_t>(std::count(v.begin(), v.end(), true));
  }
};

masks masked(const fl::spec_augment& augment, fl::spectrogram_layout layout, std::uint64_t key) {
  std::vector<float> numbers(mels * frames, 1.0f);
  const fl::spectrogram_view view(numbers, mels, frames, layout);
  fl::random_generator random(key);
  augment(view, random);
  masks found;
  for (std::size_t m = 0; m < mels; ++m) {
    found.of_mels[m] = true;
    for (std::size_t f = 0; f < frames; ++f)
      found.of_mels[m] = found.of_mels[m] && view(m, f) == augment.value;
  }
  for (std::size_t f = 0; f < frames; ++f) {
    found.of_frames[f] = true;
    for (std::size_t m = 0; m < mels; ++m)
      found.of_frames[f] = found.of_frames[f] && view(m, f) == augment.value;
  }
  for (std::size_t m = 0; m < mels; ++m)
    for (std::size_t f = 0; f < frames; ++f)
      found.whole = found.whole && view(m, f) == (found.of_mels[m] || found.of_frames[f] ? augment.value : 1);
  return found;
}

} // namespace

TEST_CASE("bands of mels and frames are masked, of every width and at every position") {
  const fl::spec_augment augment{
      .mel_masks = 1, .max_mels = 5, .frame_masks = 1, .max_frames = 8, .value = -2};
  std::vector<int> mel_widths(mels + 1), frame_widths(frames + 1), mel_places(mels), frame_places(frames);
  bool whole = true, alike = true;
  for (std::uint64_t key = 0; key < 3000; ++key) {
    const masks a = masked(augment, fl::spectrogram_layout::mels_frames, key),
                b = masked(augment, fl::spectrogram_layout::frames_mels, key);
    whole = whole && a.whole && b.whole;
    alike = alike && a.of_mels == b.of_mels && a.of_frames == b.of_frames;
    ++mel_widths[masks::count(a.of_mels)];
    ++frame_widths[masks::count(a.of_frames)];
    for (std::size_t m = 0; m < mels; ++m) mel_places[m] += a.of_mels[m];
    for (std::size_t f = 0; f < frames; ++f) frame_places[f] += a.of_frames[f];
  }
  CHECK(whole);
  CHECK(alike);
  for (std::size_t width = 0; width <= 5; ++width)
    CHECK((mel_widths[width] > 410 && mel_widths[width] < 590)); // 500
  for (std::size_t width = 0; width <= 8; ++width)
    CHECK((frame_widths[width] > 260 && frame_widths[width] < 407)); // 333
  CHECK(std::accumulate(mel_widths.begin() + 6, mel_widths.end(), 0) == 0);
  CHECK(std::accumulate(frame_widths.begin() + 9, frame_widths.end(), 0) == 0);
  CHECK(*std::min_element(mel_places.begin(), mel_places.end()) > 50);
  CHECK(*std::min_element(frame_places.begin(), frame_places.end()) > 30);
}

TEST_CASE("the requested number of masks is applied, none wider than the spectrogram") {
  std::size_t most = 0;
  for (std::uint64_t key = 0; key < 300; ++key) {
    const masks a =
        masked({.mel_masks = 3, .max_mels = 2, .frame_masks = 0}, fl::spectrogram_layout::mels_frames, key);
    CHECK(masks::count(a.of_frames) == 0);
    most = std::max(most, masks::count(a.of_mels));
    CHECK(masked({.max_mels = 1000, .max_frames = 1000}, fl::spectrogram_layout::mels_frames, key).whole);
    const masks few = masked({.mel_masks = 0, .frame_masks = 1, .max_frame_share = 0.1},
                             fl::spectrogram_layout::mels_frames, key);
    CHECK(masks::count(few.of_frames) <= frames / 10);
  }
  CHECK(most == 6);
}

TEST_CASE("masks stop at the end of the spectrogram") {
  std::vector<float> numbers(6, 1.0f);
  const fl::spectrogram_view view(numbers, 2, 3, fl::spectrogram_layout::mels_frames);
  fl::mask_mels(view, 1, 5, 7);
  CHECK(numbers == std::vector<float>{1, 1, 1, 7, 7, 7});
  fl::mask_frames(view, 2, ~std::size_t{0});
  CHECK(numbers == std::vector<float>{1, 1, 0, 7, 7, 0});
}

TEST_CASE("an invalid max_frame_share is refused") {
  std::vector<float> numbers(6);
  fl::random_generator random(1);
  CHECK(throws_saying<std::invalid_argument>("max_frame_share", [&] {
    fl::spec_augment{.max_frame_share = 1.5}({numbers, 2, 3, fl::spectrogram_layout::mels_frames}, random);
  }));
}
