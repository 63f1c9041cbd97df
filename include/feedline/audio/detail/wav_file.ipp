// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/audio/detail/wav_file.hpp>

#include <algorithm>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE std::optional<wav_file> wav_file::open(std::span<const std::byte> file) {
  if (file.size() < 12 || text(file, 0) != "RIFF" || text(file, 8) != "WAVE") return {};
  wav_file found;
  for (std::size_t at = 12; at + 8 <= file.size();) {
    const std::uint32_t size = number<std::uint32_t>(file, at + 4);
    const std::size_t begin = at + 8, rest = file.size() - begin;
    if (text(file, at) == "data") return found.with_data(file.subspan(begin), size);
    if (size > rest) return {};
    if (text(file, at) == "fmt " && !found.read_format(file.subspan(begin, size))) return {};
    at = begin + size + size % 2;
  }
  return {};
}

FEEDLINE_INLINE std::string wav_file::error() const { return {}; }

FEEDLINE_INLINE std::size_t wav_file::read(float* to, std::size_t frames) noexcept {
  frames = std::min(frames, data_.size() / frame_bytes() - at_);
  const std::byte* from = data_.data() + at_ * frame_bytes();
  const std::size_t count = frames * channels_;
  if (is_float_)
    for (std::size_t i = 0; i < count; ++i) to[i] = load<float>(from + 4 * i);
  else if (bytes_ == 1)
    for (std::size_t i = 0; i < count; ++i)
      to[i] = static_cast<float>(std::to_integer<int>(from[i]) - 128) * 0x1p-7f;
  else if (bytes_ == 2)
    for (std::size_t i = 0; i < count; ++i)
      to[i] = static_cast<float>(load<std::int16_t>(from + 2 * i)) * 0x1p-15f;
  else if (bytes_ == 3)
    for (std::size_t i = 0; i < count; ++i) to[i] = static_cast<float>(load_24(from + 3 * i)) * 0x1p-23f;
  else
    for (std::size_t i = 0; i < count; ++i)
      to[i] = static_cast<float>(load<std::int32_t>(from + 4 * i)) * 0x1p-31f;
  at_ += frames;
  return frames;
}

FEEDLINE_INLINE bool wav_file::read_format(std::span<const std::byte> chunk) noexcept {
  if (chunk.size() < 16) return false;
  auto tag = number<std::uint16_t>(chunk, 0);
  channels_ = number<std::uint16_t>(chunk, 2);
  rate_ = number<std::uint32_t>(chunk, 4);
  const std::size_t bits = number<std::uint16_t>(chunk, 14);
  if (tag == extensible) {
    // The rest of the format's GUID is the same for all formats that have a tag.
    constexpr std::string_view guid("\0\0\0\0\x10\0\x80\0\0\xaa\0\x38\x9b\x71", 14);
    if (chunk.size() < 40) return false;
    const std::string_view rest(reinterpret_cast<const char*>(chunk.data()) + 26, guid.size());
    if (rest != guid || number<std::uint16_t>(chunk, 18) != bits) return false;
    tag = number<std::uint16_t>(chunk, 24);
  }
  is_float_ = tag == floats;
  bytes_ = bits / 8;
  return bits % 8 == 0 && (tag == integers ? bytes_ >= 1 && bytes_ <= 4 : is_float_ && bytes_ == 4) &&
         channels_ > 0 && rate_ > 0 && number<std::uint16_t>(chunk, 12) == frame_bytes();
}

FEEDLINE_INLINE std::optional<wav_file> wav_file::with_data(std::span<const std::byte> rest,
                                                            std::uint32_t size) noexcept {
  if (channels_ == 0) return {}; // the format is missing before the data
  // Programs that write to a pipe don't know the length, and write the largest value.
  const bool open_end = size >= 0x7fff0000;
  promised_ = (open_end ? rest.size() : size) / frame_bytes();
  data_ = rest.first(std::min<std::size_t>(rest.size(), promised_ * frame_bytes()));
  return *this;
}

} // namespace feedline::inline FEEDLINE_ABI::detail
