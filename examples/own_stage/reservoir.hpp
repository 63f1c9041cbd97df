// SPDX-License-Identifier: MIT
#pragma once
// A stage of one's own that holds samples back: a fair choice of a few out of an epoch of any length.
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <feedline/feedline.hpp>

/// Gives `size` samples of each epoch, each subset equally likely, at its end. For finite mode: an infinite run has no
/// end of an epoch at which to give anything.
///
/// It takes and gives whole samples, not only their values, so that what comes out keeps its identity.
template <class T>
class reservoir {
 public:
  using output = T;

  static constexpr const char* kind = "reservoir";
  static constexpr bool gives_by_count = true; // whatever the samples are

  explicit reservoir(std::size_t size) : size_(size) {}

  /// context.random is keyed by the sample: the same choice with any number of workers, and when a run is resumed.
  void operator()(feedline::sample<T>&& s, auto&, feedline::context& context) {
    ++seen_;
    if (held_.size() < size_) held_.push_back(std::move(s));
    else if (const std::uint64_t place = context.random.below(seen_); place < size_)
      held_[place] = std::move(s);
  }

  void finish(auto& emit) {
    for (feedline::sample<T>& s : held_)
      if (!emit(std::move(s))) break;
  }

  void end_epoch() {
    held_.clear();
    seen_ = 0;
  }

  void state(auto& archive) { archive(held_, seen_); }

  std::size_t items_held() const { return size_; }

  std::uint64_t fingerprint() const { return size_; }

 private:
  std::size_t size_;
  std::vector<feedline::sample<T>> held_;
  std::uint64_t seen_ = 0; // in this epoch
};
