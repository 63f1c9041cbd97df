// SPDX-License-Identifier: MIT
#pragma once

namespace feedline {

/// What a queue's operation came to.
enum class queue_status {
  success, ///< the item was put in or taken out
  empty,   ///< try_pop: no item now, though more may come
  full,    ///< try_push: no room now; the item is untouched
  closed   ///< push: the queue is closed or stopped; pop: nothing more will come
};

} // namespace feedline
