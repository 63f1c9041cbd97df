// SPDX-License-Identifier: MIT
#pragma once

namespace feedline::inline v0 {

/// What a queue's operation came to.
enum class queue_status {
  success, ///< the item was put in or taken out
  empty,   ///< try_pop, pop_for: no item now or in time, though more may come
  full,    ///< try_push, push_for: no room now or in time; the item is untouched
  closed   ///< push: the queue is closed or stopped; pop: nothing more will come
};

} // namespace feedline::inline v0
