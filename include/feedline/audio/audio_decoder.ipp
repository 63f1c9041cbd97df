// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/audio/audio_decoder.hpp>

#include <algorithm>
#include <bit>
#include <stdexcept>
#include <string>
#include <utility>

namespace feedline::inline FEEDLINE_ABI {

namespace detail {

/// The length, or nullopt if only decoding finds it.
FEEDLINE_INLINE std::optional<std::size_t> known_length(const sound_facts& facts,
                                                        const audio_options& options) {
  return options.keep_truncated && !facts.damage.empty() ? facts.readable_frames : facts.frames;
}

[[noreturn]] FEEDLINE_INLINE void fail_damaged(const sound_facts& facts) {
  fail_audio("the file is cut off or damaged: " + facts.damage +
             "; to keep what can be decoded, set audio_options::keep_truncated");
}

} // namespace detail

FEEDLINE_INLINE audio_header audio_decoder::start(detail::sound_source& source, std::size_t file_bytes,
                                                  const audio_options& options) {
  const detail::sound_facts& facts = source.facts();
  if (facts.channels == 0 || facts.rate == 0)
    detail::fail_audio("the file has " + std::to_string(facts.channels) + " channels of " +
                       std::to_string(facts.rate) + " frames per second");
  audio_header header{0, options.mono ? 1 : facts.channels, facts.rate};
  if (const auto frames = detail::known_length(facts, options)) {
    header.frames = *frames;
    return header;
  }
  if (!facts.damage.empty() && !options.keep_truncated) detail::fail_damaged(facts);
  header.frames = read_frames(source, {}, file_bytes, options);
  return header;
}

FEEDLINE_INLINE audio_clip audio_decoder::finish(detail::sound_source& source, const audio_header& header,
                                                 audio_range part, std::size_t file_bytes,
                                                 const audio_options& options) {
  if (part.first > header.frames || part.frames > header.frames - part.first)
    throw std::invalid_argument("feedline::audio_decoder: the file has " + std::to_string(header.frames) +
                                " frames; the wanted part has " + std::to_string(part.frames) +
                                " frames from frame " + std::to_string(part.first) + " on");
  if (!detail::known_length(source.facts(), options)) return clip(header, part);
  if (part.first > 0 && part.frames > 0 && !source.seek(part.first) && !skip(source, part.first)) {
    const std::string error = source.error();
    detail::fail_audio("the file has no frame " + std::to_string(part.first) +
                       (error.empty() ? error : " (" + error + ")"));
  }
  return clip(header, {0, read_frames(source, part.frames, file_bytes, options)});
}

namespace detail {

FEEDLINE_INLINE std::size_t block_frames(std::size_t channels) noexcept {
  return std::max<std::size_t>(1, 16384 / channels);
}

} // namespace detail

FEEDLINE_INLINE bool audio_decoder::skip(detail::sound_source& source, std::size_t frame) {
  const std::size_t channels = source.facts().channels, block = detail::block_frames(channels);
  float* const ignored = interleaved_.reserve(block * channels);
  while (frame > 0) {
    const std::size_t got = source.read(ignored, std::min(frame, block));
    if (got == 0) return false;
    frame -= got;
  }
  return true;
}

FEEDLINE_INLINE std::size_t audio_decoder::read_frames(detail::sound_source& source,
                                                       std::optional<std::size_t> wanted,
                                                       std::size_t file_bytes, const audio_options& options) {
  const std::size_t channels = source.facts().channels, mixed = options.mono ? 1 : channels;
  const std::uint64_t max_frames = options.max_samples / channels;
  if (wanted && *wanted > max_frames) {
    // A higher limit wouldn't help.
    if (source.facts().readable_frames.value_or(*wanted) < *wanted) detail::fail_damaged(source.facts());
    detail::fail_audio(std::to_string(*wanted) + " frames of " + std::to_string(channels) +
                       " channels are more than audio_options::max_samples, " +
                       std::to_string(options.max_samples) + "; raise it to decode them");
  }
  const bool mixes = mixed != channels;
  // One frame over the limit, to detect a longer file.
  const std::size_t end = wanted ? *wanted : std::max<std::uint64_t>(max_frames, max_frames + 1);
  // Most files have more than one bit per sample.
  const std::size_t likely = std::max<std::size_t>(std::size_t{1} << 16, 8 * file_bytes) / mixed;

  std::size_t got = 0;
  while (got < end) {
    std::size_t room = samples_.capacity() / mixed;
    if (got == room) {
      room = std::min(end, std::max(likely, 2 * got));
      samples_.reserve(room * mixed, got * mixed);
    }
    const std::size_t count = std::min(room, end) - got;
    float* const to = samples_.data() + got * mixed;
    const std::size_t read = mixes ? read_mixed(source, to, count) : source.read(to, count);
    if (read == 0) break;
    if (source.facts().has_floats && !options.keep_nonfinite) {
      std::uint32_t largest = 0; // exponent and mantissa
      for (std::size_t i = 0; i < read * mixed; ++i)
        largest = std::max(largest, std::bit_cast<std::uint32_t>(to[i]) & 0x7fffffff);
      if (largest >= 0x7f800000)
        detail::fail_audio("the file has samples that are NaN or infinite, among the " +
                           std::to_string(got + read) +
                           " frames read; to keep them, set audio_options::keep_nonfinite");
    }
    got += read;
  }
  if (!wanted && got > max_frames)
    detail::fail_audio("the file has more samples than audio_options::max_samples, " +
                       std::to_string(options.max_samples) + "; raise it to decode them");
  if (options.keep_truncated && got > 0) return got;
  std::string error = source.error();
  if (error.empty() && (wanted ? got == *wanted : got > 0 || source.facts().damage.empty())) return got;
  if (error.empty()) error = source.facts().damage;
  detail::fail_audio("the file is cut off or damaged: only " + std::to_string(got) +
                     (wanted ? " of " + std::to_string(*wanted) : "") + " frames can be decoded" +
                     (error.empty() ? "" : " (" + error + ")") +
                     (got == 0 ? "" : "; to keep them, set audio_options::keep_truncated"));
}

FEEDLINE_INLINE std::size_t audio_decoder::read_mixed(detail::sound_source& source, float* to,
                                                      std::size_t frames) {
  const std::size_t channels = source.facts().channels, block = detail::block_frames(channels);
  float* const all = interleaved_.reserve(block * channels);
  const std::size_t got = source.read(all, std::min(frames, block));
  const float share = 1 / static_cast<float>(channels);
  for (std::size_t i = 0; i < got; ++i) {
    float sum = all[i * channels];
    for (std::size_t c = 1; c < channels; ++c) sum += all[i * channels + c];
    to[i] = sum * share;
  }
  return got;
}

FEEDLINE_INLINE audio_clip audio_decoder::clip(const audio_header& header, audio_range part) {
  const std::size_t channels = header.channels;
  if (channels > 1) {
    const float* const from = samples_.data() + part.first * channels;
    float* const planar = interleaved_.reserve(part.frames * channels);
    for (std::size_t c = 0; c < channels; ++c)
      for (std::size_t i = 0; i < part.frames; ++i) planar[c * part.frames + i] = from[i * channels + c];
    std::swap(interleaved_, samples_);
    part.first = 0;
  }
  return {
      {samples_.data() + part.first * channels, part.frames * channels}, channels, part.frames, header.rate};
}

} // namespace feedline::inline FEEDLINE_ABI
