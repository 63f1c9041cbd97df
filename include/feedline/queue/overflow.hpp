// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/version.hpp>

namespace feedline::inline FEEDLINE_ABI {

/// What a full buffer does with an item that arrives.
enum class overflow {
  block,       ///< the producer waits for room
  drop_newest, ///< the new item is dropped
  drop_oldest, ///< the item that has waited longest is dropped to make room
};

} // namespace feedline::inline FEEDLINE_ABI
