// SPDX-License-Identifier: MIT
#pragma once
// Reusable memory for samples: it grows, never shrinks, and isn't cleared.
#include <algorithm>
#include <cstddef>
#include <new>
#include <utility>

#include <feedline/version.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

class float_buffer {
 public:
  static constexpr std::size_t alignment = 64;

  float_buffer() = default;

  float_buffer(float_buffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), capacity_(std::exchange(other.capacity_, 0)) {}

  float_buffer& operator=(float_buffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(capacity_, other.capacity_);
    return *this;
  }

  ~float_buffer() { free(data_); }

  float* data() const noexcept { return data_; }

  std::size_t capacity() const noexcept { return capacity_; }

  /// Room for `size` numbers. Keeps the first `kept` of the present ones.
  float* reserve(std::size_t size, std::size_t kept = 0);

 private:
  static void free(float* memory) noexcept {
    if (memory) ::operator delete(memory, std::align_val_t{alignment});
  }

  float* data_ = nullptr;
  std::size_t capacity_ = 0;
};

} // namespace feedline::inline FEEDLINE_ABI::detail

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_AUDIO)
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
#endif
