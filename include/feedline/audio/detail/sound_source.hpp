// SPDX-License-Identifier: MIT
#pragma once
// What audio_decoder reads samples from.
#include <cstddef>
#include <optional>
#include <string>

#include <feedline/version.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// What is known of a file before it is decoded.
struct sound_facts {
  std::size_t channels = 0;
  std::size_t rate = 0;
  bool has_floats = true;                     ///< which may be NaN or infinite
  std::optional<std::size_t> frames;          ///< the length; nullopt if only decoding finds it
  std::optional<std::size_t> readable_frames; ///< if the file is cut off or damaged: those that it has
  std::string damage;                         ///< why the file can't be whole, or an empty text
};

class sound_source {
 public:
  virtual ~sound_source() = default;

  const sound_facts& facts() const noexcept { return facts_; }

  /// Goes to this frame. Returns false, and stays at the first one, if reading from there might give other
  /// samples, even in the last bit, than reading from the beginning.
  virtual bool seek(std::size_t frame) = 0;

  /// Reads frames with interleaved channels. Returns fewer than requested only at the end, which may be at any
  /// frame, and before damage.
  virtual std::size_t read(float* to, std::size_t frames) = 0;

  /// The reason why reading ended, or an empty text.
  virtual std::string error() const { return {}; }

 protected:
  sound_source() = default;
  sound_source(sound_source&&) = default;
  sound_source& operator=(sound_source&&) = default;

  sound_facts facts_;
};

} // namespace feedline::inline FEEDLINE_ABI::detail
