// SPDX-License-Identifier: MIT
#pragma once
// A small network in plain C++, trained by gradient descent with momentum:
//
//   [12 x 64] pieces on the board ─ dense, ReLU ▶ [hidden] ─┬─ dense ▶ policy [1858], of legal moves only
//                                                           └─ dense ▶ win, draw, loss [3]
//
// It processes one position after another, so that sums have a fixed order and a seed always produces the same weights.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <feedline/core/random.hpp>

#include "packed_position.hpp"

namespace chess {

class small_model {
 public:
  static constexpr std::size_t inputs = 12 * 64, hidden = 32, results = 3;

  struct loss {
    double policy = 0, value = 0; ///< cross-entropies, means over the batch

    double sum() const { return policy + value; }
  };

  explicit small_model(std::uint64_t seed) {
    feedline::random_generator random(seed);
    const auto randomize = [&](weights& w, double reach) {
      for (float& x : w.values) x = static_cast<float>(random.uniform(-reach, reach));
    };
    randomize(first_, 0.2);
    randomize(policy_, 0.2);
    randomize(value_, 0.2);
  }

  /// One step of gradient descent on a batch. Shapes: [B, 112, 8, 8], [B, 1858], [B, 3].
  loss learn(std::span<const float> boards, std::span<const float> probabilities,
             std::span<const float> winners, float rate) {
    const std::size_t size = winners.size() / results;
    loss sum;
    for (std::size_t i = 0; i < size; ++i)
      add_gradient(boards.subspan(i * (boards.size() / size), inputs),
                   probabilities.subspan(i * moves, moves), winners.subspan(i * results, results), sum);
    const auto scale = 1 / static_cast<float>(std::max<std::size_t>(1, size));
    for (weights* w : {&first_, &first_biases_, &policy_, &policy_biases_, &value_, &value_biases_})
      w->step(rate, scale);
    return {sum.policy * scale, sum.value * scale};
  }

 private:
  struct weights {
    std::vector<float> values, gradients, speeds;

    explicit weights(std::size_t count) : values(count), gradients(count), speeds(count) {}

    void step(float rate, float scale) {
      for (std::size_t i = 0; i < values.size(); ++i) {
        speeds[i] = 0.9f * speeds[i] + scale * gradients[i];
        values[i] -= rate * speeds[i];
        gradients[i] = 0;
      }
    }
  };

  using layer = std::array<float, hidden>;

  static float dot(const float* a, const layer& b) {
    float sum = 0;
    for (std::size_t h = 0; h < hidden; ++h) sum += a[h] * b[h];
    return sum;
  }

  /// Turns logits into probabilities.
  static void soften(std::span<float> x) {
    const float most = *std::max_element(x.begin(), x.end());
    float sum = 0;
    for (float& v : x) sum += v = std::exp(v - most);
    for (float& v : x) v /= sum;
  }

  /// Adds a head's gradient at one output to those of its weights and of its inputs.
  static void push_back(weights& w, weights& bias, std::size_t output, float slope, const layer& in,
                        layer& by_in) {
    float* const gradient = w.gradients.data() + output * hidden;
    const float* const value = w.values.data() + output * hidden;
    bias.gradients[output] += slope;
    for (std::size_t h = 0; h < hidden; ++h) {
      gradient[h] += slope * in[h];
      by_in[h] += slope * value[h];
    }
  }

  void add_gradient(std::span<const float> board, std::span<const float> probabilities,
                    std::span<const float> winner, loss& sum) {
    pieces_.clear();
    for (std::size_t i = 0; i < inputs; ++i)
      if (board[i] != 0) pieces_.push_back(i);
    layer in;
    std::copy_n(first_biases_.values.begin(), hidden, in.begin());
    for (const std::size_t i : pieces_)
      for (std::size_t h = 0; h < hidden; ++h) in[h] += first_.values[i * hidden + h];
    for (float& x : in) x = std::max(x, 0.0f);
    layer by_in{};

    legal_.clear();
    outputs_.clear();
    float all = 0;
    for (std::size_t m = 0; m < moves; ++m)
      if (probabilities[m] >= 0) {
        legal_.push_back(m);
        outputs_.push_back(policy_biases_.values[m] + dot(policy_.values.data() + m * hidden, in));
        all += probabilities[m];
      }
    if (all > 0) {
      soften(outputs_);
      for (std::size_t i = 0; i < legal_.size(); ++i) {
        const float wanted = probabilities[legal_[i]] / all;
        sum.policy -= wanted * std::log(std::max(outputs_[i], 1e-20f));
        push_back(policy_, policy_biases_, legal_[i], outputs_[i] - wanted, in, by_in);
      }
    }

    std::array<float, results> chances;
    for (std::size_t r = 0; r < results; ++r)
      chances[r] = value_biases_.values[r] + dot(value_.values.data() + r * hidden, in);
    soften(chances);
    for (std::size_t r = 0; r < results; ++r) {
      sum.value -= winner[r] * std::log(std::max(chances[r], 1e-20f));
      push_back(value_, value_biases_, r, chances[r] - winner[r], in, by_in);
    }

    for (std::size_t h = 0; h < hidden; ++h) {
      if (in[h] <= 0) continue;
      first_biases_.gradients[h] += by_in[h];
      for (const std::size_t i : pieces_) first_.gradients[i * hidden + h] += by_in[h];
    }
  }

  weights first_{inputs * hidden}, first_biases_{hidden};
  weights policy_{moves * hidden}, policy_biases_{moves};
  weights value_{results * hidden}, value_biases_{results};
  std::vector<std::size_t> pieces_, legal_;
  std::vector<float> outputs_;
};

} // namespace chess
