// SPDX-License-Identifier: MIT
#pragma once
// shuffle: a buffer out of which items come in a random order.
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <feedline/core/pipeline.hpp>
#include <feedline/core/random.hpp>
#include <feedline/core/stage.hpp>

namespace feedline {

struct shuffle_options {
  std::size_t capacity;     ///< the most items that the buffer holds
  std::size_t min_fill = 0; ///< nothing comes out before so many are in; 0: no minimum
};

namespace detail {

/// The buffer's rule, a function of counts alone: whether an item leaves behind one that entered.
/// Until it is full the buffer gives one item for two that come, so that it grows while it already feeds.
class shuffle_schedule {
 public:
  constexpr shuffle_schedule(std::size_t capacity, std::size_t min_fill)
      : capacity_(capacity), min_fill_(min_fill) {}

  /// Call it behind each item that enters, with how many are in.
  constexpr bool gives(std::size_t size) noexcept {
    if (size < min_fill_) return false;
    if (size >= capacity_) return true;
    growing_ = !growing_;
    return !growing_;
  }

 private:
  std::size_t capacity_;
  std::size_t min_fill_;
  bool growing_ = false;
};

struct shuffle_stage {
  using feedline_part = void;
  static constexpr const char* kind = "shuffle";

  template <class In>
  static consteval fit fits() {
    return std::is_nothrow_move_assignable_v<In> ? fit::yes : fit::item_cannot_move;
  }

  template <class In>
  class running {
   public:
    using output = In;

    running(const shuffle_options& o, std::uint64_t key)
        : options_(o), schedule_(o.capacity, o.min_fill), key_(key) {
      items_.reserve(o.capacity);
    }

    void operator()(sample<In>&& s, auto& emit) {
      items_.push_back(std::move(s));
      if (schedule_.gives(items_.size())) emit(pick());
    }

    // The next epoch begins as if nothing had been: how far this one was wanted must not matter to it.
    void finish(auto& emit) {
      while (!items_.empty() && emit(pick())) {
      }
      items_.clear();
      schedule_ = {options_.capacity, options_.min_fill};
      key_ = detail::key(key_);
      picks_ = 0;
    }

   private:
    // Pick number n of a run depends on (seed, stage, n) and on what is in, never on time.
    sample<In> pick() {
      const auto i =
          static_cast<std::size_t>(random_generator(detail::key(key_, picks_++)).below(items_.size()));
      sample<In> picked = std::move(items_[i]);
      if (i + 1 != items_.size()) items_[i] = std::move(items_.back());
      items_.pop_back();
      return picked;
    }

    shuffle_options options_;
    std::vector<sample<In>> items_;
    shuffle_schedule schedule_;
    std::uint64_t key_;
    std::uint64_t picks_ = 0;
  };

  template <class In>
  running<In> bind(const stage_info& info) const {
    return {options, info.key};
  }

  shuffle_options options;
};

inline void check_shuffle(const shuffle_options& o) {
  if (o.capacity == 0)
    throw std::invalid_argument("feedline::shuffle: a buffer needs room for at least one item");
  if (o.min_fill > o.capacity)
    throw std::invalid_argument("feedline::shuffle: min_fill " + std::to_string(o.min_fill) +
                                " is more than the capacity of " + std::to_string(o.capacity));
}

} // namespace detail

/// Gives items in a random order within the reach of a buffer.
///
/// Nothing comes out before `min_fill` items are in. From then on one item, each of those inside equally
/// likely, leaves for every second one that enters, until the buffer holds `capacity`; then one for each. In
/// the steady state an item is displaced by `capacity - 1` places on average (geometrically distributed). At
/// the end of each epoch of finite mode the buffer is emptied, in random order; in infinite mode epochs pass
/// through it without a seam.
///
/// Takes:   any item that can be move-assigned
/// Gives:   every item, unchanged
/// Order:   random, the same for the same seed
/// Throws:  std::invalid_argument for a capacity of 0 or a min_fill above it
/// Stops:   at once
/// Example: `train | shuffle({.capacity = 10'000, .min_fill = 8'000}) | batch(256)`
inline auto shuffle(const shuffle_options& options) {
  detail::check_shuffle(options);
  return detail::shuffle_stage{options};
}

} // namespace feedline
