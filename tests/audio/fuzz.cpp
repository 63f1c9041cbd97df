// SPDX-License-Identifier: MIT
// Decodes libFuzzer's bytes as a sound file, whole and in parts, which must agree. Start it with sound files of
// all formats as its corpus, preferably short ones. An input that takes longer than 10 seconds is a failure.
#include <feedline/audio.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

namespace fl = feedline;

// libsndfile 1.2 leaks memory of libvorbis for each Vorbis file with damaged headers.
extern "C" const char* __lsan_default_suppressions();

extern "C" const char* __lsan_default_suppressions() { return "leak:libvorbis\n"; }

extern "C" int LLVMFuzzerInitialize(int* count, char*** arguments);

extern "C" int LLVMFuzzerInitialize(int* count, char*** arguments) {
  static char limit[] = "-timeout=10";
  static std::vector<char*> all(*arguments, *arguments + *count);
  all.insert(all.begin() + 1, limit); // first, so that the user's value wins
  all.push_back(nullptr);
  *arguments = all.data();
  ++*count;
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static fl::audio_decoder decoder;
  // A copy, so that AddressSanitizer knows its end.
  const auto bytes = std::as_bytes(std::span(data, size));
  const std::vector<std::byte> file(bytes.begin(), bytes.end());
  for (const bool keep : {false, true}) try {
      const fl::audio_options options{.mono = size % 2 == 0, .keep_truncated = keep, .max_samples = 1 << 20};
      const fl::audio_header header = decoder.read_header(file, options);
      if (header.frames > options.max_samples) continue;
      const fl::audio_clip all = decoder.decode(file, options);
      const std::vector<float> whole(all.samples.begin(), all.samples.end());
      const std::size_t frames = all.frames;
      const fl::audio_range part{frames / 3, frames / 2};
      const fl::audio_clip some = decoder.decode_range(
          file, [&](const fl::audio_header&) { return part; }, options);
      if (keep) continue; // damage inside may leave different frames
      if (frames != header.frames || some.frames != part.frames) std::abort();
      for (std::size_t c = 0; c < some.channels; ++c)
        for (std::size_t i = 0; i < part.frames; ++i)
          if (some.channel(c)[i] != whole[c * frames + part.first + i]) std::abort();
    } catch (const fl::audio_error&) {
    }
  return 0;
}
