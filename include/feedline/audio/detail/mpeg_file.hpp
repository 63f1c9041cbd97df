// SPDX-License-Identifier: MIT
#pragma once
// MP3 files.
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#ifdef FEEDLINE_AUDIO_MPG123
#include <mpg123.h>
#endif

#include <feedline/audio/audio_error.hpp>
#include <feedline/audio/detail/byte_stream.hpp>
#include <feedline/audio/detail/sound_source.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// The header of an MPEG audio frame (layers 1 to 3). Source: ISO 11172-3 and 13818-3.
struct mpeg_header {
  std::uint32_t bits = 0;
  std::size_t size = 0; ///< of the frame, in bytes

  /// `free_size`: of the frames of a file whose headers don't say the bit rate, see free_size_at().
  static std::optional<mpeg_header> at(sound_bytes file, std::size_t at, std::size_t free_size = 0) noexcept {
    if (at > file.size() || file.size() - at < 4) return {};
    mpeg_header found{static_cast<std::uint32_t>(big_endian(file, at, 4))};
    const unsigned version = found.bits >> 19 & 3, layer = 4 - (found.bits >> 17 & 3);
    const std::size_t bit_rate = found.bits >> 12 & 15, rate = found.bits >> 10 & 3;
    if (found.bits >> 21 != 0x7ff || version == 1 || layer == 4 || bit_rate == 15 || rate == 3 ||
        (bit_rate == 0 && free_size == 0))
      return {};
    // In 8 kbit/s.
    static constexpr std::uint8_t bit_rates[5][15] = {
        {0, 4, 8, 12, 16, 20, 24, 28, 32, 36, 40, 44, 48, 52, 56},
        {0, 4, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48},
        {0, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40},
        {0, 4, 6, 7, 8, 10, 12, 14, 16, 18, 20, 22, 24, 28, 32},
        {0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 18, 20}};
    static constexpr std::size_t rates[3] = {44100, 48000, 32000};
    const bool is_first = version == 3; // MPEG 1, and not 2 or 2.5
    const std::size_t padding = found.bits >> 9 & 1;
    const std::size_t row = is_first ? layer - 1 : layer == 1 ? 3 : 4;
    const std::size_t bits_per_second = std::size_t{8000} * bit_rates[row][bit_rate];
    const std::size_t frames_per_second = rates[rate] >> (is_first ? 0 : version == 2 ? 1 : 2);
    if (bit_rate == 0) found.size = free_size + padding * (layer == 1 ? 4 : 1);
    else if (layer == 1) found.size = (12 * bits_per_second / frames_per_second + padding) * 4;
    else found.size = (layer == 3 && !is_first ? 72 : 144) * bits_per_second / frames_per_second + padding;
    return found;
  }

  /// Whether the version, layer and rate are the same.
  bool is_like(const mpeg_header& other) const noexcept { return ((bits ^ other.bits) & alike) == 0; }

  static constexpr std::uint32_t alike = 0xfffe0c00; ///< the bits of the version, layer and rate

  /// The size of frames without padding in a file whose headers don't say the bit rate ("free format"), if three such
  /// frames, or two at the end, begin at `at`; 0 otherwise.
  static std::size_t free_size_at(sound_bytes file, std::size_t at) noexcept {
    constexpr std::size_t least = 24, most = 8192; // bytes
    const auto first = mpeg_header::at(file, at, least);
    if (!first || (first->bits >> 12 & 15) != 0) return 0;
    for (std::size_t size = least; size <= most && at + size < file.size(); ++size) {
      if (file[at + size] != std::byte{0xff}) continue;
      const std::size_t base = size - (first->size - least);
      const auto is_next = [&](std::size_t begin) {
        const auto next = mpeg_header::at(file, begin, base);
        return next && first->is_like(*next) && (next->bits >> 12 & 15) == 0 ? next->size : 0;
      };
      const std::size_t second = is_next(at + size), end = at + size + second;
      if (second > 0 && (end == file.size() || is_next(end) > 0)) return base;
    }
    return 0;
  }

  /// Where the first frame begins that another one, or the end, follows: at `begin`, or in the `search` bytes
  /// after it. Returns nullopt if there is none.
  static std::optional<std::size_t> find(sound_bytes file, std::size_t begin, std::size_t search) noexcept {
    int tries = most_tries;
    return find(file, begin, search, tries);
  }

  static constexpr int most_tries =
      64; ///< of free_size_at(), which takes longer, for bytes that only look like a header

  static std::optional<std::size_t> find(sound_bytes file, std::size_t begin, std::size_t search,
                                         int& tries) noexcept {
    for (std::size_t at = begin; at < file.size() && at - begin <= search; ++at)
      if (const auto first = mpeg_header::at(file, at)) {
        const std::size_t end = at + first->size;
        if (end == file.size()) return at;
        const auto next = mpeg_header::at(file, end);
        if (next && first->is_like(*next)) return at;
      } else if (tries > 0 && mpeg_header::at(file, at, 1)) {
        if (free_size_at(file, at) > 0) return at;
        --tries;
      }
    return {};
  }
};

