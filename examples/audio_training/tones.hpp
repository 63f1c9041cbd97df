// SPDX-License-Identifier: MIT
#pragma once
// A toy data set: six kinds of sound as WAV files in an Arrow stream.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include <feedline/core/random.hpp>

#include "clip_writer.hpp"

enum class sound : std::uint8_t { sine, square, rising, falling, pulses, noise };

inline constexpr std::size_t sounds = 6;

/// Makes a sound of random pitch, loudness and length, over faint noise: samples from -1 to 1.
inline std::vector<float> make_sound(sound kind, std::size_t rate, std::size_t length,
                                     feedline::random_generator& random) {
  const double pitch = 200 * std::pow(2.0, random.uniform(0.0, 3.5)), loudness = random.uniform(0.1, 0.8);
  const double bend = random.uniform(0.7, 1.5); // octaves
  const double pulses = random.uniform(4.0, 9.0);
  const auto count = static_cast<double>(length);
  const auto begin = static_cast<std::size_t>(random.uniform(0.0, 0.3) * count);
  const auto end = static_cast<std::size_t>(random.uniform(0.6, 1.0) * count);
  std::vector<float> samples(length);
  double phase = 0; // in turns
  for (std::size_t i = 0; i < length; ++i) {
    double value = 0;
    if (i >= begin && i < end) {
      const double done = static_cast<double>(i - begin) / static_cast<double>(end - begin);
      const double turn = kind == sound::rising ? bend * done : kind == sound::falling ? -bend * done : 0;
      phase = std::fmod(phase + pitch * std::pow(2.0, turn) / static_cast<double>(rate), 1.0);
      value = std::sin(2 * std::numbers::pi * phase);
      if (kind == sound::square) value = phase < 0.5 ? 0.7 : -0.7;
      if (kind == sound::pulses && std::fmod(pulses * done, 1.0) > 0.5) value = 0;
      if (kind == sound::noise) value = random.uniform(-1.0, 1.0);
    }
    samples[i] = static_cast<float>(loudness * value + random.uniform(-0.02, 0.02));
  }
  return samples;
}

/// Encodes samples as a WAV file with 16 bits and one channel.
inline std::string to_wav(std::span<const float> samples, std::size_t rate) {
  std::string bytes;
  const auto add = [&](auto value) { bytes.append(reinterpret_cast<const char*>(&value), sizeof value); };
  const auto data_size = static_cast<std::uint32_t>(2 * samples.size());
  bytes += "RIFF";
  add(std::uint32_t{36} + data_size);
  bytes += "WAVE";
  bytes += "fmt ";
  add(std::uint32_t{16});
  add(std::uint16_t{1}); // integers
  add(std::uint16_t{1}); // channel
  add(static_cast<std::uint32_t>(rate));
  add(static_cast<std::uint32_t>(2 * rate)); // bytes per second
  add(std::uint16_t{2});                     // bytes per frame
  add(std::uint16_t{16});                    // bits
  bytes += "data";
  add(data_size);
  for (const float x : samples)
    add(static_cast<std::int16_t>(std::lround(32'767 * std::clamp(x, -1.0f, 1.0f))));
  return bytes;
}

/// Writes a stream of `count` clips of two seconds at 16 kHz, with their labels. The same seed makes the same
/// clips. After a stop is requested, ends the stream with the clips so far.
inline void write_tones(const std::string& path, std::size_t count, std::uint64_t seed,
                        const std::stop_token& stop) {
  constexpr std::size_t rate = 16'000;
  feedline::random_generator seeds(seed);
  clip_writer writer(path);
  for (std::size_t i = 0; i < count && !stop.stop_requested(); ++i) {
    feedline::random_generator random(seeds());
    const std::uint64_t label = random.below(sounds);
    const std::string wav = to_wav(make_sound(static_cast<sound>(label), rate, 2 * rate, random), rate);
    writer.add(std::as_bytes(std::span(wav)), static_cast<std::int64_t>(label));
  }
  writer.finish();
}
