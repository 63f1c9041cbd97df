// SPDX-License-Identifier: MIT
#pragma once
// A limit for the memory that data of a file take.
#include <cstddef>
#include <cstdint>
#include <string>

#include <feedline/arrow/arrow_error.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// Counts bytes up to a limit that an option sets.
class byte_limit {
 public:
  /// "`what` more than the `most` bytes that arrow_options::`option` allows"
  byte_limit(std::uint64_t most, const char* what, const char* option) noexcept
      : left_(most), most_(most), what_(what), option_(option) {}

  /// Throws arrow_error, and takes nothing, if fewer bytes are left.
  void take(std::uint64_t count, std::size_t size = 1) {
    std::uint64_t bytes = 0;
    if (__builtin_mul_overflow(count, size, &bytes) || bytes > left_) [[unlikely]]
      refuse();
    left_ -= bytes;
  }

  std::uint64_t most() const noexcept { return most_; }

 private:
  [[noreturn, gnu::cold]] void refuse() const {
    throw arrow_error(std::string(what_) + " more than the " + std::to_string(most_) +
                      " bytes that arrow_options::" + option_ +
                      " allows; raise it if the file is to be trusted");
  }

  std::uint64_t left_;
  std::uint64_t most_;
  const char* what_;
  const char* option_;
};

/// Of the memory that the fields of a row own.
inline byte_limit row_limit(std::uint64_t most) noexcept {
  return {most, "the row's texts and lists have", "max_row_bytes"};
}

} // namespace feedline::inline FEEDLINE_ABI::detail
