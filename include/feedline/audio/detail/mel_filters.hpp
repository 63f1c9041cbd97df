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

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_AUDIO)
#include <algorithm>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE mel_filters::mel_filters(const mel_options& o) {
  const double low = to_mels(o.min_frequency, o.scale), high = to_mels(o.max_frequency, o.scale);
  const double step = (high - low) / static_cast<double>(o.mels + 1);
  const auto place = [&](double mels) {
    return o.slopes == mel_slopes::mels ? mels : to_hertz(mels, o.scale);
  };
  for (std::size_t m = 0; m < o.mels; ++m) {
    const double left_mels = low + step * static_cast<double>(m);
    const double left = place(left_mels), center = place(left_mels + step),
                 right = place(left_mels + 2 * step);
    const double peak =
        o.normalize_area ? 2 / (to_hertz(left_mels + 2 * step, o.scale) - to_hertz(left_mels, o.scale)) : 1;
    filter f{0, 0};
    for (std::size_t bin = 0; bin <= o.fft_length / 2; ++bin) {
      const double hertz = static_cast<double>(bin) * o.sample_rate / static_cast<double>(o.fft_length);
      const double x = o.slopes == mel_slopes::mels ? to_mels(hertz, o.scale) : hertz;
      const auto weight =
          static_cast<float>(peak * std::min((x - left) / (center - left), (right - x) / (right - center)));
      if (!(weight > 0)) continue;
      if (f.count == 0) f.first = bin;
      f.count = bin - f.first + 1;
      weights_.push_back(weight);
    }
    filters_.push_back(f);
  }
}

} // namespace feedline::inline FEEDLINE_ABI::detail
#endif
