// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/core/parts.hpp>

#include <cmath>
#include <stdexcept>
#include <string>

namespace feedline::inline FEEDLINE_ABI {

FEEDLINE_INLINE parts::parts(const std::vector<double>& weights) {
  double sum = 0;
  for (const double weight : weights) {
    if (!(weight >= 0) || std::isinf(weight))
      throw std::invalid_argument("feedline::partition: a weight must be finite and at least 0, not " +
                                  std::to_string(weight));
    ends_.push_back(sum += weight);
  }
  if (!(sum > 0) || std::isinf(sum))
    throw std::invalid_argument("feedline::partition: the sum of the weights must be finite and above 0");
}

} // namespace feedline::inline FEEDLINE_ABI
