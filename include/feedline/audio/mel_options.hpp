// SPDX-License-Identifier: MIT
#pragma once
// What a mel spectrogram is made of.
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include <feedline/audio/spectrogram_view.hpp>

namespace feedline::inline v0 {

/// The window of N samples that each frame is multiplied by; x goes from 0 to 1 over it.
enum class spectrogram_window : std::uint8_t {
  hann,        ///< 0.5 - 0.5 cos(2πx)
  hamming,     ///< 0.54 - 0.46 cos(2πx)
  blackman,    ///< 0.42 - 0.5 cos(2πx) + 0.08 cos(4πx)
  povey,       ///< hann to the power of 0.85: Kaldi's own
  rectangular, ///< 1
};

/// What lies outside the clip, where frames are centred.
enum class spectrogram_padding : std::uint8_t {
  reflect, ///< the clip mirrored at its first and last sample
  silence,
};

/// From hertz to mels.
enum class mel_scale : std::uint8_t {
  htk,    ///< 2595 log10(1 + f/700), which is 1127 ln(1 + f/700)
  slaney, ///< linear up to 1000 Hz, logarithmic from there (M. Slaney, "Auditory Toolbox", 1998), as in librosa
};

/// Along which axis the sides of a filter's triangle are straight.
enum class mel_slopes : std::uint8_t {
  hertz, ///< as in torchaudio and librosa
  mels,  ///< as in Kaldi and HTK
};

/// What the numbers of a spectrogram are.
enum class mel_values : std::uint8_t {
  linear,      ///< power or magnitude
  natural_log, ///< ln(max(x, floor))
  decibels,    ///< 10 log10(max(x, floor)) of powers, 20 log10 of magnitudes
};

/// The parameters of mel_spectrogram. The defaults are torchaudio's MelSpectrogram, for 16 kHz; kaldi_filter_bank()
/// gives Kaldi's. (For odd rates and FFT lengths torchaudio rounds half of them down when it places the bins of the
/// spectrum. Here they are at k · sample_rate / fft_length, as in librosa and Kaldi.)
struct mel_options {
  double sample_rate = 16'000;   ///< in Hz
  std::size_t fft_length = 400;  ///< in samples
  std::size_t window_length = 0; ///< in samples, in the middle of the FFT's; 0: fft_length
  std::size_t hop = 200;         ///< samples from a frame to the next
  std::size_t mels = 128;
  double min_frequency = 0; ///< in Hz
  double max_frequency = 0; ///< in Hz; 0: half the sample rate, below: so much less than that
  double power = 2;         ///< of the magnitude: 1 or 2, or what else is wanted
  mel_values values = mel_values::linear;
  double floor = 1e-10;    ///< of logarithms: what is smaller counts as this
  double top_decibels = 0; ///< of decibels: so much below the largest of a clip is the least; 0: all
  spectrogram_window window = spectrogram_window::hann;
  bool periodic_window = true; ///< N samples of N + 1, so that its repetition is smooth; else symmetric
  bool remove_mean = false;    ///< of each frame
  double pre_emphasis = 0; ///< a: x[i] - a·x[i-1] in each frame, whose first x is taken for the one before it
  bool centered = true;    ///< frame i lies around sample i·hop; else it begins there
  spectrogram_padding padding = spectrogram_padding::reflect;
  mel_scale scale = mel_scale::htk;
  mel_slopes slopes = mel_slopes::hertz;
  bool normalize_area = false; ///< filters with an area of 1 (Slaney's, librosa's) rather than a peak of 1
  spectrogram_layout layout = spectrogram_layout::mels_frames;
};

/// The options of Kaldi's logarithmic filter bank: frames of 25 ms every 10 ms that lie within the clip, without their
/// mean, pre-emphasized by 0.97, under a symmetric Hann window; FFT of the next power of two; filters from 20 Hz to half
/// the rate. Kaldi's compute-fbank-feats with --window-type=hanning and torchaudio.compliance.kaldi.fbank give the same
/// for samples from -1 to 1 without dither.
///
///     mel_spectrogram features(kaldi_filter_bank(32'000)); // [frames, 128]
inline mel_options kaldi_filter_bank(double sample_rate, std::size_t mels = 128) {
  mel_options o;
  o.sample_rate = sample_rate;
  // Whole samples, as Kaldi has it. What is no rate is refused by mel_spectrogram.
  const auto samples = [&](double seconds) {
    return sample_rate > 0 && sample_rate < 1e9 ? static_cast<std::size_t>(sample_rate * seconds) : 0;
  };
  o.window_length = samples(0.025);
  o.hop = samples(0.01);
  o.fft_length = std::bit_ceil(o.window_length);
  o.mels = mels;
  o.min_frequency = 20;
  o.values = mel_values::natural_log;
  o.floor = 1.1920928955078125e-07; // the smallest step above 1 of a float
  o.periodic_window = false;
  o.remove_mean = true;
  o.pre_emphasis = 0.97;
  o.centered = false;
  o.slopes = mel_slopes::mels;
  o.layout = spectrogram_layout::frames_mels;
  return o;
}

} // namespace feedline::inline v0
