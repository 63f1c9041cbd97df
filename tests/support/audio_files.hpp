// SPDX-License-Identifier: MIT
#pragma once
// Writes audio files and lists those of the test data.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <numbers>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <feedline/core/random.hpp>

#include <sndfile.h>

namespace feedline::test {

using bytes = std::vector<std::byte>;

/// The files of a folder in order of their names, without .npy and .f32 files.
inline std::vector<std::filesystem::path> audio_files(const std::string& folder) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().extension() != ".npy" && entry.path().extension() != ".f32")
      paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  return paths;
}

/// The fields of a WAV file's header.
struct wav_header {
  unsigned tag = 1; ///< 1 integers, 3 floats
  std::size_t bits = 16;
  std::size_t channels = 1;
  std::size_t rate = 8000;
  bool extensible = false;
  std::size_t data_bytes = ~std::size_t{0}; ///< default: all bytes
};

/// A WAV file, byte by byte.
inline bytes write_wav(const wav_header& h, const bytes& data) {
  bytes file;
  const auto text = [&](std::string_view s) {
    for (const char c : s) file.push_back(static_cast<std::byte>(c));
  };
  const auto number = [&](std::size_t value, int count) {
    for (; count > 0; --count, value >>= 8) file.push_back(static_cast<std::byte>(value & 255));
  };
  const std::size_t frame = h.bits / 8 * h.channels;
  text("RIFF");
  number(4 + 8 + (h.extensible ? 40 : 16) + 8 + data.size(), 4);
  text("WAVEfmt ");
  number(h.extensible ? 40 : 16, 4);
  number(h.extensible ? 0xfffe : h.tag, 2);
  number(h.channels, 2);
  number(h.rate, 4);
  number(h.rate * frame, 4);
  number(frame, 2);
  number(h.bits, 2);
  if (h.extensible) {
    number(22, 2);
    number(h.bits, 2);
    number(0, 4); // no speaker positions
    number(h.tag, 2);
    text(std::string_view("\0\0\0\0\x10\0\x80\0\0\xaa\0\x38\x9b\x71", 14));
  }
  text("data");
  number(h.data_bytes == ~std::size_t{0} ? data.size() : h.data_bytes, 4);
  file.insert(file.end(), data.begin(), data.end());
  return file;
}

/// Integers as little-endian bytes of `bits` bits each; 8-bit integers are unsigned, as in WAV.
inline bytes as_integers(const std::vector<std::int64_t>& values, std::size_t bits) {
  bytes all;
  for (std::int64_t v : values) {
    if (bits == 8) v += 128;
    for (std::size_t i = 0; i < bits / 8; ++i) all.push_back(static_cast<std::byte>(v >> (8 * i) & 255));
  }
  return all;
}

/// A file in memory for libsndfile.
struct sound_memory {
  bytes file;
  std::size_t at = 0;

  static sound_memory& of(void* user) { return *static_cast<sound_memory*>(user); }

  static SF_VIRTUAL_IO& functions() {
    static SF_VIRTUAL_IO all{
        [](void* user) { return static_cast<sf_count_t>(of(user).file.size()); },
        [](sf_count_t offset, int from, void* user) {
          auto& to = of(user);
          const auto base = from == SEEK_SET ? 0 : from == SEEK_CUR ? to.at : to.file.size();
          to.at = static_cast<std::size_t>(static_cast<sf_count_t>(base) + offset);
          return static_cast<sf_count_t>(to.at);
        },
        [](void* to, sf_count_t count, void* user) {
          auto& from = of(user);
          const auto got = std::min(static_cast<std::size_t>(count),
                                    from.file.size() - std::min(from.at, from.file.size()));
          std::memcpy(to, from.file.data() + from.at, got);
          from.at += got;
          return static_cast<sf_count_t>(got);
        },
        [](const void* from, sf_count_t count, void* user) {
          auto& to = of(user);
          const auto size = static_cast<std::size_t>(count);
          to.file.resize(std::max(to.file.size(), to.at + size));
          std::memcpy(to.file.data() + to.at, from, size);
          to.at += size;
          return count;
        },
        [](void* user) { return static_cast<sf_count_t>(of(user).at); }};
    return all;
  }
};

/// The interleaved samples of a file as libsndfile reads them.
inline std::vector<float> read_sound(const bytes& file) {
  sound_memory m{file};
  SF_INFO info{};
  SNDFILE* const opened = sf_open_virtual(&sound_memory::functions(), SFM_READ, &info, &m);
  if (!opened) throw std::runtime_error(sf_strerror(nullptr));
  std::vector<float> samples(static_cast<std::size_t>(info.frames * info.channels));
  samples.resize(
      static_cast<std::size_t>(sf_readf_float(opened, samples.data(), info.frames) * info.channels));
  sf_close(opened);
  return samples;
}

/// The first `rest` bytes of a file.
inline bytes cut(const bytes& file, std::size_t rest) {
  return {file.begin(), file.begin() + static_cast<std::ptrdiff_t>(std::min(rest, file.size()))};
}

/// Writes a file of interleaved samples with libsndfile, in a format such as SF_FORMAT_FLAC |
/// SF_FORMAT_PCM_16. A format with integers stores multiples of 2^-15 exactly.
inline bytes write_sound(int format, const std::vector<float>& samples, int channels = 1, int rate = 8000) {
  sound_memory m;
  SF_INFO info{};
  info.format = format;
  info.channels = channels;
  info.samplerate = rate;
  SNDFILE* const file = sf_open_virtual(&sound_memory::functions(), SFM_WRITE, &info, &m);
  if (!file) throw std::runtime_error(sf_strerror(nullptr));
  const auto frames = static_cast<sf_count_t>(samples.size()) / channels;
  const int kind = format & SF_FORMAT_SUBMASK;
  bool written = false;
  if (kind == SF_FORMAT_FLOAT || kind == SF_FORMAT_DOUBLE || kind == SF_FORMAT_VORBIS ||
      kind == SF_FORMAT_OPUS) {
    written = sf_writef_float(file, samples.data(), frames) == frames;
  } else {
    // libsndfile would scale floats by 32767.
    std::vector<int> integers(samples.size());
    std::transform(samples.begin(), samples.end(), integers.begin(),
                   [](float v) { return static_cast<int>(std::lround(double{v} * 0x1p31)); });
    written = sf_writef_int(file, integers.data(), frames) == frames;
  }
  sf_close(file);
  if (!written) throw std::runtime_error("libsndfile wrote no file");
  return m.file;
}

/// A rising tone with some noise: multiples of 2^-15, at most 0.9.
inline std::vector<float> tone(std::size_t count, std::uint64_t key = 1) {
  std::vector<float> samples(count);
  random_generator random(key);
  const double step = 0.02 + 0.05 * random.uniform();
  for (std::size_t i = 0; i < count; ++i) {
    const double x = static_cast<double>(i);
    const double value = 0.7 * std::sin(step * x + 1e-5 * x * x) + 0.2 * random.uniform(-1, 1);
    samples[i] = static_cast<float>(std::floor(value * 32768) / 32768);
  }
  return samples;
}

} // namespace feedline::test
