// SPDX-License-Identifier: MIT
#pragma once
// Where the frames of a FLAC file begin, and where they end.
#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <feedline/audio/audio_error.hpp>
#include <feedline/audio/detail/sound_bytes.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// A FLAC file. Its length comes from its last frame, since the header's may be missing or wrong. Source of the
/// layout: RFC 9639.
struct flac_stream {
  std::vector<std::byte> header; ///< the smallest one, for libsndfile: nothing but the first block
  sound_bytes frames;
  std::optional<std::size_t> length; ///< nullopt if only decoding finds it
  std::string damage;                ///< why the file can't be whole, or an empty text

  /// For a file that begins with "fLaC". Throws audio_error for a header that can't be right.
  static flac_stream find(sound_bytes file) {
    flac_stream found;
    std::size_t at = 4;
    for (bool is_last = false; !is_last;) {
      const std::size_t rest = file.size() - at;
      const std::size_t size = rest < 4 ? 0 : big_endian(file, at + 1, 3);
      if (rest < 4 || size > rest - 4)
        fail_audio("the FLAC file is damaged or cut off in its header, at byte " + std::to_string(at));
      is_last = (file[at] & std::byte{0x80}) != std::byte{};
      if (at == 4) {
        if ((file[4] & std::byte{0x7f}) != std::byte{} || size != 34)
          fail_audio("the FLAC file is damaged: it doesn't begin with a block that describes it");
        found.header.assign(file.begin(), file.begin() + 8 + 34);
        found.header[4] = std::byte{0x80}; // the last block
      }
      at += 4 + size;
    }
    if (has_text(file, file.size() - std::min<std::size_t>(file.size(), 128), "TAG"))
      file = file.first(std::max(at, file.size() - 128)); // an ID3 tag
    found.frames = file.subspan(at);

    // 20 bits sample rate, 3 channels, 5 sample size, 36 length
    std::uint64_t fields = big_endian(found.header, 18, 8);
    const std::uint64_t bits = (fields >> 36 & 31) + 1, stated = fields & 0xfffffffff;
    const std::optional<frame> last = found.last_frame(), first = found.frame_at(0);
    const bool has_end = last && last->is_numbered;
    const std::uint64_t end = has_end ? last->first + last->samples : 0;
    if (first && first->first > 0) { // a part of a longer stream
      fields -= stated;
    } else if (has_end && end >= stated) {
      found.length = end;
      fields = fields - stated + std::min<std::uint64_t>(end, 0xfffffffff);
    } else if (stated > 0) {
      found.length = stated;
    }
    if (!last || (has_end && found.length && end < stated))
      found.damage =
          last ? "it ends after " + std::to_string(end) + " frames; its header says " + std::to_string(stated)
               : "it doesn't end with a complete block";
    if (bits != 8 && bits != 16 && bits != 24) {
      // libsndfile refuses 12 and 20 bits in the header, but decodes blocks that say these sizes themselves.
      const std::uint64_t wider = bits == 12 ? 16 : bits == 20 ? 24 : 0;
      if (wider == 0 || !last || !last->has_bits)
        fail_audio("the FLAC file has samples of " + std::to_string(bits) +
                   " bits, which libsndfile doesn't decode; convert it to 16 or 24 bits");
      fields += (wider - bits) << 36;
    }
    for (std::size_t i = 0; i < 8; ++i)
      found.header[18 + i] = static_cast<std::byte>(fields >> (56 - 8 * i) & 255);
    return found;
  }

 private:
  struct frame {
    std::uint64_t first = 0; // the number of its first sample
    std::uint64_t samples = 0;
    bool is_numbered = true; // whether that number is known
    bool has_bits = false;   // it names the size of its samples
  };

  // The frame whose header begins there, or nullopt.
  std::optional<frame> frame_at(std::size_t at) const noexcept {
    const auto byte = [&](std::size_t i) {
      return at + i < frames.size() ? std::to_integer<unsigned>(frames[at + i]) : 0;
    };
    if (byte(0) != 0xff || (byte(1) & 0xfe) != 0xf8 || (byte(3) & 1) != 0) return {};
    // A number in UTF-8, extended to 36 bits.
    const auto more = static_cast<unsigned>(std::countl_one(static_cast<std::uint8_t>(byte(4))));
    if (more == 1 || more == 8) return {};
    frame found{.first = byte(4) & (0xffu >> (more + 1)), .has_bits = (byte(3) & 0xe) != 0};
    std::size_t size = 5;
    for (; size < 4 + std::max(1u, more); ++size) found.first = found.first << 6 | (byte(size) & 0x3f);

    const unsigned samples = byte(2) >> 4, rate = byte(2) & 15;
    if (samples == 0 || rate == 15) return {};
    if (samples == 1) found.samples = 192;
    else if (samples < 6) found.samples = 144u << samples;
    else if (samples > 7) found.samples = 1u << samples;
    else
      for (unsigned i = 0; i < samples - 5; ++i) found.samples = found.samples << 8 | byte(size++);
    if (samples == 6 || samples == 7) ++found.samples;
    size += rate == 12 ? 1 : rate > 12 ? 2 : 0;
    if (byte(1) == 0xf8) { // it numbers blocks of the same size
      found.first *= big_endian(header, 8, 2);
      found.is_numbered = has_text(header, 8, {reinterpret_cast<const char*>(&header[10]), 2});
    }

    unsigned crc = 0; // of x^8 + x^2 + x + 1
    for (std::size_t i = 0; i <= size; ++i) {
      crc ^= byte(i);
      for (int bit = 0; bit < 8; ++bit) crc = crc << 1 ^ ((crc & 0x80) != 0 ? 0x107 : 0);
    }
    if (crc != 0 || at + size >= frames.size()) return {};
    return found;
  }

  // The frame that ends where the file ends.
  std::optional<frame> last_frame() const noexcept {
    // The checksum of a frame with its checksum is 0, also if zeros follow. Of x^16 + x^15 + x^2 + 1.
    static constexpr auto table = [] {
      std::array<std::uint16_t, 256> all{};
      for (unsigned i = 0; i < 256; ++i) {
        unsigned value = i << 8;
        for (int bit = 0; bit < 8; ++bit) value = value << 1 ^ ((value & 0x8000) != 0 ? 0x18005 : 0);
        all[i] = static_cast<std::uint16_t>(value);
      }
      return all;
    }();
    // No frame is longer, and few places only look like the beginning of one.
    constexpr std::size_t limit = std::size_t{1} << 22;
    const std::size_t begin = frames.size() - std::min(frames.size(), limit);
    int tries = 16;
    for (std::size_t at = frames.size(); tries > 0 && at-- > begin;) {
      const auto found = frame_at(at);
      if (!found) continue;
      unsigned crc = 0;
      for (const std::byte b : frames.subspan(at))
        crc = (crc << 8 & 0xffff) ^ table[crc >> 8 ^ std::to_integer<unsigned>(b)];
      if (crc == 0) return found;
      --tries;
    }
    return {};
  }
};

} // namespace feedline::inline FEEDLINE_ABI::detail
