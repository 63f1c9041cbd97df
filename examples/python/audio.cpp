// SPDX-License-Identifier: MIT
// A Python class that reads clips from Arrow files and yields batches of mel spectrograms:
//
//     for batch in feedline.audio.Loader(["clips-*.arrow"], seed=7): step(batch["spectrogram"], batch["label"])
//
// pipeline_of() has the pipeline; below it are the names and defaults of its parameters.
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <feedline/arrow.hpp>
#include <feedline/audio.hpp>
#include <feedline/feedline.hpp>
#include <feedline/python.hpp>
#include <feedline/python/object.hpp>
#include <feedline/python/telemetry.hpp>

#include "arrow_file.hpp"
#include "composed.hpp"
#include "file_function.hpp"
#include "parts.hpp"

namespace fl = feedline;
namespace py = pybind11;

using fl::python::object;

namespace {

/// What Python receives, as arrays.
struct labeled_clip {
  fl::tensor<float> spectrogram; // [mels, frames], in decibels
  std::int64_t label;            // -1: the row has none
  std::int64_t index;            // of the sample, the same in each epoch
};

/// Decodes, resamples, and crops or pads clips. Each worker has one and reuses its memory.
class clip_maker {
 public:
  clip_maker(std::size_t rate, bool augment) : rate_(rate), augment_(augment) {}

  /// If it augments, a random part of the clip, moved by up to a tenth and made louder or softer by up to 6 dB. The generator is
  /// keyed by the sample and the epoch, so the part differs between epochs but not between workers.
  void make(std::span<const std::byte> file, std::span<float> samples, fl::random_generator& random) {
    if (!augment_) {
      fl::center_crop_or_pad(resampler_.resample(decoder_.decode(file), rate_).samples, samples);
      return;
    }
    const auto part = [&](const fl::audio_header& header) { // only that part is decoded
      return fl::random_crop(header.frames, (samples.size() * header.rate + rate_ - 1) / rate_, random);
    };
    const fl::audio_clip decoded = decoder_.decode_range(file, part);
    fl::random_crop_or_pad(resampler_.resample(decoded, rate_).samples, samples, random);
    fl::random_time_shift{.max_share = 0.1}(samples, random);
    fl::random_gain{-6, 6}(samples, random);
  }

 private:
  std::size_t rate_;
  bool augment_;
  fl::audio_decoder decoder_;
  fl::audio_resampler resampler_;
};

/// Makes examples of rows with the columns for a clip and its label. Each worker has one.
class spectrogram_maker {
 public:
  spectrogram_maker(const fl::mel_spectrogram& spectrogram, std::size_t clip_length, bool augment)
      : spectrogram_(spectrogram),
        clips_(static_cast<std::size_t>(spectrogram.options().sample_rate), augment),
        samples_(clip_length) {}

  void operator()(const object& sample, fl::batch_slot<labeled_clip>& slot, fl::context& context) {
    const auto* const row = sample.value_if<arrow_record_row>();
    if (!row) throw std::logic_error("a sample isn't a row");
    clips_.make(file_in_row(row->operator*().begin()->second, row->file()).bytes(), samples_, context.random);
    spectrogram_(samples_, slot.get<&labeled_clip::spectrogram>());
    const fl::arrow_value label = std::next(row->operator*().begin())->second;
    slot.get<&labeled_clip::label>() = label.as<std::optional<std::int64_t>>().value_or(-1);
    slot.get<&labeled_clip::index>() = static_cast<std::int64_t>(context.index);
  }

