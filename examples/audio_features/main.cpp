// SPDX-License-Identifier: MIT
// Writes the spectrograms of all clips in Arrow files to one file, in the order of the clips. The bytes are
// the same for any number of workers. `--help` lists the flags; write_features() has the pipeline.
#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <optional>
#include <span>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <fnmatch.h>
#include <unistd.h>

#include <feedline/arrow.hpp>
#include <feedline/audio.hpp>
#include <feedline/feedline.hpp>

namespace fl = feedline;

namespace {

class usage_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct options {
  std::vector<std::string> input;
  std::string column = "audio", recipe = "mel", out;
  std::size_t rate = 32'000, mels = 128, fft = 1024, window = 0, hop = 320;
  double seconds = 5;
  std::size_t workers = fl::processors();
  bool help = false;

  std::size_t clip_length() const { return static_cast<std::size_t>(seconds * static_cast<double>(rate)); }

  fl::mel_options spectrogram() const {
    fl::mel_options o;
    if (recipe == "kaldi") o = fl::kaldi_filter_bank(static_cast<double>(rate));
    o.sample_rate = static_cast<double>(rate);
    o.fft_length = fft;
    if (window > 0) o.window_length = window;
    o.hop_length = hop;
    o.mels = mels;
    return o;
  }
};

constexpr std::string_view help_text =
    R"(Writes spectrograms of the clips in Arrow files: 32-bit floats in C order, [clips, mels, frames], or [clips, frames, mels]
with the Kaldi recipe. Writes the shape to a second file, which has .json added to its name.

  --input FILE…        Arrow files, Arrow streams, or patterns
  --column NAME        column of the encoded clips (WAV, FLAC or OGG): bytes, or a struct with a field `bytes` (audio)
  --recipe mel|kaldi   mel: power as in torchaudio; kaldi: Kaldi's logarithmic filter bank (mel)
  --rate HZ            sample rate to which clips are resampled (32000)
  --seconds S          length to which clips are center-cropped or padded (5)
  --mels N             number of mel filters (128)
  --fft N, --hop N     samples in each transform (1024), and from one transform to the next (320)
  --window N           samples in a frame before it is padded to --fft (mel: --fft; kaldi: 25 ms)
  --workers N          worker threads (one per processor)
  --out FILE           output file
  --help               print this text
)";

