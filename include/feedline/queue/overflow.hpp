// SPDX-License-Identifier: MIT
#pragma once

namespace feedline::inline v0 {

/// What becomes of an item that comes while a buffer is full.
enum class overflow {
  block,       ///< whoever brings it waits for room
  drop_newest, ///< it isn't taken
  drop_oldest, ///< the item that has waited longest is dropped for it
};

} // namespace feedline::inline v0
