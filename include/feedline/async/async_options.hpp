// SPDX-License-Identifier: MIT
#pragma once
// Options of asynchronous stages.
#include <cstddef>

#include <feedline/version.hpp>

namespace feedline::inline FEEDLINE_ABI {

/// The most items of an asynchronous stage that wait at once: 1 to 65,536.
struct in_flight {
  static constexpr std::size_t limit = 65'536; ///< the most of a stage

  std::size_t count; ///< how many
};

/// The threads of an asynchronous stage or of blocking(): 1 to 256. One event loop can serve thousands of items
/// that wait; more threads help only if the functions compute.
struct threads {
  static constexpr std::size_t limit = 256; ///< the most

  std::size_t count; ///< how many
};

/// The most values of each async_generator that wait to be taken: 1 to 65,536. It pauses when they do.
struct ahead {
  static constexpr std::size_t limit = 65'536; ///< the most

  std::size_t count; ///< how many
};

} // namespace feedline::inline FEEDLINE_ABI