#ifdef FEEDLINE_AUDIO_MPG123
/// Decoded by libmpg123. libsndfile guesses the length of a file without a Xing header, and ends there.
class mpeg_file final : public sound_source {
 public:
  mpeg_file(sound_bytes file, std::string damage) : stream_{{}, file}, file_(nullptr, mpg123_delete) {
    static const int initialized = mpg123_init(); // needed before version 1.27
    file_.reset(initialized == MPG123_OK ? mpg123_new(nullptr, nullptr) : nullptr);
    if (!file_) fail_audio("libmpg123 can't be used");
    set(MPG123_REMOVE_FLAGS, MPG123_AUTO_RESAMPLE | MPG123_FUZZY | MPG123_GAPLESS);
    set(MPG123_ADD_FLAGS, MPG123_QUIET | MPG123_SKIP_ID3V2);
    set(MPG123_RESYNC_LIMIT, -1);
    const auto read = [](void* from, void* to, std::size_t count) {
      return static_cast<ssize_t>(static_cast<byte_stream*>(from)->read(to, count));
    };
    const auto seek = [](void* in, off_t offset, int from) {
      return static_cast<off_t>(static_cast<byte_stream*>(in)->seek(offset, from));
    };
    if (mpg123_format_none(file_.get()) != MPG123_OK ||
        mpg123_format2(file_.get(), 0, MPG123_MONO | MPG123_STEREO, MPG123_ENC_FLOAT_32) != MPG123_OK ||
        mpg123_replace_reader_handle(file_.get(), read, seek, nullptr) != MPG123_OK)
      fail();
    // libmpg123 would decode the part of a block that is left, and count it.
    const auto [cut, missing] = find_faults(file);
    if (cut) stream_.bytes = file.first(*cut);
    open();
    const auto blocks = mpg123_framelength(file_.get());
    const auto [stated_blocks, stated_bytes] = find_stated(file);
    const auto stated = static_cast<std::remove_const_t<decltype(blocks)>>(stated_blocks);
    facts_.damage = std::move(damage);
    if (!facts_.damage.empty()) {
      // of the WAV file around it
    } else if (blocks + 1 < stated || (blocks + 1 == stated && file.size() < stated_bytes)) {
      // Some encoders count the first one.
      facts_.damage =
          "its header says " + std::to_string(stated) + " blocks, and it has " + std::to_string(blocks);
    } else if (cut) {
      facts_.damage = "it is cut off in the block at byte " + std::to_string(*cut);
    } else if (!missing.empty()) {
      facts_.damage = missing;
    } else {
      // The header says what the encoder added at both ends, if it is that of the whole file.
      if (blocks == stated) {
        set(MPG123_ADD_FLAGS, MPG123_GAPLESS);
        open();
      }
      if (const auto length = mpg123_length(file_.get()); length >= 0)
        facts_.frames = static_cast<std::size_t>(length);
    }
    // Joined files may differ.
    set(MPG123_ADD_FLAGS, facts_.channels == 1 ? MPG123_MONO_MIX : MPG123_FORCE_STEREO);
  }

  // libmpg123's decoder has a memory.
  bool seek(std::size_t) override { return false; }

  std::size_t read(float* to, std::size_t frames) override {
    const std::size_t frame_bytes = facts_.channels * sizeof(float);
    while (error_.empty()) {
      std::size_t got = 0;
      const int outcome = mpg123_read(file_.get(), to, frames * frame_bytes, &got);
      if (outcome == MPG123_NEW_FORMAT) {
        long rate = 0;
        int channels = 0, encoding = 0;
        mpg123_getformat(file_.get(), &rate, &channels, &encoding);
        if (rate != static_cast<long>(facts_.rate) || channels != static_cast<int>(facts_.channels))
          error_ = "it continues with " + std::to_string(channels) + " channels of " + std::to_string(rate) +
                   " frames per second instead of " + std::to_string(facts_.channels) + " of " +
                   std::to_string(facts_.rate);
      } else if (outcome != MPG123_OK && outcome != MPG123_DONE) {
        error_ = mpg123_strerror(file_.get());
      }
      if (got > 0 || outcome == MPG123_DONE) return got / frame_bytes;
    }
    return 0;
  }

  std::string error() const override { return error_; }

 private:
  void set(mpg123_parms parameter, long value) {
    if (mpg123_param(file_.get(), parameter, value, 0) != MPG123_OK) fail();
  }

