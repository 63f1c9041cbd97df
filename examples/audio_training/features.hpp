// SPDX-License-Identifier: MIT
#pragma once
// Turns a row of an Arrow file into a spectrogram in its slot of the batch.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <feedline/arrow.hpp>
#include <feedline/audio.hpp>
#include <feedline/feedline.hpp>

/// The columns that are read from a row.
struct clip {
  std::span<const std::byte> audio; // encoded
  std::optional<std::int64_t> label;
};

/// What the model learns from: a spectrogram and its label.
struct example {
  feedline::tensor<float> spectrogram; // [mels, frames]
  std::optional<std::int32_t> label;   // nullopt: the row has no label, or -1
  std::uint64_t file;                  // its position in the list of files
};

using clip_row = feedline::arrow_row<clip>;
using example_slot = feedline::batch_slot<example>;

/// Decodes, resamples, crops or pads clips and computes their spectrograms. Each worker has one and reuses
/// its memory from clip to clip.
class feature_maker {
 public:
  /// `spectrogram` is shared by all workers.
  feature_maker(const feedline::mel_spectrogram& spectrogram, std::size_t clip_length)
      : spectrogram_(&spectrogram),
        rate_(static_cast<std::size_t>(spectrogram.options().sample_rate)),
        samples_(clip_length) {}

  /// A random part of the clip, slightly changed. The context's generator is keyed by the sample and the
  /// epoch, so the part differs between epochs but not between workers.
  void for_training(const clip_row& row, example_slot& slot, feedline::random_generator& random) {
    // Only that part is decoded.
    const auto part = [&](const feedline::audio_header& file) {
      const std::size_t length = (samples_.size() * file.rate + rate_ - 1) / rate_;
      return feedline::random_crop(file.frames, length, random);
    };
    const feedline::audio_clip decoded = decoder_.decode_range(row->audio, part);
    feedline::random_crop_or_pad(resampler_.resample(decoded, rate_).samples, samples_, random);
    feedline::random_time_shift{.max_share = 0.1}(samples_, random);
    feedline::random_gain{-6, 6}(samples_, random);
    finish(row, slot);
  }

  /// The middle of the clip, unchanged.
  void for_evaluation(const clip_row& row, example_slot& slot) {
    const feedline::audio_clip decoded = decoder_.decode(row->audio);
    feedline::center_crop_or_pad(resampler_.resample(decoded, rate_).samples, samples_);
    finish(row, slot);
  }

 private:
  void finish(const clip_row& row, example_slot& slot) {
    (*spectrogram_)(samples_, slot.get<&example::spectrogram>());
    if (row->label && *row->label >= 0) slot.get<&example::label>() = static_cast<std::int32_t>(*row->label);
    slot.get<&example::file>() = row.file_number();
  }

  const feedline::mel_spectrogram* spectrogram_;
  std::size_t rate_;
  feedline::audio_decoder decoder_;
  feedline::audio_resampler resampler_;
  std::vector<float> samples_;
};
