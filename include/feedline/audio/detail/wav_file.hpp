// SPDX-License-Identifier: MIT
#pragma once
// Reads plain WAV files without libsndfile, which allocates memory for each file, and which silently shortens
// files whose header claims more data than they have.
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <feedline/version.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// A RIFF/WAVE file of integers of 8 to 32 bits or floats, with a checked layout. Source of the fields:
/// "Multiple Channel Audio Data and WAVE Files", Microsoft, 2007.
class wav_file {
 public:
  /// Returns nullopt for other or unusual files, which libsndfile must read.
  static std::optional<wav_file> open(std::span<const std::byte> file);

  std::size_t channels() const noexcept { return channels_; }

  std::size_t rate() const noexcept { return rate_; }

  /// The length in the header.
  std::optional<std::size_t> frames() const noexcept { return promised_; }

  bool length_is_estimate() const noexcept { return false; }

  std::string error() const;

  bool seeks_exactly() const noexcept { return true; }

  bool seek(std::size_t frame) noexcept {
    at_ = frame;
    return frame <= data_.size() / frame_bytes();
  }

  std::size_t read(float* to, std::size_t frames) noexcept;

 private:
  static_assert(std::endian::native == std::endian::little, "feedline::audio is for little-endian machines");

  static std::string_view text(std::span<const std::byte> file, std::size_t at) noexcept {
    return {reinterpret_cast<const char*>(file.data()) + at, 4};
  }

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

  template <class T>
  static T number(std::span<const std::byte> file, std::size_t at) noexcept {
    return load<T>(file.data() + at);
  }

  std::size_t frame_bytes() const noexcept { return bytes_ * channels_; }

  bool read_format(std::span<const std::byte> chunk) noexcept;

  std::optional<wav_file> with_data(std::span<const std::byte> rest, std::uint32_t size) noexcept;

  static constexpr std::uint16_t integers = 1, floats = 3, extensible = 0xfffe;

  std::span<const std::byte> data_;
  std::size_t at_ = 0; // the next frame
  std::size_t promised_ = 0;
  std::size_t channels_ = 0;
  std::size_t rate_ = 0;
  std::size_t bytes_ = 0; // per sample
  bool is_float_ = false;
};

} // namespace feedline::inline FEEDLINE_ABI::detail

#ifndef FEEDLINE_COMPILED
#include <feedline/audio/detail/wav_file.ipp>
#endif
