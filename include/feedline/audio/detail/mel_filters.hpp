// SPDX-License-Identifier: MIT
#pragma once
// Triangular filters over the bins of a spectrum, equally spaced on a mel scale.
#include <cmath>
#include <cstddef>
#include <vector>

#include <feedline/audio/detail/lanes.hpp>
#include <feedline/audio/mel_options.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

inline double to_mels(double hertz, mel_scale scale) {
  if (scale == mel_scale::htk) return 1127 * std::log1p(hertz / 700);
  return hertz < 1000 ? hertz * 3 / 200 : 15 + 27 * std::log(hertz / 1000) / std::log(6.4);
}

inline double to_hertz(double mels, mel_scale scale) {
  if (scale == mel_scale::htk) return 700 * std::expm1(mels / 1127);
  return mels < 15 ? mels * 200 / 3 : 1000 * std::exp((mels - 15) * std::log(6.4) / 27);
}

class mel_filters {
 public:
  /// Filters for spectra of fft_length / 2 + 1 bins.
  explicit mel_filters(const mel_options& o);

  /// Applies the filters to two times four frames, in the order of power_spectrum. Calls give(mel, sum, sum)
  /// with the sums of each filter over the bins.
  template <class Give>
  void apply(const float* power, Give give) const {
    const float* weight = weights_.data();
    for (std::size_t m = 0; m < filters_.size(); ++m) {
      const auto [first, count] = filters_[m];
      const float* bin = power + 2 * lane_count * first;
      float_lanes low{}, high{};
      for (const float* const end = weight + count; weight != end; ++weight, bin += 2 * lane_count) {
        const float_lanes w = all_lanes(*weight);
        low += w * load_lanes(bin);
        high += w * load_lanes(bin + lane_count);
      }
      give(m, low, high);
    }
  }

 private:
  struct filter {
    std::size_t first, count; // bins
  };

  std::vector<filter> filters_;
  std::vector<float> weights_; // of all filters, consecutively
};

} // namespace feedline::inline FEEDLINE_ABI::detail

#ifndef FEEDLINE_COMPILED
#include <feedline/audio/detail/mel_filters.ipp>
#endif