options read_options(const std::vector<std::string>& arguments) {
  options o;
  for (std::size_t i = 0; i < arguments.size();) {
    const std::string flag = arguments[i++];
    const auto at_value = [&] { return i < arguments.size() && !arguments[i].starts_with("--"); };
    const auto text = [&] {
      if (!at_value()) throw usage_error(flag + " needs a value");
      return arguments[i++];
    };
    const auto number = [&]<class Number>(Number& into, Number max) {
      const std::string given = text();
      const auto [end, error] = std::from_chars(given.data(), given.data() + given.size(), into);
      if (error != std::errc() || end != given.data() + given.size() || !(into > 0 && into <= max))
        throw usage_error(flag + " needs a number above 0 and up to " + std::to_string(max) + ", not `" +
                          given + "`");
    };
    if (flag == "--input") {
      o.input.push_back(text());
      while (at_value()) o.input.push_back(arguments[i++]);
    } else if (flag == "--column") o.column = text();
    else if (flag == "--recipe") {
      o.recipe = text();
      if (o.recipe != "mel" && o.recipe != "kaldi")
        throw usage_error("--recipe needs `mel` or `kaldi`, not `" + o.recipe + "`");
    } else if (flag == "--rate") number(o.rate, std::size_t{10'000'000});
    else if (flag == "--seconds") number(o.seconds, 3600.0);
    else if (flag == "--mels") number(o.mels, std::size_t{16'384});
    else if (flag == "--fft") number(o.fft, std::size_t{1} << 24);
    else if (flag == "--window") number(o.window, std::size_t{1} << 24);
    else if (flag == "--hop") number(o.hop, std::size_t{1} << 24);
    else if (flag == "--workers") number(o.workers, fl::workers::limit);
    else if (flag == "--out") o.out = text();
    else if (flag == "--help") o.help = true;
    else throw usage_error("unknown flag " + flag);
  }
  if (o.help) return o;
  if (o.input.empty()) throw usage_error("--input is missing");
  if (o.out.empty()) throw usage_error("--out is missing");
  for (const std::string& input : o.input) {
    std::error_code ignored;
    if (std::filesystem::equivalent(input, o.out, ignored) ||
        ::fnmatch(input.c_str(), o.out.c_str(), FNM_PATHNAME) == 0)
      throw usage_error("--out " + o.out + " would overwrite a file of --input");
  }
  return o;
}

/// Returns the number of clips written.
std::uint64_t write_features(const options& o, const fl::mel_spectrogram& spectrogram,
                             const std::stop_token& stop) {
  const std::size_t length = o.clip_length(), frames = spectrogram.frames(length);
  const auto make = fl::per_worker([&spectrogram, length, rate = o.rate] {
    return [&spectrogram, rate, samples = std::vector<float>(length), decoder = fl::audio_decoder(),
            resampler = fl::audio_resampler()](const fl::arrow_row<std::span<const std::byte>>& row,
                                               fl::batch_slot<fl::tensor<float>>& slot) mutable {
      const fl::audio_clip clip = resampler.resample(decoder.decode(*row), rate);
      fl::center_crop_or_pad(clip.samples, samples);
      spectrogram(samples, slot.value());
    };
  });
  const auto clips = fl::arrow_rows<std::span<const std::byte>>(o.input, {o.column});
  // Several batches are in memory at once: each holds 64 MB, or one spectrogram if that is larger.
  const std::size_t bytes = spectrogram.mels() * frames * sizeof(float);
  const std::size_t batch_size = std::clamp<std::size_t>((std::size_t{64} << 20) / bytes, 1, 64);
  const auto pipeline =
      clips | fl::batch_into<fl::tensor<float>>(batch_size, make, fl::shapes{{{spectrogram.mels(), frames}}},
                                                fl::workers{o.workers}, fl::name{"spectrogram"});
  // The metadata of files has the number of rows; a pipe has none.
  const std::uint64_t all = (clips | fl::global_shuffle() | fl::prefetch(1)).size().value_or(0);
  std::ofstream file(o.out, std::ios::binary);
  if (!file) throw std::runtime_error("can't write " + o.out);
  const bool is_terminal = ::isatty(STDERR_FILENO) != 0;
  std::uint64_t written = 0;
  for (const auto& batch : pipeline.finite({.stop = stop})) {
    const auto& values = batch.values();
    file.write(reinterpret_cast<const char*>(values.data()),
               static_cast<std::streamsize>(values.size() * sizeof(float)));
    if (!file) throw std::runtime_error("can't write " + o.out);
    written += batch.size();
    if (is_terminal || written == all)
      std::fprintf(
          stderr, "%s%llu of %llu clips%s", is_terminal ? "\r" : "", static_cast<unsigned long long>(written),
          static_cast<unsigned long long>(std::max(all, written)), is_terminal && written < all ? "" : "\n");
  }
  if (!file.flush()) throw std::runtime_error("can't write " + o.out);

  const bool by_mels = spectrogram.options().layout == fl::spectrogram_layout::mels_frames;
  const std::size_t rows = by_mels ? spectrogram.mels() : frames,
                    columns = by_mels ? frames : spectrogram.mels();
  std::ofstream shape(o.out + ".json");
  shape << "{\"shape\": [" << written << ", " << rows << ", " << columns << "], \"axes\": [\"clips\", \""
        << (by_mels ? "mels\", \"frames" : "frames\", \"mels")
        << "\"], \"type\": \"float32\", \"order\": \"C\", \"rate\": " << o.rate << "}\n";
  if (!shape.flush()) throw std::runtime_error("can't write " + o.out + ".json");
  return written;
}

} // namespace

int main(int count, char** arguments) {
  try {
    const options o = read_options({arguments + 1, arguments + count});
    if (o.help) {
      std::fputs(help_text.data(), stdout);
      return 0;
    }
    const fl::stop_on_signal interrupt(SIGINT, SIGTERM);
    const fl::mel_spectrogram spectrogram(o.spectrogram());
    if (spectrogram.frames(o.clip_length()) == 0)
      throw std::invalid_argument("a clip of " + std::to_string(o.clip_length()) +
                                  " samples is shorter than one window: raise --seconds");
    const std::uint64_t written = write_features(o, spectrogram, interrupt.token());
    std::printf("wrote %llu spectrograms to %s\n", static_cast<unsigned long long>(written), o.out.c_str());
    return interrupt.signal() != 0 ? 128 + interrupt.signal() : 0; // the shells' convention
  } catch (const usage_error& error) {
    std::fprintf(stderr, "audio_features: %s (--help lists the flags)\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "audio_features: %s\n", error.what());
    return 1;
  }
}
