// SPDX-License-Identifier: MIT
// A Python class that reads clips from Arrow files and yields batches of mel spectrograms:
//
//     for batch in feedline.audio.Loader(["clips-*.arrow"], seed=7): step(batch["spectrogram"], batch["label"])
//
// pipeline_of() has the pipeline; below it are the names and defaults of its parameters.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <vector>

#include <feedline/arrow.hpp>
#include <feedline/audio.hpp>
#include <feedline/feedline.hpp>
#include <feedline/python.hpp>

#include "parts.hpp"

namespace fl = feedline;
namespace py = pybind11;

namespace {

/// The columns that are read from a row.
struct clip {
  std::span<const std::byte>
      audio; // an encoded file; or a struct with a field `bytes`, as Hugging Face stores it
  std::optional<std::int64_t> label;
};

/// What Python receives, as arrays.
struct example {
  fl::tensor<float> spectrogram; // [mels, frames], in decibels
  std::int64_t label;            // -1: the row has none
  std::int64_t index;            // of the sample, the same in each epoch
};

/// Decodes, resamples, crops or pads clips and computes their spectrograms. Each worker has one and reuses its memory.
class spectrogram_maker {
 public:
  spectrogram_maker(const fl::mel_spectrogram& spectrogram, std::size_t clip_length, bool augment)
      : spectrogram_(spectrogram),
        rate_(static_cast<std::size_t>(spectrogram.options().sample_rate)),
        samples_(clip_length),
        augment_(augment) {}

  void operator()(const fl::arrow_row<clip>& row, fl::batch_slot<example>& slot, fl::context& context) {
    if (augment_) random_part(row->audio, context.random);
    else fl::center_crop_or_pad(resampler_.resample(decoder_.decode(row->audio), rate_).samples, samples_);
    spectrogram_(samples_, slot.get<&example::spectrogram>());
    slot.get<&example::label>() = row->label.value_or(-1);
    slot.get<&example::index>() = static_cast<std::int64_t>(context.index);
  }

 private:
  /// A random part of the clip, moved by up to a tenth and made louder or softer by up to 6 dB. The generator is keyed
  /// by the sample and the epoch, so the part differs between epochs but not between workers.
  void random_part(std::span<const std::byte> file, fl::random_generator& random) {
    const auto part = [&](const fl::audio_header& header) { // only that part is decoded
      return fl::random_crop(header.frames, (samples_.size() * header.rate + rate_ - 1) / rate_, random);
    };
    const fl::audio_clip decoded = decoder_.decode_range(file, part);
    fl::random_crop_or_pad(resampler_.resample(decoded, rate_).samples, samples_, random);
    fl::random_time_shift{.max_share = 0.1}(samples_, random);
    fl::random_gain{-6, 6}(samples_, random);
  }