  void open() {
    stream_.position = 0;
    long rate = 0;
    int channels = 0, encoding = 0;
    if (mpg123_open_handle(file_.get(), &stream_) != MPG123_OK ||
        mpg123_getformat(file_.get(), &rate, &channels, &encoding) != MPG123_OK ||
        mpg123_scan(file_.get()) != MPG123_OK)
      fail();
    facts_.channels = static_cast<std::size_t>(channels);
    facts_.rate = static_cast<std::size_t>(rate);
  }

  [[noreturn]] void fail() const {
    fail_audio(std::string("libmpg123 can't open the MPEG audio file: ") + mpg123_strerror(file_.get()));
  }

  // What many encoders write into the first frame; 0 if it isn't there. Source: Xing.
  struct stated_size {
    std::uint64_t blocks = 0;
    std::uint64_t bytes = 0;
  };

  static stated_size find_stated(sound_bytes file) noexcept {
    const auto header = mpeg_header::at(file, 0);
    if (!header || (header->bits >> 17 & 3) != 1) return {};
    const bool is_first = (header->bits >> 19 & 3) == 3, is_mono = (header->bits >> 6 & 3) == 3;
    const std::size_t at = 4 + (is_first ? (is_mono ? 17 : 32) : (is_mono ? 9 : 17));
    if ((!has_text(file, at, "Xing") && !has_text(file, at, "Info")) || at + 16 > file.size()) return {};
    const std::uint64_t fields = big_endian(file, at + 4, 4);
    if ((fields & 1) == 0) return {};
    return {big_endian(file, at + 8, 4), (fields & 2) != 0 ? big_endian(file, at + 12, 4) : 0};
  }

  struct faults {
    std::optional<std::size_t> cut; // where the last frame begins if the file is cut off in it
    std::string missing;            // what isn't a frame among the frames; empty if there is nothing
  };

  // Follows the chain of headers. libmpg123 passes over what isn't a frame without a word.
  static faults find_faults(sound_bytes file) {
    faults found;
    std::optional<mpeg_header> last;
    int tries = mpeg_header::most_tries;
    std::size_t free_size = mpeg_header::free_size_at(file, 0);
    for (std::size_t at = 0; at < file.size();) {
      const auto block = mpeg_header::at(file, at, free_size);
      const std::size_t rest = file.size() - at;
      if (block && block->size <= rest) {
        at += block->size;
        last = block;
        continue;
      }
      if (last && (block ? last->is_like(*block) : rest < 4 && file[at] == std::byte{0xff})) {
        found.cut = at;
        break;
      }
      // A tag, the end, or damage.
      const auto next = mpeg_header::find(file, at + 1, rest, tries);
      const sound_bytes gap = file.subspan(at, next.value_or(file.size()) - at);
      if (last && found.missing.empty() &&
          (next ? !is_between_files(gap, file.subspan(*next)) : begins_with_damage(gap, *last)))
        found.missing = std::to_string(gap.size()) + " bytes at byte " + std::to_string(at) +
                        " aren't MPEG audio, in place of about " +
                        std::to_string(std::max<std::size_t>(1, (gap.size() + last->size / 2) / last->size)) +
                        " blocks";
      if (!next) break;
      at = *next;
      free_size = mpeg_header::free_size_at(file, at);
      last = {};
    }
    return found;
  }

  // Whether bytes between frames can be those between joined files: a tag, or zeros before a file that has a header.
  static bool is_between_files(sound_bytes gap, sound_bytes next) noexcept {
    for (const std::string_view tag : {"ID3", "TAG", "APETAGEX", "LYRICSBEGIN"})
      if (has_text(gap, 0, tag)) return true;
    return find_stated(next).blocks > 0 &&
           std::ranges::all_of(gap, [](std::byte b) { return b == std::byte(); });
  }

  // Whether bytes after the last frame were another one, with a header of which a few bits have changed.
  static bool begins_with_damage(sound_bytes rest, const mpeg_header& last) noexcept {
    if (rest.size() < 4) return false;
    const auto bits = static_cast<std::uint32_t>(big_endian(rest, 0, 4));
    return std::popcount((bits ^ last.bits) & mpeg_header::alike) <= 2;
  }

  byte_stream stream_;
  std::unique_ptr<mpg123_handle, void (*)(mpg123_handle*)> file_;
  std::string error_;
};
#endif

/// Opens bytes that begin with an MPEG audio frame. `damage` is that of the file around them, or an empty text.
/// Throws audio_error.
inline std::unique_ptr<sound_source> open_mpeg([[maybe_unused]] sound_bytes file,
                                               [[maybe_unused]] std::string damage = {}) {
#ifdef FEEDLINE_AUDIO_MPG123
  return std::make_unique<mpeg_file>(file, std::move(damage));
#else
  fail_audio(
      "the file is MP3 or another MPEG audio file; to read it, build feedline with libmpg123 (on Debian its "
      "package is libmpg123-dev), or convert it to FLAC or WAV");
#endif
}

} // namespace feedline::inline FEEDLINE_ABI::detail
