// SPDX-License-Identifier: MIT
#pragma once
// Reads plain WAV files without libsndfile, which allocates memory for each file.
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>

#include <feedline/audio/detail/sound_chunks.hpp>
#include <feedline/audio/detail/sound_source.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// The samples of a WAV file: integers of 8 to 32 bits or floats.
class wav_file final : public sound_source {
 public:
  /// Returns nullopt for other kinds of samples.
  static std::optional<wav_file> open(const sound_chunks& chunks);

  FEEDLINE_INLINE bool seek(std::size_t frame) override;
  FEEDLINE_INLINE std::size_t read(float* to, std::size_t frames) override;

 private:
  static_assert(std::endian::native == std::endian::little, "feedline::audio is for little-endian machines");

  template <class T>
  static T load(const std::byte* from) noexcept {
    T value;
    std::memcpy(&value, from, sizeof value);
    return value;
  }

  static std::int32_t load_24(const std::byte* from) noexcept {
    const auto low = static_cast<std::uint32_t>(load<std::uint16_t>(from));
    const auto high = std::to_integer<std::uint32_t>(from[2]);
    return static_cast<std::int32_t>(low << 8 | high << 24) >> 8;
  }

  std::size_t frame_bytes() const noexcept { return bytes_ * facts_.channels; }

  bool read_format(sound_bytes chunk) noexcept;

  // Whether the highest byte of all numbers of 4 bytes is 0 or 255, so that the other three have the sample, as in ALSA's
  // S24_LE (`arecord -f S24_LE`). Other programs store 24 bits in the high end of 32.
  bool has_24_low_bits() const noexcept;

  static constexpr std::uint64_t integers = 1, floats = 3, extensible = 0xfffe;

  sound_bytes data_;
  std::size_t at_ = 0;    // the next frame
  std::size_t bytes_ = 0; // per sample
  bool is_float_ = false;
  bool is_low_ = false; // 24 bits in the low end of 32
};

} // namespace feedline::inline FEEDLINE_ABI::detail

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_AUDIO)
#include <algorithm>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE std::optional<wav_file> wav_file::open(const sound_chunks& chunks) {
  wav_file found;
  if (chunks.is_aiff || chunks.is_big_endian || !found.read_format(chunks.format)) return {};
  found.data_ = chunks.data;
  if (found.bytes_ == 4 && little_endian(chunks.format, 14, 2) == 24 && found.has_24_low_bits())
    found.is_low_ = true;
  found.facts_.readable_frames = chunks.data.size() / found.frame_bytes();
  // A file that is cut off keeps its length, so that parts before the end can be decoded.
  if (chunks.damage.empty() || chunks.promised > chunks.data.size())
    found.facts_.frames = static_cast<std::size_t>(chunks.promised / found.frame_bytes());
  found.facts_.damage = chunks.damage;
  return found;
}

FEEDLINE_INLINE bool wav_file::seek(std::size_t frame) {
  if (frame > *facts_.readable_frames) return false;
  at_ = frame;
  return true;
}

FEEDLINE_INLINE std::size_t wav_file::read(float* to, std::size_t frames) {
  const std::size_t channels = facts_.channels;
  frames = std::min(frames, *facts_.readable_frames - at_);
  const std::byte* from = data_.data() + at_ * frame_bytes();
  const std::size_t count = frames * channels;
  if (is_float_)
    for (std::size_t i = 0; i < count; ++i) to[i] = load<float>(from + 4 * i);
  else if (bytes_ == 1)
    for (std::size_t i = 0; i < count; ++i)
      to[i] = static_cast<float>(std::to_integer<int>(from[i]) - 128) * 0x1p-7f;
  else if (bytes_ == 2)
    for (std::size_t i = 0; i < count; ++i)
      to[i] = static_cast<float>(load<std::int16_t>(from + 2 * i)) * 0x1p-15f;
  else if (bytes_ == 3 || is_low_)
    for (std::size_t i = 0; i < count; ++i) to[i] = static_cast<float>(load_24(from + bytes_ * i)) * 0x1p-23f;
  else
    for (std::size_t i = 0; i < count; ++i)
      to[i] = static_cast<float>(load<std::int32_t>(from + 4 * i)) * 0x1p-31f;
  at_ += frames;
  return frames;
}

FEEDLINE_INLINE bool wav_file::read_format(sound_bytes chunk) noexcept {
  std::uint64_t tag = little_endian(chunk, 0, 2);
  facts_.channels = little_endian(chunk, 2, 2);
  facts_.rate = little_endian(chunk, 4, 4);
  const std::size_t bits = little_endian(chunk, 14, 2);
  if (tag == extensible) {
    // The rest of the format's GUID is the same for all formats that have a tag.
    constexpr std::string_view guid("\0\0\0\0\x10\0\x80\0\0\xaa\0\x38\x9b\x71", 14);
    if (chunk.size() < 40 || !has_text(chunk, 26, guid) || little_endian(chunk, 18, 2) != bits) return false;
    tag = little_endian(chunk, 24, 2);
  }
  is_float_ = facts_.has_floats = tag == floats;
  const bool is_padded = tag == integers && bits == 24 && little_endian(chunk, 12, 2) == 4 * facts_.channels;
  bytes_ = is_padded ? 4 : bits / 8;
  return bits % 8 == 0 && (tag == integers ? bytes_ >= 1 && bytes_ <= 4 : is_float_ && bytes_ == 4) &&
         facts_.channels > 0 && facts_.rate > 0 && little_endian(chunk, 12, 2) == frame_bytes();
}

FEEDLINE_INLINE bool wav_file::has_24_low_bits() const noexcept {
  for (std::size_t at = 3; at < data_.size(); at += 4)
    if (data_[at] != std::byte() && data_[at] != std::byte{255}) return false;
  return true;
}

} // namespace feedline::inline FEEDLINE_ABI::detail
#endif
