// SPDX-License-Identifier: MIT
#pragma once
// A stage of one's own that holds samples back: a fair choice of a few out of an epoch of any length.
#include <cstddef>
#include <cstdint>
#include <utility>

#include <feedline/feedline.hpp>

/// Gives `size` samples of each epoch, each subset equally likely, at its end. For finite mode: an infinite run has no
/// end of an epoch at which to give anything.
///
/// It takes and gives whole samples, not only their values, so that what comes out keeps its identity.
template <class T>
class reservoir {
 public:
  using output = T;

  /// How many it gives doesn't depend on what they are.
  static constexpr feedline::stage_traits traits{.kind = "reservoir", .gives_by_count = true};

  explicit reservoir(std::size_t size) : held_(size) {}

  /// context.random is keyed by the sample: the same choice with any number of workers, and when a run is resumed.
  void operator()(feedline::sample<T>&& s, auto&, feedline::context& context) {
    ++seen_;
    if (held_.size() < held_.capacity()) held_.push_back(std::move(s));
    else if (const std::uint64_t place = context.random.below(seen_); place < held_.size())
      held_.exchange(place, std::move(s));
  }

  void finish(auto& emit) {
    while (!held_.empty() && emit(held_.take(held_.size() - 1))) {
    }
  }

  void end_epoch() {
    held_.clear();
    seen_ = 0;
  }

  /// A checkpoint lists the samples' indices, and a run that is resumed reads them again.
  void state(auto& archive) { archive(held_, seen_); }

  std::size_t items_held() const { return held_.capacity(); }

  std::uint64_t fingerprint() const { return held_.capacity(); }

 private:
  feedline::held_samples<T> held_;
  std::uint64_t seen_ = 0; // in this epoch
};
