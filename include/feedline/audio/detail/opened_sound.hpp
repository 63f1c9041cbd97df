// SPDX-License-Identifier: MIT
#pragma once
// Opens sound files by their first bytes.
#include <memory>
#include <optional>

#include <feedline/audio/detail/sound_source.hpp>
#include <feedline/audio/detail/wav_file.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// The decoder of a sound file in memory, which must outlive the object.
class opened_sound {
 public:
  /// Throws audio_error.
  explicit opened_sound(sound_bytes file);

  sound_source& source() noexcept { return wav_ ? *wav_ : *other_; }

 private:
  void open_chunks(sound_bytes file, const sound_chunks& chunks);
  void open_au(sound_bytes file);
  void open_nist(sound_bytes file);

  // Skips tags and zeros at the beginning.
  static std::size_t begin_of_sound(sound_bytes file);

  // `sound` is what follows tags and zeros.
  [[noreturn]] static void refuse(sound_bytes all, sound_bytes sound);

  std::optional<wav_file> wav_; // here, so that plain WAV files need no memory
  std::unique_ptr<sound_source> other_;
};

} // namespace feedline::inline FEEDLINE_ABI::detail

#ifndef FEEDLINE_COMPILED
#include <feedline/audio/detail/opened_sound.ipp>
#endif
