// SPDX-License-Identifier: MIT
#pragma once
// A rescorer: where a player has thrown the game away its result says nothing of the positions before.
#include <cstddef>
#include <iterator>
#include <optional>
#include <utility>

#include "chunk.hpp"

namespace chess {

/// Goes back from the end of a game. A move is a blunder if the search valued it by more than `threshold` (in q, -1 to 1)
/// below its best move: from its position back to the beginning the result isn't trusted, and is replaced by what the search
/// expected there; each blunder before replaces it by its own. Positions that don't say how the played move was valued
/// are no blunders.
class blunder_rescorer {
 public:
  explicit blunder_rescorer(float threshold) : threshold_(threshold) {}

  game operator()(game g) const {
    struct outcome {
      float q, d;
    };

    std::optional<outcome> expected; // as the player of the position in hand sees it
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
