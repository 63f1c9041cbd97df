// SPDX-License-Identifier: MIT
#pragma once
// shuffle: a buffer that emits its items in random order.
#include <feedline/core/contract.hpp>
#include <feedline/core/pipeline.hpp>

namespace feedline::inline FEEDLINE_ABI {

/// Options of shuffle and concurrent_shuffle_buffer.
struct shuffle_options {
  std::size_t capacity; ///< the most items that the buffer holds
  /// It emits nothing before it holds this many. 0: it keeps no item back, so the stage passes all on in their order, as for an
  /// evaluation; in a concurrent_shuffle_buffer the same as 1.
  std::size_t min_fill = 1;
};

namespace detail {

struct shuffle_stage {
  using feedline_part = void;
  static constexpr stage_traits traits{.kind = "shuffle",
                                       .one_to_one = true,
                                       .unchanged = true,
                                       .checkpoints_mid_call = true,
                                       .random_order = true};

  template <class In>
  static consteval fit fits() {
    return std::is_nothrow_move_assignable_v<In> ? fit::yes : fit::item_cannot_move;
  }

  template <class In>
  class running {
   public:
    using output = In;

    running(const shuffle_options& o, const stage_info& info)
        : options_(o), key_(info.key), buffer_(o.capacity), rounds_(info.first_epoch) {
      buffer_.reserve();
    }

    void operator()(sample<In>&& s, auto& emit) {
      const std::size_t size = buffer_.size() + 1; // including this one
      if (size >= options_.min_fill && (size >= options_.capacity || !(growing_ = !growing_))) {
        const std::size_t picked = pick(size);
        emit(picked + 1 == size ? std::move(s) : buffer_.exchange(picked, std::move(s)));
      } else {
        buffer_.push_back(std::move(s));
      }
    }

    // The next epoch starts with an empty buffer, but makes other picks. It must not depend on how many items
    // of this epoch were needed.
    void finish(auto& emit) {
      for (bool wanted = true; wanted && !buffer_.empty();) wanted = emit(buffer_.take(pick(buffer_.size())));
      buffer_.clear();
      growing_ = false;
      picks_ = 0;
      ++rounds_;
    }

    void state(auto& archive) { archive(growing_, picks_, rounds_, buffer_); }

   private:
    std::size_t pick(std::size_t size) {
      return static_cast<std::size_t>(random_generator(detail::key(key_, rounds_, picks_++)).below(size));
    }

    shuffle_options options_;
    std::uint64_t key_;
    held_samples<In> buffer_;
    // Until it is full, the buffer emits one item for every two that arrive: it grows while it already emits.
    bool growing_ = false;
    std::uint64_t picks_ = 0;
    std::uint64_t rounds_; // the number of the epoch in finite mode
  };

  template <class In>
  running<In> bind(const stage_info& info) const {
    return {options, info};
  }

  std::uint64_t fingerprint() const noexcept {
    return key(options.capacity, options.min_fill == 1 ? 0 : options.min_fill);
  }

  std::size_t items_held() const noexcept { return options.capacity; }

  note_size notes() const noexcept { return notes_of_buffer(options.capacity); }

  shuffle_options options;
};

/// Throws std::invalid_argument for options that make no sense.
void check_shuffle(const shuffle_options& o);

} // namespace detail

/// Emits items in a random order within the reach of a buffer.
///
/// Nothing is emitted before `min_fill` items are in the buffer, by default 1. From then on one item, each of those inside
/// with the same probability, leaves for every second one that arrives, until the buffer holds `capacity`;
/// then one for each. In the steady state an item moves by `capacity - 1` positions on average (geometrically
/// distributed). At the end of each epoch of finite mode the buffer is emptied, in random order; in infinite
/// mode it isn't, and epochs follow each other without a break. With a `min_fill` of 0 each item leaves when it arrives. With `min_fill` equal to `capacity` it is a
/// reservoir: it fills up, and then each item that arrives replaces a random one, which is emitted. Items are
/// stored in one block, which is allocated at the start; those of more than 4 KB stay where they were made, and the
/// block has pointers to them.
/// Takes:   any item that can be move-assigned
/// Gives:   every item, unchanged
/// Order:   random, the same for the same seed
/// Throws:  std::invalid_argument for a capacity of 0 or a min_fill above it
/// Stops:   at once
/// Example: `train | shuffle({.capacity = 10'000, .min_fill = 8'000}) | batch(256)`
inline auto shuffle(const shuffle_options& options) {
  detail::check_shuffle(options);
  if (options.min_fill == 0)
    return detail::shuffle_stage{{.capacity = 1}}; // a buffer for the item that passes
  return detail::shuffle_stage{options};
}

} // namespace feedline::inline FEEDLINE_ABI

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_STAGE)
#include <feedline/detail/given_size.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE void check_shuffle(const shuffle_options& o) {
  if (o.capacity == 0)
    throw std::invalid_argument("feedline::shuffle: a buffer needs room for at least one item");
  refuse_negative(o.capacity, "feedline::shuffle: the capacity");
  refuse_negative(o.min_fill, "feedline::shuffle: the min_fill");
  if (o.min_fill > o.capacity)
    throw std::invalid_argument("feedline::shuffle: min_fill " + std::to_string(o.min_fill) +
                                " is more than the capacity of " + std::to_string(o.capacity));
}

} // namespace feedline::inline FEEDLINE_ABI::detail
#endif
