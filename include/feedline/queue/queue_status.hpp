// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/version.hpp>

namespace feedline::inline FEEDLINE_ABI {

/// The result of a queue operation.
enum class queue_status {
  success, ///< the item was put in or taken out
  empty,   ///< try_pop, pop_for: no item now or in time; more may arrive
  full,    ///< try_push, push_for: no room now or in time; the item is untouched
  closed   ///< push: the queue is closed or stopped; pop: no further item will arrive
};

} // namespace feedline::inline FEEDLINE_ABI