  fl::mel_spectrogram spectrogram_;
  std::size_t rate_;
  fl::audio_decoder decoder_;
  fl::audio_resampler resampler_;
  std::vector<float> samples_;
  bool augment_;
};

constexpr std::size_t default_min_size = 8'000;

/// Whether the rows of a file can be read only once, and so can't be counted.
bool is_pipe(const std::string& name) {
  std::error_code error;
  const auto status = std::filesystem::status(name, error);
  return std::filesystem::exists(status) && !std::filesystem::is_regular_file(status);
}

fl::any_pipeline<fl::batch_of<example>>
pipeline_of(const fl::file_patterns& arrow_files, fl::python::option::seed, std::int64_t batch_size,
            std::int64_t shuffle_buffer_size, std::optional<std::int64_t> shuffle_min_size,
            std::int64_t sample_rate, double clip_seconds, std::int64_t n_mels, std::int64_t n_fft,
            std::int64_t hop_length, std::int64_t n_workers, std::int64_t raw_channel_size,
            fl::python::option::infinite, bool augment, std::optional<std::int64_t> num_workers,
            std::optional<bool> is_shuffled, fl::python::option::on_notice on_notice,
            const std::string& audio, const std::string& label) {
  require(!arrow_files.names().empty(), "arrow_files is empty: name at least one file or pattern");
  const fl::shuffle_options shuffle =
      shuffle_of(shuffle_buffer_size, shuffle_min_size, default_min_size, is_shuffled);
  require(clip_seconds > 0 && clip_seconds <= 3600,
          "clip_seconds must be above 0 and at most 3600, not " + std::to_string(clip_seconds));
  const auto rate = static_cast<double>(checked("sample_rate", sample_rate, 10'000'000));
  const fl::mel_spectrogram spectrogram({.sample_rate = rate,
                                         .fft_length = checked("n_fft", n_fft, 1 << 24),
                                         .hop_length = checked("hop_length", hop_length, 1 << 24),
                                         .mels = checked("n_mels", n_mels, 16'384),
                                         .values = fl::mel_values::decibels,
                                         .top_decibels = 80});
  const auto length = static_cast<std::size_t>(clip_seconds * rate);
  const std::size_t frames = spectrogram.frames(length);
  require(frames > 0, "clip_seconds " + std::to_string(clip_seconds) + " gives a clip of " +
                          std::to_string(length) + " samples, which is too short for n_fft " +
                          std::to_string(n_fft));

  const auto make = fl::per_worker(
      [spectrogram, length, augment] { return spectrogram_maker(spectrogram, length, augment); });
  const auto rows =
      fl::arrow_rows<clip>(arrow_files, {audio, label}, {.on_notice = on_notice.notify}).source();
  const bool counted = std::ranges::none_of(rows.files().names(), is_pipe);
  // Encoded clips are views of the files, so a large shuffle buffer needs little memory. They are decoded after it.
  return file_samples(rows, keeps_order(shuffle), counted ? "" : "rows of a pipe can be read only once") |
         fl::shuffle(shuffle) | fl::prefetch(checked("raw_channel_size", raw_channel_size, 1'000'000)) |
         fl::batch_into<example>(checked("batch_size", batch_size, 1'000'000), make,
                                 fl::shapes{{{spectrogram.mels(), frames}}},
                                 fl::workers{workers_of(n_workers, num_workers)}, fl::name{"spectrogram"});
}

} // namespace

void add_audio(pybind11::module_& m) {
  fl::python::bind_loader(
      m, "Loader", pipeline_of, py::arg("arrow_files"), py::arg("seed") = 0, py::arg("batch_size") = 64,
      py::arg("shuffle_buffer_size") = 10'000, py::arg_v("shuffle_min_size", py::none(), "8000"),
      py::arg("sample_rate") = 32'000, py::arg("clip_seconds") = 5.0, py::arg("n_mels") = 128,
      py::arg("n_fft") = 1024, py::arg("hop_length") = 320, py::arg("n_workers") = 8,
      py::arg("raw_channel_size") = 256, py::arg("infinite") = true, py::arg("augment") = true,
      py::arg("num_workers") = py::none(), py::arg("shuffle") = py::none(), py::arg("on_notice") = py::none(),
      py::arg("audio") = "audio", py::arg("label") = "label",
      fl::python::checked_on_resume{
          {"sample_rate", "clip_seconds", "n_mels", "n_fft", "hop_length", "augment"}},
      R"(Yields batches of clips: dicts of arrays

  spectrogram  [batch, n_mels, frames] float32: mel spectrograms in decibels, at most 80 below the loudest value
  label        [batch] int64, -1 where the row has none
  index        [batch] int64: the number of the clip, the same in each epoch

arrow_files: Arrow files or streams, or patterns of them, with the columns `audio` (WAV, FLAC, OGG or MP3 files, or structs
    with such a field `bytes`) and `label` (integers or null)
seed: keys the order and the augmentation
shuffle_buffer_size, shuffle_min_size: clips in the shuffle buffer, and before it emits the first one (None: 8,000, or as many
    as the buffer holds; 0, or a buffer of 1: nothing is shuffled: all passes have the order of the files and their rows)
sample_rate, clip_seconds: clips are resampled to this rate in Hz, then cropped or padded to this length
n_mels, n_fft, hop_length: mel filters; samples in a transform, and from one to the next
n_workers: threads that decode clips and compute spectrograms
raw_channel_size: encoded clips that wait for a worker
infinite: repeat the data for ever; if False, each `for` is one pass with each clip once
augment: a random part of a clip, moved and with a random loudness; if False, its middle, unchanged
audio, label: the names of those columns; a dot leads into a struct: "clip.audio"
num_workers, shuffle: as PyTorch's DataLoader calls them: num_workers is n_workers (0: 1, as all decoding is in the background),
    and shuffle=False a buffer of 1

len(loader), list() and tqdm read the metadata of all files, once; rows of a pipe have no length.
A state is refused by a loader with another sample rate, length, spectrogram or augmentation.
For evaluation: infinite=False, augment=False, shuffle=False.)");
}
