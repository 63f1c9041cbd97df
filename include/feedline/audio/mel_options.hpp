// SPDX-License-Identifier: MIT
#pragma once
// The parameters of a mel spectrogram.
#include <cmath>
#include <cstddef>
#include <cstdint>

#include <feedline/audio/spectrogram_view.hpp>

namespace feedline::inline FEEDLINE_ABI {

/// The window by which each frame of N samples is multiplied; x goes from 0 to 1 over the window.
enum class spectrogram_window : std::uint8_t {
  hann,        ///< 0.5 - 0.5 cos(2πx)
  hamming,     ///< 0.54 - 0.46 cos(2πx)
  blackman,    ///< 0.42 - 0.5 cos(2πx) + 0.08 cos(4πx)
  povey,       ///< hann to the power of 0.85, Kaldi's default
  rectangular, ///< 1
};

/// The samples outside the clip, for centered frames.
enum class spectrogram_padding : std::uint8_t {
  reflect, ///< the clip, mirrored at its first and last sample
  silence,
};

/// The conversion from hertz to mels.
enum class mel_scale : std::uint8_t {
  htk,    ///< 2595 log10(1 + f/700), which is 1127 ln(1 + f/700)
  slaney, ///< linear up to 1000 Hz, logarithmic above (M. Slaney, "Auditory Toolbox", 1998), as in librosa
};

/// The axis along which a filter's triangle has straight sides.
enum class mel_slopes : std::uint8_t {
  hertz, ///< as in torchaudio and librosa
  mels,  ///< as in Kaldi and HTK
};

/// The values of a spectrogram.
enum class mel_values : std::uint8_t {
  linear,      ///< power or magnitude
  natural_log, ///< ln(max(x, floor))
  decibels,    ///< 10 log10(max(x, floor)) of powers, 20 log10 of magnitudes
};

/// The parameters of mel_spectrogram. The defaults are those of torchaudio's MelSpectrogram, for 16 kHz;
/// kaldi_filter_bank() returns Kaldi's. (Torchaudio rounds half of an odd rate or FFT length down to compute
/// the frequencies of the spectrum's bins. Here bin k is at k · sample_rate / fft_length, as in librosa and
/// Kaldi.)
struct mel_options {
  double sample_rate = 16'000;            ///< in Hz
  std::size_t fft_length = 400;           ///< in samples
  std::size_t window_length = 0;          ///< in samples, centered in the FFT's input; 0: fft_length
  std::size_t hop_length = 200;           ///< in samples, from one frame to the next
  std::size_t mels = 128;                 ///< the number of filters
  double min_frequency = 0;               ///< in Hz
  double max_frequency = 0;               ///< in Hz; 0: half the sample rate; negative: relative to that
  double power = 2;                       ///< exponent of the magnitude, such as 1 or 2
  mel_values values = mel_values::linear; ///< linear or logarithmic
  double floor = 1e-10;                   ///< smaller values are raised to this before a logarithm
  double top_decibels = 0; ///< for decibels: the range below a clip's largest value; 0: no limit
  spectrogram_window window = spectrogram_window::hann; ///< the shape of the window
  bool periodic_window = true; ///< the first N samples of a window of N + 1; else symmetric
  bool remove_mean = false;    ///< subtract each frame's mean
  double pre_emphasis = 0;     ///< a: x[i] - a·x[i-1] in each frame, with x[-1] = x[0]
  bool centered = true;        ///< frame i is centered at sample i·hop_length; else it begins there
  spectrogram_padding padding = spectrogram_padding::reflect; ///< the samples outside the clip
  mel_scale scale = mel_scale::htk;                           ///< the conversion from Hz to mels
  mel_slopes slopes = mel_slopes::hertz; ///< the axis along which a filter has straight sides
  bool normalize_area = false; ///< filters have an area of 1 (as Slaney's and librosa's), else a peak of 1
  spectrogram_layout layout = spectrogram_layout::mels_frames; ///< of the result
};

/// The options of Kaldi's logarithmic filter bank: frames of 25 ms every 10 ms within the clip, their mean
/// subtracted, pre-emphasized by 0.97, with a symmetric Hann window; an FFT of the next power of two; filters
/// from 20 Hz to half the rate. Kaldi's compute-fbank-feats with --window-type=hanning and
/// torchaudio.compliance.kaldi.fbank compute the same from samples from -1 to 1 without dither.
///
///     mel_spectrogram features(kaldi_filter_bank(32'000)); // [frames, 128]
mel_options kaldi_filter_bank(double sample_rate, std::size_t mels = 128);

} // namespace feedline::inline FEEDLINE_ABI

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_AUDIO)
#include <bit>

namespace feedline::inline FEEDLINE_ABI {

FEEDLINE_INLINE mel_options kaldi_filter_bank(double sample_rate, std::size_t mels) {
  mel_options o;
  o.sample_rate = sample_rate;
  // Rounded down to whole samples, as in Kaldi. mel_spectrogram refuses an invalid rate.
  const auto samples = [&](double seconds) {
    return sample_rate > 0 && sample_rate < 1e9 ? static_cast<std::size_t>(sample_rate * seconds) : 0;
  };
  o.window_length = samples(0.025);
  o.hop_length = samples(0.01);
  o.fft_length = std::bit_ceil(o.window_length);
  o.mels = mels;
  o.min_frequency = 20;
  o.values = mel_values::natural_log;
  o.floor = 1.1920928955078125e-07; // a float's epsilon
  o.periodic_window = false;
  o.remove_mean = true;
  o.pre_emphasis = 0.97;
  o.centered = false;
  o.slopes = mel_slopes::mels;
  o.layout = spectrogram_layout::frames_mels;
  return o;
}

} // namespace feedline::inline FEEDLINE_ABI
#endif
