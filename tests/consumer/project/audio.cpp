// SPDX-License-Identifier: MIT
#include <vector>

#include <feedline/audio.hpp>

int main() {
  feedline::audio_resampler resampler;
  const std::vector<float> samples(8000);
  const feedline::mel_spectrogram features({.mels = 8});
  std::vector<float> out(8 * features.frames(16'000));
  features(resampler.resample(samples, 8000, 16'000), out);
  try {
    feedline::decode_audio({});
  } catch (const feedline::audio_error&) {
    return 0;
  }
  return 1;
}
