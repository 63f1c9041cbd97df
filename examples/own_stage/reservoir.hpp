// SPDX-License-Identifier: MIT
#pragma once
// A custom stage that holds samples: chooses a few samples from an epoch of any length, all equally likely.
#include <cstddef>
#include <cstdint>
#include <utility>

#include <feedline/feedline.hpp>

/// Emits `size` samples of each epoch when the epoch ends; every subset is equally likely. For finite mode
/// only: in an infinite run epochs have no end at which to emit.
///
/// It receives and emits samples rather than values, so that the emitted samples keep their identity.
template <class T>
class reservoir {
 public:
  using output = T;

  /// The number of emitted samples doesn't depend on their values.
  static constexpr feedline::stage_traits traits{.kind = "reservoir", .data_independent_count = true};

  explicit reservoir(std::size_t size) : held_(size) {}

  /// context.random is keyed by the sample, so the choice is the same with any number of workers and in a
  /// resumed run.
  void operator()(feedline::sample<T>&& s, auto&, feedline::context& context) {
    ++seen_;
    if (held_.size() < held_.capacity()) held_.push_back(std::move(s));
    else if (const std::uint64_t position = context.random.below(seen_); position < held_.size())
      held_.exchange(position, std::move(s));
  }

  void finish(auto& emit) {
    while (!held_.empty() && emit(held_.take(held_.size() - 1))) {
    }
  }

  void end_epoch() {
    held_.clear();
    seen_ = 0;
  }

  /// A checkpoint lists the indices of the held samples; a resumed run reads those samples again.
  void state(auto& archive) { archive(held_, seen_); }

  std::size_t items_held() const { return held_.capacity(); }

  std::uint64_t fingerprint() const { return held_.capacity(); }

 private:
  feedline::held_samples<T> held_;
  std::uint64_t seen_ = 0; // in this epoch
};
