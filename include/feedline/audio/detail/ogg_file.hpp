// SPDX-License-Identifier: MIT
#pragma once
// OGG files: their pages, and the streams that follow each other in a file.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <feedline/audio/audio_error.hpp>
#include <feedline/audio/detail/sound_file.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// An OGG file with one or more streams of sound after each other, which libsndfile decodes one by one (by
/// itself it reads only the first). Checks that each is complete. Source of the layout: RFC 3533.
class ogg_file final : public sound_source {
 public:
  /// Throws audio_error if the first stream can't be read.
  explicit ogg_file(sound_bytes file) {
    find_links(file);
    try {
      link_ = std::make_unique<sound_file>("OGG", std::vector<std::byte>(), links_[next_++]);
    } catch (const audio_error&) {
      if (other_codec_.empty()) throw;
      fail_audio("the file is " + other_codec_ +
                 " in OGG, which isn't supported; convert it to FLAC or WAV, for example with ffmpeg");
    }
    std::string damage = std::move(facts_.damage);
    facts_ = link_->facts();
    if (links_.size() > 1 || !damage.empty()) facts_.frames.reset();
    facts_.damage = std::move(damage);
  }

  bool seek(std::size_t) override { return false; }

  std::size_t read(float* to, std::size_t frames) override {
    for (;;) {
      const std::size_t got = link_->read(to, frames);
      if (got > 0 || next_ == links_.size() || !error().empty()) return got;
      // A damaged stream doesn't open. What libsndfile says isn't better than the position.
      std::unique_ptr<sound_file> next;
      try {
        next = std::make_unique<sound_file>("OGG", std::vector<std::byte>(), links_[next_++]);
      } catch (const audio_error& failure) {
        error_ = "stream " + std::to_string(next_) + ": " + failure.what();
        return 0;
      }
      if (next->facts().channels != facts_.channels || next->facts().rate != facts_.rate)
        error_ = "it consists of several streams, and stream " + std::to_string(next_) + " has " +
                 std::to_string(next->facts().channels) + " channels of " +
                 std::to_string(next->facts().rate) + " frames per second instead of " +
                 std::to_string(facts_.channels) + " of " + std::to_string(facts_.rate);
      else link_ = std::move(next);
    }
  }

  std::string error() const override { return error_.empty() ? link_->error() : error_; }

 private:
  // Finds the links of the chain, and damage.
  void find_links(sound_bytes file) {
    struct stream {
      std::uint64_t serial;
      std::uint64_t next_page;
      bool is_sound;
      bool is_open; // its last page is still to come
    };

    std::vector<stream> streams; // those of one link
    std::size_t begin = 0;
    const auto note = [&](const std::string& what, std::size_t at) {
      if (facts_.damage.empty()) facts_.damage = what + " byte " + std::to_string(at);
    };
    const auto finish = [&](std::size_t end) {
      if (end > begin) links_.push_back(file.subspan(begin, end - begin));
      begin = end;
      for (const stream& s : streams)
        if (s.is_open) note("the page that ends a stream is missing before", end);
      streams.clear();
    };

    const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
    bool only_beginnings = false; // of the streams of a link
    int damaged = 0;              // pages
    for (std::size_t at = 0, size = 0; (at = text.find("OggS", at)) != text.npos; at += size) {
      const sound_bytes rest = file.subspan(at);
      size = rest.size();
      const std::size_t segments = rest.size() < 27 ? rest.size() : std::to_integer<std::size_t>(rest[26]);
      if (27 + segments <= rest.size()) {
        size = 27 + segments;
        for (const std::byte b : rest.subspan(27, segments)) size += std::to_integer<std::size_t>(b);
      }
      if (27 + segments > rest.size() || size > rest.size()) {
        // With a part of a page after it, libsndfile doesn't decode the end of a stream.
        if (facts_.damage.empty() && at > begin) file = file.first(at);
        note("it is cut off in the page at", at);
        break;
      }
      const sound_bytes page = rest.first(size);
      if (checksum(page) != little_endian(page, 22, 4)) {
        note("there is a damaged page at", at);
        if (++damaged == 16) break; // the search for the next page would take too long
        size = 4;                   // its size may be wrong, too
        continue;
      }
      const auto flags = std::to_integer<unsigned>(page[5]);
      const std::uint64_t serial = little_endian(page, 14, 4), number = little_endian(page, 18, 4);
      if ((flags & 2) != 0) { // begins a stream
        if (!only_beginnings) finish(at);
        if (streams.size() == 64) fail_audio("the OGG file is damaged, or has more than 64 streams at once");
        const auto begins = [&](std::string_view codec) { return has_text(page, 27 + segments, codec); };
        const std::string_view other = begins("\x7f"
                                              "FLAC")
                                           ? "FLAC"
                                       : begins("Speex") ? "Speex"
                                                         : "";
        if (other_codec_.empty()) other_codec_ = other;
        const bool is_sound = begins("\x01vorbis") || begins("OpusHead") || !other.empty();
        streams.push_back({serial, number, is_sound, is_sound});
      }
      only_beginnings = (flags & 2) != 0;
      const auto found =
          std::find_if(streams.begin(), streams.end(), [&](const stream& s) { return s.serial == serial; });
      if (found == streams.end() || (found->is_sound && number != found->next_page))
        note("pages are missing before", at);
      if (found == streams.end()) continue;
      found->next_page = (number + 1) & 0xffffffff;
      if ((flags & 4) != 0) found->is_open = false;
    }
    finish(file.size());
  }

  static std::uint32_t checksum(sound_bytes page) noexcept {
    static constexpr auto table = [] {
      std::array<std::uint32_t, 256> all{};
      for (std::uint32_t i = 0; i < 256; ++i) {
        std::uint32_t value = i << 24;
        for (int bit = 0; bit < 8; ++bit) value = value << 1 ^ ((value >> 31) != 0 ? 0x04c11db7 : 0);
        all[i] = value;
      }
      return all;
    }();
    std::uint32_t crc = 0;
    for (std::size_t i = 0; i < page.size(); ++i) {
      const bool is_checksum = i >= 22 && i < 26;
      crc = crc << 8 ^ table[crc >> 24 ^ (is_checksum ? 0 : std::to_integer<std::uint32_t>(page[i]))];
    }
    return crc;
  }

  std::vector<sound_bytes> links_;
  std::size_t next_ = 0; // the link after the one that is read
  std::unique_ptr<sound_file> link_;
  std::string other_codec_; // that libsndfile may not read
  std::string error_;
};

} // namespace feedline::inline FEEDLINE_ABI::detail
