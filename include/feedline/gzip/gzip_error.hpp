// SPDX-License-Identifier: MIT
#pragma once
// gzip_error: the exception for gzip data that can't be decompressed.
#include <stdexcept>

#include <feedline/version.hpp>

namespace feedline::inline FEEDLINE_ABI {

/// Thrown for gzip data that are damaged, cut off or larger than the limit. what() says what is wrong and
/// where: "feedline::gunzip: the gzip data are cut off: they end at offset 812, inside a member".
class gzip_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

} // namespace feedline::inline FEEDLINE_ABI
