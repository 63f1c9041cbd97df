// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/core/tensor.hpp>

#include <vector>

namespace feedline::test {

/// A tensor's elements as a vector, for comparisons.
template <class T>
std::vector<T> elements(const tensor<T>& t) {
  return std::vector<T>(t.begin(), t.end());
}

} // namespace feedline::test
