// SPDX-License-Identifier: MIT
#pragma once
// FFTW plans, shared by all threads.
#include <climits>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>

#include <fftw3.h>

#include <feedline/version.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// A complex Fourier transform of one length, from one array to another. Spectrograms of real numbers use it,
/// too: two real numbers form a complex one (see power_spectrum), and FFTW's complex transforms of half the
/// length are three times as fast as its real ones.
///
/// FFTW_ESTIMATE always creates the same plan. FFTW_MEASURE is some percent faster, but chooses the plan by
/// measured times, so that the last bits of a clip's spectrogram would differ between runs.
class fft_plan {
 public:
  /// The process's plan of this length. FFTW's planner isn't thread-safe: a program that also creates its own
  /// plans, while spectrograms are constructed, must call fftwf_make_planner_thread_safe().
  static std::shared_ptr<const fft_plan> of_length(std::size_t length);

  /// Transforms arrays of 2 · length numbers that are aligned to float_buffer::alignment. Doesn't change
  /// `from`. Thread-safe.
  void run(float* from, float* to) const noexcept {
    fftwf_execute_dft(plan_, reinterpret_cast<fftwf_complex*>(from), reinterpret_cast<fftwf_complex*>(to));
  }

 private:
  struct planning {
    std::mutex mutex;
    std::map<std::size_t, std::weak_ptr<const fft_plan>> plans;
  };

  // Never destroyed, because spectrograms may be destroyed at the end of the program.
  static planning& planner() {
    static planning& immortal = *new planning;
    return immortal;
  }

  explicit fft_plan(std::size_t length);

  ~fft_plan() { fftwf_destroy_plan(plan_); }

  fftwf_plan plan_ = nullptr;

  friend struct std::default_delete<const fft_plan>;
};

} // namespace feedline::inline FEEDLINE_ABI::detail

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_AUDIO)
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
#endif
