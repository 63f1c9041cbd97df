// SPDX-License-Identifier: MIT
#pragma once
// soxr's resampler for one pair of rates, reused for each clip.
#include <cstddef>
#include <memory>
#include <span>

#include <soxr.h>

#include <feedline/version.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

class rate_converter {
 public:
  rate_converter(std::size_t from, std::size_t to, unsigned long recipe);

  std::size_t from() const noexcept { return from_; }

  std::size_t to() const noexcept { return to_; }

  /// Resamples `in`, with silence before and after it, and fills `out` with the beginning of the result.
  void run(std::span<const float> in, std::span<float> out);

 private:
  // soxr copies its input to an internal queue. Feeding it in blocks limits that queue's memory, which is
  // reused.
  static constexpr std::size_t block = 4096;

  static void check(soxr_error_t error);

  struct deleter {
    void operator()(soxr_t s) const noexcept { soxr_delete(s); }
  };

  std::size_t from_, to_;
  std::unique_ptr<soxr, deleter> soxr_;
};

} // namespace feedline::inline FEEDLINE_ABI::detail

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_AUDIO)
#include <algorithm>
#include <array>
#include <stdexcept>
#include <string>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE rate_converter::rate_converter(std::size_t from, std::size_t to, unsigned long recipe)
    : from_(from), to_(to) {
  const soxr_io_spec_t floats = soxr_io_spec(SOXR_FLOAT32_I, SOXR_FLOAT32_I);
  const soxr_quality_spec_t quality = soxr_quality_spec(recipe, 0);
  soxr_runtime_spec_t one_thread = soxr_runtime_spec(1);
  one_thread.log2_min_dft_size = 12; // a tenth faster than with soxr's 10, from 44.1 or 48 kHz to 32 kHz
  soxr_error_t error = nullptr;
  soxr_.reset(soxr_create(static_cast<double>(from), static_cast<double>(to), 1, &error, &floats, &quality,
                          &one_thread));
  if (!soxr_) error = error ? error : "out of memory";
  check(error);
}

FEEDLINE_INLINE void rate_converter::run(std::span<const float> in, std::span<float> out) {
  check(soxr_clear(soxr_.get())); // resets it to the beginning of a clip
  const auto feed = [&](std::span<const float> samples) {
    while (!samples.empty() && !out.empty()) {
      std::size_t taken = 0, given = 0;
      check(soxr_process(soxr_.get(), samples.data(), std::min(samples.size(), block), &taken, out.data(),
                         out.size(), &given));
      samples = samples.subspan(taken);
      out = out.subspan(given);
    }
  };
  feed(in);
  // soxr rounds the length; some silence ensures that the output is complete.
  constexpr std::array<float, 64> silence{};
  for (std::size_t left = from_ / to_ + 2; left > 0;) {
    const std::size_t count = std::min(left, silence.size());
    feed(std::span(silence).first(count));
    left -= count;
  }
  while (!out.empty()) {
    std::size_t given = 0;
    check(soxr_process(soxr_.get(), nullptr, 0, nullptr, out.data(), out.size(), &given));
    if (given == 0) break;
    out = out.subspan(given);
  }
  std::fill(out.begin(), out.end(), 0.0f);
}

FEEDLINE_INLINE void rate_converter::check(soxr_error_t error) {
  if (error) throw std::runtime_error(std::string("feedline::audio_resampler: soxr failed: ") + error);
}

} // namespace feedline::inline FEEDLINE_ABI::detail
#endif
