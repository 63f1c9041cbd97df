// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/audio/detail/fft_plan.hpp>

#include <stdexcept>
#include <string>

#include <feedline/audio/detail/float_buffer.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE std::shared_ptr<const fft_plan> fft_plan::of_length(std::size_t length) {
  const std::lock_guard lock(planner().mutex);
  std::weak_ptr<const fft_plan>& known = planner().plans[length];
  if (auto plan = known.lock()) return plan;
  const std::shared_ptr<const fft_plan> made(new fft_plan(length), [](const fft_plan* plan) {
    const std::lock_guard planning(planner().mutex);
    delete plan;
  });
  known = made;
  return made;
}

FEEDLINE_INLINE fft_plan::fft_plan(std::size_t length) {
  float_buffer from, to;
  if (length <= INT_MAX)
    plan_ = fftwf_plan_dft_1d(static_cast<int>(length),
                              reinterpret_cast<fftwf_complex*>(from.reserve(2 * length)),
                              reinterpret_cast<fftwf_complex*>(to.reserve(2 * length)), FFTW_FORWARD,
                              FFTW_ESTIMATE | FFTW_PRESERVE_INPUT);
  if (!plan_)
    throw std::runtime_error("feedline::mel_spectrogram: FFTW can't create a plan of length " +
                             std::to_string(length));
}

} // namespace feedline::inline FEEDLINE_ABI::detail
