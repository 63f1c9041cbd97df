// SPDX-License-Identifier: MIT
#pragma once
// The clips that benchmarks decode and transform.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>
#include <vector>

#include <feedline/core/random.hpp>

/// A rising tone with some noise, both chosen by the seed: samples from -1 to 1.
inline std::vector<float> made_clip(std::size_t frames, std::size_t frames_per_second,
                                    std::uint64_t seed = 1) {
  std::vector<float> samples(frames);
  feedline::random_generator random(seed);
  for (std::size_t i = 0; i < frames; ++i) {
    const double t = static_cast<double>(i) / static_cast<double>(frames_per_second);
    samples[i] = static_cast<float>(0.3 * std::sin(2 * std::numbers::pi * (300 + 600 * t) * t) +
                                    0.05 * random.uniform(-1, 1));
  }
  return samples;
}

/// Encodes samples as a WAV file with 16 bits.
inline std::vector<std::byte> wav_of(const std::vector<float>& samples, std::size_t frames_per_second) {
  std::vector<std::byte> file;
  const auto text = [&](const char* s) {
    for (; *s; ++s) file.push_back(static_cast<std::byte>(*s));
  };
  const auto number = [&](std::size_t value, int bytes) {
    for (; bytes > 0; --bytes, value >>= 8) file.push_back(static_cast<std::byte>(value & 255));
  };
  text("RIFF"), number(36 + 2 * samples.size(), 4), text("WAVEfmt "), number(16, 4), number(1, 2),
      number(1, 2);
  number(frames_per_second, 4), number(2 * frames_per_second, 4), number(2, 2), number(16, 2);
  text("data"), number(2 * samples.size(), 4);
  for (const float s : samples) number(static_cast<std::size_t>(std::lround(s * 32767)) & 0xffff, 2);
  return file;
}
