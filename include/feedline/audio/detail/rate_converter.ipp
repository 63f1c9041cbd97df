// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/audio/detail/rate_converter.hpp>

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
