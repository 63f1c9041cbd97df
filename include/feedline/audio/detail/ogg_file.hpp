// SPDX-License-Identifier: MIT
#pragma once
// OGG files: their pages, and the streams that follow each other in a file.
#include <memory>
#include <vector>

#include <feedline/audio/detail/sound_file.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// An OGG file with one or more streams of sound after each other, which libsndfile decodes one by one (by
/// itself it reads only the first). Checks that each is complete. Source of the layout: RFC 3533.
class ogg_file final : public sound_source {
 public:
  /// Throws audio_error if the first stream can't be read.
  explicit ogg_file(sound_bytes file);

  bool seek(std::size_t) override { return false; }

  std::size_t read(float* to, std::size_t frames) override;
  std::string error() const override;

 private:
  // Finds the links of the chain, and damage.
  void find_links(sound_bytes file);

  static std::uint32_t checksum(sound_bytes page) noexcept;

  std::vector<sound_bytes> links_;
  std::size_t next_ = 0; // the link after the one that is read
  std::unique_ptr<sound_file> link_;
  std::string error_;
};

} // namespace feedline::inline FEEDLINE_ABI::detail

#ifndef FEEDLINE_COMPILED
#include <feedline/audio/detail/ogg_file.ipp>
#endif
