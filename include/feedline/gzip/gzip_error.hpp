// SPDX-License-Identifier: MIT
#pragma once
// What is thrown for gzip data that can't be decompressed.
#include <stdexcept>

namespace feedline::inline v0 {

/// gzip data that are damaged, cut off or larger than allowed. what() says what is wrong and where: "feedline::gunzip: the
/// gzip data are cut off: they end at offset 812, inside a member".
class gzip_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

} // namespace feedline::inline v0
