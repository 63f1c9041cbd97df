// SPDX-License-Identifier: MIT
#pragma once
// Writes FLAC files of samples of any size, uncompressed.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace feedline::test {

struct flac_options {
  unsigned bits = 16;
  unsigned first_block = 0;     ///< the number of the first block; others begin in the middle of a stream
  std::size_t stated_total = 0; ///< the length in the header; 0: unknown
};

/// A mono FLAC file of blocks of 500 samples; source of the layout: RFC 9639.
inline std::vector<std::byte> write_flac(const std::vector<std::int64_t>& samples, const flac_options& o) {
  constexpr std::size_t block = 500;
  std::vector<std::byte> file;
  unsigned filled = 8; // bits of the last byte
  const auto put = [&](std::uint64_t value, unsigned count) {
    for (; count-- > 0; ++filled) {
      if (filled == 8) {
        file.push_back({});
        filled = 0;
      }
      if ((value >> count & 1) != 0) file.back() |= std::byte{0x80} >> filled;
    }
  };
  // Of the bytes from `begin` on, modulo a polynomial of 8 or 16 bits.
  const auto put_checksum = [&](std::size_t begin, unsigned width, unsigned polynomial) {
    unsigned crc = 0;
    for (; begin < file.size(); ++begin) {
      crc ^= std::to_integer<unsigned>(file[begin]) << (width - 8);
      for (int bit = 0; bit < 8; ++bit) crc = (crc << 1) ^ ((crc >> (width - 1)) != 0 ? polynomial : 0);
    }
    put(crc, width);
  };
  for (const char c : std::string_view("fLaC")) put(static_cast<std::uint64_t>(c), 8);
  put(0x80000022, 32); // the only block of the header, with 34 bytes
  put(block, 16);
  put(block, 16);
  put(0, 48); // sizes of frames: unknown
  put(8000, 20);
  put(0, 3);
  put(o.bits - 1, 5);
  put(o.stated_total, 36);
  for (int i = 0; i < 4; ++i) put(0, 32); // no hash
  for (std::size_t at = 0; at < samples.size(); at += block) {
    const std::size_t begin = file.size(), count = std::min(block, samples.size() - at);
    put(0xfff8, 16);
    put(0x70, 8); // the block's size is below, the rate in the header
    put(o.bits == 12   ? 4
        : o.bits == 16 ? 8
        : o.bits == 20 ? 10
        : o.bits == 24 ? 12
        : o.bits == 32 ? 14
                       : 0,
        8);
    put(o.first_block + at / block, 8); // less than 128
    put(count - 1, 16);
    put_checksum(begin, 8, 0x107);
    put(2, 8); // uncompressed
    for (std::size_t i = at; i < at + count; ++i) put(static_cast<std::uint64_t>(samples[i]), o.bits);
    filled = 8;
    put_checksum(begin, 16, 0x18005);
  }
  return file;
}

} // namespace feedline::test
