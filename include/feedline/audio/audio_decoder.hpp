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

#ifndef FEEDLINE_COMPILED
#include <feedline/audio/audio_decoder.ipp>
#endif
