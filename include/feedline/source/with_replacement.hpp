// SPDX-License-Identifier: MIT
#pragma once
// with_replacement: independent draws from the samples of an indexed source, perhaps by weight.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <feedline/core/random.hpp>
#include <feedline/detail/given_size.hpp>
#include <feedline/source/detail/reordered_source.hpp>

namespace feedline::inline v0 {

struct with_replacement_options {
  std::vector<double> weights{}; ///< one for each sample, in the source's order; none: all alike
  std::uint64_t samples = 0;     ///< draws per epoch; 0: as many as there are samples
};

namespace detail {

/// Numbers below a size, drawn by weight: each a function of (key, its number) alone.
class weighted_draws {
 public:
  weighted_draws(std::uint64_t places, std::uint64_t samples,
                 std::shared_ptr<const std::vector<std::uint64_t>> ends, std::uint64_t key)
      : places_(places), samples_(places == 0 ? 0 : samples), ends_(std::move(ends)), key_(key) {}

  std::uint64_t size() const noexcept { return samples_; }

  std::uint64_t operator[](std::uint64_t i) const noexcept {
    random_generator random(key(key_, i));
    if (!ends_) return random.below(places_);
    const std::uint64_t drawn = random.below(ends_->back());
    return static_cast<std::uint64_t>(std::upper_bound(ends_->begin(), ends_->end(), drawn) - ends_->begin());
  }

 private:
  std::uint64_t places_;
  std::uint64_t samples_;
  std::shared_ptr<const std::vector<std::uint64_t>> ends_; // of each place's share
  std::uint64_t key_;
};

class draws_with_replacement {
 public:
  static constexpr bool repeats_places = true;

  explicit draws_with_replacement(const with_replacement_options& o) : samples_(o.samples) {
    refuse_negative(samples_, "feedline::with_replacement: the number of samples");
    if (o.weights.empty()) return;
    double largest = 0;
    for (const double weight : o.weights) {
      if (!(weight >= 0) || std::isinf(weight))
        throw std::invalid_argument("feedline::with_replacement: a weight is a number from 0 on, not " +
                                    std::to_string(weight));
      largest = std::max(largest, weight);
    }
    if (!(largest > 0)) throw std::invalid_argument("feedline::with_replacement: all weights are 0");
    // Whole numbers, so that every platform draws alike: at most 2^63 all together.
    const double unit = std::ldexp(1.0, 63 - static_cast<int>(std::bit_width(o.weights.size())));
    std::vector<std::uint64_t> ends;
    std::uint64_t end = 0;
    for (const double weight : o.weights)
      ends.push_back(end += static_cast<std::uint64_t>(weight / largest * unit));
    ends_ = std::make_shared<const std::vector<std::uint64_t>>(std::move(ends));
  }

  weighted_draws operator()(std::uint64_t places, std::uint64_t key) const {
    if (ends_ && ends_->size() != places)
      throw std::invalid_argument("feedline::with_replacement: there are " + std::to_string(ends_->size()) +
                                  " weights for " + std::to_string(places) + " samples");
    return {places, samples_ == 0 ? places : samples_, ends_, key};
  }

  std::uint64_t fingerprint() const noexcept {
    std::uint64_t hash = key(samples_);
    if (ends_)
      for (const std::uint64_t end : *ends_) hash = mix(hash ^ end);
    return hash;
  }

 private:
  std::uint64_t samples_;
  std::shared_ptr<const std::vector<std::uint64_t>> ends_; // null: no weights
};

} // namespace detail

/// Draws each sample anew from all of a source that is indexed: some come several times in an epoch, some not at
/// all. It stands right behind the source.
///
/// Takes:   sources as shuffled() does; perhaps a weight for each sample, to which its chance is proportional
/// Gives:   as many samples per epoch as there are, or as `samples` says. One that comes twice in an epoch has
///          the same index, and so the same random numbers in map(f(item, context))
/// Order:   random, the same for the same seed and epoch number; ranks share it as they share shuffled()'s
/// Throws:  std::invalid_argument for weights that are no weights; if there are more or fewer than samples, as a
///          failure of the source
/// Example: `records<position>({"games.bin"}) | with_replacement({.weights = surprise}) | batch(256)`
inline auto with_replacement(const with_replacement_options& options = {}) {
  using draws = detail::draws_with_replacement;
  return detail::reordering<draws>{draws(options)};
}

} // namespace feedline::inline v0
