// SPDX-License-Identifier: MIT
#pragma once
// Decodes audio files to samples.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>

#include <feedline/audio/audio_clip.hpp>
#include <feedline/audio/detail/float_buffer.hpp>
#include <feedline/audio/detail/sound_file.hpp>
#include <feedline/audio/detail/wav_file.hpp>

namespace feedline::inline FEEDLINE_ABI {

/// An audio file that can't be decoded. what() ends with libsndfile's message where there is one.
class audio_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Options of audio_decoder.
struct audio_options {
  /// Mix all channels to one, their mean. If not set, decode all channels, planar.
  bool mono = true;
  /// Keep the decoded frames of a file that is cut off or damaged. If not set, such a file is an audio_error.
  bool keep_truncated = false;
  /// The most samples to decode, of all channels of the file together. A file with more is refused, because a
  /// few bytes can hold hours of silence. The default allows an hour at 32 kHz, which takes half a gigabyte.
  std::uint64_t max_samples = std::uint64_t{1} << 27;
};

/// Decodes audio files one after another and reuses its memory. Keep one per thread, or call decode_audio(),
/// which keeps one for you.
///
/// Reads what libsndfile reads: WAV (integers of 8 to 32 bits, floats), FLAC, OGG (Vorbis, Opus), AIFF, …
/// Integers become multiples of 2^-7 to 2^-31 in [-1, 1); floats stay as stored. The decoder allocates memory
/// for the decoded samples, not for the length in the header: at most twice their size, and never more than
/// for audio_options::max_samples.
///
/// Decoding a WAV file of a usual format allocates nothing once the decoder's memory is large enough. For
/// other files libsndfile allocates memory for each file.
///
/// Throws audio_error for an unreadable file. The decoder stays usable.
class audio_decoder {
 public:
  /// The header of the clip that decode() returns. (Decodes the file if its header doesn't contain the
  /// length.)
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
  ///          before decoding (after it, if the header doesn't contain the length), and must not use this
  ///          decoder
  /// Throws:  audio_error, also for damage before the end of the part, but not for damage after it;
  ///          std::invalid_argument if the part isn't within the file; what `choose` throws
  template <class Choose>
  audio_clip decode_range(std::span<const std::byte> file, const Choose& choose,
                          const audio_options& options = {}) {
    if (file.empty()) fail("the file is empty (0 bytes); an audio file was expected");
    if (std::optional<detail::wav_file> wav = detail::wav_file::open(file))
      return read(*wav, file.size(), choose, options);
    detail::sound_file sound(file);
    if (!sound.is_open()) fail("can't read the file as audio: " + sound.error());
    return read(sound, file.size(), choose, options);
  }

 private:
  [[noreturn]] static void fail(const std::string& what);

  // `Source` is a wav_file or a sound_file.
  template <class Source, class Choose>
  audio_clip read(Source& source, std::size_t file_bytes, const Choose& choose,
                  const audio_options& options) {
    if (source.channels() == 0 || source.rate() == 0)
      fail("the file has " + std::to_string(source.channels()) + " channels of " +
           std::to_string(source.rate()) + " frames per second");
    audio_header header{0, options.mono ? 1 : source.channels(), source.rate()};
    const auto checked_choice = [&] {
      const audio_range part = choose(std::as_const(header));
      if (part.first > header.frames || part.frames > header.frames - part.first)
        throw std::invalid_argument("feedline::audio_decoder: the file has " + std::to_string(header.frames) +
                                    " frames; the wanted part has " + std::to_string(part.frames) +
                                    " frames from frame " + std::to_string(part.first) + " on");
      return part;
    };

    if (const std::optional<std::size_t> frames = source.frames()) {
      header.frames = *frames;
      const audio_range part = checked_choice();
      if (part.first > 0 && part.frames > 0 && !go_to(source, part.first))
        fail("the file has no frame " + std::to_string(part.first) + because(source.error()));
      header.frames = read_frames(source, part.frames, file_bytes, options);
      return clip(header, {0, header.frames});
    }
    header.frames = read_frames(source, {}, file_bytes, options);
    return clip(header, checked_choice());
  }

  // Returns false if the file ends before that frame.
  template <class Source>
  bool go_to(Source& source, std::size_t frame) {
    if (source.seeks_exactly()) return source.seek(frame);
    const std::size_t block = block_frames(source.channels());
    float* const ignored = interleaved_.reserve(block * source.channels());
    while (frame > 0) {
      const std::size_t got = source.read(ignored, std::min(frame, block));
      if (got == 0) return false;
      frame -= got;
    }
    return true;
  }

  // Reads the wanted number of frames, or all frames, to samples_. Channels are interleaved unless mixed.
  template <class Source>
  std::size_t read_frames(Source& source, std::optional<std::size_t> wanted, std::size_t file_bytes,
                          const audio_options& options) {
    const std::size_t channels = source.channels(), mixed = options.mono ? 1 : channels;
    const std::uint64_t max_frames = options.max_samples / channels;
    if (wanted && *wanted > max_frames)
      fail(std::to_string(*wanted) + " frames of " + std::to_string(channels) +
           " channels are more than audio_options::max_samples, " + std::to_string(options.max_samples) +
           "; raise it to decode them");
    const bool mixes = mixed != channels;
    // One frame over the limit, to detect a longer file.
    const std::size_t end = wanted ? *wanted : static_cast<std::size_t>(max_frames) + 1;
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
      const std::size_t read = mixes ? read_mixed(source, samples_.data() + got, count)
                                     : source.read(samples_.data() + got * channels, count);
      if (read == 0) break;
      got += read;
    }
    if (!wanted && got > max_frames)
      fail("the file has more samples than audio_options::max_samples, " +
           std::to_string(options.max_samples) + "; raise it to decode them");
    if (!options.keep_truncated || got == 0) check_end(source, got, wanted);
    return got;
  }

  template <class Source>
  static void check_end(const Source& source, std::size_t got, std::optional<std::size_t> wanted) {
    const std::string error = source.error();
    if (error.empty() && (!wanted || got == *wanted || (source.length_is_estimate() && got > 0))) return;
    fail("the file is cut off or damaged: only " + std::to_string(got) +
         (wanted ? " of " + std::to_string(*wanted) : "") + " frames can be decoded" + because(error) +
         (got == 0 ? "" : "; to keep them, set audio_options::keep_truncated"));
  }

  static std::size_t block_frames(std::size_t channels) noexcept {
    return std::max<std::size_t>(1, 16384 / channels);
  }

  static std::string because(const std::string& error);

  // Reads a block of frames and mixes their channels to the mean.
  template <class Source>
  std::size_t read_mixed(Source& source, float* to, std::size_t frames) {
    const std::size_t channels = source.channels();
    const std::size_t block = block_frames(channels);
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

#ifndef FEEDLINE_COMPILED
#include <feedline/audio/audio_decoder.ipp>
#endif
