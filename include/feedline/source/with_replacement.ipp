// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/source/with_replacement.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <stdexcept>
#include <string>
#include <utility>

#include <feedline/detail/given_size.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE weighted_draws::weighted_draws(std::uint64_t places, std::uint64_t samples,
                                               std::shared_ptr<const std::vector<std::uint64_t>> ends,
                                               std::uint64_t key)
    : places_(places), samples_(places == 0 ? 0 : samples), ends_(std::move(ends)), key_(key) {}

FEEDLINE_INLINE draws_with_replacement::draws_with_replacement(const with_replacement_options& o)
    : samples_(o.samples) {
  refuse_negative(samples_, "feedline::with_replacement: the number of samples");
  parameters_ = "with_replacement.samples: " + (samples_ == 0 ? "all" : std::to_string(samples_));
  if (o.weights.empty()) return;
  double largest = 0;
  for (const double weight : o.weights) {
    if (!(weight >= 0) || std::isinf(weight))
      throw std::invalid_argument(
          "feedline::with_replacement: a weight must be a finite number of at least 0, not " +
          std::to_string(weight));
    largest = std::max(largest, weight);
  }
  if (!(largest > 0)) throw std::invalid_argument("feedline::with_replacement: all weights are 0");
  // Integers, so that every platform draws the same. Their sum is at most 2^63.
  const double unit = std::ldexp(1.0, 63 - static_cast<int>(std::bit_width(o.weights.size())));
  std::vector<std::uint64_t> ends;
  std::uint64_t end = 0;
  for (const double weight : o.weights)
    ends.push_back(end += static_cast<std::uint64_t>(weight / largest * unit));
  ends_ = std::make_shared<const std::vector<std::uint64_t>>(std::move(ends));
  add_parameters(parameters_, text_of_weights("with_replacement.weights", o.weights));
}

FEEDLINE_INLINE weighted_draws draws_with_replacement::operator()(std::uint64_t places,
                                                                  std::uint64_t key) const {
  if (ends_ && ends_->size() != places)
    throw std::invalid_argument("feedline::with_replacement: there are " + std::to_string(ends_->size()) +
                                " weights for " + std::to_string(places) + " samples");
  const std::uint64_t samples = samples_ == 0 ? places : samples_;
  if (samples >> 32 != 0)
    throw std::invalid_argument("feedline::with_replacement: an epoch has at most 2^32 - 1 draws, not " +
                                std::to_string(samples));
  return {places, samples, ends_, key};
}

FEEDLINE_INLINE std::uint64_t draws_with_replacement::fingerprint() const noexcept {
  std::uint64_t hash = key(samples_);
  if (ends_)
    for (const std::uint64_t end : *ends_) hash = mix(hash ^ end);
  return hash;
}

} // namespace feedline::inline FEEDLINE_ABI::detail
