// SPDX-License-Identifier: MIT
// What does a mel spectrogram cost compared with its Fourier transforms alone, and a clip of a sound file compared
// with its parts? A clip is 5 s at 32 kHz; FFT 1024, hop 320, 128 mels, as for bird song. The baseline is a loop of
// FFTW's own transforms of real numbers, planned by FFTW_ESTIMATE or FFTW_MEASURE.
#include <feedline/audio.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>
#include <vector>

#include <benchmark/benchmark.h>
#include <fftw3.h>

#include "sounds.hpp"

namespace fl = feedline;

namespace {

constexpr std::size_t rate = 32'000, length = 5 * rate, fft_length = 1024, hop = 320;

const fl::mel_options torchaudio{.sample_rate = rate, .fft_length = fft_length, .hop_length = hop};

fl::mel_options with_log() {
  fl::mel_options o = torchaudio;
  o.values = fl::mel_values::natural_log;
  return o;
}

void count_clips(benchmark::State& state) { state.SetItemsProcessed(state.iterations()); }

void transforms_alone(benchmark::State& state) {
  const auto samples = made_clip(length + fft_length, rate); // including the padding
  std::vector<float> window(fft_length);
  for (std::size_t i = 0; i < fft_length; ++i)
    window[i] =
        static_cast<float>(0.5 - 0.5 * std::cos(2 * std::numbers::pi * static_cast<double>(i) / fft_length));
  float* const in = fftwf_alloc_real(fft_length);
  fftwf_complex* const out = fftwf_alloc_complex(fft_length / 2 + 1);
  const fftwf_plan plan =
      fftwf_plan_dft_r2c_1d(fft_length, in, out, state.range(0) == 1 ? FFTW_MEASURE : FFTW_ESTIMATE);
  for (auto _ : state)
    for (std::size_t frame = 0; frame <= length / hop; ++frame) {
      const float* const x = samples.data() + frame * hop;
      for (std::size_t i = 0; i < fft_length; ++i) in[i] = x[i] * window[i];
      fftwf_execute(plan);
      benchmark::DoNotOptimize(out);
      benchmark::ClobberMemory();
    }
  count_clips(state);
  fftwf_destroy_plan(plan);
  fftwf_free(out);
  fftwf_free(in);
}

void spectrogram(benchmark::State& state, const fl::mel_options& options) {
  const auto samples = made_clip(length, rate);
  const fl::mel_spectrogram features(options);
  std::vector<float> out(features.mels() * features.frames(length));
  for (auto _ : state) {
    features(samples, out);
    benchmark::DoNotOptimize(out.data());
    benchmark::ClobberMemory();
  }
  count_clips(state);
}

void mel(benchmark::State& state) { spectrogram(state, torchaudio); }

void log_mel(benchmark::State& state) { spectrogram(state, with_log()); }

void filter_bank(benchmark::State& state) { spectrogram(state, fl::kaldi_filter_bank(rate)); }

// Resamples from a rate to 32 kHz.
void resample(benchmark::State& state) {
  const auto from = static_cast<std::size_t>(state.range(0));
  const auto samples = made_clip(5 * from, from);
  fl::audio_resampler resampler;
  for (auto _ : state) benchmark::DoNotOptimize(resampler.resample(samples, from, rate).data());
  count_clips(state);
}

void decode_wav(benchmark::State& state) {
  const auto from = static_cast<std::size_t>(state.range(0));
  const auto file = wav_of(made_clip(5 * from, from), from);
  fl::audio_decoder decoder;
  for (auto _ : state) benchmark::DoNotOptimize(decoder.decode(file).samples.data());
  count_clips(state);
}

// Decodes, resamples and makes a spectrogram.
void wav_to_log_mel(benchmark::State& state) {
  const auto from = static_cast<std::size_t>(state.range(0));
  const auto file = wav_of(made_clip(5 * from, from), from);
  fl::audio_decoder decoder;
  fl::audio_resampler resampler;
  const fl::mel_spectrogram features(with_log());
  std::vector<float> clip(length), out(features.mels() * features.frames(length));
  for (auto _ : state) {
    fl::center_crop_or_pad(resampler.resample(decoder.decode(file), rate).samples, clip);
    features(clip, out);
    benchmark::DoNotOptimize(out.data());
    benchmark::ClobberMemory();
  }
  count_clips(state);
}

BENCHMARK(transforms_alone)->Arg(0)->Arg(1);
BENCHMARK(mel);
BENCHMARK(log_mel);
BENCHMARK(filter_bank);
BENCHMARK(resample)->Arg(44'100)->Arg(48'000)->Arg(16'000);
BENCHMARK(decode_wav)->Arg(32'000)->Arg(44'100);
BENCHMARK(wav_to_log_mel)->Arg(32'000)->Arg(44'100);

} // namespace
