// SPDX-License-Identifier: MIT
#pragma once
// Writes MP3 frames of the simplest kind, whose sound differs from frame to frame.
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace feedline::test {

struct mp3_options {
  bool mono = true;
  bool is_44100 = false;        ///< Hz, in frames of 1152 samples; otherwise 22,050 Hz, in frames of 576
  std::size_t stated_total = 0; ///< frames according to a header, as LAME writes it; 0: no header
  bool is_free = false;         ///< headers don't say the bit rate, and some frames have a byte of padding
};

/// `count` frames of 64 kbit/s, after one with the header if it is wanted; source of the layout: ISO 11172-3 and
/// 13818-3.
inline std::vector<std::byte> write_mp3(std::size_t count, const mp3_options& o) {
  const std::size_t size = 208; // of both: 144 * 64000 / 44100 and 72 * 64000 / 22050, rounded down
  const std::size_t side = o.is_44100 ? (o.mono ? 17 : 32) : (o.mono ? 9 : 17);
  std::vector<std::byte> file;
  auto begin_frame = [&, count = std::size_t{0}]() mutable {
    std::uint32_t header = o.is_44100 ? 0xfffb5000 : 0xfff38000;
    const bool is_padded = o.is_free && count++ % 3 == 0;
    if (o.is_free) header &= 0xffff0fff;
    if (is_padded) header |= 0x200;
    const std::size_t begin = file.size();
    file.resize(begin + size + is_padded);
    for (std::size_t i = 0; i < 4; ++i)
      file[begin + i] = static_cast<std::byte>(header >> (24 - 8 * i) & 255);
    if (o.mono) file[begin + 3] |= std::byte{0xc0};
    return begin + 4;
  };
  if (o.stated_total > 0) {
    std::size_t at = begin_frame() + side;
    for (const char c : std::string_view("Xing\0\0\0\1", 8)) file[at++] = static_cast<std::byte>(c);
    for (std::size_t i = 0; i < 4; ++i)
      file[at++] = static_cast<std::byte>(o.stated_total >> (24 - 8 * i) & 255);
  }
  for (std::size_t n = 0; n < count; ++n) {
    std::size_t at = 8 * begin_frame();
    const auto put = [&](std::size_t value, unsigned bits) {
      for (; bits-- > 0; ++at)
        if ((value >> bits & 1) != 0) file[at / 8] |= std::byte{0x80} >> (at % 8);
    };
    const std::size_t channels = o.mono ? 1 : 2;
    put(0, o.is_44100 ? 9 : 8); // all data is in the frame itself
    put(0, o.is_44100 ? (o.mono ? 5 : 3) : (o.mono ? 1 : 2));
    if (o.is_44100) put(0, static_cast<unsigned>(4 * channels)); // both halves have their own scale factors
    for (std::size_t half = 0; half < (o.is_44100 ? 2 * channels : channels); ++half) {
      // 320 bits of 0, which mean that 160 frequencies are 1 times a power of 2.
      put(320, 12);
      put(0, 9);
      put(170 + n * 7 % 30, 8);
      put(0, o.is_44100 ? 4 : 9);
      put(0, 1 + 15 + 7);
      put(0, o.is_44100 ? 2 : 1);
      put(1, 1); // the simpler code
    }
  }
  return file;
}

} // namespace feedline::test
