// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/audio/detail/mel_filters.hpp>

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
