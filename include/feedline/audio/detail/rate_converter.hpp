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

#ifndef FEEDLINE_COMPILED
#include <feedline/audio/detail/rate_converter.ipp>
#endif
