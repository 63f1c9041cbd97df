// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/audio/detail/float_buffer.hpp>

#include <limits>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE float* float_buffer::reserve(std::size_t size, std::size_t kept) {
  if (size <= capacity_) return data_;
  if (size > std::numeric_limits<std::size_t>::max() / sizeof(float)) throw std::bad_array_new_length();
  auto* const larger = static_cast<float*>(::operator new(size * sizeof(float), std::align_val_t{alignment}));
  std::copy_n(data_, kept, larger);
  free(std::exchange(data_, larger));
  capacity_ = size;
  return data_;
}

} // namespace feedline::inline FEEDLINE_ABI::detail
