// SPDX-License-Identifier: MIT
#pragma once
// take: the first items of each epoch.
#include <feedline/core/contract.hpp>
#include <feedline/core/pipeline.hpp>
#include <feedline/detail/given_size.hpp>

namespace feedline::inline FEEDLINE_ABI {

namespace detail {

struct take_stage {
  using feedline_part = void;
  static constexpr stage_traits traits{.kind = "take",
                                       .data_independent_count = true,
                                       .unchanged = true,
                                       .resets_each_epoch = true,
                                       .ends_epochs = true,
                                       .checkpoints_mid_call = true};

  template <class In>
  struct running {
    using output = In;

    void operator()(sample<In>&& s, auto& emit) {
      if (left > 0) {
        --left;
        emit(std::move(s));
      }
      if (left == 0) emit.enough();
    }

    void end_epoch() { left = count; }

    // take(0) has enough once an item arrives: no checkpoint is taken between that and the end of the epoch.
    bool has_enough() const noexcept { return left == 0 && count > 0; }

    void state(auto& archive) { archive(left); }

    std::uint64_t count;
    std::uint64_t left = count;
  };

  template <class In>
  running<In> bind(const stage_info&) const {
    return {count};
  }

  std::uint64_t output_count(std::uint64_t items, bool) const noexcept { return std::min(items, count); }

  std::uint64_t fingerprint() const noexcept { return count; }

  std::uint64_t count;
};

} // namespace detail

/// Emits the first items of each epoch and then ends the epoch at the source, even if it is endless. (In
/// infinite mode, if take follows a shuffle, a batch or a custom stage, which continue from epoch to epoch,
/// the rest of the epoch passes through them instead and is left out here.)
///
/// Takes:   any item
/// Gives:   at most `count` items per epoch, unchanged
/// Order:   kept
/// Throws:  std::invalid_argument for a negative number
/// Stops:   at once
/// Example: `train | take(100)`
inline auto take(std::uint64_t count) {
  detail::refuse_negative(count, "feedline::take: the number of items");
  return detail::take_stage{count};
}

} // namespace feedline::inline FEEDLINE_ABI
