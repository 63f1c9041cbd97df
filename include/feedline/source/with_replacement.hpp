// SPDX-License-Identifier: MIT
#pragma once
// with_replacement: independent random draws from the samples of an indexed source, optionally by weight.
#include <feedline/core/contract.hpp>
#include <feedline/source/detail/reordered_source.hpp>

namespace feedline::inline FEEDLINE_ABI {

/// Options of with_replacement.
struct with_replacement_options {
  std::vector<double> weights{}; ///< one for each sample, in the source's order; empty: all equal
  std::uint64_t samples = 0;     ///< draws per epoch; 0: the number of samples
};

namespace detail {

/// Positions drawn by weight: draw number i depends only on the key and i.
class weighted_draws {
 public:
  weighted_draws(std::uint64_t places, std::uint64_t samples,
                 std::shared_ptr<const std::vector<std::uint64_t>> ends, std::uint64_t key);

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
  std::shared_ptr<const std::vector<std::uint64_t>> ends_; // where the share of each position ends
  std::uint64_t key_;
};

class draws_with_replacement {
 public:
  static constexpr bool repeats_places = true;

  explicit draws_with_replacement(const with_replacement_options& o);

  weighted_draws operator()(std::uint64_t places, std::uint64_t key) const;

  std::uint64_t fingerprint() const noexcept;

  const std::string& parameters() const noexcept { return parameters_; }

 private:
  std::string parameters_;
  std::uint64_t samples_;
  std::shared_ptr<const std::vector<std::uint64_t>> ends_; // null: no weights
};

} // namespace detail

/// Draws each sample at random from all samples of an indexed source: an epoch can contain a sample several
/// times, or not at all. It must follow the source directly, or map, filter and tap.
///
/// Takes:   sources as global_shuffle() does; optionally a weight for each sample: its chance is proportional
///          to it
/// Gives:   as many samples per epoch as the source has, or `samples` if set, fewer than 2^32. A sample that is drawn
///          twice in an epoch has the same index twice, but its draws have different repetitions, and so different random
///          numbers in map(f(item, context))
/// Order:   random, the same for the same seed and epoch number; divided among ranks as by global_shuffle()
/// Throws:  std::invalid_argument for an invalid weight or too many samples; also, as a failure of the source, if there aren't as
///          many weights as samples
/// Example: `records<position>({"games.bin"}) | with_replacement({.weights = surprise}) | batch(256)`
inline auto with_replacement(const with_replacement_options& options = {}) {
  using draws = detail::draws_with_replacement;
  return detail::reordering<draws>{draws(options)};
}

} // namespace feedline::inline FEEDLINE_ABI

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_SOURCE)
#include <bit>
#include <cmath>

#include <feedline/detail/given_size.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE weighted_draws::weighted_draws(std::uint64_t places, std::uint64_t samples,
                                               std::shared_ptr<const std::vector<std::uint64_t>> ends,
                                               std::uint64_t key)
    : places_(places), samples_(places == 0 ? 0 : samples), ends_(std::move(ends)), key_(key) {}

FEEDLINE_INLINE draws_with_replacement::draws_with_replacement(const with_replacement_options& o)
    : samples_(o.samples) {
  refuse_negative(samples_, "feedline::with_replacement: the number of samples");
  parameters_ = "with_replacement.samples: " + (samples_ == 0 ? "all" : std::to_string(samples_));
  if (o.weights.empty()) return;
  double largest = 0;
  for (const double weight : o.weights) {
    if (!(weight >= 0) || std::isinf(weight))
      throw std::invalid_argument(
          "feedline::with_replacement: a weight must be a finite number of at least 0, not " +
          std::to_string(weight));
    largest = std::max(largest, weight);
  }
  if (!(largest > 0)) throw std::invalid_argument("feedline::with_replacement: all weights are 0");
  // Integers, so that every platform draws the same. Their sum is at most 2^63.
  const double unit = std::ldexp(1.0, 63 - static_cast<int>(std::bit_width(o.weights.size())));
  std::vector<std::uint64_t> ends;
  std::uint64_t end = 0;
  for (const double weight : o.weights)
    ends.push_back(end += static_cast<std::uint64_t>(weight / largest * unit));
  ends_ = std::make_shared<const std::vector<std::uint64_t>>(std::move(ends));
  add_parameters(parameters_, text_of_weights("with_replacement.weights", o.weights));
}

FEEDLINE_INLINE weighted_draws draws_with_replacement::operator()(std::uint64_t places,
                                                                  std::uint64_t key) const {
  if (ends_ && ends_->size() != places)
    throw std::invalid_argument("feedline::with_replacement: there are " + std::to_string(ends_->size()) +
                                " weights for " + std::to_string(places) + " samples");
  const std::uint64_t samples = samples_ == 0 ? places : samples_;
  if (samples >> 32 != 0)
    throw std::invalid_argument("feedline::with_replacement: an epoch has at most 2^32 - 1 draws, not " +
                                std::to_string(samples));
  return {places, samples, ends_, key};
}

FEEDLINE_INLINE std::uint64_t draws_with_replacement::fingerprint() const noexcept {
  std::uint64_t hash = key(samples_);
  if (ends_)
    for (const std::uint64_t end : *ends_) hash = mix(hash ^ end);
  return hash;
}

} // namespace feedline::inline FEEDLINE_ABI::detail
#endif
