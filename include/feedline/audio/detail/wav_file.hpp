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

#ifndef FEEDLINE_COMPILED
#include <feedline/audio/detail/wav_file.ipp>
#endif
