// SPDX-License-Identifier: MIT
#pragma once
// Decodes audio files to samples.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include <feedline/audio/audio_clip.hpp>
#include <feedline/audio/audio_error.hpp>
#include <feedline/audio/detail/float_buffer.hpp>
#include <feedline/audio/detail/opened_sound.hpp>

namespace feedline::inline FEEDLINE_ABI {

/// Options of audio_decoder.
struct audio_options {
  /// Mix all channels to one, their mean. If not set, decode all channels, planar.
  bool mono = true;
  /// Keep the decoded frames of a file that is cut off or damaged. If not set, such a file is an audio_error.
  bool keep_truncated = false;
  /// Keep NaN and infinities, which files of floats can have. If not set, such a file is an audio_error.
  bool keep_nonfinite = false;
  /// The most samples to decode, of all channels of the file together. A file with more is refused, because a
  /// few bytes can hold hours of silence. The default allows an hour at 32 kHz, which takes half a gigabyte.
  std::uint64_t max_samples = std::uint64_t{1} << 27;
};

/// Decodes audio files one after another and reuses its memory. Keep one per thread, or call decode_audio(),
/// which keeps one for you.
///
/// Reads WAV and RF64 (all encodings of libsndfile, and MP3), FLAC (8, 12, 16, 20 and 24 bits), OGG (Vorbis and
/// Opus, also several streams after each other), MP3 (if feedline was built with libmpg123; also of a free bit rate), AIFF,
/// AU and NIST SPHERE, also after ID3 tags. Other formats are refused by name. Integers become multiples of 2^-7 to 2^-31
/// in [-1, 1); floats stay as stored. The decoder allocates memory for the decoded samples, not for the length
/// in the header: at most twice their size, and never more than for audio_options::max_samples.
///
/// Decoding a WAV file of a usual format allocates nothing once the decoder's memory is large enough. For
/// other files libsndfile and libmpg123 allocate memory for each file.
///
/// Throws audio_error for an unreadable file, and for a file with less sound than it should have: one that is
/// cut off or damaged, or whose header contradicts its data. An OGG stream whose last page has no end-of-stream
/// mark counts as cut off, and an MP3 file in which anything but tags stands between two blocks as damaged. Of WAV files that
/// are compressed in blocks (IMA and Microsoft ADPCM, GSM), "fact" says how much of the last block is sound. If the data of an MP3 or FLAC file, or of a WAV file that was never closed, are more
/// than the header says, their length counts. The decoder stays usable.
///
/// The checksums of FLAC are compared for all blocks that are decoded, those of OGG for the whole file. The other formats
/// have none, or seldom (MP3): there a changed byte may give other samples without an error.
class audio_decoder {
 public:
  /// The header of the clip that decode() returns. (Decodes the file if only that finds the length.)
  audio_header read_header(std::span<const std::byte> file, const audio_options& options = {}) {
    audio_header found;
    decode_range(
        file,
        [&found](const audio_header& header) {
          found = header;
          return audio_range{};
        },
        options);
    return found;
  }

  /// Decodes the whole file. The samples are in the decoder's memory; they may be changed, and are valid
  /// until the decoder's next call.
  audio_clip decode(std::span<const std::byte> file, const audio_options& options = {}) {
    return decode_range(
        file,
        [](const audio_header& header) {
          return audio_range{0, header.frames};
        },
        options);
  }

  /// Decodes a part of a file. OGG and MP3 files are decoded from their beginning to the end of the part,
  /// other files from the part's first frame on.
  ///
  ///     decoder.decode_range(file, [&](const audio_header& header) {
  ///       return random_crop(header.frames, 5 * header.rate, context.random);
  ///     });
  ///
  /// Takes:   `choose(header)` returns the audio_range to decode, within the file's frames. It is called
  ///          before decoding (after it, if only that finds the length), and must not use this decoder
  /// Throws:  audio_error, also for damage before the end of the part, and for damage that leaves the length
  ///          unknown, but not for other damage after the part;
  ///          std::invalid_argument if the part isn't within the file; what `choose` throws
  template <class Choose>
  audio_clip decode_range(std::span<const std::byte> file, const Choose& choose,
                          const audio_options& options = {}) {
    if (file.empty()) detail::fail_audio("the file is empty (0 bytes); an audio file was expected");
    detail::opened_sound sound(file);
    const audio_header header = start(sound.source(), file.size(), options);
    const audio_range part = choose(header);
    return finish(sound.source(), header, part, file.size(), options);
  }

 private:
  // Finds the length, for which it decodes the whole file if necessary.
  audio_header start(detail::sound_source& source, std::size_t file_bytes, const audio_options& options);
  audio_clip finish(detail::sound_source& source, const audio_header& header, audio_range part,
                    std::size_t file_bytes, const audio_options& options);

  // Reads the wanted number of frames, or all frames, to samples_. Channels are interleaved unless mixed.
  std::size_t read_frames(detail::sound_source& source, std::optional<std::size_t> wanted,
                          std::size_t file_bytes, const audio_options& options);

  // Reads up to this frame. Returns false if the file ends before it.
  bool skip(detail::sound_source& source, std::size_t frame);

  // Reads a block of frames and mixes their channels to the mean.
  std::size_t read_mixed(detail::sound_source& source, float* to, std::size_t frames);

  // A range of the frames in samples_, made planar.
  audio_clip clip(const audio_header& header, audio_range part);

  detail::float_buffer samples_;
  detail::float_buffer interleaved_;
};

/// Decodes an audio file with a decoder that the thread keeps. The samples are valid until the thread's next
/// call. Throws audio_error, as audio_decoder does.
///
///     audio_clip clip = feedline::decode_audio(file, {.mono = false});
inline audio_clip decode_audio(std::span<const std::byte> file, const audio_options& options = {}) {
  thread_local audio_decoder decoder;
  return decoder.decode(file, options);
}

} // namespace feedline::inline FEEDLINE_ABI

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_AUDIO)
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
#endif