 private:
  fl::mel_spectrogram spectrogram_;
  clip_maker clips_;
  std::vector<float> samples_;
};

constexpr std::size_t default_min_size = 8'000;

std::size_t checked_rate(std::int64_t sample_rate) { return checked("sample_rate", sample_rate, 10'000'000); }

std::size_t checked_length(double clip_seconds, std::size_t rate) {
  require(clip_seconds > 0 && clip_seconds <= 3600,
          "clip_seconds must be above 0 and at most 3600, not " + std::to_string(clip_seconds));
  return static_cast<std::size_t>(clip_seconds * static_cast<double>(rate));
}

fl::any_pipeline<fl::batch_of<labeled_clip>>
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
  const std::size_t rate = checked_rate(sample_rate), length = checked_length(clip_seconds, rate);
  const fl::mel_spectrogram spectrogram({.sample_rate = static_cast<double>(rate),
                                         .fft_length = checked("n_fft", n_fft, 1 << 24),
                                         .hop_length = checked("hop_length", hop_length, 1 << 24),
                                         .mels = checked("n_mels", n_mels, 16'384),
                                         .values = fl::mel_values::decibels,
                                         .top_decibels = 80});
  const std::size_t frames = spectrogram.frames(length);
  require(frames > 0, "clip_seconds " + std::to_string(clip_seconds) + " gives a clip of " +
                          std::to_string(length) + " samples, which is too short for n_fft " +
                          std::to_string(n_fft));

  const auto make = fl::per_worker(
      [spectrogram, length, augment] { return spectrogram_maker(spectrogram, length, augment); });
  // Encoded clips are views of the files, so a large shuffle buffer needs little memory. They are decoded after it.
  return arrow_rows(arrow_files, {audio, label}, !keeps_order(shuffle), on_notice.notify)
      .stages.append(fl::shuffle(shuffle) |
                     fl::prefetch(checked("raw_channel_size", raw_channel_size, 1'000'000)) |
                     fl::batch_into<labeled_clip>(checked("batch_size", batch_size, 1'000'000), make,
                                                  fl::shapes{{{spectrogram.mels(), frames}}},
                                                  fl::workers{workers_of(n_workers, num_workers)},
                                                  fl::name{"spectrogram"}));
}

/// A function for pipelines of Python's.
std::shared_ptr<native_function> decoder(std::int64_t sample_rate, double clip_seconds, bool augment,
                                         const std::string& audio) {
  const std::size_t rate = checked_rate(sample_rate), length = checked_length(clip_seconds, rate);
  require(length > 0, "clip_seconds " + std::to_string(clip_seconds) + " gives an empty clip");
  return std::make_shared<file_function<float>>(
      "decode", audio, [rate, length, augment](std::span<const std::byte> file, fl::context& context) {
        thread_local std::optional<std::pair<std::pair<std::size_t, bool>, clip_maker>>
            last; // of this thread
        const std::pair options(rate, augment);
        if (!last || last->first != options) last.emplace(options, clip_maker(rate, augment));
        fl::tensor<float> samples({length});
        last->second.make(file, std::span(samples.data(), samples.size()), context.random);
        return samples;
      });
}

} // namespace

void add_audio(pybind11::module_& m) {
  fl::python::bind_telemetry(
      m,
      fl::python::bind_loader(
          m, "Loader", pipeline_of, py::arg("arrow_files"), py::arg("seed") = 0, py::arg("batch_size") = 64,
          py::arg("shuffle_buffer_size") = 10'000, py::arg_v("shuffle_min_size", py::none(), "8000"),
          py::arg("sample_rate") = 32'000, py::arg("clip_seconds") = 5.0, py::arg("n_mels") = 128,
          py::arg("n_fft") = 1024, py::arg("hop_length") = 320, py::arg("n_workers") = 8,
          py::arg("raw_channel_size") = 256, py::arg("infinite") = true, py::arg("augment") = true,
          py::arg("num_workers") = py::none(), py::arg("shuffle") = py::none(),
          py::arg("on_notice") = py::none(), py::arg("audio") = "audio", py::arg("label") = "label",
          fl::python::checked_on_resume{
              {"sample_rate", "clip_seconds", "n_mels", "n_fft", "hop_length", "augment"}},
          R"(Yields batches of clips: dicts of arrays

  spectrogram  [batch, n_mels, frames] float32: mel spectrograms in decibels, at most 80 below the loudest value
  label        [batch] int64, -1 where the row has none
  index        [batch] int64: the number of the clip, the same in each epoch

arrow_files: Arrow files or streams, or patterns of them, with the columns `audio` (WAV, FLAC, OGG or MP3 files, or structs
    with such a field `bytes`, or with a `path` alone) and `label` (integers or null); also folders of such files
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
For evaluation: infinite=False, augment=False, shuffle=False.)"));
  m.def(
      "decode", &decoder, py::arg("sample_rate") = 32'000, py::arg("clip_seconds") = 5.0,
      py::arg("augment") = false, py::arg("audio") = "audio;wav;flac;ogg;mp3",
      R"(A function for map() that decodes a clip, resamples it, and crops or pads it to one length, without Python's lock.

It takes the path of a WAV, FLAC, OGG or MP3 file, the bytes of one, or a dict or a row with such bytes or path as its member `audio`, and
returns a float32 array [sample_rate * clip_seconds] of one channel, or the dict with the array in their place. Options as
feedline.audio.Loader; of several names separated by ";" the first that there is.)");
}
