// SPDX-License-Identifier: MIT
#pragma once
// A rescorer: after a blunder, the result of the game doesn't describe the positions before it.
#include <cstddef>
#include <iterator>
#include <optional>
#include <utility>

#include "chunk.hpp"

namespace chess {

/// Goes through a game from its end. A move is a blunder if the search valued it more than `threshold` (in q, -1 to 1)
/// below its best move. In that position and all before it, the result is replaced by the one that the search expected
/// in that position, up to the next earlier blunder. A position without a value of the played move is no blunder.
class blunder_rescorer {
 public:
  explicit blunder_rescorer(float threshold) : threshold_(threshold) {}

  game operator()(game g) const {
    struct outcome {
      float q, d;
    };

    std::optional<outcome> expected; // for the player to move in the current position
    for (auto position = g.positions.rbegin(); position != g.positions.rend(); ++position) {
      position_facts& f = position->facts();
      if (expected) expected->q = -expected->q;
      if (f.best_q - f.played_q > threshold_) expected = outcome{f.best_q, f.best_d};
      if (!expected) continue;
      f.result_q = expected->q;
      f.result_d = expected->d;
    }
    return g;
  }

 private:
  float threshold_;
};

} // namespace chess
